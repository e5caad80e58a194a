"""Traces of models of several kinds, recorded here: what lands on their rows, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import flopwise
from flopwise.analyses.traces.trace import Trace

torch = pytest.importorskip("torch")

from tests.analyses.traces.kineto import recording  # noqa: E402 - without torch there is nothing to record
from torch import nn  # noqa: E402

EXAMPLES = Path(__file__).parents[4] / "examples"


class Mobile(nn.Module):
    """Depthwise convolutions in blocks with shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.depthwise = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, groups=16) for _ in range(3))
        self.pointwise = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in range(3))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu6(self.stem(x))
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x = x + pointwise(nn.functional.hardswish(depthwise(x)))
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


class Bert(nn.Module):
    """Tokens and two layers of attention as programs write it out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 64)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(64, 64) for _ in range(4)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for parts, norm in zip(self.layers, self.norms, strict=True):
            query, key, value = (part(x).unflatten(-1, (4, 16)).transpose(1, 2) for part in list(parts)[:3])
            weights = (query @ key.transpose(-1, -2) * 0.25).softmax(-1)
            x = norm(x + nn.functional.gelu(parts[3]((weights @ value).transpose(1, 2).flatten(2))))
        logits: torch.Tensor = self.head(x[:, 0])
        return logits


class Lstm(nn.Module):
    """A recurrent layer in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 24, bidirectional=True, batch_first=True)
        self.head = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.lstm(x)[0][:, -1])
        return logits


class Unet(nn.Module):
    """Down, up again, and both together."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 16, 3, 2, 1), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(11, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(torch.relu(self.down(x)))
        return self.last(torch.cat((x, y), 1)).amax((2, 3))


class Case(NamedTuple):
    """A model and what it is fed."""

    model: Callable[[], nn.Module]
    x: torch.Tensor


CASES = {
    "mobile": Case(Mobile, torch.randn(2, 3, 48, 48)),
    "bert": Case(Bert, torch.zeros(2, 24, dtype=torch.long)),
    "lstm": Case(Lstm, torch.randn(2, 20, 32)),
    "unet": Case(Unet, torch.randn(2, 3, 32, 32)),
}


def _parts(trace: Trace) -> dict[str, set[str]]:
    """The operators whose time is on no row and on no segment, by the name under which it stands."""
    assert trace.rows_ns + trace.segments_ns + trace.remainder_ns == trace.covered_ns
    assert trace.matched.product_time_share == 1.0
    parts: dict[str, set[str]] = {}
    for (where, phase, operator), _ in trace.kernels.items():
        if not phase:
            parts.setdefault(where, set()).add(operator)
    return parts


@pytest.mark.parametrize("name", CASES)
def test_inference(name: str, tmp_path: Path) -> None:
    model, x = CASES[name].model().eval(), CASES[name].x
    path = recording.record(tmp_path / "t.json", recording.inference(model, x), steps=3)
    trace = flopwise.trace(model, path, x, step="all")
    assert not _parts(trace)
    assert all(row.time_ns != 0 for row in trace.rows if row.flops)


@pytest.mark.parametrize("name", CASES)
def test_training(name: str, tmp_path: Path) -> None:
    model, x = CASES[name].model(), CASES[name].x
    path = recording.record(tmp_path / "t.json", recording.training(model, x), steps=3)
    trace = flopwise.trace(model, path, x, step="all")
    assert _parts(trace).keys() <= {"optimiser", "loss", "accumulate gradients"}  # and all else is on rows
    assert all(row.time_ns != 0 for row in trace.rows if row.op in ("Conv", "Gemm", "LSTM"))
    assert {row.phase for row in trace.rows if row.time_ns} == {"forward", "backward"}


@pytest.mark.parametrize(("past", "new"), [(0, 16), (16, 1)])
def test_a_language_model_with_its_cache(past: int, new: int, tmp_path: Path) -> None:
    """The program of `flopwise.profile(config, past=..., new=...)`, on the step that transformers ran."""
    pytest.importorskip("transformers")
    import tests.torch_vision  # noqa: F401 - before a model of transformers asks for it
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(EXAMPLES / "tiny_llama")).eval()
    tokens = torch.zeros(1, 17, dtype=torch.long)

    def run(tokens: torch.Tensor, cache: object = None) -> object:
        with torch.no_grad():
            return model(tokens, past_key_values=cache, use_cache=True)

    caches = [run(tokens[:, :past]).past_key_values if past else None for _ in range(4)]  # type: ignore[attr-defined]
    now = tokens[:, :new]
    path = recording.record(tmp_path / "t.json", lambda: run(now, caches.pop()) and None, steps=3)
    trace = flopwise.trace(str(EXAMPLES / "tiny_llama"), path, past=past or None, new=new, step="all")
    assert trace.matched.of - trace.matched.rows <= 1 + 4 * (not past)  # views that copy nothing leave no event
    parts = _parts(trace)
    assert parts.keys() == {"layout", "copies"}
    assert {name for names in parts.values() for name in names} <= {
        f"aten::{name}" for name in ("alias", "detach_", "empty", "lift_fresh", "to")
    }  # none of them does any work
