"""Exported language models with a state among their inputs: so many tokens in it, so many fed now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.cli.conftest import Run, run
from tests.language_models import LLAMA, written

import flopwise
from flopwise.formats.inputs import Declared
from flopwise.formats.kit.language import states, step_specs

__all__ = ["run"]  # a fixture

HEADS, GROUPS, SIZE, WIDTH = 4, 2, 16, 64

SIZES = [(37, 1, 1), (12, 5, 3), (0, 9, 2)]


def _value(name: str, dims: list[Any], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _stored(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name)


def grouped() -> onnx.ModelProto:
    """One attention as onnxruntime's model builder writes it: lengths from the mask, keys and values beside them."""
    past = ["batch_size", GROUPS, "past_sequence_length", SIZE]
    present = ["batch_size", GROUPS, "total_sequence_length", SIZE]
    inputs = [
        _value("input_ids", ["batch_size", "sequence_length"], TensorProto.INT64),
        _value("attention_mask", ["batch_size", "total_sequence_length"], TensorProto.INT64),
        _value("past_key_values.0.key", past),
        _value("past_key_values.0.value", past),
    ]
    outputs = [_value("hidden", ["batch_size", "sequence_length", WIDTH])]
    outputs += [_value("present.0.key", present), _value("present.0.value", present)]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        *(helper.make_node("MatMul", ["x", f"w_{n}"], [n]) for n in "qkv"),
        helper.make_node("ReduceSum", ["attention_mask", "one"], ["lengths"], keepdims=0),
        helper.make_node("Sub", ["lengths", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "index"], ["total"], axis=0),
        helper.make_node("Cast", ["total"], ["total_sequence_length"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", inputs[2].name, inputs[3].name, "seqlens_k", "total_sequence_length"],
            ["hidden", "present.0.key", "present.0.value"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=GROUPS,
        ),
    ]
    stored = [_stored("table", 320, WIDTH), _stored("w_q", WIDTH, WIDTH)]
    stored += [_stored(f"w_{n}", WIDTH, GROUPS * SIZE) for n in "kv"]
    stored += [
        numpy_helper.from_array(numpy.array([1], numpy.int64), "one"),
        numpy_helper.from_array(numpy.array(1, numpy.int64), "index"),
    ]
    graph = helper.make_graph(nodes, "grouped", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def multi_head() -> onnx.ModelProto:
    """One attention with as many keys as queries, and what onnxruntime's optimiser makes of it."""
    past = ["batch_size", HEADS, "past_seq_len", SIZE]
    inputs = [
        _value("input_ids", ["batch_size", "seq_len"], TensorProto.INT64),
        _value("past_key_self_0", past),
        _value("past_value_self_0", past),
    ]
    outputs = [_value(n, ["batch_size", None, None]) for n in ("hidden",)]
    outputs += [_value(n, ["batch_size", HEADS, None, SIZE]) for n in ("present_key", "present_value")]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        *(helper.make_node("MatMul", ["x", f"w_{n}"], [n]) for n in "qkv"),
        helper.make_node(
            "MultiHeadAttention",
            ["q", "k", "v", "", "", "", inputs[1].name, inputs[2].name],
            ["hidden", "present_key", "present_value"],
            domain="com.microsoft",
            num_heads=HEADS,
        ),
    ]
    stored = [_stored("table", 320, WIDTH), *(_stored(f"w_{n}", WIDTH, WIDTH) for n in "qkv")]
    graph = helper.make_graph(nodes, "multi_head", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets)


@pytest.mark.parametrize(("past", "new", "batch"), SIZES)
def test_operators_of_onnxruntime(past: int, new: int, batch: int) -> None:
    for model, kept in ((grouped(), GROUPS), (multi_head(), HEADS)):
        profile = flopwise.profile(model, past=past, new=new, batch_size=batch)
        products = batch * new * WIDTH * (WIDTH + 2 * kept * SIZE)
        assert profile.total("macs") == products + 2 * batch * HEADS * new * (past + new) * SIZE
        assert profile.state_bytes == 2 * batch * kept * past * SIZE * 4
        if past:
            assert [t.kind for t in profile.graph.inputs].count("state") == 2
            assert profile.graph.outputs[1].shape == (batch, kept, past + new, SIZE)
        assert profile.to_dict()["totals"].get("state_bytes", 0) == profile.state_bytes


def exported(path: Path, folder: Path, dynamo: bool) -> Path:
    """A small Llama with its cache as inputs and outputs, by either of PyTorch's exporters."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    if dynamo:
        pytest.importorskip("onnxscript")
    import tests.torch_vision  # noqa: F401 # before a model of transformers asks for it

    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    llama = transformers.LlamaForCausalLM(config).float().eval()

    class Cached(torch.nn.Module):  # type: ignore[misc, name-defined] # PyTorch may be missing
        def __init__(self) -> None:
            super().__init__()
            self.llama = llama

        def forward(self, input_ids: Any, attention_mask: Any, *past: Any) -> Any:
            cache = transformers.DynamicCache()
            for place in range(0, len(past), 2):
                cache.update(past[place], past[place + 1], place // 2)
            result = self.llama(input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            return (result.logits, *(t for layer in result.past_key_values.layers for t in (layer.keys, layer.values)))

    cache = [torch.zeros(2, GROUPS, 5, SIZE) for _ in range(4)]
    example = (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 8, dtype=torch.long), *cache)
    names = [f"past_key_values.{i // 2}.{'value' if i % 2 else 'key'}" for i in range(4)]
    options: dict[str, Any] = {"input_names": ["input_ids", "attention_mask", *names], "dynamo": dynamo}
    options["output_names"] = ["logits", *(name.replace("past_key_values", "present") for name in names)]
    if dynamo:
        dim = torch.export.Dim
        batch, new, past = dim("batch_size"), dim("sequence_length", min=2), dim("past_sequence_length", min=2)
        options["dynamic_shapes"] = (
            {0: batch, 1: new},
            {0: batch, 1: dim.AUTO},
            tuple({0: batch, 2: past} for _ in cache),
        )
    else:
        axes: dict[str, dict[int, str]] = {name: {0: "batch_size", 2: "past_sequence_length"} for name in names}
        axes["input_ids"] = {0: "batch_size", 1: "sequence_length"}
        axes["attention_mask"] = {0: "batch_size", 1: "past_sequence_length + sequence_length"}
        options |= {"dynamic_axes": axes, "opset_version": 17}
    torch.onnx.export(Cached(), example, str(path), **options)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
def test_an_export_is_the_program_that_it_was_made_from(tmp_path: Path, dynamo: bool) -> None:
    folder = written(tmp_path, {**LLAMA, "torch_dtype": "float32"})
    path = exported(tmp_path / "model.onnx", folder, dynamo)
    for past, new, batch in SIZES:
        export = flopwise.profile(path, past=past, new=new, batch_size=batch)
        program = flopwise.profile(folder, past=past, new=new, batch_size=batch)
        assert export.total("macs") == program.total("macs") > 0
        assert export.state_bytes == program.state_bytes
        assert export.graph.outputs[0].shape == (batch, new, 320)
        assert all(t.shape == (batch, GROUPS, past + new, SIZE) for t in export.graph.outputs[1:])
        shapes = [t.shape for t in export.graph.inputs]
        assert shapes == [(batch, new), (batch, past + new), *[(batch, GROUPS, past, SIZE)] * 4]


def test_formulas_in_past_and_new() -> None:
    pytest.importorskip("sympy")
    model = multi_head()
    formula = flopwise.formula(model, past="past", new="new")
    for past, new, batch in SIZES:
        profile = flopwise.profile(model, past=past, new=new, batch_size=batch)
        assert formula.value("macs", past=past, new=new, batch=batch) == profile.total("macs")


@pytest.mark.parametrize(
    ("name", "dims", "shape"),
    [
        ("input_ids", ("batch", "seq"), (3, 2)),
        ("decoder_input_ids", (None, None), (3, 2)),
        ("attention_mask", ("b", "total_seq_len"), (3, 12)),
        ("attention_mask", ("batch", "past_seq + seq"), (3, 12)),
        ("attention_mask", ("batch", 1, None, None), (3, 1, 2, 12)),
        ("past_0", (2, "batch", 4, "past_seq", 8), (2, 3, 4, 10, 8)),
        ("past_0", (2, None, 4, None, 8), (2, 3, 4, 10, 8)),
        ("past_key_values.0.decoder.key", ("batch_size", 4, "past_decoder_sequence_length", 8), (3, 4, 10, 8)),
        ("past_key_values.0.key", (1, 4, 128, 8), (3, 4, 10, 8)),
        ("past_key_values.0.key", ("batch_size", 4, "kv_sequence_length", 8), (3, 4, 10, 8)),
        ("cache_position", ("sequence_length",), (2,)),
    ],
)
def test_dimensions_by_their_names(name: str, dims: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    inputs = [Declared(name, "float32", dims), Declared("past_key_values.9.value", "float32", (3, 4, 10, 8))]
    specs = {spec.name: spec.shape for spec in step_specs(inputs, 10, 2, 3)}
    assert specs[name] == shape


def test_lengths_that_are_numbers() -> None:
    inputs = [
        Declared("past_key_0", "float16", ("batch_size", 4, "past_sequence_length", 8)),
        Declared("seqlens_k", "int32", ("batch_size",)),
        Declared("total_sequence_length", "int32", ()),
    ]
    specs = {spec.name: spec for spec in step_specs(inputs, 10, 2, 3)}
    assert specs["seqlens_k"].value.tolist() == [11, 11, 11]
    assert specs["total_sequence_length"].value.tolist() == 12
    assert states(inputs) == ["past_key_0"]


def test_what_an_encoder_left_stays_open() -> None:
    dims = ("batch_size", 4, "encoder_sequence_length_out", 8)
    inputs = [Declared("past_key_values.0.encoder.key", "float32", dims)]
    assert step_specs(inputs, 10, 2, 3) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--past", "8", "-i", "input_ids:1x1"], "give no others"),
        (["--past", "-1"], "-1"),
        (["--new", "0"], "0"),
        (["--past", "length"], "has no value"),
    ],
)
def test_one_line_for_what_is_wrong(tmp_path: Path, run: Run, arguments: list[str], words: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(grouped(), path)
    result = run("profile", path, *arguments)
    assert result.code == 2
    assert words in result.err


def test_a_model_without_a_state(run: Run) -> None:
    result = run("profile", "examples/tiny_resnet.onnx", "--past", "8")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "takes no state" in result.err
    assert "only for" in run("profile", "examples/alexnet.prototxt", "--past", "8").err
