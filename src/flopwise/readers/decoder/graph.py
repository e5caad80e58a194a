"""The program of a decoder, operator by operator as transformers runs it, from its sizes alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from flopwise.errors import InputError
from flopwise.graph import Graph, Module, Node, Tensor
from flopwise.graph.graph import Call, Program, ProgramTensor, Shape
from flopwise.readers.decoder.config import NEEDS, Decoder

#: PyTorch's functions -> the operators that they are, where the names differ by more than a capital letter.
_OPERATORS = {
    "embedding": "Gather",
    "arange": "Range",
    "to": "Cast",
    "float": "Cast",
    "sum": "ReduceSum",
    "eq": "Equal",
    "getitem": "Slice",
    "cat": "Concat",
    "pow": "aten::square",
    "mean": "ReduceMean",
    "rsqrt": "aten::rsqrt",
    "linear": "Gemm",
    "view": "Reshape",
    "silu": "aten::silu",
    "scaled_dot_product_attention": "Attention",
    "contiguous": "Identity",
}

#: Modules that do one thing, whose operators have their names.
_SINGLE = ("Linear", "SiLUActivation", "DecoderLayer", "MLP")

#: Cosines and sines, of the positions of the tokens that are fed.
_Angles = tuple[Tensor, Tensor]


def decoder_graph(decoder: Decoder, batch: int = 1, new: int = 128, past: int = 0, masked: bool = False) -> Graph:
    """The graph of a call of a decoder: the tokens of a prompt, or one token after others.

    Args:
        decoder: its sizes.
        batch: sequences.
        new: tokens of each that are fed.
        past: tokens of each in the cache that it is handed.
        masked: whether it is handed a mask of the tokens as well, which a prompt alone can be.

    Raises:
        InputError: several tokens are fed after others, or a number is out of range.
    """
    if batch < 1 or new < 1 or past < 0:
        raise InputError("batch and new tokens are at least 1, past tokens at least 0")
    if past and new > 1:
        raise InputError(f"{decoder.source}: a prompt in pieces {NEEDS}")
    return _Call(decoder, batch, new, past, masked and not past).graph()


class _Call:
    """The operators of a call, in the order in which they run."""

    def __init__(self, decoder: Decoder, batch: int, new: int, past: int, masked: bool) -> None:
        self.decoder, self.batch, self.new, self.past, self.masked = decoder, batch, new, past, masked
        self.nodes: list[Node] = []
        self.state: list[Tensor] = []
        self.calls: list[Call] = []
        self._scope: tuple[Module, ...] = ()
        self._open: list[int] = []
        self._names: Counter[str] = Counter()
        self._tensors = 0

    def graph(self) -> Graph:
        """The graph of the call."""
        d, size = self.decoder, (self.batch, self.new)
        tokens = ProgramTensor("input_ids", size, "int64", "input")
        mask = ProgramTensor("attention_mask", size, "int64", "input")
        given = (tokens, mask) if self.masked else (tokens,)
        name = f"{d.family.title}ForCausalLM"
        table = self._weight("model.embed_tokens.weight", d.vocabulary, d.hidden)
        with self._module("", name, *given):
            hidden = self._body(given, table)
            hidden = self._run("getitem", [hidden], hidden.dims)
            scores = self._linear("lm_head", hidden, d.vocabulary, table=table if d.tied else None)
        program = Program(calls=tuple(self.calls))
        return Graph(name, "torch", d.source, (*given, *self.state), (scores,), tuple(self.nodes), {}, d.notes, program)

    def _body(self, given: Sequence[Tensor], table: Tensor) -> Tensor:
        """The hidden states after all layers; the tokens are the first input."""
        d, new, tokens = self.decoder, self.new, given[0]
        with self._module("model", f"{d.family.title}Model", *given):
            with self._module("model.embed_tokens", "Embedding", tokens):
                hidden = self._run("embedding", [table, tokens], (*tokens.dims, d.hidden))
            ids = self._run("add", [self._run("arange", [], (new,), "int64")], (new,), "int64")
            ids = self._run("unsqueeze", [ids], (1, new), "int64")
            for mask in given[1:]:
                ones = self._run("to", [mask], mask.dims, "bool")
                self._run("eq", [self._run("sum", [ones], (), "int64")], (), "bool")
            with self._module("model.rotary_emb", f"{d.family.title}RotaryEmbedding", hidden, ids):
                angles = self._angles(ids)
            for number in range(d.layers):
                hidden = self._layer(f"model.layers.{number}", hidden, angles, ids)
            return self._norm("model.norm", hidden)

    def _angles(self, ids: Tensor) -> _Angles:
        new, half, head = self.new, self.decoder.head // 2, self.decoder.head
        ids = self._run("float", [self._run("getitem", [ids], (1, new, 1), "int64")], (1, new, 1), "float32")
        rates = ProgramTensor("model.rotary_emb.inv_freq", (half,), "float32", "constant")
        angle = self._run("mul", [ids, rates], (1, new, half), "float32")
        angle = self._run("cat", [angle, angle], (1, new, head), "float32")
        cos = self._run("mul", [self._run("cos", [angle], angle.dims, "float32")], angle.dims, "float32")
        sin = self._run("mul", [self._run("sin", [angle], angle.dims, "float32")], angle.dims, "float32")
        return self._cast(cos, self.decoder.dtype), self._cast(sin, self.decoder.dtype)

    def _layer(self, path: str, hidden: Tensor, angles: _Angles, ids: Tensor) -> Tensor:
        """The result of a layer: attention and the feed-forward network, each added to what comes in."""
        title = self.decoder.family.title
        with self._module(path, f"{title}DecoderLayer", hidden, *angles, ids):
            normal = self._norm(f"{path}.input_layernorm", hidden)
            with self._module(f"{path}.self_attn", f"{title}Attention", normal, ids, *angles):
                mixed = self._attention(f"{path}.self_attn", normal, angles)
            hidden = self._run("add", [hidden, mixed], hidden.dims)
            normal = self._norm(f"{path}.post_attention_layernorm", hidden)
            with self._module(f"{path}.mlp", f"{title}MLP", normal):
                inner = self._feed_forward(f"{path}.mlp", normal)
            return self._run("add", [hidden, inner], hidden.dims)

    def _attention(self, path: str, x: Tensor, angles: _Angles) -> Tensor:
        d, new = self.decoder, self.new
        queries = self._heads(path, x, "q", d.heads)
        keys, values = (self._heads(path, x, name, d.groups) for name in "kv")
        cos, sin = (self._run("unsqueeze", [one], (1, 1, new, d.head)) for one in angles)
        queries, keys = (self._turned(heads, cos, sin) for heads in (queries, keys))
        held = [self._held(path, name) for name in ("keys", "values")]
        length = (self.batch, d.groups, self.past + new, d.head)
        keys, values = (self._run("cat", pair, length) for pair in zip(held, (keys, values), strict=True))
        shape = queries.dims
        mixed = self._run(
            "scaled_dot_product_attention", [queries, keys, values, None], shape, attrs={"is_causal": int(new > 1)}
        )
        mixed = self._run("reshape", [mixed], shape)
        order = (self.batch, new, d.heads, d.head)
        mixed = self._run("transpose", [mixed], order, contiguous=1 in (new, d.heads))
        if not mixed.contiguous:
            mixed = self._run("contiguous", [mixed], order)
        mixed = self._run("reshape", [mixed], (self.batch, new, d.heads * d.head))
        return self._linear(f"{path}.o_proj", mixed, d.hidden, bias=d.attention_bias)

    def _heads(self, path: str, x: Tensor, name: str, count: int) -> Tensor:
        """Queries, keys or values by head."""
        d = self.decoder
        bias = d.attention_bias or d.family.qkv_bias
        heads = self._linear(f"{path}.{name}_proj", x, count * d.head, bias=bias)
        heads = self._run("view", [heads], (self.batch, self.new, count, d.head))
        if d.family.qk_norm and name != "v":
            heads = self._norm(f"{path}.{name}_norm", heads)
        shape = (self.batch, count, self.new, d.head)
        return self._run("transpose", [heads], shape, contiguous=1 in (self.new, count))

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries or keys, turned by the angles of their positions."""
        half, dense = (*x.dims[:-1], self.decoder.head // 2), x.contiguous
        plain = self._run("mul", [x, cos], x.dims, contiguous=dense)
        first, second = (
            self._run("getitem", [x], half, contiguous=False, attrs={"starts": start}) for start in (0, half[-1])
        )
        other = self._run("cat", [self._run("neg", [second], half, contiguous=dense), first], x.dims)
        other = self._run("mul", [other, sin], x.dims)
        return self._run("add", [plain, other], x.dims, contiguous=dense)

    def _held(self, path: str, name: str) -> Tensor:
        """Keys or values of the tokens before; an empty constant where there are none."""
        d = self.decoder
        if not self.past:
            self._tensors += 1
            return ProgramTensor(f"constant{self._tensors}", (0,), d.dtype, "constant")
        shape, number = (self.batch, d.groups, self.past, d.head), path.split(".")[2]
        state = ProgramTensor(f"past_key_values.layers.{number}.{name}", shape, d.dtype, "state")
        self.state.append(state)
        return state

    def _feed_forward(self, path: str, x: Tensor) -> Tensor:
        d = self.decoder
        gate = self._linear(f"{path}.gate_proj", x, d.inner, bias=d.mlp_bias)
        with self._module(f"{path}.act_fn", "SiLUActivation", gate):
            gate = self._run("silu", [gate], gate.dims)
        up = self._linear(f"{path}.up_proj", x, d.inner, bias=d.mlp_bias)
        return self._linear(f"{path}.down_proj", self._run("mul", [gate, up], up.dims), d.hidden, bias=d.mlp_bias)

    def _norm(self, path: str, x: Tensor) -> Tensor:
        """The root mean square norm of the last axis, in single precision."""
        rows = (*x.dims[:-1], 1)
        with self._module(path, f"{self.decoder.family.title}RMSNorm", x):
            single = self._cast(x, "float32")
            square = self._run("pow", [single], x.dims, "float32")
            mean = self._run("mean", [square], rows, "float32", attrs={"args": {"dim": -1}})
            mean = self._run("add", [mean], rows, "float32", attrs={"args": {"other": self.decoder.epsilon}})
            scale = self._run("rsqrt", [mean], rows, "float32")
            normal = self._cast(self._run("mul", [single, scale], x.dims, "float32"), x.dtype)
            return self._run("mul", [self._weight(f"{path}.weight", int(x.dims[-1])), normal], x.dims)

    def _linear(self, path: str, x: Tensor, width: int, *, bias: bool = False, table: Tensor | None = None) -> Tensor:
        weight = table or self._weight(f"{path}.weight", width, int(x.dims[-1]))
        added = self._weight(f"{path}.bias", width) if bias else None
        with self._module(path, "Linear", x):
            return self._run("linear", [x, weight, added], (*x.dims[:-1], width), attrs={"transB": 1})

    def _cast(self, x: Tensor, dtype: str | None) -> Tensor:
        """A tensor in another element type; the tensor itself where that is its own."""
        return x if x.dtype == dtype else self._run("to", [x], x.dims, dtype)

    def _weight(self, name: str, *shape: int) -> Tensor:
        return ProgramTensor(name, shape, self.decoder.dtype, "weight", grad=True)

    @contextlib.contextmanager
    def _module(self, path: str, kind: str, *inputs: Tensor) -> Iterator[None]:
        """In the context, operators run in a module that is called with these inputs."""
        outer, place = self._scope, len(self.calls)
        caller = self._open[-1] if self._open else None
        self.calls.append(Call(path, inputs, (), len(self.nodes), len(self.nodes), caller, 0))
        self._scope = (*outer, Module(path, kind))
        self._open.append(place)
        yield
        self._open.pop()
        self._scope = outer
        call = self.calls[place]
        self.calls[place] = call._replace(outputs=self.nodes[-1].known_outputs, last=len(self.nodes))

    def _run(
        self,
        function: str,
        inputs: Sequence[Tensor | None],
        shape: Shape,
        dtype: str | None = None,
        *,
        contiguous: bool = True,
        attrs: Mapping[str, object] | None = None,
    ) -> Tensor:
        """The result of an operator."""
        self._tensors += 1
        result = ProgramTensor(f"t{self._tensors}", shape, dtype or self.decoder.dtype, contiguous=contiguous)
        module = self._scope[-1]
        alone = module.kind.endswith(_SINGLE) or (module.path == "model" and function == "add" and not self.masked)
        name = module.path if alone else ".".join(filter(None, (module.path, function)))
        self._names[name] += 1
        name = name if self._names[name] == 1 else f"{name}:{self._names[name]}"
        op = _OPERATORS.get(function, function.capitalize())
        self.nodes.append(Node(op, name, tuple(inputs), (result,), attrs or {}, self._scope, f"aten.{function}"))
        return result
