"""Modules of StableHLO that JAX writes, against the JAX reader's counts of the same functions, and hand counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest
from flax import linen
from jax import export, lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

import flopwise
from flopwise.errors import InputError, ModelError
from flopwise.formats.stablehlo import decode, read


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are decoded in this process, which has jaxlib already."""
    monkeypatch.setattr(read, "_answer", lambda child, path, shapes, size: decode.module_of(path, shapes))
    monkeypatch.setattr(read, "Child", lambda function: type("Child", (), {"end": lambda self: None})())


def array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


X, PRODUCT = array(4, 4), 64


class Convolutions(linen.Module):
    """Strided, grouped, dilated and transposed convolutions, a pool, statistics and a product."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.relu(linen.Conv(8, (3, 3), strides=2, padding=1)(x))
        x = linen.relu(linen.Conv(8, (3, 3), feature_group_count=4, padding=1)(x))
        x = linen.relu(linen.Conv(16, (3, 3), kernel_dilation=2, padding=2)(x))
        x = linen.ConvTranspose(4, (2, 2), strides=(2, 2))(linen.max_pool(x, (2, 2), strides=(2, 2)))
        return linen.Dense(10)(linen.BatchNorm(use_running_average=True)(x).mean(axis=(1, 2)))


class Block(linen.Module):
    """Attention and an MLP."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = x + linen.MultiHeadDotProductAttention(4)(linen.LayerNorm()(x))
        return x + linen.Dense(32)(linen.gelu(linen.Dense(64)(linen.LayerNorm()(x))))


def network(module: linen.Module, x: jax.ShapeDtypeStruct) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return module.apply, (jax.eval_shape(module.init, jax.random.key(0), x), x)


def trained(module: linen.Module, x: jax.ShapeDtypeStruct) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return jax.value_and_grad(lambda v, x: module.apply(v, x).sum()), network(module, x)[1]


def steps(condition: Callable[..., Any], step: Callable[..., Any], start: int) -> Callable[..., Any]:
    return lambda x: lax.while_loop(lambda c: condition(c[0]), lambda c: (step(c[0]), c[1] @ x), (start, x))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "convolutions": network(Convolutions(), array(2, 16, 16, 3)),
    "attention": network(Block(), array(2, 5, 32)),
    "training": trained(Block(), array(2, 5, 32)),
    "LSTM": network(linen.RNN(linen.LSTMCell(8)), array(2, 5, 32)),
    "LSTM, training": trained(linen.RNN(linen.LSTMCell(8)), array(2, 5, 32)),
    "batches": (jax.vmap(lambda x, y: x @ y), (array(3, 4, 5), array(3, 5, 6))),
    "einsum": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (array(2, 3, 4), array(2, 5, 4))),
    "scans": (
        lambda x: lax.scan(
            lambda c, _: (lax.scan(lambda d, _: (d @ x, None), c, None, 3)[0], None), x, None, 5
        )[0],
        (X,),
    ),
    "up": (steps(lambda i: i < 10, lambda i: i + 3, 0), (X,)),
    "down": (steps(lambda i: i >= 1, lambda i: i - 4, 9), (X,)),
    "fori": (lambda x: lax.fori_loop(2, 9, lambda i, c: c @ x, x), (X,)),
    "map": (lambda a: lax.map(lambda r: r @ jnp.eye(4) + r[0], a), (array(6, 4),)),
    "branches": (lambda i, x: lax.switch(i, [lambda x: x @ x, lambda x: x, lambda x: x @ x @ x], x),
                 (array(dtype="int32"), X)),
    "cond": (lambda p, x: lax.cond(p, lambda x: x @ x @ x, lambda x: x, x), (array(dtype="bool"), X)),
    "int8": (lambda a: lax.dot(a, a, preferred_element_type="int32"), (array(4, 4, dtype="int8"),)),
    "complex": (lambda a: a @ a, (array(4, 4, dtype="complex64"),)),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (array(1, 8, 8, 3), array(3, 3, 3, 4))),
}  # fmt: skip

#: Functions of which every operation is the same, not products alone.
EQUAL = ("convolutions", "attention", "batches", "einsum", "up", "down", "branches", "cond", "int8", "complex")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_and_bytecode_count_as_the_function(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    expected = flopwise.profile(jax.jit(function), arguments, fold=True)  # as a file is counted
    text = flopwise.profile(jax.jit(function).lower(*arguments))
    code = flopwise.profile(export.export(jax.jit(function))(*arguments))
    for profile in (text, code):
        assert not profile.unknown
        assert profile.sum.macs == expected.sum.macs > 0
        assert profile.sum.params == expected.sum.params
        assert profile.exact == expected.exact
        if name in EQUAL:
            assert profile.sum.flops == expected.sum.flops
    assert code.sum.flops == text.sum.flops


@pytest.mark.usefixtures("here")
def test_what_the_lowering_leaves_out_or_does_otherwise() -> None:
    """JAX drops what nothing reads, and takes another way for some primitives: the module has what it executes."""
    gradient = jax.grad(lambda w, x: lax.conv(x, w, (2, 2), "SAME").sum())
    arguments = (array(4, 3, 3, 3), array(2, 3, 8, 8))
    assert flopwise.profile(jax.jit(gradient), arguments).sum.macs == 2 * 2 * 16 * 4 * 27
    assert flopwise.profile(jax.jit(gradient).lower(*arguments)).sum.macs == 2 * 16 * 4 * 27
    ragged = jax.jit(lax.ragged_dot).lower(array(8, 4), array(2, 4, 5), array(2, dtype="int32"))
    assert flopwise.profile(ragged).sum.macs == 2 * 8 * 4 * 5  # each group meets all rows on a processor


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("function", "arguments", "difference"),
    [
        (lambda x: x @ x, (X,), 0),
        (jnp.exp, (X,), 0),
        (lambda x, w: lax.conv(x, w, (1, 1), "VALID"), (array(1, 3, 8, 8), array(4, 3, 3, 3)), 0),
        # XLA counts a loop's body once, with three operations on the counter of which one is ours each time, and a
        # sum without its first addition.
        (lambda x: x.sum(), (X,), 1),
        (lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, 10)[0], (X,), 9 * 2 * PRODUCT + 19),
    ],
)
def test_xla(function: Callable[..., Any], arguments: tuple[Any, ...], difference: int) -> None:
    lowered = jax.jit(function).lower(*arguments)
    said = lowered.compile().cost_analysis()
    assert flopwise.profile(lowered).sum.flops == said.get("flops", 0) + said.get("transcendentals", 0) + difference


@pytest.mark.usefixtures("here")
def test_open_loops_say_so_and_take_trips() -> None:
    lowered = jax.jit(lambda x: lax.while_loop(lambda c: c.sum() > 0, lambda c: c @ x, x)).lower(X)
    assert not flopwise.profile(lowered).exact
    assert flopwise.profile(lowered, trips={"while": 5}).sum.macs == 5 * PRODUCT
    with pytest.raises(InputError, match="no loop is named 'w'; the loops of the model are: 'while'"):
        flopwise.profile(lowered, trips={"w": 5})
    ends = lambda x: lax.while_loop(lambda c: (c[0] < 9) & (c[1].sum() > 0), lambda c: (c[0] + 1, c[1] @ x), (0, x))  # noqa: E731
    profile = flopwise.profile(jax.jit(ends).lower(X))
    assert profile.sum.macs == 9 * PRODUCT
    assert "loops that may end before: while (9); their trips are a bound" in profile.notes


@pytest.mark.usefixtures("here")
def test_devices() -> None:
    mesh = AbstractMesh((4,), ("x",))
    split = jax.shard_map(
        lambda a, b: lax.psum(a @ b, "x"), mesh=mesh, in_specs=(P(None, "x"), P("x", None)), out_specs=P()
    )
    exported = export.export(jax.jit(split))(array(8, 16), array(16, 8))
    assert flopwise.profile(exported).sum.macs == 8 * 16 * 8
    assert flopwise.profile(exported, per_device=True).sum.macs == 8 * 4 * 8
    profile = flopwise.profile(exported, per_device=True)
    assert next(row for row in profile.rows if row.node.op == "lax::psum").flops == 8 * 8 * 3


@pytest.mark.usefixtures("here")
def test_annotations_leave_the_division_to_a_compiler(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    sharding = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
    path.write_text(
        'module attributes {mhlo.num_partitions = 4 : i32} { sdy.mesh @mesh = <["x"=4]>\n'
        f"func.func @main(%a: tensor<8x8xf32> {sharding}) -> tensor<8x8xf32> {{ %0 = stablehlo.dot_general %a, %a, "
        "contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> "
        "return %0 : tensor<8x8xf32> } }"
    )
    for per_device in (False, True):
        profile = flopwise.profile(path, per_device=per_device)
        assert profile.sum.macs == 512
        assert "written for 4 devices, among which a compiler divides the work: figures are of all of them" in (
            profile.notes
        )


#: Attributes of a convolution of 1x8x8x3 with 16 filters of 3x3x3 -> its pixels, and what is read of them.
CONVOLUTIONS = {
    "": ("6x6", {"padding": [0, 0, 0, 0], "window_strides": [1, 1], "rhs_dilation": [1, 1]}),
    "window_strides = array<i64: 2, 2>,": ("3x3", {"window_strides": [2, 2]}),
    "padding = dense<1> : tensor<2x2xi64>,": ("8x8", {"padding": [1, 1, 1, 1]}),
    "padding = dense<[[0, 2], [1, 0]]> : tensor<2x2xi64>,": ("8x7", {"padding": [0, 2, 1, 0]}),
    "rhs_dilation = array<i64: 2, 3>,": ("4x2", {"rhs_dilation": [2, 3]}),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("attributes", CONVOLUTIONS)
def test_convolutions_that_leave_attributes_out(attributes: str, tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    pixels, expected = CONVOLUTIONS[attributes]
    height, width = map(int, pixels.split("x"))
    types = f"(tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x{pixels}x16xf32>"
    path.write_text(
        f"""module {{ func.func @main(%x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x16xf32>) -> tensor<1x{pixels}x16xf32> {{
        %0 = "stablehlo.convolution"(%x, %w) {{{attributes} feature_group_count = 1 : i64, batch_group_count = 1 : i64,
          dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>}} : {types}
        return %0 : tensor<1x{pixels}x16xf32> }} }}"""
    )
    (row,) = flopwise.profile(path).rows
    assert row.macs == height * width * 16 * 3 * 3 * 3
    assert expected.items() <= row.node.attrs.items()


QUANTIZED = "tensor<2x8x!quant.uniform<i8:f32, 0.5:3>>"
PER_AXIS = "tensor<8x4x!quant.uniform<i8:f32:1, {0.5,0.25,0.125,1.0}>>"
SUM, RESULT = "tensor<2x4x!quant.uniform<i32:f32, 0.25>>", "tensor<2x4x!quant.uniform<i8:f32, 0.7:1>>"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("binary", [False, True])
def test_quantised_types(binary: bool, tmp_path: Path) -> None:
    from jaxlib.mlir.dialects import stablehlo

    text = f"""module {{ func.func @main(%a: tensor<2x8xf32>, %w: {PER_AXIS}) -> tensor<2x4xf32> {{
        %0 = stablehlo.uniform_quantize %a : (tensor<2x8xf32>) -> {QUANTIZED}
        %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : ({QUANTIZED}, {PER_AXIS}) -> {SUM}
        %2 = stablehlo.uniform_quantize %1 : ({SUM}) -> {RESULT}
        %3 = stablehlo.uniform_dequantize %2 : ({RESULT}) -> tensor<2x4xf32>
        return %3 : tensor<2x4xf32> }} }}"""
    path = tmp_path / "m.mlir"
    path.write_bytes(
        stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version()) if binary else text.encode()
    )
    profile = flopwise.profile(path)
    assert [(row.node.op, row.counts) for row in profile.rows] == [
        ("QuantizeLinear", flopwise.Counts(div=16, cmp=3 * 16, add=16)),
        ("MatMul", flopwise.Counts(mac=2 * 8 * 4)),
        ("DequantizeLinear", flopwise.Counts(mul=8)),  # its zero point is 0
        ("QuantizeLinear", flopwise.Counts(div=8, cmp=3 * 8, add=8)),
        ("DequantizeLinear", flopwise.Counts(mul=8, add=8)),
    ]
    assert [tensor.dtype for tensor in profile.rows[1].node.known_inputs] == ["int8", "int8"]
    assert "results of quantised operations are rescaled as a compiler likes, which is not counted" in profile.notes


@pytest.mark.usefixtures("here")
def test_weights_lie_where_the_file_has_them(tmp_path: Path) -> None:
    weight = numpy.arange(4096, dtype="float32").reshape(64, 64)
    lowered = jax.jit(lambda x: x @ weight + weight[0, :3].sum()).lower(array(2, 64))
    (tmp_path / "text.mlir").write_text(lowered.as_text())
    exported = export.export(jax.jit(lambda x: x @ weight))(array(2, 64))
    (tmp_path / "code.mlirbc").write_bytes(exported.mlir_module_serialized)
    (tmp_path / "export.stablehlo").write_bytes(exported.serialize())
    half = export.export(jax.jit(lambda x: x @ jnp.asarray(weight, "bfloat16")))(array(2, 64, dtype="bfloat16"))
    (tmp_path / "half.mlirbc").write_bytes(half.mlir_module_serialized)
    for name in ("text.mlir", "code.mlirbc", "export.stablehlo", "half.mlirbc"):
        graph = flopwise.read(tmp_path / name)
        large = next(stored for stored in graph.weights.values() if stored.shape == (64, 64))
        expected = numpy.asarray(jnp.asarray(weight, "bfloat16"), "float32") if name == "half.mlirbc" else weight
        assert numpy.array_equal(numpy.asarray(large.array(), "float32"), expected)
        assert flopwise.profile(tmp_path / name).sum.params == 4096
    text = (tmp_path / "text.mlir").read_text()
    start, end = text.index('dense<"0x'), text.index('"> : tensor<64x64xf32>')
    elided = text[:start] + "dense_resource<__elided__" + text[end + 1 :]
    (tmp_path / "elided.mlir").write_text(elided)
    profile = flopwise.profile(tmp_path / "elided.mlir")
    assert profile.sum.params == 4096
    assert "the text leaves out the elements of 1 of its constants" in profile.notes


PHASES = numpy.arange(6).reshape(2, 3) + 1j
FILTER = [[1, 1j, -2.5, numpy.inf]]
COMPLEX: dict[str, tuple[Callable[..., Any], jax.ShapeDtypeStruct, Any]] = {
    "elements": (lambda x: x * jnp.asarray(FILTER, "complex64"), array(4, 4), FILTER),
    "doubles": (lambda x: x @ jnp.asarray(PHASES, "complex128"), array(4, 2, dtype="complex128"), PHASES),
    "many": (
        lambda x: x * jnp.asarray(numpy.arange(600).reshape(300, 2) * 1j, "complex64"),
        array(300, 2),
        numpy.arange(600).reshape(300, 2) * 1j,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_constants(name: str, binary: bool, tmp_path: Path) -> None:
    function, x, expected = COMPLEX[name]
    with jax.enable_x64(name == "doubles"):
        exported = export.export(jax.jit(function))(x)
    path = tmp_path / "m.mlir"
    path.write_bytes(exported.mlir_module_serialized if binary else exported.mlir_module().encode())
    graph = flopwise.read(path)
    (stored,) = graph.weights.values()
    assert stored.dtype == str(numpy.dtype(x.dtype) if name == "doubles" else "complex64")
    assert numpy.array_equal(stored.array(), expected)


@pytest.mark.usefixtures("here")
def test_a_complex_number(tmp_path: Path) -> None:
    """One for all elements: a factor of phases, a filter in the frequency domain."""
    for number in (1j, 1 + 2j, complex("nan")):
        lowered = jax.jit(lambda x, n=number: jnp.abs(jnp.exp(n * x)) @ jnp.ones((4, 3))).lower(X)
        assert flopwise.profile(lowered).sum.macs == 4 * 4 * 3


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["m.mlirbc", "m.mlir.bc", "m.mlir", "m.bc", "m", "m.dat"])
def test_bytecode_under_any_name(name: str, tmp_path: Path) -> None:
    exported = export.export(jax.jit(lambda x: x @ x))(X)
    (tmp_path / name).write_bytes(exported.mlir_module_serialized)
    assert flopwise.profile(tmp_path / name).sum.macs == PRODUCT


@pytest.mark.usefixtures("here")
def test_open_sizes_are_chosen(tmp_path: Path) -> None:
    (b,) = export.symbolic_shape("b,")
    open_batch = jax.ShapeDtypeStruct((b, 8), "float32")
    exported = export.export(jax.jit(lambda w, x: (jax.nn.softmax(x @ w)).reshape(-1)))(array(8, 8), open_batch)
    (tmp_path / "m.mlirbc").write_bytes(exported.mlir_module_serialized)
    assert flopwise.profile(tmp_path / "m.mlirbc").sum.macs == 64
    assert flopwise.profile(tmp_path / "m.mlirbc", batch_size=7).sum.macs == 7 * 64
    profile = flopwise.profile(tmp_path / "m.mlirbc", {"x": (5, 8)})
    assert profile.sum.macs == 5 * 64
    assert profile.graph.outputs[0].shape == (40,)
    with pytest.raises(InputError, match=r"input 'x' is \?x8 \(\?: any size\), not 5x9"):
        flopwise.profile(tmp_path / "m.mlirbc", {"x": (5, 9)})
    with pytest.raises(InputError, match="the batch is fixed in the module"):
        flopwise.profile(jax.jit(lambda x: x @ x).lower(X), batch_size=2)


@pytest.mark.usefixtures("here")
def test_names_of_modules_and_calls_that_nobody_knows() -> None:
    function, arguments = FUNCTIONS["attention"]
    profile = flopwise.profile(jax.jit(function).lower(*arguments))
    names = {row.name for row in profile.rows}
    assert {"Block.Dense_0.dot_general", "Block.MultiHeadDotProductAttention_0.query.dot_general"} <= names
    assert next(t for t in profile.graph.nodes[0].known_inputs).kind in ("input", "weight")
    unknown = flopwise.profile(jax.jit(jnp.linalg.cholesky).lower(X)).unknown
    assert list(unknown) == ["custom_call::lapack_spotrf_ffi"]


@pytest.mark.usefixtures("here")
def test_the_only_function_is_the_program_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(jax.jit(lambda x: x @ x).lower(X).as_text().replace("@main", "@forward"))
    assert flopwise.profile(path).sum.macs == PRODUCT


def test_a_child_decodes_and_its_end_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(jax.jit(lambda x: x @ x).lower(X).as_text())
    assert flopwise.profile(path).sum.macs == PRODUCT
    deep = "%x = stablehlo.sine %a : tensor<f32>\n"
    for number in range(3000):
        deep = f'%{number} = "stablehlo.case"(%c) ({{ {deep} "stablehlo.return"(%a) : (tensor<f32>) -> () }}) : (tensor<i32>) -> tensor<f32>\n'  # noqa: E501
    path.write_text(f"module {{ func.func @main(%a: tensor<f32>, %c: tensor<i32>) {{ {deep} return }} }}")
    with pytest.raises(ModelError, match=r"m.mlir: (truncated or damaged StableHLO|no StableHLO that MLIR can read)"):
        flopwise.profile(path)


def test_without_jaxlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flopwise._child import EndedError

    def gone(*arguments: object) -> None:
        raise EndedError(1, "ModuleNotFoundError: No module named 'jaxlib'")

    monkeypatch.setattr(read, "_answer", gone)
    (tmp_path / "m.mlir").write_text("module {}")
    with pytest.raises(ModelError, match=r"jaxlib is needed to read StableHLO: pip install 'flopwise\[jax\]'"):
        flopwise.profile(tmp_path / "m.mlir")
