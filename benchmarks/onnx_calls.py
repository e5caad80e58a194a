"""What the benchmark measures in a process of its own: python benchmarks/onnx_calls.py CALL FILE.

Prints seconds of the first and second call after all imports, as JSON. Kept apart from the benchmark so that each
process imports only what it measures.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def flopwise_profile(path: str) -> Callable[[], object]:
    """``flopwise.profile``: every figure of every layer; nothing is printed."""
    import flopwise.formats.onnx.read  # noqa: F401 - else the first call imports it
    from flopwise import profile

    return lambda: profile(path)


def onnx_tool_profile(path: str) -> Callable[[], object]:
    """What ``onnx_tool.model_profile`` does before it prints its table."""
    import onnx_tool

    def call() -> None:
        model = onnx_tool.loadmodel(path, {"verbose": False})
        model.graph.graph_reorder_nodes()
        model.graph.shape_infer()
        model.graph.profile()

    return call


def onnx_inference(path: str) -> Callable[[], object]:
    """onnx's own reading and C++ shape inference."""
    import onnx
    from onnx import shape_inference

    return lambda: shape_inference.infer_shapes(onnx.load(path))


def onnx_schemas(path: str) -> Callable[[], object]:
    """What onnx itself does once, before its first shape inference."""
    from onnx import defs

    return lambda: defs.has("Conv")


CALLS = {c.__name__: c for c in (flopwise_profile, onnx_tool_profile, onnx_inference, onnx_schemas)}


def main(name: str, path: str) -> None:
    """Call twice, and print the seconds of each call."""
    call = CALLS[name](path)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
