"""PyTorch's checkpoints by URL: how little is read, the same figures as near, and archives that lie."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.formats.sources.web import CHANGING, HALF, WHOLE, Web, serving

import flopwise
from flopwise.cli import main
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.formats.table import open_stored

torch = pytest.importorskip("torch")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with serving(tmp_path) as server:
        yield server


def _state() -> dict[str, Any]:
    torch.manual_seed(0)
    shared = torch.rand(300, 200)
    return {
        "conv.weight": torch.rand(4, 3, 3, 3),
        "conv.bias": torch.rand(4).half(),
        "bn.running_mean": torch.rand(4, dtype=torch.bfloat16),
        "bn.num_batches_tracked": torch.tensor(3),
        "narrow": torch.rand(5).to(torch.float8_e4m3fn),
        "flags": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "turned": torch.rand(700, 500).t(),
        "brain.turned": torch.rand(5, 3).bfloat16().t(),
        "part": torch.rand(10)[2:7],
        "columns": shared[:, 10:20],
        "rows": shared[5:],
        "large": torch.rand(1500, 1500),
        "parameter": torch.nn.Parameter(torch.rand(3)),
        "negative": torch.rand(3, dtype=torch.complex64).conj().imag,
        "complex": torch.rand(3, dtype=torch.complex64).conj(),
        "spread": torch.ones(1).expand(1000),
    }


def _same(near: Path, url: str) -> None:
    with open_stored(near) as here, open_stored(url) as there:
        for one, other in zip(here.tensors, there.tensors, strict=True):
            assert one == other
            array, far = one.array(), other.array()
            assert array.dtype == far.dtype
            numpy.testing.assert_array_equal(array, far)
        assert [n for n in there.notes if " over the network in " not in n] == list(here.notes)


def test_the_same_tensors_as_near(tmp_path: Path, web: Web) -> None:
    torch.save(_state(), tmp_path / "a.pt")
    _same(tmp_path / "a.pt", f"{web.url}/a.pt")


def test_the_weights_of_a_checkpoint_of_training(tmp_path: Path, web: Web) -> None:
    optimizer = {"state": {0: {"exp_avg": torch.rand(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save({"epoch": 3, "state_dict": _state(), "optimizer": optimizer}, tmp_path / "a.ckpt")
    _same(tmp_path / "a.ckpt", f"{web.url}/a.ckpt")


def test_the_highest_byte_first(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(50, 20), "t": torch.rand(4, 3).t(), "b": torch.rand(5).bfloat16()}, tmp_path / "a.pt")
    _changed(tmp_path / "a.pt", lambda name, data: b"big" if name.endswith("/byteorder") else data)
    _same(tmp_path / "a.pt", f"{web.url}/a.pt")


def test_a_tensor_under_two_names_is_one(tmp_path: Path, web: Web) -> None:
    tied = torch.rand(30, 20)
    torch.save({"embed": tied, "head": tied, "part": tied[:10]}, tmp_path / "a.pt")
    _same(tmp_path / "a.pt", f"{web.url}/a.pt")
    for model in (str(tmp_path / "a.pt"), f"{web.url}/a.pt"):
        profile = flopwise.profile(model)
        assert profile.total("params") == 600 + 200
        assert "tensor 'head' is stored under another name too ('embed'); counted once" in profile.notes


def test_shards(tmp_path: Path, web: Web) -> None:
    state = {name: tensor for name, tensor in _state().items() if name != "complex"}
    state["tied"] = state["part"]
    places = {}
    for shard, names in enumerate((list(state)[:3], list(state)[3:])):
        torch.save({n: state[n] for n in names}, tmp_path / f"pytorch_model-{shard}.bin")
        places |= dict.fromkeys(names, f"pytorch_model-{shard}.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    _same(tmp_path, f"{web.url}/pytorch_model.bin.index.json")


def test_of_a_large_one_only_directory_and_pickle_are_read(
    tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {f"layers.{i}.weight": torch.empty(1024, 1024) for i in range(320)}
    with torch.serialization.skip_data():  # the elements are holes in the file
        torch.save(state, tmp_path / "a.pth")
    size = (tmp_path / "a.pth").stat().st_size
    assert size > 1.3e9
    profile = flopwise.profile(f"{web.url}/a.pth")
    assert web.sent < 1 << 20
    assert len(web.log) < 12
    assert f"read {web.sent:,} of {size:,} bytes over the network in {len(web.log)} requests" in profile.notes
    local = flopwise.profile(tmp_path / "a.pth")
    assert [(r.name, r.count, r.params) for r in profile.rows] == [(r.name, r.count, r.params) for r in local.rows]
    assert profile.total("params") == 320 << 20
    assert main(["layers", f"{web.url}/a.pth"]) == 0
    assert "layers.319.weight" in capsys.readouterr().out
    with open_stored(f"{web.url}/a.pth") as stored:
        before, asked = web.sent, len(web.log)
        assert sum(block.size for block in stored.tensors[7].blocks()) == 1 << 20
        assert web.sent - before < stored.tensors[7].nbytes + 1000
        assert len(web.log) - asked == 1  # what lies in front of the elements comes with them


def test_weights_and_sparsity(tmp_path: Path, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"fc.weight": torch.rand(900, 700).relu(), "fc.bias": torch.zeros(900)}, tmp_path / "a.bin")
    size = (tmp_path / "a.bin").stat().st_size
    for command in ("weights", "sparsity"):
        found = []
        for model in (str(tmp_path / "a.bin"), f"{web.url}/a.bin"):
            assert main([command, model, "-f", "json"]) == 0
            found.append(json.loads(capsys.readouterr().out))
        near, far = ({k: v for k, v in each.items() if k not in ("model", "notes")} for each in found)
        assert near == far
        (told,) = (note for note in found[1]["notes"] if " over the network in " in note)
        read, of = (int(text.replace(",", "")) for text in (told.split(" ")[1], told.split(" ")[3]))
        assert of == size
        assert read > 4 * 900 * 700  # all elements, not the directory alone


def _refused(ask: Callable[[], Any], told: str, kind: type[FlopwiseError] = ModelError) -> None:
    with pytest.raises(kind) as error:
        ask()
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (WHOLE, "does not send parts of a file (no range requests); download it first"),
        (CHANGING, "changed while it was read"),
        (HALF, "the connection broke 3 times"),
    ],
)
def test_servers_that_behave_badly(tmp_path: Path, web: Web, mode: int, told: str) -> None:
    torch.save({"w": torch.rand(1000, 1000)}, tmp_path / "a.pt")
    web.mode = mode
    _refused(lambda: flopwise.profile(f"{web.url}/a.pt"), told)


def test_a_version_of_pytorch_that_reads_elements_on_the_meta_device(
    tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = torch.load

    def older(*args: Any, **given: Any) -> Any:
        if torch._guards.detect_fake_mode(None) is None and given["map_location"] == "meta":
            raise RuntimeError("a record is shorter than its storage")
        return load(*args, **{**given, "map_location": "cpu"})

    state = {name: tensor for name, tensor in _state().items() if name != "parameter"}
    torch.save(state, tmp_path / "a.pt")
    with open_stored(tmp_path / "a.pt") as here:
        monkeypatch.setattr(torch, "load", older)
        with open_stored(f"{web.url}/a.pt") as there:
            for one, other in zip(here.tensors, there.tensors, strict=True):
                numpy.testing.assert_array_equal(one.array(), other.array())


def test_a_truncated_file(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(100_000)}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    for length in (0, 3, 10, 500, 300_000, len(whole) - 1):
        (tmp_path / "a.pt").write_bytes(whole[:length])
        _refused(lambda: open_stored(f"{web.url}/a.pt"), "")


def _changed(path: Path, change: Callable[[str, bytes], bytes], method: int = zipfile.ZIP_STORED) -> None:
    """Write an archive again with other members."""
    with zipfile.ZipFile(path) as old:
        members = [(name, change(name, old.read(name))) for name in old.namelist()]
    with zipfile.ZipFile(path, "w", method) as new:
        for name, data in members:
            new.writestr(name, data)


def test_a_storage_that_is_shorter_than_the_pickle_says(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(1000)}, tmp_path / "a.pt")
    _changed(tmp_path / "a.pt", lambda name, data: data[:-4] if name.endswith("/data/0") else data)
    _refused(lambda: open_stored(f"{web.url}/a.pt"), "should have 4,000 bytes, but has 3,996")


def test_a_storage_that_is_not_there(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(1000)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as old, zipfile.ZipFile(tmp_path / "b.pt", "w") as new:
        for name in old.namelist():
            if not name.endswith("/data/0"):
                new.writestr(name, old.read(name))
    _refused(lambda: open_stored(f"{web.url}/b.pt"), "or damaged")


def test_lengths_in_the_directory_that_lie(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(1000), "v": torch.rand(1000)}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    lengths = (4000).to_bytes(4, "little")
    at = whole.rindex(lengths + lengths)  # of the second storage, in the directory
    for other in (8000, 1 << 31, (1 << 32) - 2):
        lying = other.to_bytes(4, "little")
        (tmp_path / "a.pt").write_bytes(whole[:at] + lying + lying + whole[at + 8 :])
        _refused(lambda: open_stored(f"{web.url}/a.pt").tensors[1].array(), "")
    (tmp_path / "a.pt").write_bytes(whole[:at] + lying + lengths + whole[at + 8 :])
    _refused(lambda: open_stored(f"{web.url}/a.pt").tensors[1].array(), "")


def test_a_header_that_is_not_where_the_directory_says(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(1000)}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    at = whole.index(b"a/data/0") - 30
    (tmp_path / "a.pt").write_bytes(whole[:at] + b"XXXX" + whole[at + 4 :])
    with open_stored(f"{web.url}/a.pt") as stored:
        _refused(stored.tensors[0].array, "'a/data/0' is not where its archive has it")
    (tmp_path / "a.pt").write_bytes(whole[: at + 26] + b"\xff\xff" + whole[at + 28 :])
    with open_stored(f"{web.url}/a.pt") as stored:
        _refused(stored.tensors[0].array, "but has to end at")


def test_compressed_members(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.rand(1000)}, tmp_path / "a.pt")
    _changed(tmp_path / "a.pt", lambda name, data: data, zipfile.ZIP_DEFLATED)
    _refused(lambda: open_stored(f"{web.url}/a.pt"), "is compressed or encrypted; download the file first")


def test_long_pickles_and_directories(tmp_path: Path, web: Web) -> None:
    torch.save({f"w{i}": torch.rand(2) for i in range(100)}, tmp_path / "a.pt")
    with flopwise.limits(header_bytes=1000):
        _refused(lambda: open_stored(f"{web.url}/a.pt"), "the directory of the archive has")


class _Runs:
    """What a hostile pickle does when it is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def test_a_pickle_that_wants_to_run_something(tmp_path: Path, web: Web) -> None:
    mark = tmp_path / "it ran"
    torch.save({"w": torch.ones(2), "x": _Runs(str(mark))}, tmp_path / "a.pt")
    for ask in (open_stored, flopwise.profile, flopwise.weights, flopwise.sparsity):
        _refused(lambda: ask(f"{web.url}/a.pt"), "holds more than tensors")  # noqa: B023 - called at once
    (tmp_path / "b.pt").write_bytes(pickle.dumps(_Runs(str(mark))))
    _refused(lambda: open_stored(f"{web.url}/b.pt"), "not an archive")
    assert not mark.exists()


def test_a_tensor_that_repeats_what_is_stored(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.ones(1).expand(1 << 20, 1 << 20)}, tmp_path / "a.pt")
    _refused(
        lambda: open_stored(f"{web.url}/a.pt"),
        "repeat the same elements to 1,099,511,627,776 elements, more than the limit",
    )
    with pytest.raises(ModelError, match="repeat the same elements"):
        open_stored(tmp_path / "a.pt")


def test_many_tensors_on_the_same_elements(tmp_path: Path, web: Web) -> None:
    flat = torch.zeros(50_000)
    torch.save([flat[i:] for i in range(6000)], tmp_path / "views.pt")
    torch.save([torch.ones(1).expand(1 << 20) for _ in range(300)], tmp_path / "repeated.pt")
    torch.save([flat] * 6000 + [flat[i : i + 5] for i in range(1000)], tmp_path / "honest.pt")
    for name in ("views.pt", "repeated.pt"):
        _refused(lambda: open_stored(f"{web.url}/{name}"), "more than the limit repeated_elements")  # noqa: B023 - called at once
        with pytest.raises(ModelError, match="more than the limit repeated_elements"):
            open_stored(tmp_path / name)
    assert len(open_stored(tmp_path / "honest.pt").tensors) == 1001


def test_containers_that_hold_themselves_many_times(tmp_path: Path) -> None:
    many: list[Any] = [torch.ones(1)]
    for _ in range(25):
        many = [many, many]
    torch.save(many, tmp_path / "a.pt")
    with (
        flopwise.limits(checkpoint_values=1000),
        pytest.raises(ModelError, match="the limit checkpoint_values"),
    ):
        open_stored(tmp_path / "a.pt")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_what_is_read_from_local_files_only(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pth", _use_new_zipfile_serialization=False)
    _refused(lambda: flopwise.profile(f"{web.url}/a.pth"), "older one can only be read from a local file")
    module = torch.nn.Sequential(torch.nn.Linear(3, 2)).eval()
    torch.jit.save(torch.jit.script(module), tmp_path / "b.pt")
    _refused(lambda: flopwise.profile(f"{web.url}/b.pt"), "is read from a local file; download it first")
    _refused(lambda: flopwise.profile(f"{web.url}/b.ts"), "PyTorch reads programs from local disks only")
    torch.save({"w": torch.ones(2)}, tmp_path / "c.pt")
    _refused(lambda: flopwise.profile(f"{web.url}/c.pt", (1, 3)), "inputs are for a model with operators", InputError)
    _refused(lambda: flopwise.formula(f"{web.url}/c.pt"), "there are no formulas", InputError)
    tensor = torch._empty_affine_quantized([2, 2], scale=0.1, zero_point=3, dtype=torch.qint8)
    torch.save({"w": tensor}, tmp_path / "d.pt")
    _refused(lambda: flopwise.profile(f"{web.url}/d.pt"), "quantised tensors can only be read from a local file")


def test_an_archive_of_a_version_to_come(tmp_path: Path, web: Web) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    whole = bytearray((tmp_path / "a.pt").read_bytes())
    at = whole.index(b"PK\x01\x02")
    whole[at + 6] = 99  # the version that is needed to take the first member out
    (tmp_path / "a.pt").write_bytes(whole)
    _refused(lambda: open_stored(f"{web.url}/a.pt"), "damaged")
    with pytest.raises(ModelError, match="holds tensors, or a module"):  # readers of programs do not fall over it
        flopwise.profile(tmp_path / "a.pt", (1, 3))
