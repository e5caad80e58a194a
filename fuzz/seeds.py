"""What fuzzing starts from: one small valid input of each kind, made here."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

EXAMPLES = Path(__file__).parents[1] / "examples"


def onnx_models() -> list[bytes]:
    """Models of each kind of thing that the reader looks at by itself."""
    weight = numpy_helper.from_array(numpy.ones((4, 3, 3, 3), "f"), "w")
    shape = numpy_helper.from_array(numpy.array([1, -1]), "s")
    plain = _model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Shape", ["r"], ["z"]),
            helper.make_node("Reshape", ["r", "s"], ["y"]),
            helper.make_node("Einsum", ["y", "y"], ["e"], equation="ij,kj->ik"),
            helper.make_node("NonZero", ["e"], ["n"]),
        ],
        [weight, shape],
    )
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, None)]
    )
    condition = numpy_helper.from_array(numpy.array(True), "q")
    branch = _model([helper.make_node("If", ["q"], ["y"], then_branch=body, else_branch=body)], [condition])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports)
    calls = _model([helper.make_node("F", ["x"], ["y"], domain="my")], [])
    calls.functions.append(function)
    calls.opset_import.add(domain="my", version=1)
    outside = TensorProto(name="w", data_type=1, dims=[30, 40], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="w.bin")
    external = _model([helper.make_node("Add", ["x", "w"], ["y"])], [outside])
    return [m.SerializeToString() for m in (plain, branch, calls, external)]


def published_models() -> list[bytes]:
    """The models of onnx's own tests and those of the examples, the larger ones several times."""
    from tests.onnx_suite import cases

    large = [*sorted((cases.DATA / "light").glob("*.onnx")), *sorted(EXAMPLES.glob("*.onnx"))]
    small = [case.model for case in (*cases.made(), *(case for kind in cases.STORED for case in cases.stored(kind)))]
    return [*(model.SerializeToString() for model in small), *[path.read_bytes() for path in large] * 10]


def _model(nodes: list[onnx.NodeProto], stored: list[TensorProto]) -> onnx.ModelProto:
    last = nodes[-1].output[0]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
        [onnx.ValueInfoProto(name=last)],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def prototxts() -> list[bytes]:
    """Caffe nets as text."""
    return [
        b'name: "n"\ninput: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
        b'layer { name: "c" type: "Convolution" bottom: "data" top: "c" '
        b"convolution_param { num_output: 4 kernel_size: 3 } }\n"
        b'layer { name: "p" type: "Pooling" bottom: "c" top: "p" '
        b"pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n"
    ]


def tflites() -> list[bytes]:
    """TensorFlow Lite models: a small network in two types, and a loop."""
    from tests.tflite_models import convolution, loop

    return [convolution().bytes(), convolution("int8").bytes(), loop(5)]


def keras_configs() -> list[bytes]:
    """Configurations of Keras models: layers in a row, a graph of layers, and those of older versions."""
    from tests.keras_models import CONFIGS

    return [json.dumps(config()).encode() for config in CONFIGS.values()]


def tensorflow_graphs() -> list[bytes]:
    """A frozen graph that TensorFlow wrote, and small ones with functions."""
    from tests.formats.tensorflow.test_hostile import CASES, DATA

    small = [CASES[name][0] for name in ("loop in itself", "stride 0", "huge", "loops of TensorFlow 1")]
    return [(DATA / "frozen.pb").read_bytes(), *small]


def keras_weights() -> list[bytes]:
    """Weights as Keras stores them: by groups, whole and in chunks."""
    import h5py

    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        layer = file.create_group("layers/dense/vars")
        layer.attrs["name"] = "dense"
        layer["0"] = numpy.ones((3, 4), "f")
        layer.create_dataset("1", data=numpy.ones(4, "f"), chunks=(2,), compression="gzip")
    return [held.getvalue()]


def openvinos() -> list[bytes]:
    """An OpenVINO model of one convolution."""
    from tests.formats.openvino.by_hand import CONVOLUTION

    return [CONVOLUTION.encode()]


def coremls() -> list[bytes]:
    """A Core ML program of one convolution."""
    from tests.formats.coreml.by_hand import CONVOLUTION

    return [CONVOLUTION]


def executorchs() -> list[bytes]:
    """Programs of ExecuTorch with a network, branches, a loop, a state and a part of a backend."""
    data = EXAMPLES.parent / "tests" / "formats" / "executorch" / "data"
    return [path.read_bytes() for path in sorted(data.glob("*.pte"))]


def stablehlos() -> list[bytes]:
    """A StableHLO module with a loop, a choice and a reduction, as text and as bytecode."""
    import jax
    from jax import export, lax

    def function(x: jax.Array) -> jax.Array:
        x = lax.fori_loop(0, 3, lambda i, c: c @ x, x)
        return lax.cond(x[0, 0] > 0, lambda x: lax.top_k(x, 2)[0], lambda x: x[:, :2], x).sum()

    x = jax.ShapeDtypeStruct((4, 4), "float32")
    lowered, exported = jax.jit(function).lower(x), export.export(jax.jit(function))(x)
    return [lowered.as_text(debug_info=True).encode(), bytes(exported.mlir_module_serialized)]


def safetensors() -> list[bytes]:
    """A file of two tensors."""
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "__metadata__": {"format": "pt"},
    }
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)) + text + bytes(32)]


def indices() -> list[bytes]:
    """An index of safetensors."""
    return [json.dumps({"metadata": {"total_size": 32}, "weight_map": {"a": "seed.safetensors"}}).encode()]


def ggufs() -> list[bytes]:
    """A file with one tensor and one value."""
    value = struct.pack("<Q", 4) + b"name" + struct.pack("<I", 8) + struct.pack("<Q", 2) + b"ab"
    tensor = struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 32, 0, 0)
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + value + tensor
    return [data + bytes(-len(data) % 32 + 128)]


def arrays() -> list[bytes]:
    """A NumPy file."""
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.ones((2, 3), "f"))
    return [buffer.getvalue()]


def archives() -> list[bytes]:
    """Several arrays in an archive."""
    buffer = io.BytesIO()
    numpy.savez(buffer, a=numpy.ones(3, "f"), b=numpy.zeros((2, 2), "i4"))
    return [buffer.getvalue()]


def checkpoints() -> list[bytes]:
    """A checkpoint with one tensor, as PyTorch writes it."""

    class Storage:
        def __reduce__(self) -> tuple[object, ...]:
            return (dict, ())

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"w": Storage()}, 2))
        archive.writestr("archive/data/0", bytes(16))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return [buffer.getvalue()]


def programs() -> list[bytes]:
    """The frame of an exported program."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/archive_format", "pt2")
        archive.writestr("archive/models/model.json", json.dumps({"graph_module": {"graph": {"nodes": []}}}))
        archive.writestr("archive/version", "0")
    return [buffer.getvalue()]


def hdf5s() -> list[bytes]:
    """Weights of a Caffe net in HDF5; nothing where h5py is not installed."""
    try:
        import h5py
    except ImportError:
        return [b"\x89HDF\r\n\x1a\n" + bytes(64)]
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["data/c/0"] = numpy.ones((4, 3, 3, 3), "f")
    return [buffer.getvalue()]


def configurations() -> list[bytes]:
    """The configuration of a language model."""
    return [
        json.dumps(
            {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 128,
                "vocab_size": 100,
            }
        ).encode()
    ]


def onnxruntime_profiles() -> list[bytes]:
    """Two runs of a convolution and its activation, one of them with a weight that the kernel packed."""
    shapes = {"Conv": [[1, 3, 8, 8], [4, 3, 3, 3]], "Relu": [[1, 4, 8, 8]], "Gemm": [[2, 3]]}

    def node(op: str, start: int, thread: int) -> dict[str, object]:
        sizes = [{"float": shape} for shape in shapes[op]]
        made = [{"float": [1, 4, 8, 8] if op != "Gemm" else [2, 5]}]
        args = {"op_name": op, "node_index": "1", "input_type_shape": sizes, "output_type_shape": made}
        name = f"{op.lower()}_1_nchwc_kernel_time"
        return {"cat": "Node", "tid": thread, "dur": 5, "ts": start, "ph": "X", "name": name, "args": args}

    run = {"cat": "Session", "tid": 1, "dur": 40, "ph": "X", "name": "model_run", "args": {}}
    events = [node("Conv", 1, 1), node("Relu", 8, 2), {**run, "ts": 0}, node("Gemm", 101, 1), {**run, "ts": 100}]
    return [json.dumps(events).encode(), json.dumps(events, indent=1).encode()]


def kineto_traces() -> list[bytes]:
    """A step of an operator with a kernel, in the schemas of 2026 and of 2021."""
    inner = {"External id": 3, "Input Dims": [[2, 3], [3, 5]], "Input type": ["float", "float"], "Sequence number": 1}
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100}
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 9, "args": inner}
    launch = {**operator, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 3, "args": {"correlation": 7}}
    kernel = {**launch, "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20}
    new = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    events = [step, operator, launch, kernel]
    words = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    old = [{**event, "cat": words.get(str(event["cat"]), event["cat"])} for event in events]
    return [json.dumps({**new, "traceEvents": events}).encode(), json.dumps({"traceEvents": old}).encode()]


def tensorrt_profiles() -> list[bytes]:
    """The times of an engine of three layers."""
    names = (
        "conv_1 + PWN(relu_1)",
        "{ForeignNode[shape_1...reshape_1]}",
        "Reformatting CopyNode for Input Tensor 0 to x",
    )
    times = {"timeMs": 2.5, "averageMs": 0.25, "medianMs": 0.25, "percentage": 33.3}
    return [json.dumps([{"count": 10}, *({"name": name, **times} for name in names)]).encode()]


def tensorrt_layers() -> list[bytes]:
    """What the engine says of the first of these layers, and of one that has no time."""
    data = {"Name": "x", "Dimensions": [1, 3, 8, 8], "Format/Datatype": "Row major linear FP32"}
    result = {**data, "Name": "y", "Dimensions": [1, 4, 8, 8]}
    kinds = {"LayerType": "CaskConvolution", "ParameterType": "Convolution", "Kernel": [3, 3], "OutMaps": 4}
    stored = {"Weights": {"Type": "Half", "Count": 108}, "Bias": {"Type": "Half", "Count": 4}}
    said = {"Metadata": "[ONNX Layer: conv_1]\x1e[ONNX Layer: relu_1]", "Groups": 1}
    layer = {"Name": "conv_1 + PWN(relu_1)", "Inputs": [data], "Outputs": [result], **kinds, **stored, **said}
    product = {**layer, "ParameterType": "MatrixMultiply", "Inputs": [data, data], "Name": "mm"}
    return [json.dumps({"Layers": [layer, product], "Bindings": ["x"]}).encode()]


def choices() -> list[bytes]:
    """Choices of a function, and of one or two of its parameters with a value for each."""
    return [bytes([0, function, function, 3 * function % 32, 1, function]) for function in range(0, 80, 5)]


def lies() -> list[bytes]:
    """Choices of a server: honest, and one of each lie and each way to send it, about each file."""
    ways = [bytes([0, 0, way, 3]) for way in range(5)]
    return [b"", *(bytes([lie % 3, lie, 5, 1, 0]) for lie in range(1, 15)), *ways]
