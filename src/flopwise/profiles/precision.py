"""In which element types the layers of a model compute.

Integer operators name the types of their factors. Models in the QDQ form do not: in the file an operator computes with
floating point, between DequantizeLinear and QuantizeLinear, and a runtime makes an integer operator of the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flopwise.graph import Graph, Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators.inputs import packed_dtype
from flopwise.operators.own import with_rows_of_graph
from flopwise.operators.tables import row as row_of
from flopwise.rows import Row

#: Behind the type of a layer that computes with floating point in the file, and whose operands were quantised before.
QDQ = " (QDQ)"

#: Between the types of factors that differ.
TIMES = "×"

#: The type whose name is unknown.
UNKNOWN = "unknown"

#: In this type a bias is stored beside 8-bit weights.
_BIAS = "int32"

#: Effects of operators of which all that they compute is making elements floating point.
_DEQUANTIZES = frozenset({"dequantizes", "picks quantized"})


@with_rows_of_graph
def precisions(graph: Graph, rows: Sequence[Row]) -> list[str]:
    """The precision of each row.

    - ``int8``, ``float16``: the type of the factors of an operator's products, or of its operand; ``uint8×int8`` where
      the factors differ, in the order of the operator's inputs. Biases, masks and settings do not matter.
    - ``int8 (QDQ)``: all operands are floating point, and each comes from DequantizeLinear, straight or through
      operators that only move data.
    - ``float32×int4``: weights that are dequantised, or that the operator itself unpacks, by activations that are not.
    - QuantizeLinear and DequantizeLinear compute with floating point; a layer without arithmetic has the type of its
      output.
    """
    behind = quantized_before(graph.nodes)
    return [precision(row, behind) for row in rows]


def precision(row: Row, behind: dict[str, str]) -> str:
    """The precision of one row.

    Args:
        row: a layer.
        behind: what ``quantized_before`` says of its graph.
    """
    node = row.node
    operator = row_of(node.op)
    if operator.effects & _DEQUANTIZES or (row.counts is not None and row.times != 0 and not any(row.counts)):
        return _output_dtype(node)
    if "quantizes" in operator.effects:
        return _dtype(node.known_inputs[0]) if node.known_inputs else UNKNOWN
    if operator.inputs.has_factors:
        places = [i for i, one in operator.inputs.places(len(node.inputs)) if one.factor and node.has_input(i)]
        types = [_type_of_factor(node, place, behind) for place in places]
        operands = [node.input(place) for place in places]
    else:
        operands = _operands(node)
        quantized = [behind.get(t.name) for t in operands]
        types = [t for t in quantized if t] if all(quantized) else [_dtype(t) for t in operands[:1]]
    if not types:
        return _output_dtype(node)
    done_before = all(is_float(t.dtype) and t.name in behind for t in operands)
    factors = [t for t in types if t != _BIAS] if done_before else types
    return TIMES.join(dict.fromkeys(factors or types)) + (QDQ if done_before else "")


def quantized_before(nodes: Iterable[Node]) -> dict[str, str]:
    """Names of floating-point tensors whose values were dequantised -> the type that they had before.

    Operators that only move data are looked through; Concat where all its inputs had the same type.
    """
    behind: dict[str, str] = {}
    for node in nodes:
        if not node.known_inputs:
            continue
        operator = row_of(node.op)
        if "dequantizes" in operator.effects:
            before: str | None = node.known_inputs[0].dtype
        elif operator.carries:
            before = behind.get(node.known_inputs[0].name)
        elif node.op == "Concat":
            types = {behind.get(t.name) for t in node.known_inputs}
            before = types.pop() if len(types) == 1 else None
        else:
            continue
        for tensor in node.known_outputs:
            if before and is_float(tensor.dtype):
                behind[tensor.name] = before
            else:
                behind.pop(tensor.name, None)  # another body may have used the name
    return behind


def _type_of_factor(node: Node, place: int, behind: dict[str, str]) -> str:
    tensor, roles = node.input(place), row_of(node.op).inputs
    return roles.input(place).inside or packed_dtype(node, place, roles) or behind.get(tensor.name) or _dtype(tensor)


def _operands(node: Node) -> list[Tensor]:
    """The inputs of an operator that is not in the tables: the first, and those of floating point but its settings."""
    first, others = node.known_inputs[:1], node.known_inputs[1:]
    if not (first and is_float(first[0].dtype)):
        return list(first)
    return [*first, *(t for t in others if is_float(t.dtype) and t.kind != "constant")]


def _output_dtype(node: Node) -> str:
    return _dtype(node.known_outputs[0]) if node.known_outputs else UNKNOWN


def _dtype(tensor: Tensor) -> str:
    """The element type; for a sequence, that of its first member."""
    return tensor.dtype or (_dtype(tensor.items[0]) if tensor.items else UNKNOWN)
