"""The parts of a layer that mix tokens: attention of every kind, linear attention, state spaces, convolutions."""

from __future__ import annotations

import math

from flopwise.formats.language.operators import Operators, by_columns, by_rows
from flopwise.formats.language.parts import (
    Attention,
    CompressedAttention,
    Indexer,
    LatentAttention,
    LinearAttention,
    Lru,
    Mamba,
    Mixer,
    Relative,
    ShortConv,
    Wkv,
)
from flopwise.formats.language.state import state_of, visible_pairs
from flopwise.graph import Share, Tensor, Way
from flopwise.graph.graph import ProgramTensor
from flopwise.operators.masks import ABSORBED, KERNEL, PAIRS, pairs_within
from flopwise.operators.size import identity, larger, smaller


class Mixers(Operators):
    """Operators of the parts that mix tokens."""

    def _mixed(self, path: str, mixer: Mixer, x: Tensor) -> Tensor:
        with self._in(path, self._title + type(mixer).__name__):
            if isinstance(mixer, Attention):
                return self._attention(path, mixer, x)
            if isinstance(mixer, LatentAttention):
                return self._latent(path, mixer, x)
            if isinstance(mixer, CompressedAttention):
                return self._compressed(path, mixer, x)
            if isinstance(mixer, LinearAttention):
                return self._delta(path, mixer, x)
            if isinstance(mixer, Mamba):
                return self._mamba(path, mixer, x) if mixer.heads else self._selective(path, mixer, x)
            if isinstance(mixer, Lru):
                return self._lru(path, mixer, x)
            return self._wkv(path, mixer, x) if isinstance(mixer, Wkv) else self._short_conv(path, mixer, x)

    def _attention(self, path: str, a: Attention, x: Tensor) -> Tensor:
        wide = a.heads * a.head + (a.gate if a.gate_in_queries else 0)
        heads = a.heads // 2 if a.differential else a.heads  # which share values
        queries = self._linear(f"{path}.q_proj", x, wide, bias=a.bias, way=by_columns(wide, heads))
        if a.rank:
            queries = self._add(path, queries, self._adapter(f"{path}.q", x, a.rank, wide, by_columns(wide, heads)))
        if a.gate_in_queries:
            queries, gate = (
                self._run("Slice", f"{path}.split", [queries], (*x.dims[:-1], n)) for n in (a.heads * a.head, a.gate)
            )
        elif a.gate:
            gate = self._linear(f"{path}.gate_proj", x, a.gate, way=by_columns(a.gate, a.heads))
        queries = self._heads(path, queries, "q", a.heads, a.head, a.norms)
        queries = self._rotated(f"{path}.rotary_q", queries, a.rotary)
        if a.cross:
            return self._crossed(path, a, queries)
        cached: dict[str, Tensor | None] = {}
        reach = a.window or a.chunk
        before = self.past if reach is None else smaller(self.past, reach - 1)
        if a.borrowed:  # keys and values of an earlier layer
            shape = (self.batch, a.groups, before + self.new, a.head)
            keys: Tensor = ProgramTensor(f"{path}.shared_keys", shape, self.model.dtype)
            values = keys
        else:
            narrow, biased = by_columns(a.groups * a.head, a.groups, True), a.bias and not a.plain_keys
            keys = values = self._linear(f"{path}.k_proj", x, a.groups * a.head, bias=biased, way=narrow)
            if not a.keys_alone:
                values = self._linear(f"{path}.v_proj", x, a.groups * a.value, bias=a.bias, way=narrow)
            if a.rank:
                keys = self._add(path, keys, self._adapter(f"{path}.k", x, a.rank, a.groups * a.head, narrow))
                values = self._add(path, values, self._adapter(f"{path}.v", x, a.rank, a.groups * a.value, narrow))
            values = self._heads(path, values, "v", a.groups, a.value, "unit" if a.norms == "all" else "")
            keys = self._rotated(f"{path}.rotary_k", self._heads(path, keys, "k", a.groups, a.head, a.norms), a.rotary)
            if a.causal:
                state = state_of(a, self.past).items()
                cached = {name: self._cached(name, shape, dtype) for name, (shape, dtype) in state}
                keys = self._appended(path, cached.get("keys"), keys)
                values = self._appended(path, cached.get("values"), values)
        if a.indexer is not None:
            self._block_index(f"{path}.indexer", a, a.indexer, x, cached.get("indexer_keys"))
        if a.relative is not None:
            self._distances(path, a, a.relative, queries, keys)
        if a.differential:  # each two heads share the values of both
            both = (*values.dims[:1], a.groups, values.dims[2], 2 * a.value)
            values = self._run("Expand", f"{path}.values", [values], both)
        mixed = self._scored(path, a, queries, keys, values, before, a.softcap)
        if a.differential:
            half = (self.batch, a.heads // 2, self.new, 2 * a.value)
            parts = [self._run("Slice", f"{path}.halves", [mixed], half) for _ in range(2)]
            mixed = self._norm(f"{path}.groupnorm", self._run("Sub", f"{path}.difference", parts), "unit")
        if a.sinks:
            mixed = self._sunk(path, mixed, a.heads)
        mixed = self._flat(path, mixed, a.heads * a.value)
        if a.gate:
            mixed = self._gated(path, mixed, gate, a.heads)
        if a.vectors:
            mixed = self._vectors(path, mixed, a.vectors)
        if a.out_norm:
            mixed = self._norm(f"{path}.sub_norm", mixed)
        return self._out_projected(path, a, mixed)

    def _out_projected(self, path: str, a: Attention, mixed: Tensor) -> Tensor:
        way = by_rows(a.heads * a.value, a.heads)
        return self._linear(f"{path}.o_proj", mixed, self.model.hidden, bias=a.out_bias, way=way)

    def _sunk(self, path: str, mixed: Tensor, heads: int) -> Tensor:
        """Results of attention whose heads have a score that no key has."""
        sinks = self._shaped(path, self._weight(f"{path}.sinks", heads), (1, heads, 1, 1))
        return self._run("Mul", f"{path}.sink", [mixed, sinks], way=by_columns(heads, heads))

    def _distances(self, path: str, a: Attention, r: Relative, queries: Tensor, keys: Tensor) -> None:
        """Scores of queries with every distance, and of every distance with keys; each pair takes its own of both."""
        assert self.distances is not None
        for side, name, tokens in (("key", "k", queries), ("query", "q", keys)):
            if not (r.of_query if side == "key" else r.of_key):
                continue
            own, biased = f"{path}.pos_{side}_proj", name == "q" or not a.plain_keys
            layer, width = f"{path}.{name}_proj" if r.shared else own, a.heads * a.head
            wide = self._linear(layer, self.distances, width, bias=biased, way=by_columns(width, a.heads))
            shape = (a.heads, a.head, r.rows)
            wide = self._run(
                "Transpose", f"{own}.transpose", [self._shaped(own, wide, (r.rows, a.heads, a.head))], shape
            )
            scores = self._run("MatMul", f"{path}.{side}_distances", [tokens, wide], (*tokens.dims[:-1], r.rows))
            self._run("GatherElements", f"{path}.{side}_distances.pick", [scores], (*tokens.dims[:-1], tokens.dims[-2]))

    def _crossed(self, path: str, a: Attention, queries: Tensor) -> Tensor:
        """Attention to what an encoder read, whose keys and values are made once."""
        shape = (self.batch, a.groups, self.encoded, a.head)
        if self.memory is None:
            names = [f"past_key_values.cross.layers.{self._layer}.{name}" for name in ("keys", "values")]
            keys: Tensor = ProgramTensor(names[0], shape, self.model.dtype, "state")
            values: Tensor = ProgramTensor(names[1], shape, self.model.dtype, "state")
            self.state += [keys, values]
        else:
            keys, values = (
                self._linear(
                    f"{path}.{name}_proj",
                    self.memory,
                    a.groups * a.head,
                    bias=a.bias and not (a.plain_keys and name == "k"),
                    way=by_columns(a.groups * a.head, a.groups, True),
                )
                for name in "kv"
            )
            flat = (self.batch, self.encoded, a.groups, a.head)
            keys, values = self._shaped(path, keys, flat), self._shaped(path, values, flat)
            if a.norms == "head":
                keys = self._norm(f"{path}.k_norm", keys)
            keys, values = (self._run("Transpose", f"{path}.transpose", [x], shape) for x in (keys, values))
        mixed = self._run(
            "Attention", f"{path}.attention", [queries, keys, values], queries.dims, attrs={"is_causal": 0}
        )
        return self._out_projected(path, a, self._flat(path, mixed, a.heads * a.value))

    def _scored(
        self,
        path: str,
        mixer: Attention | LatentAttention | CompressedAttention,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        before: int,
        cap: bool = False,
    ) -> Tensor:
        """Queries, keys and values of all heads put together."""
        causal = getattr(mixer, "causal", True)
        past = self.past if not isinstance(mixer, Attention) or mixer.chunk is not None else before
        left = self.batch * mixer.heads * visible_pairs(mixer, self.new, past)
        attrs: dict[str, object] = {"is_causal": int(causal and self.new > 1)}
        if isinstance(mixer, LatentAttention) and keys.dims[1] == 1:
            attrs[ABSORBED] = mixer.nope + mixer.rotary, mixer.value
        if self.learning is not None:
            attrs[KERNEL] = "flash"  # which keeps no scores
        if identity(left) != identity(self.batch * mixer.heads * self.new * keys.dims[-2]):
            attrs[PAIRS] = left
        if cap:
            attrs["softcap"] = 50.0
        shape = (*queries.dims[:-1], values.dims[-1])
        return self._run("Attention", f"{path}.attention", [queries, keys, values], shape, attrs=attrs)

    def _latent(self, path: str, a: LatentAttention, x: Tensor) -> Tensor:
        width = a.nope + a.rotary
        wide = by_columns(a.heads * width, a.heads)
        if a.queries:
            inner = self._norm(f"{path}.q_a_layernorm", self._linear(f"{path}.q_a_proj", x, a.queries, bias=a.bias))
            queries = self._linear(f"{path}.q_b_proj", inner, a.heads * width, way=wide)
        else:
            inner, queries = x, self._linear(f"{path}.q_proj", x, a.heads * width, way=wide)
        queries = self._rotated(f"{path}.rotary_q", self._heads(path, queries, "q", a.heads, width), a.rotary)
        narrow = self._linear(f"{path}.kv_a_proj_with_mqa", x, a.latent + a.rotary, bias=a.bias)
        latent, rotary = (
            self._run("Slice", f"{path}.split", [narrow], (*x.dims[:-1], n)) for n in (a.latent, a.rotary)
        )
        latent = self._norm(f"{path}.kv_a_layernorm", latent, "rms")
        rotary = self._rotated(f"{path}.rotary_k", rotary, a.rotary)
        cached = {name: self._cached(name, shape, dtype) for name, (shape, dtype) in state_of(a, self.past).items()}
        latent, rotary = (
            self._appended(path, cached.get(name), self._shaped(path, part, (self.batch, 1, self.new, part.dims[-1])))
            for name, part in (("keys", latent), ("values", rotary))
        )
        if a.indexer is not None:
            self._index(f"{path}.indexer", a.indexer, x, inner, cached.get("indexer_keys"), a.rotary)
        total = self.past + self.new
        if self._absorbs(a):
            mixed = self._over_latents(path, a, queries, latent, rotary)
        else:
            flat = self._shaped(path, latent, (self.batch, total, a.latent))
            both = a.heads * (a.nope + a.value)
            expanded = self._linear(f"{path}.kv_b_proj", flat, both, way=by_columns(both, a.heads))
            expanded = self._shaped(path, expanded, (self.batch, total, a.heads, a.nope + a.value))
            shape = (self.batch, a.heads, total)
            nope, values = (self._run("Slice", f"{path}.kv", [expanded], (*shape, n)) for n in (a.nope, a.value))
            spread = self._run("Expand", f"{path}.expand", [rotary], (*shape, a.rotary))
            keys = self._run("Concat", f"{path}.keys", [nope, spread], (*shape, width))
            mixed = self._scored(path, a, queries, keys, values, self.past)
        if a.sinks:
            mixed = self._sunk(path, mixed, a.heads)
        mixed = self._flat(path, mixed, a.heads * a.value)
        if a.gate:
            gate = self._linear(f"{path}.g_proj", x, a.gate, way=by_columns(a.gate, a.heads))
            mixed = self._gated(path, mixed, gate, a.heads)
        way = by_rows(a.heads * a.value, a.heads)
        return self._linear(f"{path}.o_proj", mixed, self.model.hidden, bias=a.bias, way=way)

    def _absorbs(self, a: LatentAttention) -> bool:
        """True where attention over latents takes fewer products than expanding them for the whole context.

        Queries are multiplied with the part of the expansion that makes keys, and results with that of values: engines
        do so in a step. Source: DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1.2.
        """
        if self.learning is not None:
            return False
        total, weight = self.past + self.new, a.latent * (a.nope + a.value)
        expanded = total * weight + self.new * total * (a.nope + a.rotary + a.value)
        return bool(self.new * weight + self.new * total * (2 * a.latent + a.rotary) < expanded)

    def _over_latents(self, path: str, a: LatentAttention, queries: Tensor, latent: Tensor, rotary: Tensor) -> Tensor:
        """Attention of queries with latents, whose values are latents as well."""
        both = a.heads * (a.nope + a.value)
        weight, way = self._weight(f"{path}.kv_b_proj.weight", both, a.latent), by_columns(both, a.heads)
        shape = (self.batch, a.heads, self.new)
        attrs = {ABSORBED: (a.nope + a.rotary, a.value)}
        nope, turned = (self._run("Slice", f"{path}.q", [queries], (*shape, n)) for n in (a.nope, a.rotary))
        with self._in(f"{path}.kv_b_proj", "Linear"):
            nope = self._run(
                "MatMul", f"{path}.kv_b_proj.keys", [nope, weight], (*shape, a.latent), attrs=attrs, way=way
            )
        queries = self._run("Concat", f"{path}.q.latent", [nope, turned], (*shape, a.latent + a.rotary))
        wide = (*latent.dims[:-1], a.latent + a.rotary)
        mixed = self._scored(
            path, a, queries, self._run("Concat", f"{path}.keys", [latent, rotary], wide), latent, self.past
        )
        with self._in(f"{path}.kv_b_proj", "Linear"):
            values = f"{path}.kv_b_proj.values"
            return self._run("MatMul", values, [mixed, weight], (*shape, a.value), attrs=attrs, way=way)

    def _gated(self, path: str, mixed: Tensor, gate: Tensor, heads: int) -> Tensor:
        """A result of attention times a gate, of which there is an element for each of its own or for each head."""
        weights, width = self._run("Sigmoid", f"{path}.gate", [gate]), int(mixed.dims[-1])
        if gate.dims != mixed.dims:
            weights = self._shaped(path, weights, (self.batch, self.new, heads, 1))
            mixed = self._shaped(path, mixed, (self.batch, self.new, heads, width // heads))
        return self._shaped(path, self._run("Mul", f"{path}.gated", [mixed, weights]), (self.batch, self.new, width))

    def _index(
        self,
        path: str,
        index: Indexer,
        x: Tensor,
        inner: Tensor,
        cached: Tensor | None,
        rotary: int,
        keys: Tensor | None = None,
        ratio: int = 1,
    ) -> None:
        """The scores by which keys are chosen: of each query's heads with one key, weighed and added."""
        queries, weights = self._index_weights(path, index, x, inner)
        queries = self._rotated(f"{path}.rotary_q", self._heads(path, queries, "q", index.heads, index.head), rotary)
        if keys is None:
            keys = self._norm(f"{path}.k_norm", self._linear(f"{path}.wk", x, index.head), "layer")
            keys = self._appended(path, cached, self._rotated(f"{path}.rotary_k", keys, rotary), axis=1)
        total = keys.dims[1]
        keys = self._shaped(path, keys, (self.batch, 1, total, index.head))
        ones = self._shaped(
            path, self._run("Slice", f"{path}.one", [keys], (*keys.dims[:-1], 1)), (self.batch, 1, total, 1)
        )
        left = self.batch * index.heads * (pairs_within(self.new, total, self.past) if ratio == 1 else self.new * total)
        shape = (self.batch, index.heads, self.new, 1)  # a pair's scores are weighed and added up, as values are
        scores = self._run(
            "Attention", f"{path}.scores", [queries, keys, ones], shape, attrs={"is_causal": 0, PAIRS: left}
        )
        weights = self._shaped(path, weights, shape)
        scores = self._run("Mul", f"{path}.weighed", [scores, weights])
        scores = self._run("Expand", f"{path}.each", [scores], (self.batch, self.new, total))
        self._run("TopK", f"{path}.topk", [scores], (self.batch, self.new, smaller(index.top_k, total)), "int64")

    def _block_index(self, path: str, a: Attention, index: Indexer, x: Tensor, cached: Tensor | None) -> None:
        """The scores by which blocks of keys are chosen: the best score of each block, for each head apart."""
        queries = self._linear(f"{path}.q_proj", x, index.heads * index.head)
        queries = self._heads(path, queries, "q", index.heads, index.head, "head")
        keys = self._norm(f"{path}.k_norm", self._linear(f"{path}.k_proj", x, index.head))
        queries, keys = (self._rotated(f"{path}.rotary", part, a.rotary) for part in (queries, keys))
        keys = self._appended(path, cached, keys, axis=1)
        total = int(keys.dims[1])
        keys = self._shaped(path, keys, (self.batch, 1, total, index.head))
        nothing = self._run("Slice", f"{path}.none", [keys], (*keys.dims[:-1], 0))
        left = self.batch * index.heads * pairs_within(self.new, total, self.past)
        attrs = {"is_causal": 0, PAIRS: left}
        shape = (self.batch, index.heads, self.new, 0)  # no values are weighed
        self._run("Attention", f"{path}.scores", [queries, keys, nothing], shape, attrs=attrs)
        blocks = -(-total // a.block)
        best = self._run("MaxPool", f"{path}.blocks", [queries], (self.batch, index.heads, self.new, blocks))
        self._run("TopK", f"{path}.topk", [best], (*best.dims[:-1], min(index.top_k, blocks)), "int64")

    def _compressed(self, path: str, a: CompressedAttention, x: Tensor) -> Tensor:
        inner = self._norm(f"{path}.q_a_norm", self._linear(f"{path}.q_a_proj", x, a.queries))
        wide = by_columns(a.heads * a.head, a.heads)
        queries = self._linear(f"{path}.q_b_proj", inner, a.heads * a.head, way=wide)
        queries = self._heads(path, queries, "q", a.heads, a.head, "unit")
        queries = self._rotated(f"{path}.rotary_q", queries, a.rotary)
        keys = self._norm(f"{path}.kv_norm", self._linear(f"{path}.kv_proj", x, a.head))
        keys = self._rotated(f"{path}.rotary_k", self._shaped(path, keys, (self.batch, 1, self.new, a.head)), a.rotary)
        sizes = {"keys": state_of(a, self.past)["keys"][0]}
        sizes |= {
            f"compressed_kv.{n}": (a.entries(self.past), w)
            for n, w in (("compressor", a.head), ("indexer", a.indexer.head if a.indexer else 0))
        }
        cached = {name: self._cached(name, shape, "") for name, shape in sizes.items() if math.prod(shape)}
        keys = self._appended(path, cached.get("keys"), keys)
        total = a.entries(self.past + self.new)
        if a.ratio:
            own = self._entries(f"{path}.compressor", a, x, a.head, cached.get("compressed_kv.compressor"))
            if a.indexer is not None:
                found = self._entries(f"{path}.indexer", a, x, a.indexer.head, cached.get("compressed_kv.indexer"))
                if total:
                    self._index(f"{path}.indexer", a.indexer, x, inner, None, a.rotary, found, a.ratio)
                else:
                    self._index_weights(f"{path}.indexer", a.indexer, x, inner)
            if total:
                own = self._shaped(path, own, (self.batch, 1, total, a.head))
                shape = (*keys.dims[:2], keys.dims[2] + total, a.head)
                keys = self._run("Concat", f"{path}.keys", [keys, own], shape)
        mixed = self._scored(path, a, queries, keys, keys, self.past)
        mixed = self._flat(path, self._sunk(path, mixed, a.heads), a.heads * a.head)
        each, tokens = a.heads * a.head // a.groups, self.batch * self.new
        mixed = self._shaped(path, mixed, (a.groups, tokens, each))
        mixed = self._run(
            "MatMul",
            f"{path}.o_a_proj",
            [mixed, self._weight(f"{path}.o_a_proj.weight", a.groups, each, a.out)],
            (a.groups, tokens, a.out),
            way=by_columns(a.groups * a.out, a.groups, True),
        )
        mixed = self._shaped(path, mixed, (*x.dims[:2], a.groups * a.out))
        way = by_rows(a.groups * a.out, a.groups, True)
        return self._linear(f"{path}.o_b_proj", mixed, self.model.hidden, way=way)

    def _index_weights(self, path: str, index: Indexer, x: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
        queries = self._linear(f"{path}.wq_b", inner, index.heads * index.head)
        return queries, self._linear(f"{path}.weights_proj", x, index.heads)

    def _entries(self, path: str, a: CompressedAttention, x: Tensor, width: int, cached: Tensor | None) -> Tensor:
        """Entries that stand for many tokens each: sums with weights, of those that are complete."""
        wide = width * (1 + a.overlap)
        values, gate = (self._linear(f"{path}.{name}_proj", x, wide) for name in ("kv", "gate"))
        gate = self._run("Softmax", f"{path}.softmax", [self._vectors(path, gate, a.ratio * wide)])
        values = self._run("Mul", f"{path}.mul", [values, gate])
        made = larger(a.entries(self.past + self.new) - a.entries(self.past), 1)
        values = self._norm(
            f"{path}.kv_norm", self._run("ReduceSum", f"{path}.sum", [values], (x.dims[0], made, width))
        )
        return (
            self._appended(path, cached, values, axis=1)
            if self.past and cached is not None and cached.numel
            else values
        )

    def _delta(self, path: str, d: LinearAttention, x: Tensor) -> Tensor:
        wide = 2 * d.groups * d.key + d.heads * d.value
        keys, values = Share(2 * d.groups * d.key, d.groups, True), Share(d.heads * d.value, d.heads)
        by_heads, mixture = Way("columns", (values,)), Way("columns", (keys, values))
        inner = self._linear(f"{path}.in_proj_qkv", x, wide, way=mixture)
        others = []
        for n, width in enumerate(d.products):
            others.append(self._linear(f"{path}.in_proj_{n}", x, width, way=None if width % d.heads else by_heads))
        for n, (rank, width) in enumerate(d.low_rank):
            narrow = self._linear(f"{path}.{n}_a_proj", x, rank)
            others.append(self._linear(f"{path}.{n}_b_proj", narrow, width, way=None if width % d.heads else by_heads))
        cached = {name: self._cached(name, shape, dtype) for name, (shape, dtype) in state_of(d, self.past).items()}
        if d.kernel:
            inner = self._convolved(path, inner, d.kernel, cached.get("conv_states"), "silu", mixture)
        if d.vectors:
            inner = self._vectors(path, inner, d.vectors)
        size = (self.batch, self.new, d.heads * d.key)
        shapes = (size, size, (self.batch, self.new, d.heads * d.value))
        parts = [self._run("Slice", f"{path}.split", [inner], shape, way=by_heads) for shape in shapes]
        decays = [*others, *[parts[0]] * 2][:2]
        attrs = {"update_rule": d.rule, "kv_num_heads": d.heads, "q_num_heads": d.heads}
        mixed = self._run(
            "LinearAttention",
            f"{path}.state",
            [*parts, cached.get("recurrent_states"), *decays],
            shapes[2],
            attrs=attrs,
        )
        if d.norm:
            shaped = self._shaped(path, mixed, (*x.dims[:-1], d.heads * d.value // d.norm, d.norm))
            mixed = self._shaped(path, self._norm(f"{path}.norm", shaped, "rms"), mixed.dims)
        gate = next((other for other in others if other.dims == mixed.dims), None)
        if gate is not None:
            mixed = self._run("Mul", f"{path}.gated", [mixed, self._run("Swish", f"{path}.gate", [gate])])
        way = by_rows(d.heads * d.value, d.heads)
        return self._linear(f"{path}.out_proj", mixed, self.model.hidden, way=way)

    def _mamba(self, path: str, m: Mamba, x: Tensor) -> Tensor:
        """Version 2: a state of each head by its features, whose decay is one number for each head."""
        channels = m.inner + 2 * m.groups * m.state
        own, groups = Share(m.inner, m.heads), Share(2 * m.groups * m.state, m.groups, True)
        by_heads, mixture = Way("columns", (own,)), Way("columns", (own, groups))
        way = Way("columns", (own, own, groups, Share(m.heads, m.heads)))
        inner = self._linear(f"{path}.in_proj", x, m.inner + channels + m.heads, bias=m.bias, way=way)
        widths = (m.inner, by_heads), (channels, mixture), (m.heads, by_heads)
        parts = [self._run("Slice", f"{path}.split", [inner], (*x.dims[:-1], n), way=way) for n, way in widths]
        cached = {name: self._cached(name, shape, dtype) for name, (shape, dtype) in state_of(m, self.past).items()}
        mixed = self._convolved(path, parts[1], m.kernel, cached.get("conv_states"), "silu", mixture, m.conv_bias)
        steps = self._vectors(path, self._run("Softplus", f"{path}.dt", [parts[2]]), 2 * m.heads)
        size = (*x.dims[:-1], m.heads * m.state)
        shapes = (size, size, (*x.dims[:-1], m.inner))
        bcx = [self._run("Slice", f"{path}.bcx", [mixed], shape, way=by_heads) for shape in shapes]
        attrs = {"update_rule": "gated", "kv_num_heads": m.heads, "q_num_heads": m.heads}
        mixed = self._run(
            "LinearAttention", f"{path}.state", [*bcx, cached.get("recurrent_states"), steps], shapes[2], attrs=attrs
        )
        mixed = self._run("Add", f"{path}.skip", [mixed, self._vectors(path, bcx[2], m.heads)])
        mixed = self._run("Mul", f"{path}.gated", [mixed, self._run("Swish", f"{path}.gate", [parts[0]])])
        if m.norm:
            mixed = self._norm(f"{path}.norm", mixed, "rms")
        out = by_rows(m.inner, m.heads)
        return self._linear(f"{path}.out_proj", mixed, self.model.hidden, bias=m.bias, way=out)

    def _selective(self, path: str, m: Mamba, x: Tensor) -> Tensor:
        """Version 1: a state of each feature, whose decay is one number for each element of it."""
        way = by_columns(m.inner, m.inner)
        both = self._linear(f"{path}.in_proj", x, 2 * m.inner, bias=m.bias, way=way)
        shape = (*x.dims[:-1], m.inner)
        mixed, gate = (self._run("Slice", f"{path}.split", [both], shape) for _ in "xz")
        cached = {name: self._cached(name, shape, dtype) for name, (shape, dtype) in state_of(m, self.past).items()}
        mixed = self._convolved(path, mixed, m.kernel, cached.get("conv_states"), "silu", way, m.conv_bias)
        own = self._linear(f"{path}.x_proj", mixed, m.rank + 2 * m.state, way=by_rows(m.inner, m.inner))
        widths = (m.rank, m.state, m.state)
        parts = [self._run("Slice", f"{path}.bc", [own], (*x.dims[:-1], n)) for n in widths]
        if m.inner_norms:
            parts = [
                self._norm(f"{path}.{n}_layernorm", part, "rms")
                for n, part in zip(("dt", "b", "c"), parts, strict=True)
            ]
        steps = self._linear(f"{path}.dt_proj", parts[0], m.inner, bias=True, way=way)
        steps = self._run("Softplus", f"{path}.dt", [steps])
        attrs = {"update_rule": "gated", "kv_num_heads": m.inner, "q_num_heads": m.inner}
        size = (*x.dims[:-1], m.inner * m.state)
        wide = [self._run("Expand", f"{path}.wide", [part], size, way=way) for part in parts[1:]]
        steps = self._vectors(path, steps, m.inner * m.state)
        state = self._run(
            "LinearAttention",
            f"{path}.state",
            [*wide, mixed, cached.get("recurrent_states"), steps],
            shape,
            attrs=attrs,
        )
        state = self._run("Add", f"{path}.skip", [state, self._vectors(path, mixed, m.inner)])
        mixed = self._run("Mul", f"{path}.gated", [state, self._run("Swish", f"{path}.gate", [gate])])
        out = by_rows(m.inner, m.inner)
        return self._linear(f"{path}.out_proj", mixed, self.model.hidden, bias=m.bias, way=out)

    def _short_conv(self, path: str, c: ShortConv, x: Tensor) -> Tensor:
        way = by_columns(c.width, c.width)
        both = self._linear(f"{path}.in_proj", x, 3 * c.width, bias=c.bias, way=way)
        shape = (*x.dims[:-1], c.width)
        first, second, third = (self._run("Slice", f"{path}.split", [both], shape) for _ in range(3))
        cached = {name: self._cached(name, size, dtype) for name, (size, dtype) in state_of(c, self.past).items()}
        mixed = self._run("Mul", f"{path}.first", [first, second])
        mixed = self._convolved(path, mixed, c.kernel, cached.get("conv_states"), "none", way, c.bias)
        mixed = self._run("Mul", f"{path}.second", [mixed, third])
        out = by_rows(c.width, c.width)
        return self._linear(f"{path}.out_proj", mixed, self.model.hidden, bias=c.bias, way=out)

    def _lru(self, path: str, r: Lru, x: Tensor) -> Tensor:
        state = {name: self._cached(name, size, dtype) for name, (size, dtype) in state_of(r, self.past).items()}
        way = by_columns(r.width, r.blocks)
        gate = self._run("Gelu", f"{path}.act", [self._linear(f"{path}.linear_y", x, r.width, bias=True, way=way)])
        inner = self._linear(f"{path}.linear_x", x, r.width, bias=True, way=way)
        inner = self._convolved(path, inner, r.kernel, state["conv_states"], "none", way, bias=True)
        tokens, each = self.batch * self.new, r.width // r.blocks
        apart = self._shaped(path, inner, (r.blocks, tokens, each))
        gates = []
        for name in ("input", "recurrent"):
            weight = self._weight(f"{path}.rg_lru.{name}_gate.weight", r.blocks, each, each)
            wide = self._run("MatMul", f"{path}.rg_lru.{name}_gate", [apart, weight], apart.dims, way=way)
            wide = self._vectors(f"{path}.rg_lru.{name}_gate", self._shaped(path, wide, inner.dims), r.width)
            gates.append(self._run("Sigmoid", f"{path}.rg_lru.sigmoid", [wide]))
        decay = self._run("Exp", f"{path}.rg_lru.decay", [self._vectors(f"{path}.rg_lru", gates[1], r.width)])
        news = self._run("Mul", f"{path}.rg_lru.news", [inner, gates[0]])
        kept = self._run("Mul", f"{path}.rg_lru.kept", [decay, state["recurrent_states"] or news], news.dims)
        mixed = self._run("Mul", f"{path}.gated", [self._run("Add", f"{path}.rg_lru", [news, kept]), gate])
        out = by_rows(r.width, r.blocks)
        return self._linear(f"{path}.linear_out", mixed, self.model.hidden, bias=True, way=out)

    def _wkv(self, path: str, w: Wkv, x: Tensor) -> Tensor:
        state = {name: self._cached(name, size, dtype) for name, (size, dtype) in state_of(w, self.past).items()}
        parts = []
        for name in ("key", "value", "receptance"):  # each of a token's own mix with the token before
            mixed = self._vectors(path, x, self.model.hidden)
            mixed = self._run("Add", f"{path}.shift", [mixed, state["attention"] or x])
            parts.append(self._linear(f"{path}.{name}", mixed, w.width, way=by_columns(w.width, w.width)))
        keys, values, receptance = parts
        keys = self._run("Exp", f"{path}.exp", [self._vectors(path, keys, 2 * w.width)])
        sums = self._run("Mul", f"{path}.weighed", [keys, values])
        for name in ("numerator", "maximum", "network"):
            sums = self._run("Add", f"{path}.{name}", [sums, state[name] or values])
        below = self._run("Add", f"{path}.denominator", [keys, state["denominator"] or keys])
        gate = self._run("Sigmoid", f"{path}.sigmoid", [receptance])
        mixed = self._run("Mul", f"{path}.gated", [self._run("Div", f"{path}.wkv", [sums, below]), gate])
        return self._linear(f"{path}.output", mixed, self.model.hidden, way=by_rows(w.width, w.width))

    def _convolved(
        self, path: str, x: Tensor, kernel: int, cached: Tensor | None, activation: str, way: Way, bias: bool = False
    ) -> Tensor:
        """A convolution of the last few tokens, feature by feature."""
        width = int(x.dims[-1])
        weights = self._weight(f"{path}.conv1d.weight", width, 1, kernel)
        biases = self._weight(f"{path}.conv1d.bias", width) if bias else None
        across = self._run("Transpose", f"{path}.across", [x], (x.dims[0], width, x.dims[1]))
        inputs, attrs = [across, weights, biases, cached], {"activation": activation}
        mixed = self._run("CausalConvWithState", f"{path}.conv1d", inputs, attrs=attrs, way=way)
        return self._run("Transpose", f"{path}.back", [mixed], x.dims)
