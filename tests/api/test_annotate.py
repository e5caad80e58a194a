"""``flopwise.annotate``: traces whose operators know their modules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import flopwise

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto import recording  # noqa: E402 - without torch there is nothing to record


class Alike(torch.nn.Module):  # type: ignore[misc,name-defined] # torch may be absent
    """Layers that are all alike, called in another order than they are defined in, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place in (2, 0, 1, 2):
            x = self.layers[place](x).relu()
        return x


def test_modules_are_known_without_shapes(tmp_path: Path) -> None:
    model, x = Alike(), torch.randn(8, 16)
    with flopwise.annotate(model):
        path = recording.record(tmp_path / "t.json", recording.inference(model, x), shapes=False)
    trace = flopwise.trace(model, path, (8, 16))
    assert {row.status for row in trace.rows} == {"matched"}
    assert [row.name for row in trace.rows if row.op == "Gemm"] == ["layers.2", "layers.0", "layers.1", "layers.2:2"]
    assert trace.matched.product_time_share == 1.0
    assert trace.rows_ns == trace.busy_ns


def test_training_and_fused_layers(tmp_path: Path) -> None:
    model, x = recording.Net(), torch.randn(4, 3, 64, 64)
    with flopwise.annotate(model):
        path = recording.record(tmp_path / "t.json", recording.training(model, x), shapes=False)
    trace = flopwise.trace(model, path, (4, 3, 64, 64))
    assert Counter((row.phase, row.status) for row in trace.rows) == {
        ("forward", "matched"): 11,
        ("backward", "matched"): 11,
    }
    encoder = recording.encoder().eval()
    with flopwise.annotate(encoder):
        path = recording.record(tmp_path / "e.json", recording.inference(encoder, torch.randn(2, 17, 64)), shapes=False)
    trace = flopwise.trace(encoder, path, (2, 17, 64))
    assert [segment.layers[0].split(".")[1] for segment in trace.segments] == ["0", "1"]
    assert trace.segments_ns == trace.busy_ns


def test_paths_within_a_wrapper_leave_it_to_shapes(tmp_path: Path) -> None:
    model, x = recording.Net().eval(), torch.randn(4, 3, 64, 64)
    wrapper = torch.nn.Sequential(model)
    with flopwise.annotate(wrapper):
        path = recording.record(tmp_path / "t.json", recording.inference(wrapper, x))
        bare = recording.record(tmp_path / "bare.json", recording.inference(wrapper, x), shapes=False)
    assert flopwise.trace(model, path, (4, 3, 64, 64)).matched == (11, 11, 1.0)
    with pytest.raises(flopwise.ModelError, match="the trace is of another model"):
        flopwise.trace(model, bare, (4, 3, 64, 64))


def test_a_model_is_the_same_behind_it() -> None:
    model = recording.Net()
    model.head.forward = model.head.forward  # one of its own, which has to come back
    own = model.head.forward
    with flopwise.annotate(model):
        assert "forward" in vars(model.stem)
    assert "forward" not in vars(model.stem)
    assert vars(model.head)["forward"] is own
    x = torch.randn(1, 3, 32, 32)
    with flopwise.annotate(model.eval()):
        marked = model(x)
    assert torch.equal(marked, model(x))


def test_compiled_code_is_the_same_in_it() -> None:
    """One graph without a break, also of what was compiled before, whose module is another one for the compiler."""
    model, x = recording.Net().eval(), torch.randn(1, 3, 32, 32)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    before = compiled(x)
    with flopwise.annotate(model):
        assert torch.equal(compiled(x), before)
        torch._dynamo.reset()
        assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(x), before)
    torch._dynamo.reset()


def test_ranges_are_those_of_nvtx_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.nvtx, "mark", lambda name: None)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", ranges.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: ranges.append("end"))
    model = Alike()
    with flopwise.annotate(model):
        model(torch.zeros(2, 16))
        with pytest.raises(RuntimeError):
            model(torch.zeros(2, 5))
    layers = [f"flopwise::layers.{place}" for place in (2, 0, 1, 2)]
    assert ranges == [
        *("flopwise::", *(name for layer in layers for name in (layer, "end")), "end"),
        *("flopwise::", layers[0], "end", "end"),
    ]
