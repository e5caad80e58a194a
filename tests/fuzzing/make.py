"""What hostile files are made of: models, archives, tensors and texts that nobody honest would write."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
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


def model(
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


def external(location: str, **more: str) -> bytes:
    tensor = TensorProto(name="w", data_type=1, dims=[30, 40], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], (2, 30), [tensor])


def shared_data(count: int) -> bytes:
    """Tensors of a megabyte each, in the same place."""
    stored = [TensorProto(name=f"w{i}", data_type=1, dims=[1 << 18], data_location=1) for i in range(count)]
    for tensor in stored:
        tensor.external_data.add(key="location", value="megabyte.bin")
    return model([helper.make_node("Add", ["x", t.name], [f"o{t.name}"]) for t in stored], (1 << 18,), stored)


def doubling(depth: int) -> bytes:
    """A function that calls the next one twice, and so on."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    for level in range(depth):
        inner = (f"F{level + 1}", "my") if level + 1 < depth else ("Relu", "")
        calls = [helper.make_node(inner[0], [a], [b], domain=inner[1]) for a, b in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("my", f"F{level}", ["a"], ["c"], calls, imports))
    return model([helper.make_node("F0", ["x"], ["y"], domain="my")], functions=functions)


def itself() -> bytes:
    """A function that calls itself."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    call = helper.make_node("F", ["a"], ["c"], domain="my")
    function = helper.make_function("my", "F", ["a"], ["c"], [call], imports)
    return model([helper.make_node("F", ["x"], ["y"], domain="my")], functions=[function])


def untyped(op: str, domain: str = "", inputs: int = 1, **attributes: Any) -> bytes:
    """An operator on the results of one that nobody knows."""
    names = [f"u{i}" for i in range(inputs)]
    unknown = helper.make_node("Unknown", ["x"], names, domain="my")
    return model([unknown, helper.make_node(op, names, ["y"], domain=domain, **attributes)])


def huge(*dims: int) -> bytes:
    tensor = TensorProto(name="w", data_type=1, dims=dims)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], stored=[tensor])


def sparse(*dims: int) -> bytes:
    values, places = numpy.ones(3, "f4"), numpy.arange(3)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "i"), list(dims)
    )
    proto = onnx.ModelProto.FromString(model([helper.make_node("MatMul", ["x", "w"], ["y"])], (2, dims[0])))
    proto.graph.sparse_initializer.append(sparse)
    return bytes(proto.SerializeToString())


def constant(value: Any, op: str, **attributes: Any) -> bytes:
    stored = [numpy_helper.from_array(numpy.asarray(value), "s")]
    return model([helper.make_node(op, ["x", "s"], ["y"], **attributes)], stored=stored)


def shape_from(value: Sequence[int]) -> bytes:
    stored = [numpy_helper.from_array(numpy.array(value, "i8"), "s")]
    return model(
        [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Relu", ["c"], ["y"])], stored=stored
    )


def einsum(equation: str) -> bytes:
    return model([helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation)])


def loops(depth: int) -> bytes:
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
    return model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], stored=stored)


def named(name: str) -> bytes:
    return model(
        [helper.make_node("Relu", ["x"], [name], name=name), helper.make_node("Foo", [name], ["z"], domain=name)]
    )


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=3) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def zeros(name: str, length: int, method: int, head: bytes = b"", fill: bytes = b"\0") -> bytes:
    """An archive with a member that begins in some way, and then repeats itself."""
    buffer = io.BytesIO()
    packed = zipfile.ZipFile(buffer, "w", method, compresslevel=3)
    with packed as archive, archive.open(name, "w", force_zip64=True) as member:
        member.write(head)
        block = fill * ((1 << 20) // len(fill))
        for _ in range(length >> 20):
            member.write(block)
    return buffer.getvalue()


def shared_modules() -> bytes:
    """A TorchScript file whose modules hold the next one twice, and so on."""
    module = b"c__torch__\nM\n)\x81"
    pickled = b"\x80\x02" + module + b"}bq\x00"
    for level in range(60):
        children = b"".join(b"X\x01\0\0\0" + name + b"h" + bytes([level]) for name in (b"a", b"b"))
        pickled += b"0" + module + b"}(" + children + b"ubq" + bytes([level + 1])
    members = {"data.pkl": pickled + b".", "constants.pkl": b"\x80\x02).", "version": b"3", "code/__torch__.py": b""}
    return zipped({f"a/{name}": data for name, data in members.items()})


def hdf5(write: Callable[[Any, Path], Any]) -> bytes:
    """Caffe's weights whose first blob is made by ``write``, from its group and a folder with files of others."""
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "secret").write_bytes(b"s" * 400)
        with h5py.File(Path(folder) / "secret.h5", "w") as file:
            file["w"] = numpy.ones(100, "f4")
        with h5py.File(Path(folder) / "m.h5", "w") as file:
            write(file.create_group("data/conv"), Path(folder))
        return (Path(folder) / "m.h5").read_bytes()


def external_elements(group: Any, folder: Path) -> None:
    group.create_dataset("0", (100,), "f4", external=[(str(folder / "secret"), 0, 400)])


def external_link(group: Any, folder: Path) -> None:
    import h5py

    group["0"] = h5py.ExternalLink(str(folder / "secret.h5"), "w")


def virtual(group: Any, folder: Path) -> None:
    import h5py

    layout = h5py.VirtualLayout((100,), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "w", (100,))
    group.create_virtual_dataset("0", layout)


def pieces(group: Any, folder: Path) -> None:
    group.create_dataset("0", (1 << 31,), "f4", chunks=(1 << 20,), compression="gzip")


def words(group: Any, folder: Path) -> None:
    group["0"] = "words"


class Runs:
    """What a pickle would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo owned > flopwise_owned",)


def checkpoint(content: bytes, **members: bytes) -> bytes:
    rest = {f"archive/{name}": data for name, data in members.items()}
    return zipped({"archive/data.pkl": content, "archive/version": b"3\n", "archive/byteorder": b"little", **rest})


def zip64() -> bytes:
    """A checkpoint whose end of archive points to a ZIP64 directory that is none."""
    data = checkpoint(pickle.dumps({"w": 1}, 2))
    end = data.rindex(b"PK\x05\x06")
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 2**62, 2**62, 2**63, 2**63)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    return data[:end] + record + locator + data[end : end + 8] + b"\xff" * 12 + data[end + 20 :]


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def tensor(dtype: str, shape: Sequence[Any], *offsets: Any) -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


def gguf(tensors: int, values: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + rest


def gguf_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def objects() -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.array([Runs()], object), allow_pickle=True)
    return buffer.getvalue()


def caffe(layer: str) -> bytes:
    data = 'name: "n" input: "d" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }'
    return f'{data} layer {{ name: "l" bottom: "d" top: "t" {layer} }}'.encode()


def program(**members: Any) -> bytes:
    return zipped({f"archive/{n}": v if isinstance(v, bytes) else json.dumps(v).encode() for n, v in members.items()})


def evaluated() -> bytes:
    """An exported program with an expression that runs something where it is evaluated."""
    symbol = {"as_expr": {"expr_str": "__import__('os').system('echo owned > flopwise_owned')", "hint": None}}
    value = {"dtype": 7, "sizes": [symbol], "requires_grad": False, "device": {"type": "cpu"}, "layout": 7}
    graph = {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [], "nodes": [], "tensor_values": {"x": value}}
    module = {"graph": graph, "signature": {"input_specs": [], "output_specs": []}, "module_call_graph": []}
    content = {
        "graph_module": module,
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 0},
    }
    return program(**{"archive_format": b"pt2", "version": b"0", "models/model.json": content})


def configuration(**values: Any) -> bytes:
    return json.dumps({**LLAMA, **values}).encode()


def patterns(*targets: str) -> dict[str, Any]:
    """A quantisation of the modules that patterns match."""
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": {"targets": targets, "weights": {"num_bits": 4}}},
    }
