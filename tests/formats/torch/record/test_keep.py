"""Nothing of a run stays in the caller's program: tensors in caches, names, attributes and variables are taken back."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import queue
import random
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
from tests import torch_caches  # noqa: E402
from torch import nn  # noqa: E402 - after the check that torch is there

import flopwise  # noqa: E402
from flopwise.formats.torch.record.keep import inside  # noqa: E402

NAMES = [kind.__name__ for kind in torch_caches.KINDS]
SHAPE = (3, torch_caches.WIDTH)
_NUMBERS = itertools.count()


@pytest.fixture
def program() -> Iterator[ModuleType]:
    """The module with the kinds, as a program has it that has just started."""
    yield from started()


def started() -> Iterator[ModuleType]:
    name = f"caches_{next(_NUMBERS)}"
    spec = importlib.util.spec_from_file_location(name, str(torch_caches.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def made(program: ModuleType, name: str) -> Any:
    torch.manual_seed(0)
    return getattr(program, name)().eval()


def result(model: Any) -> Any:
    torch.manual_seed(1)
    with torch.no_grad():
        return model(torch.rand(SHAPE))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """The results of programs that count nothing."""
    program = next(started())
    return {name: result(made(program, name)) for name in NAMES}


def check(program: ModuleType, name: str, expected: Any, model: Any) -> None:
    """The model gives the same results as ever, and so does one that is built afterwards."""
    for each in (model, made(program, name)):
        again = result(each)
        assert again.device == expected.device
        assert torch.equal(again, expected)


@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_runs_as_before(
    program: ModuleType, name: str, used: bool, train: bool, expected: dict[str, Any]
) -> None:
    model = made(program, name)
    if used:
        result(model)
    for _ in range(2):
        profile = flopwise.profile(model, SHAPE, train=train)
        assert not any("holds" in note for note in profile.notes)
    check(program, name, expected[name], model)


def test_what_was_kept_before_is_kept_afterwards(program: ModuleType) -> None:
    """Names, attributes, entries of containers and variables hold the very tensors that an earlier call left there."""
    model, seen = made(program, "Watched"), {"x": [torch.zeros(2)]}
    handle = model.layer.register_forward_hook(lambda module, args, output: seen.update(x=[output, *args]))
    last = [torch.ones(1)]

    class Keeper:
        __slots__ = ("latest",)

        def hook(self, module: Any, args: Any, output: Any) -> None:
            nonlocal last
            self.latest, last = output, [output]

    keeper, before = Keeper(), last
    model.register_forward_hook(keeper.hook)
    result(model)
    held = [program.LAST, program.Watched.latest, program.SEEN["x"]["deep"], seen["x"], keeper.latest, last]
    assert last is not before
    for train in (False, True):
        flopwise.profile(model, SHAPE, train=train)
        now = [program.LAST, program.Watched.latest, program.SEEN["x"]["deep"], seen["x"], keeper.latest, last]
        assert all(a is b for a, b in zip(now, held, strict=True))
    handle.remove()


@pytest.mark.parametrize("asks", [False, True], ids=["fails", "asks for elements"])
def test_a_run_that_ends_in_the_middle(program: ModuleType, asks: bool) -> None:
    class Ends(program.Watched):  # type: ignore[misc, name-defined] # a class of a module that is made here
        def positions(self, x: Any) -> Any:
            super().positions(x)
            program.TABLES["arange"] = torch.arange(4)
            program.TABLES["activation"] = [x * 3]
            program.pair(x.shape[1], x.device)
            if asks:
                return x * float(x.sum())
            raise ValueError("not today")

    vars(program)["Ends"] = Ends
    model = made(program, "Ends")
    if asks:
        flopwise.profile(model, SHAPE)
    else:
        with pytest.raises(flopwise.ModelError, match="not today"):
            flopwise.profile(model, SHAPE)
    assert program.LAST is program.Watched.latest is None
    assert not program.SEEN
    assert not any(t.is_meta for t in program.TABLES.values() if isinstance(t, torch.Tensor))
    assert "activation" not in program.TABLES
    assert not any(t.is_meta for t in (program.pair(torch_caches.WIDTH, torch.device("cpu"))[0],))


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_nothing_of_a_run_is_alive_when_it_is_over(train: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    model.append(Joins())
    gc.collect()
    before = sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
    profile = flopwise.profile(model, (2, 3, 8, 8), train=train)
    gc.collect()
    assert sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()) == before
    assert profile.total("macs")


class Joins(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cat((x, x * 2), dim=1).softmax(-1)


def test_a_place_that_nobody_finds_is_named(program: ModuleType) -> None:
    """What only C++ or a generator knows cannot be put back: a note says where the tensor is."""

    def keeps() -> Iterator[None]:
        kept = None
        while True:
            kept = yield kept

    waiting: Any = keeps()
    next(waiting)
    vars(program)["WAITING"] = {"of layer": waiting}

    class Sends(program.Positions):  # type: ignore[misc, name-defined] # a class of a module that is made here
        def positions(self, x: Any) -> Any:
            program.WAITING["of layer"].send(x * 2)
            return x

    profile = flopwise.profile(Sends(), SHAPE)
    (note,) = [note for note in profile.notes if "of this run" in note]
    assert f"{program.__name__}.WAITING['of layer']" in note
    assert "3×16 float32" in note


def test_queues_and_other_objects_of_pythons_library(program: ModuleType) -> None:
    vars(program)["QUEUE"] = queue.Queue()

    class Puts(program.Positions):  # type: ignore[misc, name-defined] # likewise
        def positions(self, x: Any) -> Any:
            program.QUEUE.put(x * 2)
            return x

    profile = flopwise.profile(Puts(), SHAPE)
    assert program.QUEUE.empty()
    assert not any("holds" in note for note in profile.notes)


def test_values_of_a_tensor_that_was_written_to_are_not_believed(program: ModuleType) -> None:
    """A table that something unknown was written into does not come back with its first elements."""

    class Writes(program.Positions):  # type: ignore[misc, name-defined] # likewise
        def positions(self, x: Any) -> Any:
            if not program.TABLES:
                program.TABLES["in place"], program.TABLES["out"] = torch.ones(16), torch.ones(16)
                program.TABLES["in place"].mul_(x[0])
                torch.add(x[0], 1, out=program.TABLES["out"])
            return program.TABLES["in place"] + program.TABLES["out"]

    flopwise.profile(Writes(), SHAPE)
    assert not program.TABLES


def fvcore(model: Any) -> Any:
    from flopwise.compat.fvcore import FlopCountAnalysis

    return FlopCountAnalysis(model, torch.rand(SHAPE)).total()


def thop(model: Any) -> Any:
    from flopwise.compat.thop import profile

    return profile(model, (torch.rand(SHAPE),), verbose=False)


def torchinfo(model: Any) -> Any:
    from flopwise.compat.torchinfo import summary

    return str(summary(model, input_size=SHAPE, verbose=0))


ASKED: dict[str, Callable[[Any], Any]] = {
    "read": lambda model: flopwise.read(model, SHAPE),
    "compare": lambda model: flopwise.compare(model, model, inputs=SHAPE),
    "formula": lambda model: flopwise.formula(model, inputs=[f"x:f32:batchx{torch_caches.WIDTH}"]),
    "as-is": lambda model: flopwise.profile(model, SHAPE, mode="as-is"),
    "fvcore": fvcore,
    "thop": thop,
    "torchinfo": torchinfo,
}


@pytest.mark.parametrize("name", ["CachedFunction", "GlobalNames", "OfWeights", "Large", "Watched"])
@pytest.mark.parametrize("question", ASKED)
def test_whatever_is_asked(program: ModuleType, name: str, question: str, expected: dict[str, Any]) -> None:
    model = made(program, name)
    ASKED[question](model)
    check(program, name, expected[name], model)
    assert program.LAST is None or not program.LAST.is_meta


class Settings(nn.Module):
    """Changes what is set for the whole process and at its tensors, and draws from generators of its own."""

    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.asks = asks
        self.chance = torch.Generator()
        self.numbers = numpy.random.default_rng(3)
        self.python = random.Random(4)

    def forward(self, x: Any) -> Any:
        if self.asks:
            x = x * float(x.sum())
        torch.set_default_device("cpu")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        self.train()
        weight: Any = self.layer.weight
        weight.register_hook(lambda gradient: gradient)
        weight.requires_grad = False
        weight.grad = torch.ones_like(weight)
        weight.note = "seen"
        self.layer.bias.requires_grad_(False)
        self.layer.register_forward_hook(lambda *args: None)
        noise = torch.rand(4, generator=self.chance) + torch.rand(4, generator=CHANCE)
        return self.layer(x) + noise * float(self.numbers.random()) * self.python.random()


CHANCE = torch.Generator()


@pytest.mark.parametrize("asks", [False, True], ids=["meta", "real"])
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_settings_and_generators_are_as_they_were(asks: bool, train: bool) -> None:
    model = Settings(asks).eval()

    def state() -> Any:
        weight: Any = model.layer.weight
        generators = [g.get_state().tolist() for g in (model.chance, CHANCE)]
        modes = torch.get_default_device(), torch.get_default_dtype(), torch.is_grad_enabled(), torch.empty(1).device
        tensor = weight.requires_grad, weight.grad, weight._backward_hooks, dict(vars(weight))
        hooks = len(model.layer._forward_hooks), model.training, model.layer.training, model.layer.bias.requires_grad
        return generators, modes, tensor, hooks, model.numbers.bit_generator.state, model.python.getstate()

    before = state()
    flopwise.profile(model, (2, 4), train=train)
    assert state() == before


def test_what_is_imported_during_a_run_keeps_no_function_of_flopwise(tmp_path: Path) -> None:
    """PyTorch imports its compiler when it is first needed, and that remembers how modules are called."""
    (tmp_path / "late.py").write_text(
        "from torch import compile\nfrom torch.nn import Module\ncall = Module._call_impl\n"
    )
    (tmp_path / "main.py").write_text(
        "import sys, torch, flopwise\n"
        "call, compile = torch.nn.Module._call_impl, torch.compile\n"
        "class Late(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        import late\n"
        "        return super().forward(x)\n"
        "flopwise.profile(Late(4, 4), (2, 4))\n"
        "import late, torch._dynamo.utils\n"
        "assert late.call is call and late.compile is compile\n"
        "assert torch._dynamo.utils.unpatched_nn_module_call_impl is call\n"
    )
    subprocess.run([sys.executable, "main.py"], cwd=tmp_path, check=True, timeout=120)


def test_a_tensor_that_was_to_have_no_elements_is_kept(program: ModuleType) -> None:
    """PyTorch itself keeps one, from the first jagged tensor on."""

    class Keeps(nn.Module):
        def forward(self, x: Any) -> Any:
            program.__dict__.setdefault("hollow", torch.zeros(3, device="meta"))
            return x + 1

    profile = flopwise.profile(Keeps(), torch.zeros(3))
    assert program.hollow.is_meta
    assert not any("of this run" in note for note in profile.notes)


def test_a_program_that_has_imported_torch_and_nothing_else() -> None:
    """PyTorch loads much of itself when it is first asked: nothing may count on what others have loaded."""
    code = (
        "import torch, flopwise; assert flopwise.profile(torch.nn.Linear(3, 4), torch.zeros(2, 3)).total('macs') == 24"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


MAKER = """
import functools, torch
from torch import nn

@functools.lru_cache
def table(length):
    return torch.arange(length).float()

TABLES = {}

class Net(nn.Module):
    kept = None

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("positions", table(16))
        self.scale = TABLES.setdefault(16, torch.ones(16))
        if Net.kept is None:
            Net.kept = torch.ones(16)
        self.shift = Net.kept

    def forward(self, x):
        return self.layer(x) * self.scale + self.positions + self.shift

def make():
    return Net()

@functools.cache
def cached():
    return Net()
"""


@pytest.mark.parametrize("maker", ["make", "cached", "Net"])
def test_a_model_that_was_made_by_name_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str
) -> None:
    """A callable makes its model without memory for the weights; what the program keeps, later models would get."""
    name = f"maker_{maker.lower()}"
    (tmp_path / f"{name}.py").write_text(MAKER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    flopwise.profile(f"{name}:{maker}", (2, 16))
    model = getattr(importlib.import_module(name), maker)()
    assert not any(t.is_meta for t in (*model.parameters(), *model.buffers(), model.scale, model.shift))
    assert not model(torch.rand(2, 16)).is_meta


@pytest.mark.parametrize("name", ["CachedFunction", "GlobalDict", "Watched"])
def test_an_export_leaves_nothing(program: ModuleType, name: str, expected: dict[str, Any]) -> None:
    """`bench` has PyTorch export a module: the fake tensors of that are taken back, and the module is in its mode."""
    from flopwise.formats.torch.record.keep import exporting

    model = made(program, name).train()
    with exporting(model):
        torch.export.export(model, (torch.rand(SHAPE),))
    assert model.training
    assert program.LAST is None
    check(program, name, expected[name], model.eval())


class Selects(nn.Module):
    """A program whose sizes the data decide: it is run, raises, and is explained."""

    def forward(self, x: Any) -> Any:
        return (x + 1)[x > 0].sum()


class Raises(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x + 1
        try:
            return y @ y
        except RuntimeError as error:
            raise ValueError("no square") from error


class IncomparableError(ValueError):
    """An error of a library whose errors cannot be compared and are false."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("these cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return False


class RaisesIncomparable(nn.Module):
    def forward(self, x: Any) -> Any:
        try:
            raise IncomparableError("no square")
        except IncomparableError as error:
            raise IncomparableError("no square either") from error


@pytest.mark.parametrize("model", [Selects(), Raises(), RaisesIncomparable()], ids=lambda model: type(model).__name__)
def test_a_program_that_raises_lets_its_tensors_go_at_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not looked for in all of the program's objects, which takes long."""
    from flopwise.formats.torch.record import run

    def refuse(*args: Any) -> Any:
        raise AssertionError("tensors of the run are alive")

    monkeypatch.setattr(run, "take_back", refuse)
    if not isinstance(model, Selects):
        with pytest.raises(flopwise.ModelError, match="no square"):
            flopwise.profile(model, [(300, 400)])
    else:
        flopwise.formula(model, {"x": ("N", 300)})


def test_what_the_caller_handles_keeps_its_variables() -> None:
    def failing() -> None:
        kept = [1, 2, 3]
        raise KeyError(len(kept))

    try:
        failing()
    except KeyError as error:
        with pytest.raises(flopwise.ModelError):
            flopwise.profile(Raises(), [(300, 400)])
        variables = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert variables[-1] == {"kept": [1, 2, 3]}


class Frozen(list[Any]):
    """A list that answers additions with a list of its own, as those of pandas do."""

    def __radd__(self, other: object) -> Frozen:
        raise AssertionError

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


class Pair(tuple[Any, ...]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


@pytest.mark.parametrize("kind", [Frozen, Pair])
def test_no_code_of_a_container_runs(kind: Any) -> None:
    part = [1]
    value = kind([part])
    value.name = "x"
    assert inside(value)[1] == [part, "x"]
