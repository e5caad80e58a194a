"""Products in int8, whose factors onnxruntime quantises while it runs: in a model, and alone."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.quantities import Product, product_of
from flopwise.analyses.timing.turns import Way, in_turns
from flopwise.errors import InputError
from flopwise.graph import STORED

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: The operators whose stored factors become integers.
OPS = ("MatMul", "Gemm")

#: Seconds in which the product of one size runs in both types.
SECONDS = 0.5


def quantized(path: str, output: str) -> str:
    """The path of the model with products of int8, whose factors onnxruntime quantises while it runs.

    Raises:
        InputError: onnxruntime's quantisation fails.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from flopwise.analyses.timing.engines.onnxruntime import one_line

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(path, output, op_types_to_quantize=[*OPS], weight_type=QuantType.QInt8)
    except Exception as error:  # whatever it meets in the model
        raise InputError(f"onnxruntime cannot quantise it: {one_line(error)}") from error
    finally:
        logging.disable(before)
    return output


def saved_ns(counted: Profile, options: Options) -> float:
    """Nanoseconds that the products by weights save in int8: one of each size runs here alone, in both types.

    Args:
        counted: the model.
        options: level and threads.

    Raises:
        InputError: onnxruntime's quantisation fails.
        ModelError: onnxruntime fails to run a product.
    """
    sizes: Counter[Product] = Counter()
    for row in counted.rows:
        node = row.node
        if node.op in OPS and node.input(1).kind in STORED and node.input(0).dtype == "float32":
            product = product_of(node)
            if product is not None and product.batch == 1:
                sizes[product] += 1
    saved = 0.0
    for product, number in sizes.items():
        with tempfile.TemporaryDirectory(prefix="flopwise-") as folder:
            path = str(Path(folder) / "product.onnx")
            Path(path).write_bytes(_model(product))
            ways = [Way(each, {}, options) for each in (path, quantized(path, str(Path(folder) / "int8.onnx")))]
            own, other = in_turns(ways, SECONDS)
        saved += number * (own - other)
    return saved


def _model(product: Product) -> bytes:
    """A product by a stored matrix as a model."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((product.depth, product.columns), np.float32)
    names = (("x", product.depth), ("y", product.columns))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [product.rows, width]) for name, width in names]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph([node], "product", [ends[0]], [ends[1]], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
