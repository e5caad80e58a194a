"""What coremltools writes is read as it means it: compressed weights, states, functions, sizes that are left open."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.coreml_models import coremltools, saved
from tests.formats.coreml.by_hand import (
    IMAGE,
    RESULT,
    constant,
    encoded,
    inline,
    operation,
    program,
    read,
    tensor,
    text,
)

import flopwise
from flopwise.formats.coreml.decode import OTHERS, SCHEMA
from flopwise.formats.coreml.read import DTYPES

#: Kinds of fields of protobuf's own, by their number in a descriptor, and what the schema calls them.
_NUMBERS = {3: "int", 4: "int", 5: "int", 8: "int", 13: "int", 14: "int"}


def test_the_schema_is_that_of_coremltools() -> None:
    coremltools()
    from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2

    messages: dict[str, Any] = {}

    def take(descriptor: Any) -> None:
        messages.setdefault(descriptor.name, []).append(descriptor)
        for inner in descriptor.nested_types:
            take(inner)

    for module in (Model_pb2, FeatureTypes_pb2, MIL_pb2):
        for descriptor in module.DESCRIPTOR.message_types_by_name.values():
            take(descriptor)
    own = {"Numbers": "Repeated", "Texts": "RepeatedStrings"}
    for name, fields in SCHEMA.items():
        candidates = [one for key in messages if key.startswith(own.get(name, name)) for one in messages[key]]
        candidates = candidates if name in own else messages[name]
        for field in fields:
            theirs = next(
                one.fields_by_number[field.number]
                for one in candidates
                if field.number in one.fields_by_number and one.fields_by_number[field.number].name == field.name
            )
            if field.kind == "int":
                assert _NUMBERS[theirs.type] == "int"
            elif field.kind == "text":
                assert theirs.type == 9
            elif field.kind != "place":
                assert theirs.type == 11
                assert own.get(field.kind, field.kind) in theirs.message_type.name
            if field.kind != "place":
                assert theirs.is_repeated == bool(field.many)
    model = Model_pb2.Model.DESCRIPTOR
    assert {*OTHERS, 502} == {field.number for field in model.oneofs_by_name["Type"].fields}
    codes = {value.number: value.name.lower() for value in MIL_pb2.DataType.DESCRIPTOR.values}
    assert {codes[code] for code in DTYPES} == {*codes.values()} - {"unused_type"}
    assert all(codes[code] == dtype for code, dtype in DTYPES.items())


_WIDE = numpy.random.default_rng(0).normal(size=(64, 3, 3, 3)).astype(numpy.float32)


def _two_layers(x: Any) -> Any:
    from coremltools.converters.mil import Builder

    y = Builder.relu(x=Builder.conv(x=x, weight=_WIDE, pad_type="same"))
    y = Builder.reduce_mean(x=y, axes=[2, 3])
    return Builder.linear(x=y, weight=numpy.tile(_WIDE.reshape(27, 64), (10, 1))[:200])


@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
@pytest.mark.parametrize(
    ("how", "bits"), [("palette", 4), ("palette", 3), ("palette", 1), ("linear", 8), ("sparse", 0), ("linear4", 4)]
)
def test_compressed_weights(how: str, bits: int, target: str, tmp_path: Path) -> None:
    ct = coremltools()
    import coremltools.optimize.coreml as cto

    if target == "iOS16" and bits == 3:
        pytest.skip("palettes of 3 bits came with iOS 18")
    if how == "linear4" and target == "iOS16":
        pytest.skip("4 bits came with iOS 18")
    model = saved(_two_layers, [(1, 3, 16, 16)], tmp_path / "whole.mlpackage", plain=False, target=target)
    configs = {
        "palette": (
            cto.palettize_weights,
            lambda: cto.OpPalettizerConfig(nbits=bits, mode="uniform", weight_threshold=0),
        ),
        "linear": (cto.linear_quantize_weights, lambda: cto.OpLinearQuantizerConfig(weight_threshold=0)),
        "linear4": (
            cto.linear_quantize_weights,
            lambda: cto.OpLinearQuantizerConfig(dtype="int4", weight_threshold=0),
        ),
        "sparse": (cto.prune_weights, lambda: cto.OpMagnitudePrunerConfig(target_sparsity=0.75, weight_threshold=0)),
    }
    compress, config = configs[how]
    path = tmp_path / "small.mlpackage"
    compress(model, cto.OptimizationConfig(global_config=config())).save(str(path))
    assert ct is not None
    plain, packed = flopwise.profile(tmp_path / "whole.mlpackage"), flopwise.profile(path)
    assert packed.total("macs") == plain.total("macs") == 16 * 16 * 64 * 27 + 64 * 200
    assert not packed.to_dict()["coverage"]["unknown"]
    number = 64 * 27 + 64 * 200 + 200  # a bias of zeros too
    assert plain.total("params") == number
    weights = flopwise.read(path).weights
    stored = {tensor.dtype for tensor in weights.values() if tensor.role == "weight" and len(tensor.shape) > 1}
    if how == "sparse":
        nodes = [node for node in flopwise.read(path).nodes if node.origin == "constexpr_sparse_to_dense"]
        kept = [weights[node.inputs[0].name].numel for node in nodes]
        assert kept == [weights[node.inputs[1].name].array().sum() for node in nodes]
        assert packed.total("params") == sum(kept) + 200
        assert sum(kept) == pytest.approx((number - 200) / 4, rel=0.01)
    else:
        assert packed.total("params") == number
        assert stored == ({f"uint{bits}"} if how == "palette" else {f"int{bits}"})
    for one in weights.values():
        assert one.array().size == one.numel


def test_palettes_hold_the_weights(tmp_path: Path) -> None:
    coremltools()
    import coremltools.optimize.coreml as cto

    model = saved(_two_layers, [(1, 3, 16, 16)], tmp_path / "whole.mlpackage", plain=False)
    path = tmp_path / "small.mlpackage"
    config = cto.OptimizationConfig(global_config=cto.OpPalettizerConfig(nbits=6, mode="uniform", weight_threshold=0))
    cto.palettize_weights(model, config).save(str(path))
    node = next(node for node in flopwise.read(path).nodes if node.origin == "constexpr_lut_to_dense")
    weights = flopwise.read(path).weights
    indices, palette = (weights[tensor.name].array() for tensor in node.inputs[:2])
    restored = palette.reshape(-1)[indices]
    assert indices.shape == _WIDE.shape
    assert abs(restored - _WIDE).max() < 0.5


@pytest.mark.parametrize("size", [1, 2])
def test_palettes_of_vectors_add_to_an_axis(size: int, tmp_path: Path) -> None:
    coremltools()
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types

    def layer(x: Any) -> Any:
        indices = numpy.arange(20).reshape(4, 5).astype(types.nptype_from_builtin(types.uint6))
        palette = numpy.ones((1, 1, 64, size), "float32")
        weight = Builder.constexpr_lut_to_dense(indices=indices, lut=palette, vector_axis=0)
        return Builder.linear(x=x, weight=weight)

    path = tmp_path / "net.mlpackage"
    saved(layer, [(3, 5)], path, target="iOS18")
    profile = flopwise.profile(path)
    assert profile.graph.outputs[0].shape == (3, 4 * size)
    assert profile.total("macs") == 3 * 5 * 4 * size


def test_a_state_is_read_and_updated(tmp_path: Path) -> None:
    coremltools()
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types

    @Builder.program(
        input_specs=[Builder.TensorSpec((2, 3)), Builder.StateTensorSpec((2, 3), dtype=types.fp16)],
        opset_version=coremltools().target.iOS18,
    )
    def counter(x: Any, held: Any) -> Any:
        value = Builder.add(x=Builder.read_state(input=held), y=Builder.cast(x=x, dtype="fp16"))
        return Builder.coreml_update_state(state=held, value=value)

    ct = coremltools()
    ct.convert(counter, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18).save(
        str(tmp_path / "net.mlpackage")
    )
    profile = flopwise.profile(tmp_path / "net.mlpackage")
    assert profile.total("flops") == 6
    coverage = profile.to_dict()["coverage"]
    assert (coverage["unknown"], coverage["unresolved"]) == ({}, [])


def test_the_default_function_is_counted_and_others_are_named(tmp_path: Path) -> None:
    function = program()["mlProgram"]["functions"][0]["value"]
    relu = {
        **function,
        "block_specializations": [
            {"key": "CoreML8", "value": {"outputs": ["y"], "operations": [operation("relu", "y", IMAGE, x="x")]}}
        ],
    }
    model = {
        "description": {"functions": [{"name": "small"}, {"name": "large"}], "defaultFunctionName": "small"},
        "mlProgram": {"functions": [{"key": "large", "value": function}, {"key": "small", "value": relu}]},
    }
    path = tmp_path / "net.mlmodel"
    path.write_bytes(encoded("Model", model))
    graph = flopwise.read(path)
    assert [node.op for node in graph.nodes] == ["Relu"]
    assert "function 'small' is counted; others are large" in graph.warnings


def test_open_sizes_begin_as_the_description_says(tmp_path: Path) -> None:
    image = tensor(11, None, 3, 8, 8)
    kernel = constant("w", inline(tensor(11, 4, 3, 3, 3), "floats", bytes(432)), tensor(11, 4, 3, 3, 3))
    conv = operation("conv", "y", tensor(11, None, 4, 6, 6), x="x", weight="w", pad_type=text("valid"))
    feature = {"name": "x", "type": {"multiArrayType": {"shape": [5, 3, 8, 8]}}}
    model = program([kernel, conv], image=image, description={"input": [feature]})
    path = tmp_path / "net.mlmodel"
    path.write_bytes(encoded("Model", model))
    assert flopwise.profile(path).total("macs") == 5 * 4 * 36 * 27
    assert flopwise.profile(path, {"x": (2, 3, 10, 8)}).total("macs") == 2 * 4 * 8 * 6 * 27
    assert flopwise.profile(path, batch_size=3).total("macs") == 3 * 4 * 36 * 27
    assert flopwise.formula(path, {"x": ("N", 3, 8, 8)}).at(N=7)["macs"] == 7 * 4 * 36 * 27


def test_an_operation_that_nobody_knows_is_unknown() -> None:
    graph = read(encoded("Model", program([operation("warp", "y", RESULT, x="x")])))
    assert flopwise.profile(graph).unknown == {"coreml::warp": 1}
    assert graph.nodes[0].outputs[0].shape == (1, 4, 6, 6)


def test_a_package_is_one_model_in_a_folder(tmp_path: Path) -> None:
    from tests.formats.coreml.test_hostile import _package

    from flopwise.formats.table import models_in, stored_in

    package = str(_package(tmp_path))
    (tmp_path / "other.mlmodel").write_bytes(encoded("Model", program()))
    assert models_in(str(tmp_path)) == [package, str(tmp_path / "other.mlmodel")]
    assert models_in(package) == stored_in(package) == [package]
    assert flopwise.profile(package).graph.name == "net"


def test_numbers_of_few_bits_lie_across_bytes() -> None:
    from flopwise.formats.weights.tensor import encoding

    values = [5, 1, 7, 0, 2, 6, 3, 4]
    packed = sum(value << 3 * place for place, value in enumerate(values)).to_bytes(3, "little")
    decode = encoding("uint3")
    assert decode is not None
    assert decode.decode(numpy.frombuffer(packed, numpy.uint8)).tolist() == values


def test_small_numbers_of_a_specification_are_read() -> None:
    pads = inline(tensor(23, 4), "ints", bytes([1, 2, 0, 3]))
    sixteen = inline(tensor(10), "bytes", struct.pack("<e", 0.5))
    padded = operation("pad", "p", tensor(11, 1, 3, 11, 11), x="x", pad=pads, constant_val=sixteen)
    graph = read(encoded("Model", program([padded], outputs=("p",), image=IMAGE)), {"x": (1, 3, 9, 9)})
    assert graph.outputs[0].shape == (1, 3, 12, 12)
