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
    if operator.effects & _DEQUANTIZES or not _computes(row):
        return _first_dtype(node.known_outputs)
    if "quantizes" in operator.effects:
        return _first_dtype(node.known_inputs)
    if operator.inputs.has_factors:
        places = [i for i, one in operator.inputs.places(len(node.inputs)) if one.factor and node.has_input(i)]
        operands = [node.input(place) for place in places]
        types = [_type_of_factor(node, place, behind) for place in places]
    else:
        operands = _operands(node)
        types = [behind.get(t.name, "") for t in operands]
        types = types if all(types) else [_dtype(operands[0])]
    if not types:
        return _first_dtype(node.known_outputs)
    if not all(is_float(t.dtype) and t.name in behind for t in operands):
        return TIMES.join(dict.fromkeys(types))
    return TIMES.join(dict.fromkeys([t for t in types if t != _BIAS] or types)) + QDQ


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


def _computes(row: Row) -> bool:
    """True where a layer has arithmetic, or may have."""
    return row.counts is None or row.times == 0 or any(row.counts)


def _operands(node: Node) -> list[Tensor]:
    """The inputs of an operator that is not in the tables: the first, and those of floating point but its settings."""
    first, others = node.known_inputs[:1], node.known_inputs[1:]
    if not (first and is_float(first[0].dtype)):
        return list(first)
    return [*first, *(t for t in others if is_float(t.dtype) and t.kind != "constant")]


def _first_dtype(tensors: Sequence[Tensor]) -> str:
    return _dtype(tensors[0]) if tensors else UNKNOWN


def _dtype(tensor: Tensor) -> str:
    """The element type; for a sequence, that of its first member."""
    return tensor.dtype or (_dtype(tensor.items[0]) if tensor.items else UNKNOWN)
