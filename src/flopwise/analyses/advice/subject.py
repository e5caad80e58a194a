"""A model as rules of advice see it: who makes a tensor, who takes it, and what is stored."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.analyses.timing.device import Device
from flopwise.analyses.timing.machine import facts
from flopwise.analyses.timing.quantities import ALIGNED
from flopwise.analyses.training import gradients
from flopwise.graph import STORED, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.folding import Folding, constant
from flopwise.operators.tables import row as operator
from flopwise.profiles.profile import Profile

#: Domains in which an engine keeps operators of the same meaning.
_DOMAINS = ("com.microsoft.nchwc::", "com.microsoft::")

#: Elements of a stored tensor that is a setting, such as an epsilon or the scales of an axis.
_SETTING = 16


def bare(op: str) -> str:
    """The operator's name without the domain in which an engine keeps it.

    >>> bare("com.microsoft.nchwc::Conv"), bare("com.microsoft::FusedConv"), bare("Conv")
    ('Conv', 'Conv', 'Conv')
    """
    for domain in _DOMAINS:
        op = op.removeprefix(domain)
    return {"FusedConv": "Conv", "FusedMatMul": "MatMul", "FusedGemm": "Gemm"}.get(op, op)


def argument(node: Node, name: str, default: object = None) -> object:
    """An argument of an operator of a program that is no tensor of its graph, such as a dimension or a number."""
    value: object = node.arguments.get(name, default)
    return value


class Subject:
    """The main graph of a model; what runs in bodies of control flow is left alone."""

    def __init__(
        self,
        profile: Profile,
        unit: Unit | None = None,
        multiprocessors: int | None = None,
        unpadded: Profile | None = None,
        processor: str | None = None,
    ) -> None:
        self.profile = profile
        #: The same model without tokens that are padding; None where there are none, or nobody knows.
        self.unpadded = unpadded
        #: "cpu", "gpu" ...; None where no device is named.
        self.processor = processor
        #: Multiprocessors of the GPU; None where nobody knows, or there is none.
        self.multiprocessors = multiprocessors
        #: What channels are padded to; None where nobody knows.
        self.unit = unit
        self.graph = profile.graph
        self.nodes: Sequence[Node] = profile.graph.nodes
        self.outputs = frozenset(t.name for t in self.graph.outputs)
        self._makers: dict[str, int] = {}
        self._takers: dict[str, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for tensor in node.known_outputs:
                self._makers.setdefault(tensor.name, position)
            for name in dict.fromkeys(t.name for t in node.known_inputs):
                self._takers.setdefault(name, []).append(position)
        self._settings: dict[str, Any] = {}

    @property
    def of_program(self) -> bool:
        """True where it is a program of PyTorch, in which what only moves elements is a view, and not a file."""
        return self.graph.format == "torch"

    @functools.cached_property
    def folding(self) -> Folding:
        """The operators that depend on stored tensors alone."""
        return constant(self.graph)

    @functools.cached_property
    def asks(self) -> frozenset[str] | None:
        """Names of the tensors that ask for a gradient; None where no training step is counted."""
        if self.profile.training is None:
            return None
        wrt = gradients(self.graph).wrt
        places = [(node, number) for node, asked in zip(self.nodes, wrt, strict=True) for number in asked]
        return frozenset(t.name for node, number in places if (t := node.inputs[number]) is not None)

    @functools.cached_property
    def dead(self) -> frozenset[int]:
        """Positions of the operators whose results no output depends on."""
        bodies = any("bodies" in operator(node.op).effects for node in self.nodes)
        if bodies:  # a body may take tensors that are not among its operator's inputs
            return frozenset()
        needed = set(self.outputs)
        dead = []
        for position in reversed(range(len(self.nodes))):
            node = self.nodes[position]
            names = {t.name for t in node.known_outputs}
            writes = node.attrs.get("writes") or (node.origin.endswith("_") and not node.origin.endswith("__"))
            if names and not names & needed and not writes and not node.within:
                dead.append(position)
            else:
                needed.update(t.name for t in node.known_inputs)
        return frozenset(dead)

    def live(self, *ops: str) -> list[tuple[int, Node]]:
        """The operators of these names, or all, in the main graph, whose results are used and vary."""
        return [
            (position, node)
            for position, node in enumerate(self.nodes)
            if (not ops or bare(node.op) in ops)
            and not node.within
            and position not in self.dead
            and position not in self.folding.positions
        ]

    def maker(self, tensor: Tensor | None) -> tuple[int, Node] | None:
        """The operator of the main graph that makes a tensor, with its position; None where there is none."""
        position = None if tensor is None else self._makers.get(tensor.name)
        if position is None or self.nodes[position].within:
            return None
        return position, self.nodes[position]

    def takers(self, tensor: Tensor) -> list[int]:
        """Positions of the operators that take a tensor and are not dead."""
        return [position for position in self._takers.get(tensor.name, ()) if position not in self.dead]

    def only_taker(self, tensor: Tensor) -> tuple[int, Node] | None:
        """The one operator that takes a tensor, with its position; None where there are others, or it is an output."""
        takers = self.takers(tensor)
        if len(takers) != 1 or tensor.name in self.outputs or self.nodes[takers[0]].within:
            return None
        return takers[0], self.nodes[takers[0]]

    def is_private(self, position: int, group: Sequence[int]) -> bool:
        """True where only operators of the group take what an operator makes."""
        results = self.nodes[position].known_outputs
        return all(t.name not in self.outputs and set(self.takers(t)) <= set(group) for t in results)

    def setting(self, tensor: Tensor | None) -> list[float] | None:
        """The elements of a small stored tensor, in a row; None where it varies, is large, or cannot be read."""
        if tensor is None or tensor.shape is None or math.prod(tensor.shape) > _SETTING:
            return None
        if tensor.name not in self._settings:
            self._settings[tensor.name] = self._read(tensor)
        elements: list[float] | None = self._settings[tensor.name]
        return elements

    def _read(self, tensor: Tensor) -> list[float] | None:
        stored = self.graph.weights.get(tensor.name)
        if stored is not None:
            try:
                return [float(x) for x in stored.array().reshape(-1)]
            except Exception:  # elements outside, or none at all
                return None
        maker = self.maker(tensor)
        if maker is not None and _passes_on(maker[1]):  # as exporters write axes
            return self.setting(maker[1].input(0))
        if maker is None or maker[1].op != "Constant":
            return None
        value = next((v for k, v in maker[1].attrs.items() if k.startswith("value")), None)
        if value is None:
            return None
        items = getattr(value, "reshape", None)
        try:
            return [float(x) for x in (items(-1) if items else [value] if not hasattr(value, "__len__") else value)]
        except (TypeError, ValueError):
            return None

    def stored(self, tensor: Tensor | None) -> bool:
        """True where a tensor is known before the first inference."""
        return tensor is not None and (tensor.kind in STORED or tensor.name in self.folding.sources)


def _passes_on(node: Node) -> bool:
    """True where the first result is the first input element by element, perhaps under another shape."""
    view = operator(node.op).view
    return view is not None and node.has_input(0) and node.input(0).dtype == node.output().dtype and view(node)


def chain(
    subject: Subject, tensor: Tensor, passes: Callable[[Node, Tensor], bool], most: int = 64
) -> tuple[list[int], tuple[int, Node] | None]:
    """The operators that a tensor goes through one after the other, and the one behind them, if it is the only one.

    Args:
        subject: the model.
        tensor: where it begins.
        passes: whether an operator that takes a tensor belongs to the chain.
        most: how many operators at most.
    """
    positions: list[int] = []
    following = subject.only_taker(tensor)
    while following is not None and len(positions) < most and passes(following[1], tensor):
        positions.append(following[0])
        tensor = following[1].output()
        following = subject.only_taker(tensor)
    return positions, following


def pointwise_in(node: Node, tensor: Tensor) -> bool:
    """True where an operator computes each element from that of a tensor alone, and one setting for all."""
    if not operator(node.op).in_place or len(node.known_outputs) != 1 or node.output().shape != tensor.shape:
        return False
    return all(t.name == tensor.name or (t.shape is not None and math.prod(t.shape) == 1) for t in node.known_inputs)


def replaced(node: Node, tensors: Mapping[str, Tensor], name: str = "") -> Node:
    """The operator with some of its tensors exchanged by name."""
    inputs = tuple(None if t is None else tensors.get(t.name, t) for t in node.inputs)
    outputs = tuple(None if t is None else tensors.get(t.name, t) for t in node.outputs)
    facts = (node.attrs, node.modules, node.origin, node.version)
    return Node(node.op, name or node.name, inputs, outputs, *facts, invocation=node.invocation)


def moves_alone(node: Node, tensor: Tensor) -> bool:
    """True where an operator only moves the elements of a tensor, which is its first input."""
    return operator(node.op).moves and node.op != "Cast" and node.input(0).name == tensor.name


def moved_in_type(subject: Subject, moved: Sequence[int], source: Tensor, end: Tensor) -> tuple[Node, ...]:
    """Moves between two conversions, in the type that stands before and behind these."""
    after, before = [], source
    for position in moved:
        node = subject.nodes[position]
        old = node.output()
        result = end if position == moved[-1] else Tensor(old.name, old.shape, source.dtype)
        after.append(replaced(node, {node.input(0).name: before, old.name: result}))
        before = result
    return tuple(after)


# Channels that engines and devices compute at a time, whose multiples alone need no padding.


class Unit(NamedTuple):
    """A number that channels are padded to a multiple of."""

    #: So many elements; 0 where ``nbytes`` says it.
    elements: int
    #: So many bytes of each row of a matrix.
    nbytes: int
    source: str

    def of(self, dtype: str | None) -> int:
        """Elements of a type."""
        return self.elements or max(1, 8 * self.nbytes // BITS.get(dtype or "float32", 32))


#: What tensor cores take without padding.
TENSOR_CORES = Unit(0, ALIGNED, "NVIDIA, Matrix Multiplication Background User's Guide: multiples of 16 bytes")


def unit_of(device: Device | None, level: str | None) -> Unit | None:
    """The unit of an engine at a level, or of a device; None where none is known."""
    if device is None:
        return None
    if level == "all" and device.kind == "cpu":
        return blocks(facts().flags)
    return TENSOR_CORES if device.kind == "gpu" and device.vendor.lower().startswith("nvidia") else None


def blocks(flags: Collection[str]) -> Unit | None:
    """The blocks of onnxruntime's convolutions at level all (MLAS, platform.cpp), by the flags of an x86 CPU."""
    if "avx512f" in flags:
        return Unit(16, 0, "onnxruntime's NCHWc layout: blocks of 16 channels with AVX-512")
    return Unit(8, 0, "onnxruntime's NCHWc layout: blocks of 8 channels without AVX-512") if "sse2" in flags else None
