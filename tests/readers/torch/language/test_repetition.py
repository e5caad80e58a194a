"""Graphs that grow from a few layers are those of the whole model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import (
    BIASED_EXPERTS,
    ENCODERS,
    LATENT,
    LLAMA,
    STATE_SPACE,
    UNFUSED_WINDOW,
    written,
)

import flopwise
from flopwise.graph import ProgramTensor

pytest.importorskip("transformers")

from flopwise.readers.torch.language.layers import twin_of
from flopwise.readers.torch.language.model import language_model
from flopwise.readers.torch.language.repetition import Repetition, UnlikeError, _Copy
from flopwise.readers.torch.language.state import step

_HYBRID = {
    "model_type": "granitemoehybrid",
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 32,
    "shared_intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "num_hidden_layers": 8,
    "layer_types": ["attention" if n in (2, 5) else "mamba" for n in range(8)],
}

_WINDOWS = ["sliding_attention", "full_attention"]

#: Models of several layers, with how many of them the twin has.
_DEEP: dict[str, tuple[dict[str, Any], int]] = {
    "plain": ({**LLAMA, "num_hidden_layers": 6}, 3),
    "windows": ({**UNFUSED_WINDOW, "num_hidden_layers": 7, "layer_types": (_WINDOWS * 4)[:7]}, 4),
    "biased experts": ({**BIASED_EXPERTS, "num_hidden_layers": 8, "layer_types": _WINDOWS * 4}, 4),
    "latents": ({**LATENT, "num_hidden_layers": 9, "first_k_dense_replace": 2}, 4),
    "hybrid": (_HYBRID, 4),
    "state space": ({**STATE_SPACE, "num_hidden_layers": 6}, 3),
    "encoder": ({**ENCODERS["bert"], "num_hidden_layers": 6}, 3),
}


def _renumbered(graph: flopwise.Graph) -> str:
    """A graph as text, its results numbered in their order."""
    numbers: dict[str, int] = {}
    text = repr([(graph.inputs, graph.outputs, graph.warnings, graph.program.calls, list(graph.weights))])
    text += repr([(replace(node, attrs=dict(node.attrs)), node.via) for node in graph.nodes])
    text += repr([(m.path, m.kind, m.tensors, dict(m.options), m.text, m.also) for m in graph.program.modules])
    return re.sub(r"'(t|constant)(\d+)'", lambda m: f"{m[1]}{numbers.setdefault(m[0], len(numbers))}", text)


@pytest.mark.parametrize("name", _DEEP)
def test_a_graph_is_that_of_the_whole_model(name: str, tmp_path: Path) -> None:
    config, layers = _DEEP[name]
    model = language_model(written(tmp_path, config))
    twin = twin_of(model)
    assert twin is not None
    assert twin.layers == layers
    for past, new in [(0, 24)] if name == "encoder" else [(0, 24), (24, 1)]:
        whole, part = step(model, past, new, 2), step(twin.module, past, new, 2)
        repetition = Repetition(model, twin)
        grown = repetition.graph(flopwise.read(twin.module, part.inputs))
        assert _renumbered(grown) == _renumbered(flopwise.read(model, whole.inputs))
        state = {name: part.state[like].nbytes for name, like in repetition.names(part.state)}
        assert list(state.items()) == [(name, tensor.nbytes) for name, tensor in whole.state.items()]


@pytest.mark.parametrize("name", ["hybrid", "latents"])
def test_a_request_costs_what_all_layers_cost(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, request = written(tmp_path, _DEEP[name][0]), {"prompt": 40, "generate": 9, "batch": 3, "device": "2xh100"}
    quick = flopwise.llm(folder, **request).to_dict()
    monkeypatch.setattr("flopwise.readers.torch.language.layers.twin_of", lambda model: None)
    assert flopwise.llm(folder, **request).to_dict() == quick


def test_layers_that_differ_have_no_twin(tmp_path: Path) -> None:
    assert twin_of(language_model(written(tmp_path, {**LLAMA, "num_hidden_layers": 4}))) is None
    shared = {**LLAMA, "model_type": "albert", "architectures": ["AlbertForMaskedLM"], "num_hidden_layers": 8}
    assert twin_of(language_model(written(tmp_path, shared))) is None
    model: Any = language_model(written(tmp_path, {**LLAMA, "num_hidden_layers": 8}))
    model.model.layers[5].mlp.up_proj = model.model.layers[5].mlp.down_proj
    assert twin_of(model) is None  # the twin would not show the sixth layer


def test_what_only_looks_alike_is_found_out(tmp_path: Path) -> None:
    model: Any = language_model(written(tmp_path, {**LLAMA, "num_hidden_layers": 8}))
    twin = twin_of(model)
    assert twin is not None
    part: Any = twin.module
    forward = part.model.layers[2].mlp.forward
    part.model.layers[2].mlp.forward = lambda hidden: forward(hidden).relu()
    with pytest.raises(UnlikeError):
        Repetition(model, twin).graph(flopwise.read(part, step(part, 0, 8).inputs))


def test_a_copy_has_the_tensors_of_its_own_layer() -> None:
    weight = ProgramTensor("layers.5.mlp.weight", (2, 2), "float32", "weight")
    copy = _Copy(range(3, 5), 10, {"t2": "t8"}, ("layers.1.", "layers.5."), {weight.name: weight})

    tensors = []  # they live as long as the copy, which knows them by their identity

    def name(old: str, kind: str) -> str:
        tensors.append(ProgramTensor(old, (2, 2), "float32", kind))
        return copy.tensor(tensors[-1]).name

    assert name("layers.1.mlp.weight", "weight") == "layers.5.mlp.weight"
    assert name("past_key_values.layers.1.keys", "input") == "past_key_values.layers.5.keys"
    assert name("attention_mask", "input") == "attention_mask"
    assert [name(old, "activation") for old in ("t2", "t4", "t1")] == ["t8", "t14", "t1"]
    for old, kind in (("layers.1.bias", "weight"), ("past_key_values.layers.0.keys", "input")):
        with pytest.raises(UnlikeError, match=old):
            name(old, kind)
