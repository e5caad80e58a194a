"""The operators of a call of a language model, in the order in which they run, and what every part is made of."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flopwise.formats.language.parts import Decoder
from flopwise.graph import Module, Node, Share, Tensor, Way
from flopwise.graph.graph import NOT_RECORDED, ProgramTensor, Shape

#: Element types that gradients have.
_FLOATING = ("float32", "float16", "bfloat16", "float64")

#: The norm of each name: its operator, and whether it has weights and a bias.
_NORMS = {
    "rms": ("RMSNormalization", True, False),
    "layer": ("LayerNormalization", True, True),
    "bare": ("LayerNormalization", True, False),
    "plain": ("LayerNormalization", False, False),
    "unit": ("RMSNormalization", False, False),
}


def by_columns(features: int, units: int, repeated: bool = False) -> Way:
    """A product by columns, of so many features in so many units."""
    return Way("columns", (Share(features, units, repeated),))


def by_rows(features: int, units: int, repeated: bool = False) -> Way:
    """A product by rows."""
    return Way("rows", (Share(features, units, repeated),))


class Learning(NamedTuple):
    """What makes a call one of a training step."""

    #: Whether there are labels, and a loss.
    loss: bool = True
    #: Whether each layer is a checkpoint, whose results are computed once more going back.
    checkpoints: bool = False
    #: Whether gradients go on to what enters the first layer, as transformers' checkpoints ask for.
    inputs: bool = False
    #: Adapters of this rank beside the layers of these paths, which alone are trained; 0: all weights are.
    rank: int = 0
    adapted: frozenset[str] = frozenset()


class Operators:
    """The operators of a call so far, and those that every part of a model is made of."""

    def __init__(
        self, model: Decoder, batch: int, new: int, past: int, encoded: int = 0, learning: Learning | None = None
    ) -> None:
        self.model, self.batch, self.new, self.past, self.encoded = model, batch, new, past, encoded
        self.learning = learning
        #: How the names of its classes begin: "Llama".
        self._title = re.sub(r"(For[A-Z].*|LMHeadModel|Model)$", "", model.name)
        self._invocation = NOT_RECORDED
        self.memory: Tensor | None = None
        self.distances: Tensor | None = None
        self.nodes: list[Node] = []
        self.state: list[Tensor] = []
        #: How the names of weights begin, and what stands in its place where layers share them.
        self._shared = ("", "")
        self._scope: tuple[Module, ...] = ()
        self._copies = 1
        self._layer = 0
        self._tensors = 0

    def _heads(self, path: str, x: Tensor, name: str, heads: int, width: int, norms: str = "") -> Tensor:
        """Queries, keys or values by head, normed where that is asked for."""
        if norms == "wide":
            x = self._norm(f"{path}.{name}_norm", x)
        x = self._shaped(f"{path}.{name}", x, (self.batch, self.new, heads, width))
        if norms in ("head", "all"):
            x = self._norm(f"{path}.{name}_norm", x)
        elif norms == "heads":
            x = self._norm(f"{path}.{name}_norm", x, shape=(heads, width))
        elif norms == "unit":
            x = self._norm(f"{path}.{name}_norm", x, "unit")
        return self._run("Transpose", f"{path}.{name}.transpose", [x], (self.batch, heads, self.new, width))

    def _rotated(self, name: str, x: Tensor, rotary: int) -> Tensor:
        """Heads rotated by the angles of their positions."""
        if not rotary:
            return x
        attrs = {} if rotary == x.dims[-1] else {"rotary_embedding_dim": rotary, "num_heads": 1}
        return self._run("RotaryEmbedding", name, [x], attrs=attrs)

    def _cached(self, name: str, shape: Sequence[int], dtype: str) -> Tensor | None:
        """A part of the state; None before the first token."""
        if not self.past:
            return None
        path = f"past_key_values.layers.{self._layer}.{name}"
        state = ProgramTensor(path, (self.batch, *shape), dtype or self.model.dtype, "state")
        self.state.append(state)
        return state

    def _appended(self, path: str, cached: Tensor | None, x: Tensor, axis: int = 2) -> Tensor:
        """A part of the state with what the new tokens add to it."""
        if cached is None:
            return x
        shape = [*x.dims]
        shape[axis] = cached.dims[axis] + x.dims[axis]
        return self._run("Concat", f"{path}.cache", [cached, x], tuple(shape))

    def _flat(self, path: str, mixed: Tensor, width: int) -> Tensor:
        """The results of all heads side by side: [batch, heads, tokens, head] as [batch, tokens, width]."""
        heads, each = mixed.dims[1], mixed.dims[-1]
        mixed = self._run("Transpose", f"{path}.transpose", [mixed], (self.batch, self.new, heads, each))
        return self._shaped(path, mixed, (self.batch, self.new, width))

    def _norm(self, name: str, x: Tensor, kind: str = "", shape: Shape | None = None) -> Tensor:
        op, scaled, moved = _NORMS[kind or self.model.norm]
        shape = x.dims[-1:] if shape is None else shape
        weights = [self._weight(f"{name}.{part}", *shape) for part, has in (("weight", scaled), ("bias", moved)) if has]
        if self.learning is None or op != "RMSNormalization" or self.model.dtype not in ("float16", "bfloat16"):
            return self._run(op, name, [x, *weights], attrs={"axis": -1})
        wide = self._run("Cast", f"{name}.to", [x], dtype="float32")  # programs norm, and keep, single precision
        normal = self._run("Cast", f"{name}.back", [self._run(op, name, [wide], dtype="float32", attrs={"axis": -1})])
        return self._run("Mul", f"{name}.scaled", [normal, *weights]) if weights else normal

    def _vectors(self, path: str, x: Tensor, count: int) -> Tensor:
        """Further vectors of weights that a part has, taken in by one operator."""
        return self._run("Mul", f"{path}.vectors", [x, self._weight(f"{path}.vectors{self._tensors}", count)], x.dims)

    def _add(self, path: str, one: Tensor, other: Tensor) -> Tensor:
        return self._run("Add", f"{path}.add", [one, other])

    def _shaped(self, path: str, x: Tensor, shape: Shape) -> Tensor:
        return x if x.dims == shape else self._run("Reshape", f"{path}.reshape", [x], shape)

    def _linear(
        self,
        path: str,
        x: Tensor,
        width: int,
        *,
        bias: bool = False,
        table: Tensor | None = None,
        way: Way | None = None,
    ) -> Tensor:
        weight = table or self._weight(f"{path}.weight", width, int(x.dims[-1]))
        added = self._weight(f"{path}.bias", width) if bias else None
        with self._in(path, "Linear"):
            out = self._run("Gemm", path, [x, weight, added], (*x.dims[:-1], width), attrs={"transB": 1}, way=way)
            beside = self.learning is not None and path in self.learning.adapted
            return self._adapted(path, x, out, way) if beside else out

    def _adapted(self, path: str, x: Tensor, out: Tensor, way: Way | None) -> Tensor:
        """A product with that of its adapter: B(A(x)), in single precision where the model is in half."""
        dtype = "float32" if self.model.dtype in ("float16", "bfloat16") else self.model.dtype
        x = x if dtype == self.model.dtype else self._run("Cast", f"{path}.lora.to", [x], dtype=dtype)
        rank = self.learning.rank if self.learning is not None else 0
        for name, width in (("lora_A", rank), ("lora_B", int(out.dims[-1]))):
            weight = ProgramTensor(f"{path}.{name}.weight", (width, int(x.dims[-1])), dtype, "weight", grad=True)
            with self._in(f"{path}.{name}", "Linear"):
                own = way if way is not None and way.kind == ("rows" if name == "lora_A" else "columns") else None
                size = (*x.dims[:-1], width)
                x = self._run("Gemm", f"{path}.{name}", [x, weight, None], size, dtype, {"transB": 1}, own)
        x = self._run("Mul", f"{path}.lora.scaled", [x], dtype=dtype)
        out = self._run("Add", f"{path}.lora.add", [x, out], dtype=dtype)
        return out if dtype == self.model.dtype else self._run("Cast", f"{path}.lora.back", [out])

    def _adapter(self, path: str, x: Tensor, rank: int, width: int, way: Way) -> Tensor:
        """A product of a low rank that a layer has for itself beside weights that it shares."""
        own = path.replace(".shared_transformer.", ".adapters.")
        return self._linear(f"{own}.1", self._linear(f"{own}.0", x, rank), width, way=way)

    def _weight(self, name: str, *shape: int) -> Tensor:
        trained = self.learning is None or not self.learning.rank
        own, shared = self._shared
        name = shared + name.removeprefix(own) if own and name.startswith(own) else name
        return ProgramTensor(name, shape, self.model.dtype, "weight", grad=trained)

    @contextlib.contextmanager
    def _in(self, path: str, kind: str) -> Iterator[None]:
        """In the context, operators run in a module."""
        outer = self._scope
        self._scope = (*outer, Module(path, kind))
        yield
        self._scope = outer

    def _run(
        self,
        op: str,
        name: str,
        inputs: Sequence[Tensor | None],
        shape: Shape | None = None,
        dtype: str | None = None,
        attrs: Mapping[str, object] | None = None,
        way: Way | None = None,
    ) -> Tensor:
        """The result of an operator; without a shape that of its first input."""
        self._tensors += 1
        first = next(t for t in inputs if t is not None)
        size = first.dims if shape is None else tuple(shape)
        kind = dtype or self.model.dtype
        trained = kind in _FLOATING and any(getattr(t, "grad", False) for t in inputs)
        label = f"t{self._tensors}"
        view = self.learning is not None and op in ("Transpose", "Reshape")  # whose storage is kept once
        storage = getattr(first, "storage", "") or first.name if view else label if self.learning is not None else ""
        result = ProgramTensor(label, size, kind, grad=trained, storage=storage)
        facts = (attrs or {}, self._scope)
        self.nodes.append(
            Node(op, name, tuple(inputs), (result,), *facts, invocation=self._invocation, copies=self._copies, way=way)
        )
        return result
