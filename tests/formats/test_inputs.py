"""What users may write about inputs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy
import pytest

from flopwise.errors import InputError
from flopwise.formats.inputs import InputSpec, input_specs, parse

ONE = ("x",)
TWO = ("x", "ids")
COLONS = ("input:0", "input", "a:b:c", "x y")


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        # name:dtype:shape
        ("x:f32:1x3x224x224", ONE, InputSpec("x", (1, 3, 224, 224), "float32")),
        ("x:float16:1,3,8", ONE, InputSpec("x", (1, 3, 8), "float16")),
        ("ids:I64:2x7", TWO, InputSpec("ids", (2, 7), "int64")),
        ("x:bf16:4", ONE, InputSpec("x", (4,), "bfloat16")),
        # without dtype
        ("x:1x3", ONE, InputSpec("x", (1, 3))),
        ("ids:2", TWO, InputSpec("ids", (2,))),
        # a scalar
        ("x:f32:", ONE, InputSpec("x", (), "float32")),
        ("x:", ONE, InputSpec("x", ())),
        # without a name, when there is one input
        ("1x3x8x8", ONE, InputSpec("x", (1, 3, 8, 8))),
        ("5", ONE, InputSpec("x", (5,))),
        ("f16:1x3", ONE, InputSpec("x", (1, 3), "float16")),
        ("Nx3", ONE, InputSpec("x", ("N", 3))),
        # names with colons and blanks
        ("input:0:f32:1x3", COLONS, InputSpec("input:0", (1, 3), "float32")),
        ("input:f32:1x3", COLONS, InputSpec("input", (1, 3), "float32")),
        ("input:1x3", COLONS, InputSpec("input", (1, 3))),
        ("a:b:c:2x2", COLONS, InputSpec("a:b:c", (2, 2))),
        ("x y:3", COLONS, InputSpec("x y", (3,))),
        # symbols
        ("x:f32:Nx3xHxW", ONE, InputSpec("x", ("N", 3, "H", "W"), "float32")),
        ("x:batch,seq,64", ONE, InputSpec("x", ("batch", "seq", 64))),
        ("x:batch, 3", ONE, InputSpec("x", ("batch", 3))),
        ("x:f32:batchx3xHxW", ONE, InputSpec("x", ("batch", 3, "H", "W"), "float32")),
        # data
        ("x:i64:3:1,2,3", ONE, InputSpec("x", (3,), "int64", [1, 2, 3])),
        ("x:int32:3:1x2x3", ONE, InputSpec("x", (3,), "int32", [1, 2, 3])),  # as onnx-tool writes it
        ("x:f32:2x1:0.5x-1e2", ONE, InputSpec("x", (2, 1), "float32", [[0.5], [-100]])),
        ("x:f32:-1:0.25", ONE, InputSpec("x", (1,), "float32", [0.25])),
        ("x:-1:4,5,6", ONE, InputSpec("x", (3,), None, [4, 5, 6])),
        ("x:i64:2x-1:1,2,3,4", ONE, InputSpec("x", (2, 2), "int64", [[1, 2], [3, 4]])),
        ("x:f32::-1e3", ONE, InputSpec("x", (), "float32", -1000.0)),
        ("x:f32:2:inf,-2", ONE, InputSpec("x", (2,), "float32", [float("inf"), -2])),
        ("x:bool:2:true,False", ONE, InputSpec("x", (2,), "bool", [True, False])),
        ("x:string:3:a,b:c,", ONE, InputSpec("x", (3,), "string", ["a", "b:c", ""])),
        ("x:u64:1:18446744073709551615", ONE, InputSpec("x", (1,), "uint64", [(1 << 64) - 1])),
    ],
)
def test_texts(text: str, names: tuple[str, ...], expected: InputSpec) -> None:
    for found in (parse(text, names), *input_specs([text], names), *input_specs(text, names)):
        assert found == expected
        assert (None if found.value is None else found.value.tolist()) == expected.value
        assert found.value is None or found.value.shape == expected.shape


@pytest.mark.parametrize(
    ("text", "symbols", "shape"),
    [
        ("x:batchxseq", {"batch", "seq"}, ("batch", "seq")),
        ("x:batchxseqx64", {"batch", "seq"}, ("batch", "seq", 64)),
        ("x:2xmaxlenxmax", {"max", "maxlen"}, (2, "maxlen", "max")),
        ("x:1xxx3", {"x"}, (1, "x", 3)),
        ("x:2,x", {"x"}, (2, "x")),
        ("x:2x3", {"x"}, (2, 3)),
        ("x:axbxc", {"a", "axb", "bxc", "c"}, ("axb", "c")),
        ("x:past + 1,2", {"past + 1"}, ("past + 1", 2)),
        ("x:batchxseq", set(), ("batchxseq",)),
        ("x:newx3xH", {"batch"}, ("new", 3, "H")),
    ],
)
def test_symbols_of_the_model_tell_where_they_end(text: str, symbols: set[str], shape: tuple[Any, ...]) -> None:
    assert parse(text, ONE, symbols).shape == shape


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        ("y:1x3", ONE, "no input is named as in 'y:1x3'; the inputs are 'x'; write NAME:DTYPE:SHAPE"),
        ("1x3", TWO, "no input is named as in '1x3'; the inputs are 'x', 'ids'"),
        ("y:1", [f"x{i}" for i in range(10)], "'x7' and 2 more"),
        ("y:1", [], "the inputs are none"),
        ("x:f99:1x3", ONE, "unknown element type 'f99'; known: bf16, bfloat16"),
        ("x:f32:1x3:1:2", ONE, "cannot understand 'x:f32:1x3:1:2'"),
        ("x:f32", ONE, "cannot understand 'x:f32'"),
        ("x:1xx3", ONE, "'' in 'x:1xx3' is not a dimension"),
        ("x:1x", ONE, "'' in 'x:1x' is not a dimension"),
        ("x:1*3", ONE, "'1\\*3' in 'x:1\\*3' is not a dimension"),
        ("x:1.5x3", ONE, "'1.5' in 'x:1.5x3' is not a dimension"),
        ("x:-1x3", ONE, "a dimension in 'x:-1x3' is negative"),
        ("x:-2:1,2", ONE, "a dimension in 'x:-2:1,2' is negative"),
        ("x:9223372036854775808", ONE, "negative or too large"),
        ("x:" + "9" * 5000, ONE, "is not a dimension"),
        ("x:\u0663x3", ONE, "'\u0663' in 'x:\u0663x3' is not a dimension"),
        ("x:2:1,2,3", ONE, "'x:2:1,2,3' gives 3 values for the shape 2"),
        ("x::1,2", ONE, r"gives 2 values for the shape \(\)"),
        ("x:Nx2:1,2", ONE, "unknown element type 'Nx2'"),
        ("x:i64:Nx2:1,2", ONE, "gives 2 values for the shape Nx2"),
        ("x:2:a,b", ONE, "'a,b' in 'x:2:a,b' is not a list of numbers"),
        ("x:1:" + "9" * 5000, ONE, "is not a list of numbers"),
        ("x:i64:2:true,false", ONE, "'true,false' in .* is not a list of numbers"),
        ("x:f32:2:1,,2", ONE, "is not a list of numbers"),
    ],
)
def test_texts_that_mean_nothing(text: str, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse(text, names)


class Tensor(SimpleNamespace):
    """What arrays of every framework have in common."""


@pytest.mark.parametrize(
    ("inputs", "names", "expected"),
    [
        (None, ONE, []),
        ({}, ONE, []),
        ([], ONE, []),
        ((1, 3, 8), ONE, [InputSpec("x", (1, 3, 8))]),
        ([1, 3, 8], ONE, [InputSpec("x", (1, 3, 8))]),
        (("N", 3), ONE, [InputSpec("x", ("N", 3))]),
        (("N", "C"), ONE, [InputSpec("x", ("N", "C"))]),
        ({"x": (1, 3)}, ONE, [InputSpec("x", (1, 3))]),
        ({"x": ()}, ONE, [InputSpec("x", ())]),
        ({"x": (numpy.int64(4), True)}, ONE, [InputSpec("x", (4, 1))]),
        ({"x": "f16:2x2", "ids": "ids:3"}, TWO, [InputSpec("x", (2, 2), "float16"), InputSpec("ids", (3,))]),
        ({"x": numpy.zeros((2, 3), numpy.float16)}, ONE, [InputSpec("x", (2, 3), "float16")]),
        (numpy.zeros((2, 3), bool), ONE, [InputSpec("x", (2, 3), "bool")]),
        (Tensor(shape=(4,), dtype="torch.bfloat16"), ONE, [InputSpec("x", (4,), "bfloat16")]),
        (Tensor(shape=(4,), dtype="torch.float8_e4m3fn"), ONE, [InputSpec("x", (4,), "float8e4m3fn")]),
        ([InputSpec("ids", (1,))], TWO, [InputSpec("ids", (1,))]),
        ({"x": InputSpec("x", (1,), "int8")}, ONE, [InputSpec("x", (1,), "int8")]),
        (["x:1x3", "ids:i64:7"], TWO, [InputSpec("x", (1, 3)), InputSpec("ids", (7,), "int64")]),
        (("x:1x3", "ids:7"), TWO, [InputSpec("x", (1, 3)), InputSpec("ids", (7,))]),
    ],
)
def test_python_forms(inputs: Any, names: tuple[str, ...], expected: list[InputSpec]) -> None:
    assert input_specs(inputs, names) == expected


@pytest.mark.parametrize(
    ("inputs", "names", "told"),
    [
        ({"y": (1,)}, ONE, "the model has no input 'y'; its inputs are 'x'"),
        ([InputSpec("y", (1,))], ONE, "the model has no input 'y'"),
        (["x:1", "x:2"], TWO, "input 'x' is given twice"),
        ((1, 3), TWO, r"the model has 2 inputs \('x', 'ids'\); give a shape for each by name"),
        ((1, 3), (), r"the model has 0 inputs \(none\)"),
        ({"x": (1.5,)}, ONE, "1.5 is not a dimension of input 'x'; it must be a whole number or a symbol"),
        ({"x": (-1, 3)}, ONE, "-1 is not a dimension of input 'x'; it must be from 0"),
        ({"x": (1 << 63,)}, ONE, "9223372036854775808 is not a dimension"),
        ({"x": (None, 3)}, ONE, "None is not a dimension"),
        ({"x": 3}, ONE, "the shape of input 'x' is not a sequence: 3"),
        ({1: "1x3"}, ONE, "cannot understand '1:1x3'|no input is named"),
        ([(1, 3), (1, 3)], TWO, "cannot understand inputs="),
        (3, ONE, "cannot understand inputs=3; give a shape, or a mapping from input name to shape"),
        (Tensor(shape=(4,), dtype="quint8x"), ONE, "unknown element type 'quint8x'"),
    ],
)
def test_python_forms_that_mean_nothing(inputs: Any, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        input_specs(inputs, names)


# --- arrays and their elements ---


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (numpy.array([1, 2], numpy.int32), "int32"),
        (numpy.array([1, 2], ">i4"), "int32"),
        (numpy.float32(3), "float32"),
        (numpy.array(["a", "bc"]), "string"),
        (numpy.array(["a", "bc"], object), "string"),
        (numpy.array([b"a"]), "string"),
        (numpy.array([True]), "bool"),
        (numpy.ones(2, ml_dtypes.bfloat16), "bfloat16"),
        (numpy.ones(2, ml_dtypes.float8_e4m3fn), "float8e4m3fn"),
        (numpy.ones(2, ml_dtypes.float8_e5m2fnuz), "float8e5m2fnuz"),
        (numpy.ones(2, ml_dtypes.float8_e8m0fnu), "float8e8m0"),
        (numpy.ones(2, ml_dtypes.float4_e2m1fn), "float4e2m1"),
        (numpy.ones(2, ml_dtypes.int4), "int4"),
        (numpy.ones(2, ml_dtypes.uint2), "uint2"),
    ],
)
def test_arrays_carry_their_elements(array: Any, dtype: str) -> None:
    (spec,) = input_specs({"x": array}, ONE)
    assert (spec.shape, spec.dtype) == (array.shape, dtype)
    assert numpy.array_equal(spec.value, array)


def test_large_arrays_carry_none() -> None:
    assert input_specs({"x": numpy.zeros(8192)}, ONE)[0].value is not None
    assert input_specs({"x": numpy.zeros(8193)}, ONE) == [InputSpec("x", (8193,), "float64")]
    assert input_specs({"x": numpy.broadcast_to(numpy.float32(0), (1 << 40,))}, ONE)[0].value is None


def test_arrays_of_other_libraries() -> None:
    class Broken(Tensor):
        def __array__(self, *arguments: Any, **options: Any) -> Any:
            raise RuntimeError("a tensor without memory")

    assert input_specs({"x": Broken(shape=(2,), dtype="torch.float16")}, ONE)[0].value is None
    with pytest.raises(InputError, match="holds Python objects that are not text"):
        input_specs({"x": numpy.array([[1], [2, 3]], object)}, ONE)
    with pytest.raises(InputError, match="input 'x': unknown element type 'datetime64"):
        input_specs({"x": numpy.array(["2020"], "M8[s]")}, ONE)


def test_sequences_and_optionals() -> None:
    one, two = numpy.zeros((2, 3), numpy.float32), numpy.ones((4, 3), numpy.float32)
    inputs = {"a": [one, two], "b": [(2, 3), [4]], "c": None, "d": []}
    arrays, sizes, nothing, empty = input_specs(inputs, ["a", "b", "c", "d"])
    assert [(i.shape, i.dtype) for i in arrays.items or ()] == [((2, 3), "float32"), ((4, 3), "float32")]
    assert [v.tolist() for v in arrays.value] == [one.tolist(), two.tolist()]
    assert [i.shape for i in sizes.items or ()] == [(2, 3), (4,)]
    assert (sizes.value, nothing.items, nothing.value, empty.items, empty.shape) == (None, (), None, None, ())


# --- files ---


def saved(folder: Path, array: Any) -> str:
    numpy.save(folder / "a.npy", array, allow_pickle=True)
    return f"@{folder / 'a.npy'}"


@pytest.mark.parametrize(
    ("text", "array", "expected"),
    [
        ("x:i64:2x2:", numpy.array([[1, 2], [3, 4]]), InputSpec("x", (2, 2), "int64")),
        ("x:2x2:", numpy.array([[1, 2], [3, 4]]), InputSpec("x", (2, 2), "int64")),
        ("x:", numpy.array([1.5], numpy.float32), InputSpec("x", (1,), "float32")),
        ("x:f32:", numpy.array([1.5], numpy.float32), InputSpec("x", (1,), "float32")),
        ("x:f32::", numpy.float32(1.5), InputSpec("x", (), "float32")),
        ("x:i64:-1x3:", numpy.arange(6).reshape(2, 3), InputSpec("x", (2, 3), "int64")),
        ("x:i64:Nx3:", numpy.asfortranarray(numpy.arange(6).reshape(2, 3)), InputSpec("x", (2, 3), "int64")),
        ("x:bool:2:", numpy.array([True, False]), InputSpec("x", (2,), "bool")),
        ("x:string:2:", numpy.array(["a", "b"]), InputSpec("x", (2,), "string")),
        ("", numpy.array([7]), InputSpec("x", (1,), "int64")),
    ],
)
def test_files(tmp_path: Path, text: str, array: Any, expected: InputSpec) -> None:
    found = parse(text + saved(tmp_path, array), ONE)
    assert found == expected
    assert found.value.tolist() == array.tolist()


@pytest.mark.parametrize(("text", "dtype"), [("x:bf16:2:", "bfloat16"), ("x:2:", None)])
def test_types_that_files_do_not_know(tmp_path: Path, text: str, dtype: str | None) -> None:
    """A file has bytes of the right width, and the input says what they are."""
    array = numpy.ones(2, ml_dtypes.bfloat16)
    found = parse(text + saved(tmp_path, array), ONE)
    assert (found.shape, found.dtype, found.value.tobytes()) == ((2,), dtype, array.tobytes())


def test_names_of_files_may_hold_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numpy.save("C:odd:name.npy", numpy.array([1]))
    for text in ("x:@C:odd:name.npy", "x:i64:@C:odd:name.npy", "x:i64:1:@C:odd:name.npy", "x:1:@C:odd:name.npy"):
        assert parse(text, ONE).value.tolist() == [1]


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """Shape and type are in its first bytes; the rest may be larger than memory."""
    path = tmp_path / "a.npy"
    with open(path, "wb") as file:
        numpy.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 38,)})
        file.truncate(file.tell() + (1 << 40))
    assert parse(f"x:@{path}", ONE) == InputSpec("x", (1 << 38,), "float32")
    assert parse(f"x:@{path}", ONE).value is None


def test_an_archive(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "a.npz", x=numpy.ones((2, 3)), ids=numpy.array([4, 5]))
    numpy.savez_compressed(tmp_path / "b.npz", x=numpy.zeros(100_000, numpy.float32), ids=numpy.array([4, 5]))
    one, two = input_specs(f"@{tmp_path / 'a.npz'}", TWO)
    assert (one, two) == (InputSpec("x", (2, 3), "float64"), InputSpec("ids", (2,), "int64"))
    assert two.value.tolist() == [4, 5]
    large, small = input_specs([f"@{tmp_path / 'b.npz'}"], TWO)
    assert (large.shape, large.value, small.value.tolist()) == ((100_000,), None, [4, 5])
    with pytest.raises(InputError, match="the model has no input 'ids'"):
        input_specs(f"@{tmp_path / 'a.npz'}", ONE)


@pytest.mark.parametrize(
    ("text", "array", "told"),
    [
        ("x:f32:2:", numpy.array([1, 2]), "asks for float32, but the file holds int64"),
        ("x:bf16:2:", numpy.ones(2, ml_dtypes.float8_e4m3fn), "asks for bfloat16, but the file holds"),
        ("x:i64:3:", numpy.array([1, 2]), "asks for the shape 3, but the file holds 2"),
        ("x:i64::", numpy.array([1, 2]), r"asks for the shape \(\), but the file holds 2"),
        ("x:", numpy.zeros(2, [("a", "i4")]), "holds no plain numbers"),
        ("x:", numpy.array([None, {}]), "holds Python objects, which are never loaded"),
        ("x:", numpy.zeros(1, "M8[s]"), "unknown element type 'datetime64"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, text: str, array: Any, told: str) -> None:
    with pytest.raises(InputError, match=told) as raised:
        parse(text + saved(tmp_path, array), ONE)
    assert "\n" not in str(raised.value)


def broken() -> dict[str, tuple[bytes, str]]:
    """Files by name, and what is said about each."""
    whole, archive = io.BytesIO(), io.BytesIO()
    numpy.save(whole, numpy.arange(100))
    numpy.savez(archive, x=numpy.arange(100))
    head, no_file = whole.getvalue()[:128], "not a NumPy file, or damaged"
    return {
        "empty.npy": (b"", no_file),
        "text.npy": (b"1,2,3", no_file),
        "head.npy": (head[:50], no_file),
        "short.npy": (whole.getvalue()[:-1], r"is truncated; an array of shape \(100,\) takes 800 bytes"),
        "code.npy": (head.replace(b"(100,)", b"exit()"), no_file),
        "sum.npy": (head.replace(b"(100,), }", b"(1<<9,)}"), no_file),
        "future.npy": (head.replace(b"NUMPY\x01", b"NUMPY\x09"), no_file),
        "short.npz": (archive.getvalue()[:-30], no_file),
        "text.npz": (b"PK", no_file),
    }


@pytest.mark.parametrize("name", broken())
def test_files_that_are_damaged(tmp_path: Path, name: str) -> None:
    content, told = broken()[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=told) as raised:
        input_specs(f"@{tmp_path / name}", ONE)
    assert "\n" not in str(raised.value)


def test_a_claim_of_more_than_the_file_has(tmp_path: Path) -> None:
    """A member of an archive that claims to be large is not believed."""
    head = io.BytesIO()
    numpy.lib.format.write_array_header_1_0(head, {"descr": "<U1000000", "fortran_order": False, "shape": (8000,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(100))
    with pytest.raises(InputError, match="array 'x': is truncated"):
        input_specs(f"@{tmp_path / 'a.npz'}", ONE)


@pytest.mark.parametrize(
    ("path", "told"), [("none.npy", "no such file"), (".", "not a regular file"), ("", "such file")]
)
def test_places_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        parse(f"x:i64:1:@{path}", ONE)
