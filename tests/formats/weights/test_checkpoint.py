"""PyTorch's checkpoints: what torch.save writes, and pickles that want more than tensors."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest

import flopwise
from flopwise.errors import FlopwiseError, ModelError
from flopwise.formats.table import open_stored

torch = pytest.importorskip("torch")


def _state() -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "conv.weight": torch.rand(4, 3, 3, 3),
        "conv.bias": torch.rand(4).half(),
        "bn.running_mean": torch.rand(4, dtype=torch.bfloat16),
        "bn.num_batches_tracked": torch.tensor(3),
        "turned": torch.rand(5, 3).t(),
        "part": torch.rand(10)[2:7],
    }


def _checked(path: Path, state: dict[str, Any]) -> None:
    with open_stored(path) as stored:
        assert stored.format == "torch"
        assert {p.name for p in stored.tensors} == set(state)
        for payload in stored.tensors:
            tensor = state[payload.name]
            expected = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            numpy.testing.assert_array_equal(payload.array(), expected)
            assert payload.shape == expected.shape


@pytest.mark.parametrize("ending", [".pt", ".pth", ".bin", ".ckpt"])
def test_a_state(tmp_path: Path, ending: str) -> None:
    state = _state()
    torch.save(state, tmp_path / f"a{ending}")
    _checked(tmp_path / f"a{ending}", state)
    roles = {p.name: (p.layer, p.slot, p.role) for p in open_stored(tmp_path / f"a{ending}").tensors}
    assert roles["conv.bias"] == ("conv", 1, "weight")
    assert roles["bn.running_mean"] == ("bn", 0, "buffer")
    assert roles["bn.num_batches_tracked"] == ("bn", 1, "constant")


def test_the_form_before_archives(tmp_path: Path) -> None:
    torch.save(_state(), tmp_path / "a.pth", _use_new_zipfile_serialization=False)
    _checked(tmp_path / "a.pth", _state())


def test_the_weights_of_a_checkpoint_of_training(tmp_path: Path) -> None:
    state = _state()
    optimizer = {"state": {0: {"exp_avg": torch.rand(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save({"epoch": 3, "state_dict": state, "optimizer": optimizer}, tmp_path / "a.ckpt")
    _checked(tmp_path / "a.ckpt", state)


def test_nested_containers(tmp_path: Path) -> None:
    torch.save({"a": [torch.ones(2), {"b": torch.zeros(3)}]}, tmp_path / "a.pt")
    _checked(tmp_path / "a.pt", {"a.0": torch.ones(2), "a.1.b": torch.zeros(3)})


def _nested(depth: int) -> Any:
    held: Any = torch.ones(2)
    for _ in range(depth):
        held = [held]
    return held


def test_containers_nest_32_deep_at_most(tmp_path: Path) -> None:
    torch.save(_nested(32), tmp_path / "a.pt")
    assert [p.name for p in open_stored(tmp_path / "a.pt").tensors] == [".".join("0" * 32)]
    torch.save(_nested(33), tmp_path / "a.pt")
    _refused(tmp_path / "a.pt", "its containers nest deeper than 32")


def test_containers_hold_as_many_values_as_the_limit(tmp_path: Path) -> None:
    torch.save([torch.ones(2), 1, 2], tmp_path / "a.pt")
    with flopwise.limits(checkpoint_values=3):  # three values, after the list itself
        assert len(open_stored(tmp_path / "a.pt").tensors) == 1
    with flopwise.limits(checkpoint_values=2):
        _refused(tmp_path / "a.pt", "its containers hold 3 values, more than the limit checkpoint_values of 2")


def test_tensors_repeat_the_same_elements_16_times_or_as_often_as_the_limit(tmp_path: Path) -> None:
    flat = torch.zeros(100)
    torch.save([flat.view(1, *[1] * rank, 100) for rank in range(16)], tmp_path / "a.pt")
    with flopwise.limits(repeated_elements=1):
        assert len(open_stored(tmp_path / "a.pt").tensors) == 16
    torch.save([flat.view(1, *[1] * rank, 100) for rank in range(17)], tmp_path / "a.pt")
    with flopwise.limits(repeated_elements=1700):
        assert len(open_stored(tmp_path / "a.pt").tensors) == 17
    with flopwise.limits(repeated_elements=1699):
        _refused(tmp_path / "a.pt", "repeat the same elements to 1,700 elements, more than the limit")


def test_a_script_and_an_exported_program(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval()
    module(torch.rand(2, 3))
    torch.jit.save(torch.jit.script(module), tmp_path / "a.ts")
    _checked(tmp_path / "a.ts", module.state_dict())
    torch.export.save(torch.export.export(module, (torch.rand(4, 3),)), tmp_path / "a.pt2")
    _checked(tmp_path / "a.pt2", module.state_dict())


def test_shards(tmp_path: Path) -> None:
    state = _state()
    places = {}
    for shard, names in enumerate((list(state)[:3], list(state)[3:])):
        torch.save({n: state[n] for n in names}, tmp_path / f"pytorch_model-{shard}.bin")
        places |= dict.fromkeys(names, f"pytorch_model-{shard}.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    _checked(tmp_path, state)


class _Runs:
    """What a hostile pickle does when it is loaded."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("form", ["archive", "before archives", "pickle"])
def test_a_pickle_that_wants_to_run_something(tmp_path: Path, form: str) -> None:
    mark, path = tmp_path / "it ran", tmp_path / "a.pt"
    held = {"w": torch.ones(2), "x": _Runs(str(mark))}
    if form == "pickle":
        path.write_bytes(pickle.dumps(_Runs(str(mark))))
    else:
        torch.save(held, path, _use_new_zipfile_serialization=form == "archive")
    _refused(path, "holds more than tensors")
    assert not mark.exists()


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(3, 2), tmp_path / "a.pt")
    _refused(tmp_path / "a.pt", "save its state_dict() instead")


@pytest.mark.parametrize("data", [b"", b"abc", b"PK\x03\x04" + bytes(100), b"\x80\x02."])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(data)
    _refused(tmp_path / "a.pt", "")


def test_a_truncated_file(tmp_path: Path) -> None:
    torch.save({"w": torch.rand(1000)}, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    for length in (10, 500, 3000, len(whole) - 1):
        (tmp_path / "a.pt").write_bytes(whole[:length])
        _refused(tmp_path / "a.pt", "")


def test_damage_in_the_directory_of_an_archive(tmp_path: Path) -> None:
    torch.save({"w": torch.rand(10)}, tmp_path / "a.pt")
    numpy.savez(tmp_path / "a.npz", w=numpy.ones(10))
    rng = numpy.random.default_rng(0)
    for ending in (".pt", ".npz"):
        path = tmp_path / f"a{ending}"
        whole = path.read_bytes()
        directory = whole.rindex(b"PK\x01\x02")
        ends = [whole.rindex(b"PK\x05\x06"), max(whole.rfind(b"PK\x06\x06"), 0), max(whole.rfind(b"PK\x06\x07"), 0)]
        for _ in range(150):
            data = bytearray(whole)
            start = [directory, *ends][rng.integers(4)]
            for place in rng.integers(start, min(start + 60, len(data)), 3):
                data[place] = rng.choice([0, 1, 255, rng.integers(256)])
            path.write_bytes(data)
            for ask in (open_stored, flopwise.profile):
                with contextlib.suppress(FlopwiseError):
                    ask(str(path))


def test_no_tensors(tmp_path: Path) -> None:
    torch.save({"a": 1}, tmp_path / "a.pt")
    _refused(tmp_path / "a.pt", "holds no tensors")


def test_folders(tmp_path: Path) -> None:
    _refused(tmp_path, "no file with weights in this directory")
    for name in ("a.pt", "b.pt"):
        torch.save({"w": torch.ones(2)}, tmp_path / name)
    _refused(tmp_path, "holds 2 files ending in .pt and no index; give one of them")


def _refused(path: Path, told: str) -> None:
    with pytest.raises(ModelError) as error:
        open_stored(path)
    assert told in str(error.value)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)
