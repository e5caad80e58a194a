"""Small files that nobody honest would write, by name; each is made in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

#: A name that would clear the screen and set the title of a terminal.
ESCAPES = "a\x1b[2J\x1b]0;owned\x07\nb\r\u202ec"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def _model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str] = (2, 3),
    stored: Sequence[TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> bytes:
    last = next((o for n in reversed(nodes) for o in n.output if o), "x")
    ends = [helper.make_tensor_value_info("x", 1, list(shape))], [onnx.ValueInfoProto(name=last)]
    graph = helper.make_graph(list(nodes), "g", *ends, list(stored))
    opsets = [helper.make_opsetid(d, v) for d, v in (("", 17), ("my", 1), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    return bytes(proto.SerializeToString())


def _external(location: str, **more: str) -> bytes:
    tensor = TensorProto(name="w", data_type=1, dims=[30, 40], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return _model([helper.make_node("MatMul", ["x", "w"], ["y"])], (2, 30), [tensor])


def _shared_data(count: int) -> bytes:
    """Tensors of a megabyte each, in the same place."""
    stored = [TensorProto(name=f"w{i}", data_type=1, dims=[1 << 18], data_location=1) for i in range(count)]
    for tensor in stored:
        tensor.external_data.add(key="location", value="megabyte.bin")
    return _model([helper.make_node("Add", ["x", t.name], [f"o{t.name}"]) for t in stored], (1 << 18,), stored)


def _doubling(depth: int) -> bytes:
    """A function that calls the next one twice, and so on."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    for level in range(depth):
        inner = (f"F{level + 1}", "my") if level + 1 < depth else ("Relu", "")
        calls = [helper.make_node(inner[0], [a], [b], domain=inner[1]) for a, b in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("my", f"F{level}", ["a"], ["c"], calls, imports))
    return _model([helper.make_node("F0", ["x"], ["y"], domain="my")], functions=functions)


def _itself() -> bytes:
    """A function that calls itself."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    call = helper.make_node("F", ["a"], ["c"], domain="my")
    function = helper.make_function("my", "F", ["a"], ["c"], [call], imports)
    return _model([helper.make_node("F", ["x"], ["y"], domain="my")], functions=[function])


def _untyped(op: str, domain: str = "", inputs: int = 1, **attributes: Any) -> bytes:
    """An operator on the results of one that nobody knows."""
    names = [f"u{i}" for i in range(inputs)]
    unknown = helper.make_node("Unknown", ["x"], names, domain="my")
    return _model([unknown, helper.make_node(op, names, ["y"], domain=domain, **attributes)])


def _huge(*dims: int) -> bytes:
    tensor = TensorProto(name="w", data_type=1, dims=dims)
    return _model([helper.make_node("Add", ["x", "w"], ["y"])], stored=[tensor])


def _sparse(*dims: int) -> bytes:
    values, places = numpy.ones(3, "f4"), numpy.arange(3)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "i"), list(dims)
    )
    proto = onnx.ModelProto.FromString(_model([helper.make_node("MatMul", ["x", "w"], ["y"])], (2, dims[0])))
    proto.graph.sparse_initializer.append(sparse)
    return bytes(proto.SerializeToString())


def _constant(value: Any, op: str, **attributes: Any) -> bytes:
    stored = [numpy_helper.from_array(numpy.asarray(value), "s")]
    return _model([helper.make_node(op, ["x", "s"], ["y"], **attributes)], stored=stored)


def _shape_from(value: Sequence[int]) -> bytes:
    stored = [numpy_helper.from_array(numpy.array(value, "i8"), "s")]
    return _model(
        [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Relu", ["c"], ["y"])], stored=stored
    )


def _einsum(equation: str) -> bytes:
    return _model([helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation)])


def _loops(depth: int) -> bytes:
    body = helper.make_graph([helper.make_node("Relu", ["s"], ["t"])], "b", [], [])
    for level in range(depth):
        inputs = [helper.make_tensor_value_info(n, c, []) for n, c in ((f"i{level}", 7), (f"c{level}", 9))]
        inputs.append(helper.make_tensor_value_info("s", 1, None))
        nodes = [helper.make_node("Loop", ["n", "", "s"], ["t"], body=body)] if level else list(body.node)
        nodes.append(helper.make_node("Identity", [f"c{level}"], [f"k{level}"]))
        body = helper.make_graph(
            nodes, "b", inputs, [onnx.ValueInfoProto(name=f"k{level}"), onnx.ValueInfoProto(name="t")]
        )
    stored = [numpy_helper.from_array(numpy.array(10**6), "n")]
    return _model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], stored=stored)


def _named(name: str) -> bytes:
    return _model(
        [helper.make_node("Relu", ["x"], [name], name=name), helper.make_node("Foo", [name], ["z"], domain=name)]
    )


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _zeros(name: str, length: int, method: int, head: bytes = b"", fill: bytes = b"\0") -> bytes:
    """An archive with a member that begins in some way, and then repeats itself."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, archive.open(name, "w", force_zip64=True) as member:
        member.write(head)
        block = fill * ((1 << 20) // len(fill))
        for _ in range(length >> 20):
            member.write(block)
    return buffer.getvalue()


def _shared_modules() -> bytes:
    """A TorchScript file whose modules hold the next one twice, and so on."""
    module = b"c__torch__\nM\n)\x81"
    pickled = b"\x80\x02" + module + b"}bq\x00"
    for level in range(60):
        children = b"".join(b"X\x01\0\0\0" + name + b"h" + bytes([level]) for name in (b"a", b"b"))
        pickled += b"0" + module + b"}(" + children + b"ubq" + bytes([level + 1])
    members = {"data.pkl": pickled + b".", "constants.pkl": b"\x80\x02).", "version": b"3", "code/__torch__.py": b""}
    return _zip({f"a/{name}": data for name, data in members.items()})


def _hdf5(write: Callable[[Any, Path], Any]) -> bytes:
    """Caffe's weights whose first blob is made by ``write``, from its group and a folder with files of others."""
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "secret").write_bytes(b"s" * 400)
        with h5py.File(Path(folder) / "secret.h5", "w") as file:
            file["w"] = numpy.ones(100, "f4")
        with h5py.File(Path(folder) / "m.h5", "w") as file:
            write(file.create_group("data/conv"), Path(folder))
        return (Path(folder) / "m.h5").read_bytes()


def _external_elements(group: Any, folder: Path) -> None:
    group.create_dataset("0", (100,), "f4", external=[(str(folder / "secret"), 0, 400)])


def _external_link(group: Any, folder: Path) -> None:
    import h5py

    group["0"] = h5py.ExternalLink(str(folder / "secret.h5"), "w")


def _virtual(group: Any, folder: Path) -> None:
    import h5py

    layout = h5py.VirtualLayout((100,), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "w", (100,))
    group.create_virtual_dataset("0", layout)


def _pieces(group: Any, folder: Path) -> None:
    group.create_dataset("0", (1 << 31,), "f4", chunks=(1 << 20,), compression="gzip")


def _words(group: Any, folder: Path) -> None:
    group["0"] = "words"


class _Runs:
    """What a pickle would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo owned > flopwise_owned",)


def _checkpoint(content: bytes, **members: bytes) -> bytes:
    rest = {f"archive/{name}": data for name, data in members.items()}
    return _zip({"archive/data.pkl": content, "archive/version": b"3\n", "archive/byteorder": b"little", **rest})


def _zip64() -> bytes:
    """A checkpoint whose end of archive points to a ZIP64 directory that is none."""
    data = _checkpoint(pickle.dumps({"w": 1}, 2))
    end = data.rindex(b"PK\x05\x06")
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 2**62, 2**62, 2**63, 2**63)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    return data[:end] + record + locator + data[end : end + 8] + b"\xff" * 12 + data[end + 20 :]


def _safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def _tensor(dtype: str, shape: Sequence[Any], *offsets: Any) -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


def _gguf(tensors: int, values: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + rest


def _gguf_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _objects() -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.array([_Runs()], object), allow_pickle=True)
    return buffer.getvalue()


def _caffe(layer: str) -> bytes:
    data = 'name: "n" input: "d" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }'
    return f'{data} layer {{ name: "l" bottom: "d" top: "t" {layer} }}'.encode()


def _program(**members: Any) -> bytes:
    return _zip({f"archive/{n}": v if isinstance(v, bytes) else json.dumps(v).encode() for n, v in members.items()})


def _evaluated() -> bytes:
    """An exported program with an expression that runs something where it is evaluated."""
    symbol = {"as_expr": {"expr_str": "__import__('os').system('echo owned > flopwise_owned')", "hint": None}}
    value = {"dtype": 7, "sizes": [symbol], "requires_grad": False, "device": {"type": "cpu"}, "layout": 7}
    graph = {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [], "nodes": [], "tensor_values": {"x": value}}
    module = {"graph": graph, "signature": {"input_specs": [], "output_specs": []}, "module_call_graph": []}
    program = {
        "graph_module": module,
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 0},
    }
    return _program(**{"archive_format": b"pt2", "version": b"0", "models/model.json": program})


def _configuration(**values: Any) -> bytes:
    return json.dumps({**LLAMA, **values}).encode()


#: Name of a file -> what is in it.
FILES: dict[str, Callable[[], bytes]] = {
    # external data
    "nul.onnx": lambda: _external("a\0b"),
    "up.onnx": lambda: _external("../../etc/passwd"),
    "absolute.onnx": lambda: _external("/etc/passwd"),
    "windows.onnx": lambda: _external("C:\\windows\\system.ini"),
    "device.onnx": lambda: _external("/dev/zero", length=str(2**60)),
    "folder.onnx": lambda: _external("."),
    "empty_place.onnx": lambda: _external(""),
    "link.onnx": lambda: _external("link.bin"),
    "fifo.onnx": lambda: _external("fifo.bin"),
    "hard.onnx": lambda: _external("hard.bin"),
    "offsets.onnx": lambda: _external("hard.bin", offset="-5", length="99999999999999999999"),
    "no_number.onnx": lambda: _external("hard.bin", offset="0x", length=ESCAPES),
    "long_place.onnx": lambda: _external("a" * 100_000),
    "shared_data.onnx": lambda: _shared_data(2000),
    "itself.onnx": lambda: _external("itself.onnx"),
    # functions, equations, types, sizes
    **{f"doubling{n}.onnx": lambda n=n: _doubling(n) for n in (16, 40, 400)},  # type: ignore[misc]
    "recursion.onnx": _itself,
    **{
        f"einsum{i}.onnx": lambda e=e: _einsum(e)  # type: ignore[misc]
        for i, e in enumerate(
            (
                ".ij->ij",
                "i..j->ij",
                "7ij,ij->i",
                "",
                "->",
                "ij,ij->" + "k" * 5000,
                "...,...->...." * 99,
                "é,ij->i",
                "," * 9999,
            )
        )
    },
    "untyped_eye.onnx": lambda: _untyped("EyeLike"),
    "untyped_label.onnx": lambda: _untyped("LabelEncoder", "ai.onnx.ml", keys_int64s=[1], values_int64s=[2]),
    "untyped_tree.onnx": lambda: _untyped("TreeEnsembleRegressor", "ai.onnx.ml"),
    "untyped_dict.onnx": lambda: _untyped("DictVectorizer", "ai.onnx.ml"),
    "untyped_concat.onnx": lambda: _untyped("StringConcat", inputs=2),
    "untyped_regex.onnx": lambda: _untyped("RegexFullMatch", pattern="(" * 1000),
    "no_input.onnx": lambda: _model([helper.make_node("EyeLike", [""], ["y"])]),
    "huge_dims.onnx": lambda: _huge(2**62, 2**62, 2**62),
    "negative_dims.onnx": lambda: _huge(-1, 3),
    "many_dims.onnx": lambda: _huge(*[1] * 5000),
    "huge_input.onnx": lambda: _model([helper.make_node("Relu", ["x"], ["y"])], (2**62, 2**62)),
    "huge_fill.onnx": lambda: _shape_from([2**31, 2**31]),
    "large_fill.onnx": lambda: _shape_from([10**5, 10**5]),
    "negative_fill.onnx": lambda: _shape_from([-1, 7]),
    "sparse.onnx": lambda: _sparse(30_000, 30_000),
    "many_outputs.onnx": lambda: _model(
        [helper.make_node("Split", ["x"], [f"o{i}" for i in range(50_000)], axis=0)], (50_000, 3)
    ),
    "huge_tile.onnx": lambda: _constant(numpy.array([2**40, 2**40]), "Tile"),
    "huge_range.onnx": lambda: _model(
        [helper.make_node("Range", ["a", "b", "c"], ["y"])],
        stored=[numpy_helper.from_array(numpy.array(v), n) for n, v in (("a", 0), ("b", 2**62), ("c", 1))],
    ),
    "bad_split.onnx": lambda: _model([helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2**31 - 1)]),
    "bad_axis.onnx": lambda: _model([helper.make_node("Concat", ["x", "x"], ["y"], axis=-(2**62))]),
    "zero_group.onnx": lambda: _model(
        [helper.make_node("Conv", ["x", "x"], ["y"], group=0, strides=[0, 0])], (1, 2, 3, 4)
    ),
    "loops.onnx": lambda: _loops(18),
    "deep.onnx": lambda: _loops(30),
    # names
    "escapes.onnx": lambda: _named(ESCAPES),
    "formula.onnx": lambda: _named("=cmd|' /C calc'!A0"),
    "long_name.onnx": lambda: _named("n" * 300_000),
    "markup.onnx": lambda: _named("<script>alert(1)</script>[bold]$(id)`id`"),
    "symbols.onnx": lambda: _model(
        [helper.make_node("Relu", ["x"], ["y"])], ("__import__('os').system('id')", "N" * 99_999)
    ),
    # bytes
    "empty.onnx": lambda: b"",
    "zeros.onnx": lambda: bytes(100_000),
    "fields.onnx": lambda: b"\x3a\x04" + b"\x0a\x00" * 200_000,
    "truncated.onnx": lambda: _einsum("ij,ij->i")[:-9],
    "long_field.onnx": lambda: b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    # weights
    "header.safetensors": lambda: _safetensors({}, size=2**62),
    "limit.safetensors": lambda: _safetensors({}, size=2**28),
    "deep.safetensors": lambda: _safetensors(b"[" * 200_000),
    "deep2.safetensors": lambda: _safetensors(b'{"a":' * 100_000),
    "shape.safetensors": lambda: _safetensors(_tensor("F32", [2**62, 4], 0, 0)),
    "flags.safetensors": lambda: _safetensors(_tensor("F32", [True], 0, 4), bytes(4)),
    "floats.safetensors": lambda: _safetensors(_tensor("F32", [1e400], 0, 4), bytes(4)),
    "digits.safetensors": lambda: _safetensors(
        b'{"t":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,4]}}'
    ),
    "overlap.safetensors": lambda: _safetensors(
        {**_tensor("F32", [1], 0, 4), "u": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}, bytes(6)
    ),
    "twice.safetensors": lambda: _safetensors(b'{"t":1,"t":2}'),
    "escapes.safetensors": lambda: _safetensors({ESCAPES: _tensor("F32", [1], 0, 4)["t"]}, bytes(4)),
    "empty_tensors.safetensors": lambda: _safetensors(
        {f"t{i}": {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]} for i in range(2000)}
    ),
    "up.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {"a": "../../../etc/passwd", "b": "/etc/passwd", "c": "a\0b"}}
    ).encode(),
    "itself.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {"a": "itself.safetensors.index.json"}}
    ).encode(),
    "kinds.safetensors.index.json": lambda: json.dumps({"weight_map": {"a": 5, "b": ["c"], "": None}}).encode(),
    "many.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {f"t{i}": f"s{i}.safetensors" for i in range(5000)}}
    ).encode(),
    "counts.gguf": lambda: _gguf(2**62, 2**62),
    "text.gguf": lambda: _gguf(0, 1, struct.pack("<Q", 2**62)),
    "list.gguf": lambda: _gguf(0, 1, _gguf_text(b"k") + struct.pack("<IIQ", 9, 8, 2**60)),
    "lists.gguf": lambda: _gguf(0, 1, _gguf_text(b"k") + struct.pack("<IIQ", 9, 9, 1) * 20_000),
    "dims.gguf": lambda: _gguf(1, 0, _gguf_text(b"t") + struct.pack("<I", 2**31) + bytes(99)),
    "huge.gguf": lambda: _gguf(1, 0, _gguf_text(b"t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0) + bytes(99)),
    "layers.gguf": lambda: _gguf(
        0,
        2,
        _gguf_text(b"general.architecture")
        + struct.pack("<I", 8)
        + _gguf_text(b"llama")
        + _gguf_text(b"llama.block_count")
        + struct.pack("<IQ", 10, 10**9),
    ),
    "objects.npy": _objects,
    "code.npy": lambda: _npy("{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (1,)}"),
    "deep.npy": lambda: _npy("(" * 60_000),
    "shape.npy": lambda: _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
    "record.npy": lambda: _npy("{'descr': [('a', '<f4', (99999999,))], 'fortran_order': False, 'shape': (1,)}"),
    "bomb.npz": lambda: _zip(
        {"a.npy": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000,)}", bytes(40_000_000))},
        zipfile.ZIP_DEFLATED,
    ),
    **{
        f"{name}.npz": lambda method=method, turned=turned: _zeros(  # type: ignore[misc]
            "a.npy", 1 << 29, method, _npy(f"{{'descr': '<f4', 'fortran_order': {turned}, 'shape': (8192, 16384)}}")
        )
        for name, method, turned in (
            ("bzip2", zipfile.ZIP_BZIP2, False),
            ("lzma", zipfile.ZIP_LZMA, False),
            ("columns", zipfile.ZIP_DEFLATED, True),
        )
    },
    "many.npz": lambda: _zip({f"a{i}.npy": b"" for i in range(3000)}),
    "names.npz": lambda: _zip(
        {
            "../../x.npy": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", bytes(4)),
            f"{ESCAPES}.npy": b"\x93NUMPY",
        }
    ),
    "runs.pth": lambda: _checkpoint(pickle.dumps(_Runs(), 2)),
    "old.pth": lambda: pickle.dumps(_Runs()),
    "deep.pth": lambda: _checkpoint(b"\x80\x02" + b"(" * 100_000 + b"."),
    "doubling.pth": lambda: _checkpoint(b"\x80\x02]" + b"2\x86" * 200 + b"."),
    "long.pth": lambda: _checkpoint(b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1."),
    "zip64.pth": _zip64,
    "bomb.pth": lambda: _zip({"archive/data.pkl": bytes(300_000_000)}, zipfile.ZIP_DEFLATED),
    "memo.pth": lambda: _checkpoint(
        b"\x80\x02" + b"".join(b"]r" + struct.pack("<I", 2**31 - i) for i in range(1, 9)) + b"."
    ),
    "evaluated.pt2": _evaluated,
    "graph.pt2": lambda: _program(
        **{
            "archive_format": b"pt2",
            "version": b"0",
            "models/model.json": {
                "graph_module": {"graph": {"nodes": [None, 5, {"target": "os.system", "inputs": []}]}}
            },
        }
    ),
    "deep.pt2": lambda: _program(**{"archive_format": b"pt2", "version": b"0", "models/model.json": b"[" * 300_000}),
    "old.pt2": lambda: _zip({"serialized_exported_program.json": b'{"a":' * 9, "version": b"1"}),
    "spaces.pt2": lambda: _zeros("archive/models/model.json", 250 << 20, zipfile.ZIP_DEFLATED, b"{", fill=b" "),
    "lists.pt2": lambda: _zeros("archive/models/model.json", 250 << 20, zipfile.ZIP_DEFLATED, b'{"a":[', fill=b"[], "),
    "unpacked.pth": lambda: _zeros("a/data.pkl", 250 << 20, zipfile.ZIP_DEFLATED, b"\x80\x02(", fill=b"]"),
    "shared.pt": _shared_modules,
    "script.pt": lambda: _zip(
        {
            "a/code/__torch__.py": b"import os\nos.system('id')\n",
            "a/data.pkl": pickle.dumps(_Runs(), 2),
            "a/constants.pkl": b"\x80\x02).",
            "a/version": b"3",
        }
    ),
    **{
        f"{write.__name__[1:]}.caffemodel.h5": lambda write=write: _hdf5(write)  # type: ignore[misc]
        for write in (_external_elements, _external_link, _virtual, _pieces, _words)
    },
    "damaged.caffemodel.h5": lambda: b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 9,
    # Caffe
    "deep.prototxt": lambda: b"layer {" * 100_000,
    "quote.prototxt": lambda: b'name: "' + b"\\" * 100_001,
    "outputs.prototxt": lambda: _caffe(
        "type: 'Convolution' convolution_param { num_output: 9223372036854775807 kernel_size: 3 }"
    ),
    "stride.prototxt": lambda: _caffe("type: 'Pooling' pooling_param { stride: 0 kernel_size: 0 pad: -9 }"),
    "kernel.prototxt": lambda: _caffe(
        "type: 'Convolution' convolution_param { num_output: 4 kernel_size: -3 group: 0 }"
    ),
    "circle.prototxt": lambda: (
        b'layer { name: "a" type: "ReLU" bottom: "b" top: "a" } layer { name: "b" type: "ReLU" bottom: "a" top: "b" }'
    ),
    "solver.prototxt": lambda: b'net: "../../../../etc/passwd"',
    "itself.prototxt": lambda: b'net: "itself.prototxt"',
    "lines.prototxt": lambda: b"a: 1\n" * 100_000,
    "python.prototxt": lambda: _caffe("type: 'Python' python_param { module: 'os' layer: 'system' }"),
    "number.prototxt": lambda: _caffe("type: 'Dropout' dropout_param { dropout_ratio: " + "9" * 50_000 + " }"),
    "groups.caffemodel": lambda: b"\x0b" * 200_000,
    "blobs.caffemodel": lambda: b"\xa2\x06\x0e\x0a\x01a\x3a\x09\x3a\x07\x0a\x05\xff\xff\xff\xff\x7f",
    # configurations
    **{
        f"{name}/config.json": lambda values=values: _configuration(**values)  # type: ignore[misc]
        for name, values in {
            "layers": {"num_hidden_layers": 10**9},
            "layers2": {"num_hidden_layers": 10**5},
            "no_layers": {"num_hidden_layers": 0},
            "negative": {"num_attention_heads": -4, "num_key_value_heads": -1},
            "no_heads": {"num_attention_heads": 0},
            "wide": {"hidden_size": 10**18},
            "vocabulary": {"vocab_size": 2**62},
            "texts": {"hidden_size": "64; import os", "num_hidden_layers": "two"},
            "nothing": {"hidden_size": None, "num_hidden_layers": None},
            "lists": {"hidden_size": [64] * 1000, "layer_types": "x" * 9999},
            "code": {
                "auto_map": {"AutoModelForCausalLM": "owned.Owned", "AutoConfig": "../owned--owned.Owned"},
                "trust_remote_code": True,
                "model_type": "owned",
            },
            "remote": {"auto_map": {"AutoModelForCausalLM": "evil/repo--m.C"}, "trust_remote_code": True},
            "path": {"model_type": "../../etc/passwd", "architectures": ["os.system"]},
            "escapes": {"model_type": ESCAPES, "architectures": [ESCAPES]},
            "experts": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 10**7},
            "quantized": {"quantization_config": {"quant_method": ESCAPES, "bits": 10**9, "group_size": 0}},
            "rope": {
                "rope_scaling": {"rope_type": "yarn", "factor": float("inf")},
                "rope_theta": -1,
                "max_position_embeddings": 10**15,
            },
            "window": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": -5},
            "dtype": {"torch_dtype": "__import__('os')", "dtype": "eval"},
            "number": {"hidden_size": float("nan")},
            "labels": {"num_labels": 10**8},
            "depths": {"model_type": "swin", "depths": [10**9] * 4},
            "attention": {"model_type": "gpt_neo", "attention_types": [[["global", "local"], 10**9]]},
            "heads": {"architectures": 2},
            "any_head": {"architectures": ["PreTrainedModel"]},
            "kernel": {"attn_implementation": "owned/kernel@main:run"},
            "kernels": {"model_type": "llava", "text_config": {**LLAMA, "attn_implementation": {"": "owned/kernel"}}},
            "backbone": {"model_type": "upernet", "backbone": "../../../etc", "use_timm_backbone": False},
            "hub": {"model_type": "detr", "backbone": "hf-hub:owned/model", "use_timm_backbone": True},
            "rope_type": {"rope_scaling": {"rope_type": "__import__('os')"}},
            "image": {"model_type": "swin", "image_size": 10**9, "patch_size": 1},
            "blocks": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 0]}},
        }.items()
    },
    "array/config.json": lambda: b"[1, 2]",
    "deep/config.json": lambda: b'{"a":' * 100_000,
    # what other options read
    "list.txt": lambda: (
        b"/etc/passwd\n../up.onnx -i x:f32:1\n\0\n-o ../out\n" + ESCAPES.encode() + b"\n" + b"a" * 99_999
    ),
    "budget.toml": lambda: b"[total]\nmacs = " + b"9" * 5000 + b"\n",
    "deep.toml": lambda: b"a = " + b"[" * 50_000,
    "keys.toml": lambda: b"a" + b".a" * 50_000 + b" = 1",
    "binary.toml": lambda: bytes(range(256)),
}


#: Files that no command may read, since they would take gigabytes or lead to code and files of others.
REFUSED: frozenset[str] = frozenset(
    {
        *(f"{name}.npz" for name in ("bzip2", "lzma", "columns")),
        *("unpacked.pth", "external_elements.caffemodel.h5", "external_link.caffemodel.h5"),
        *("virtual.caffemodel.h5", "pieces.caffemodel.h5", "words.caffemodel.h5"),
        *(f"{name}/config.json" for name in ("labels", "depths", "attention", "kernel", "kernels", "backbone", "hub")),
    }
)


def write(folder: Path) -> list[Path]:
    """All files in a folder, and what their names lead to."""
    paths = []
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(ImportError):  # of a library that writes them
            path.write_bytes(content())
            paths.append(path)
    (folder / "beside").mkdir(exist_ok=True)
    (folder / "megabyte.bin").write_bytes(bytes(1 << 20))
    (folder / "secret.bin").write_bytes(zlib.compress(bytes(4800)).ljust(4800, b"\0"))
    with contextlib.suppress(OSError, NotImplementedError, AttributeError):  # Windows
        (folder / "link.bin").symlink_to("/etc/passwd")
        os.mkfifo(folder / "fifo.bin")
        os.link(folder / "secret.bin", folder / "hard.bin")
        os.mkfifo(folder / "fifo.model.onnx")
        for name in ("pipe", "zero"):
            (folder / name).mkdir(exist_ok=True)
        os.mkfifo(folder / "pipe/config.json")
        (folder / "zero/config.json").symlink_to("/dev/zero")
        (folder / "loop.onnx").symlink_to("loop.onnx")
        (folder / "zero.onnx").symlink_to("/dev/zero")
        (folder / "owned.py").write_text("open('flopwise_owned', 'w')\n")
        paths += [folder / "fifo.model.onnx", folder / "loop.onnx", folder / "zero.onnx", folder]
    return paths


#: Texts that no honest user gives to -i.
INPUTS: tuple[str, ...] = (
    "x",
    "x:",
    "::",
    "x:f32:" + "1x" * 5000 + "1",
    "x:f32:99999999999999999999x3",
    "x:f32:-1x3",
    "x:f32:2x3:@/dev/zero",
    "x:f32:2x3:@/etc/passwd",
    "x:i64:2x3:1,2",
    "x:f32:2x3:" + "1," * 50_000,
    "x:f32:\0",
    ESCAPES,
    "x:f32:__import__('os').system('id')",
    "x:f32:2x3|" * 500,
    "x:str:2x3:" + "é" * 999,
)
