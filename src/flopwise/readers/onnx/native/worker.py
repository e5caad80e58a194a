"""The child process: onnx's C++ code on what comes in at standard input, one request after the other.

This file is run by itself and imports nothing but onnx. A request is a kind, the length of a serialised model, and the
model; an answer is a status, a length, and a model or the text of an error.
"""

from __future__ import annotations

import contextlib
import signal
import struct
import sys
from typing import BinaryIO

import onnx

#: A request: its kind, the seconds it may take, and its length in bytes.
REQUEST = struct.Struct("<BdQ")

#: An answer: its status, and its length in bytes.
ANSWER = struct.Struct("<BQ")

#: Kinds of requests.
MODEL, STRICT, NODE, INLINE, CONVERT = range(5)

#: Statuses of answers.
DONE, FAILED = range(2)

#: Bytes of memory that the child may take.
MEMORY = 400 << 20


def main() -> None:
    """Answer requests until the input ends."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limits, macOS does not keep them
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(REQUEST.size):
        kind, seconds, length = REQUEST.unpack(head)
        if hasattr(signal, "setitimer"):  # ends the child even when nobody is left to do so
            signal.setitimer(signal.ITIMER_REAL, seconds + 1)
        _answer(kind, requests.read(length), answers)


def _answer(kind: int, data: bytes, answers: BinaryIO) -> None:
    try:
        status, payload = DONE, _result(kind, data)
    except Exception as error:  # the C++ side raises several kinds
        status, payload = FAILED, (str(error) or type(error).__name__).encode("utf-8", "replace")
    answers.write(ANSWER.pack(status, len(payload)) + payload)
    answers.flush()


def _result(kind: int, data: bytes) -> bytes:
    from onnx import inliner, shape_inference

    model = onnx.ModelProto.FromString(data)
    if kind in (MODEL, STRICT):
        model = shape_inference.infer_shapes(model, strict_mode=kind == STRICT)
    elif kind == NODE:
        model = _node(model)
    else:
        model = inliner.inline_local_functions(model, convert_version=kind == CONVERT)
    return bytes(model.SerializeToString())


def _node(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose outputs are those of its one node, with their types."""
    from onnx import defs, shape_inference

    node = model.graph.node[0]
    versions = {o.domain: o.version for o in model.opset_import}
    types = shape_inference.infer_node_outputs(
        defs.get_schema(node.op_type, int(model.producer_version), node.domain),
        node,
        {v.name: v.type for v in model.graph.input},
        {t.name: t for t in model.graph.initializer},
        opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in versions.items()],
        ir_version=model.ir_version,
    )
    result = onnx.ModelProto()
    for name, type_ in types.items():
        result.graph.output.add(name=name, type=type_)
    return result


if __name__ == "__main__":
    main()
