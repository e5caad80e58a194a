"""A configuration as the sizes of a model: each layer's parts by the table of architectures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flopwise.errors import ModelError
from flopwise.formats.language.families import ALIASES, FAMILIES, PUBLISHED_ONLY, Family
from flopwise.formats.language.pairs import PAIRS, encoder_decoder_of
from flopwise.formats.language.parts import (
    MLP,
    Attention,
    CompressedAttention,
    Decoder,
    Indexer,
    LatentAttention,
    Layer,
    LinearAttention,
    Lru,
    Mamba,
    Mixer,
    MoE,
    Relative,
    ShortConv,
    Wkv,
)
from flopwise.formats.language.settings import Settings
from flopwise.formats.language.towers import weights_beside, weights_of_crossing

#: Keys under which a configuration of several models has the one that generates text.
_TEXT = ("text_config", "llm_config", "language_config", "thinker_config")

#: What configurations call a kind of layer -> what it is called here.
_KINDS = {
    "attention": "full_attention",
    "full": "full_attention",
    "global": "full_attention",
    "minimax_m3_sparse": "sparse_attention",
    "sliding": "sliding_attention",
    "hybrid": "full_attention",
    "linear": "linear_attention",
    "mamba2": "linear_attention",
    "mamba": "linear_attention",
    "conv": "linear_attention",
    "short_conv": "linear_attention",
    "recurrent": "linear_attention",
    "*": "full_attention",
    "M": "linear_attention",
    "E": "moe",
    "-": "mlp",
    "1": "full_attention",
    "0": "linear_attention",
}

#: Kinds of layers by what they mix with, whose architecture says the rest.
_KNOWN = frozenset(
    (
        *_KINDS.values(),
        *("chunked_attention", "indexed_attention", "deepseek_sparse_attention", "compressed_sparse_attention"),
        *("heavily_compressed_attention",),
    )
)

#: Ways to extend rotary positions, which all cost the same.
_ROPES = frozenset(
    "default linear dynamic yarn deepseek_yarn longrope su llama3 mrope proportional ntk axial".split()  # noqa: SIM905
)


#: Types whose positions count from behind that of the padding.
_PADDED = ("roberta", "xlm-roberta", "camembert", "data2vec-text", "xlm-roberta-xl", "roberta-prelayernorm", "xmod")

#: Keys that say how many heads predict a token more.
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
#: Keys that say the same as the kinds of all layers, for programs that know no kinds.
_PATTERNS = (
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "global_attn_every_n_layers",
    "full_attn_idxs",
    "attn_layer_indices",
    "interleave_moe_layer_step",
    "num_hash_layers",
    "attention_types",
    "dense_intermediate_size",
    "layer_group_size",
)


class UnknownTypeError(ModelError):
    """A configuration is of a type that the table has no architecture for."""


#: The classes of models that predict tokens.
_HEADS = re.compile(
    r"^$|OmniModel$|For(CausalLM|MaskedLM|ConditionalGeneration|ImageTextToText)|LMHeadModel|DoubleHeads|MTModel$|GenerationDecoder$"
)


def _is_bare(content: Mapping[str, Any]) -> bool:
    """True for an encoder without a head, as those that make vectors of texts are published: BertModel."""
    family = FAMILIES.get(str(content.get("model_type")))
    heads = content.get("architectures") or [""]
    return family is not None and "encoder" in family.flags and str(heads[0]) == f"{family.title}Model"


def kind_of(content: Mapping[str, Any]) -> str | None:
    """The type by which the table has a configuration's architecture; None where it has none."""
    heads = content.get("architectures") or [""]
    if not (isinstance(heads, list) and (_HEADS.search(str(heads[0])) or _is_bare(content))):
        return None  # other heads than those that predict tokens
    if str(content.get("model_type")) in PAIRS:
        return str(content["model_type"])
    own = _text_of(content)
    kind = str(own.get("model_type") or content.get("model_type"))
    return next((k for k in (kind, ALIASES.get(kind, "")) if k in FAMILIES), None) or _by_class(content) or None


def _text_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the part that generates text."""
    inner = next((content[key] for key in _TEXT if isinstance(content.get(key), Mapping)), None)
    if inner is not None and isinstance(
        inner.get("text_config"), Mapping
    ):  # of a part that thinks, beside one that talks
        inner = inner["text_config"]
    own = content if inner is None else {**{k: v for k, v in content.items() if k in _OUTER}, **inner}
    for part in _PARTS:
        if isinstance(own.get(part), Mapping):
            own = {**{key: value for key, value in own.items() if key != part}, **own[part]}
    return own


def decoder_of(name: str, content: Mapping[str, Any], dtype: str) -> Decoder:
    """The sizes of the model that generates text.

    Args:
        name: what to call the configuration in messages.
        content: its settings.
        dtype: the element type that it multiplies.

    Raises:
        UnknownTypeError: the table has no architecture for its type.
        ModelError: a size is missing, or none that can be.
    """
    if (pair := encoder_decoder_of(name, content, dtype)) is not None:
        return pair
    kind = kind_of(content)
    if kind is None:
        named = content.get("model_type")
        raise UnknownTypeError(f"{name}: no architecture is known for the model type {named!r}")
    own, family = _text_of(content), FAMILIES[kind]
    s = Settings(name, own, family.defaults)
    model = _Reader(s, family, kind).decoder(dtype)
    beside, notes = weights_beside(content, model.hidden, dtype)
    beside = (*beside, *weights_of_crossing(model))
    notes = (*_mismatches(content, own, kind), *notes)
    model = model._replace(beside=(*model.beside, *beside), notes=(*model.notes, *notes))
    if content.get("model_type") in PUBLISHED_ONLY or own.get("model_type") in PUBLISHED_ONLY:
        note = f"{kind} is counted by the table of architectures alone: no program of transformers checks it"
        model = model._replace(notes=(*model.notes, note))
    if unread := s.unread():
        note = f"the configuration says what no architecture here knows of {kind}: {', '.join(unread)}; counted without"
        model = model._replace(notes=(*model.notes, note), unread=tuple(unread))
    return model


#: Settings of parts that stand by themselves (DBRX, MPT); what they say counts like what stands beside them.
_PARTS = ("attn_config", "ffn_config")

#: Keys of a model of several parts that count for the part that generates text, too.
_OUTER = ("architectures", "tie_word_embeddings", "dtype", "torch_dtype")


def _by_class(content: Mapping[str, Any]) -> str:
    """The type whose class a configuration names; "" where there is none."""
    heads = content.get("architectures") or [""]
    title = re.sub(r"For[A-Z].*|LMHeadModel", "", str(heads[0]))
    return next((kind for kind, family in FAMILIES.items() if family.title == title), "")


def _mismatches(content: Mapping[str, Any], own: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Notes on a type and a class that do not go together."""
    types = {str(part.get("model_type")) for part in (content, own)}
    if kind not in {*types, *(ALIASES.get(one) for one in types)}:
        named = own.get("model_type") or content.get("model_type")
        yield f"the model type {named!r} is none of the table; counted as {kind}, whose class the configuration names"
    elif (other := _by_class(content)) and other != "llama" and FAMILIES[other].title != FAMILIES[kind].title:
        name = content["architectures"][0]
        yield f"architectures names {name}, which is a class of {other}; counted as {kind}, as model_type says"


class _Reader:
    """A configuration of a family, read part by part."""

    def __init__(self, s: Settings, family: Family, kind: str) -> None:
        self.s, self.family, self.kind = s, family, kind
        self.flags = family.flags
        self.hidden = s.size("hidden")
        listed = s.get("kinds")
        self.count = s.size("layers", len(listed) if isinstance(listed, list) else None)
        self.activation = s.activation(family.gated)
        for key in ("rope_parameters", "rope_scaling"):
            rope = Settings(f"{s.name}: {key}", s.get(key) or {})
            rope.get("factor")
            if (way := rope.get("rope_type") or rope.get("type")) and way not in _ROPES:
                s.notes.append(f"{key} names the type {way!r}, which is none known here; counted as plain rotation")

    def decoder(self, dtype: str) -> Decoder:
        """All of it."""
        s, family, flags = self.s, self.family, self.flags
        kinds = self._kinds()
        apart = s.get("cross_attention_layers") or ()
        layers = tuple(self._layer(number, kind) for number, kind in enumerate(kinds) if number not in apart)
        if "double" in flags:  # two of each part to a layer, and the experts beside the first
            plain = [layer._replace(networks=(self._network(),)) for layer in layers]
            mixed = [layer._replace(networks=(self._network(), self._mixture())) for layer in layers]
            layers = tuple(layer for pair in zip(mixed, plain, strict=True) for layer in pair)
        if "groups" in flags:  # ALBERT: each group of layers is used several times
            groups, inner = s.size("num_hidden_groups", 1), s.size("inner_group_num", 1)
            order = (
                number * groups // self.count * inner + part for number in range(self.count) for part in range(inner)
            )
            layers = tuple(layers[0]._replace(shared=number) for number in order)
        if "along" in flags:
            blocks = itertools.cycle(range(s.size("num_mem_blocks", 1)))
            layers = tuple(layer._replace(shared=next(blocks)) if layer.place == "along" else layer for layer in layers)
        if "modern" in flags:  # the embeddings' norm is that of the first layer
            layers = (layers[0]._replace(place="first"), *layers[1:])
        longest = s.get("positions")
        if self.kind in _PADDED and type(longest) is int:
            longest -= s.size("pad_token_id", 1, 0) + 1
        heads = s.get("architectures") or [""]
        unnamed = f"the configuration names no architectures; counted as {family.title}ForCausalLM"
        encoder = "encoder" in flags
        types = s.size("type_vocab_size", 0, 0) if "types" in flags else 0
        if "task_types" in flags and s.get("use_task_id"):
            types += s.size("task_type_vocab_size", 0, 0)
        per = s.get("hidden_size_per_layer_input", 0) if "per_layer" in flags else 0
        embedding = s.size("embedding", self.hidden)
        relative = self._relative()
        bare = heads[0] == f"{family.title}Model"
        buckets = s.size("relative_attention_num_buckets", 0, 0) * s.size("heads", 1) if encoder else 0
        return Decoder(
            name=f"{family.title}ForCausalLM" if not heads[0] else str(heads[0]),
            source=s.name,
            hidden=self.hidden,
            vocabulary=s.size("vocabulary"),
            layers=layers,
            norm=family.norm,
            tied=bool(s.get("tie_word_embeddings", family.tied)),
            dtype=dtype,
            longest=longest if type(longest) is int else None,
            head_bias=family.head_bias or s.get("lm_head_bias") is True,
            positions=0 if self._unplaced() else s.size("positions") + (family.positions or 0),
            types=types,
            vectors=buckets,
            embedding_norm="embedding_norm" in flags,
            embedding=embedding if embedding != self.hidden else 0,
            project_bias="project_bias" in flags,
            pooler="pooler" in flags or (bare and "pooled" in flags),
            scored=not bare,
            beside=(("model.embed_tokens.images", (8, self.hidden)),) if apart else (),  # rows that stand for images
            crossing=tuple((number, self._crossing(number)) for number in apart),
            positions_late="before" in flags,
            final_norm=layers[-1].place != "after" and family.norm != "none",
            predicts=not encoder,
            transform="transform" in flags and not bare,
            transform_bias=family.norm == "layer",
            transform_width=s.size("output_embedding_size", 0, 0),
            notes=tuple(s.notes) if s.get("architectures") else (unnamed, *s.notes),
            heads=next((n for key in _MTP if type(n := s.get(key)) is int), 0),
            streams=s.size("altup_num_inputs") if "altup" in flags else s.size("hc_mult", 1),
            streaming="predicted" if "altup" in flags else "apart" if "apart" in flags else "mixed",
            distances=0 if relative is None else relative.rows,
            distance_norm="layer_norm" in str(s.get("norm_rel_ebd", "")),
            per_layer=(s.size("vocab_size_per_layer_input", s.size("vocabulary")), per) if per else (0, 0),
        )

    def _crossing(self, number: int) -> Layer:
        """A layer that attends to images, with a gate of one number for each of its parts (Llama 3.2 Vision)."""
        own = self._attention("full_attention", number)
        cross = own._replace(cross=True, causal=False, rotary=0, norms="head")
        return Layer((), (self._network(number),), "pre", 2, cross=cross)

    def _unplaced(self) -> bool:
        """True where no positions are added to embeddings."""
        s = self.s
        if "absolute" in self.flags and s.get("position_embedding_type", "absolute") != "absolute":
            return True
        return self.family.positions is None or s.get("position_biased_input") is False

    def _kinds(self) -> list[str]:
        """The kind of each layer."""
        s, family, count = self.s, self.family, self.count
        s.settled("window", "use_sliding_window", *_PATTERNS)
        if family.bias is True:  # as the file can only repeat
            s.settled("attention_bias", "use_bias")
        if "falcon" in self.flags:
            s.settled("multi_query", "num_kv_heads", "parallel_attn")
        stated = s.get("kinds")
        if "along" in self.flags:
            s.settled("hybrid_layer_ids")
        if isinstance(s.get("attention_layers"), list):  # GPT-Neo
            stated = ["sliding" if kind == "local" else kind for kind in s.get("attention_layers")]
        elif isinstance(s.get("attention_types"), list):
            stated = [k for kinds, times in s.get("attention_types") for k in kinds * times]
            stated = ["sliding" if kind == "local" else kind for kind in stated]
        if isinstance(s.get("hybrid_override_pattern"), str):
            stated = list(s.get("hybrid_override_pattern"))
        if "griffin" in self.flags and stated:
            return [
                "linear_attention" if stated[n % len(stated)] == "recurrent" else "sliding_attention"
                for n in range(count)
            ]
        if isinstance(stated, list) and stated:
            if len(stated) < count:
                raise ModelError(f"{s.name}: it says the kinds of {len(stated):,} of {count:,} layers alone")
            kinds = [_KINDS.get(str(kind), str(kind)) for kind in stated[:count]]
            parts = ("moe", "mlp") if "single" not in self.flags else ()
            odd = next((stated[n] for n, kind in enumerate(kinds) if kind not in _KNOWN or kind in parts), None)
            if odd is not None:
                raise ModelError(f"{s.name}: {odd!r} is no kind of layers of {self.kind}; known: {', '.join(_KINDS)}")
            return kinds
        if "alone" in self.flags:
            return ["linear_attention"] * count
        places = self._attention_places()
        if places is not None:
            return ["full_attention" if n in places else "linear_attention" for n in range(count)]
        if isinstance(s.get("hybrid_layer_pattern"), list):
            return ["sliding_attention" if one else "full_attention" for one in s.get("hybrid_layer_pattern")[:count]]
        if "modern" in self.flags:
            every = s.size("global_attn_every_n_layers", 3)
            return ["sliding_attention" if n % every else "full_attention" for n in range(count)]
        if family.pattern is None:
            alone = family.linear.startswith(("mamba", "wkv")) and "both_parts" not in self.flags
            return ["linear_attention" if alone else "full_attention"] * count
        kind, key, default = family.pattern
        every = s.get(key, default) if key else default
        if isinstance(every, str):  # "LLLG"
            return [kind if every[n % len(every)] == "L" else "full_attention" for n in range(count)]
        if kind == "sliding_attention" and not (
            s.get("window") and s.get("use_sliding_window", key != "max_window_layers")
        ):
            return ["full_attention"] * count
        if key == "max_window_layers":
            return ["full_attention" if n < (every or 0) else kind for n in range(count)]
        return ["full_attention" if every and (n + 1) % every == 0 else kind for n in range(count)]

    def _attention_places(self) -> set[int] | None:
        """The numbers of the layers with attention, where a configuration says those; else None."""
        s = self.s
        own = s.get("linear_attn_config")
        if isinstance(own, Mapping) and "full_attn_layers" in own:
            return {n - 1 for n in own["full_attn_layers"]}
        for key in ("full_attn_idxs", "attn_layer_indices", "hybrid_layer_ids"):
            if isinstance(s.get(key), list):
                return set(s.get(key))
        if s.get("attn_layer_period"):
            every, first = s.size("attn_layer_period"), s.size("attn_layer_offset", 0, 0)
            return {n for n in range(self.count) if n % every == first}
        return None

    def _layer(self, number: int, kind: str) -> Layer:
        """A layer of a kind."""
        s, flags, place = self.s, self.flags, self.family.place
        if "single" in flags:
            if kind in ("moe", "mlp"):
                return Layer((), (self._mixture() if kind == "moe" else self._network(),), "single")
            return Layer((self._mixer(kind, number),), (), "single")
        if "alone" in flags or ("along" in flags and kind == "linear_attention"):
            return Layer((self._mixer(kind, number),), (), "single")
        if "along" in flags:
            rank = s.size("adapter_rank", 128)
            attention = self._attention(kind, number)._replace(
                rank=rank if s.flag("use_shared_attention_adapter") else 0
            )
            return Layer((attention, self._state_space()), (self._network()._replace(rank=rank),), "along")
        if s.get("block_configs"):
            return self._searched(s.get("block_configs")[number])
        mixers: tuple[Mixer, ...] = (self._mixer(kind, number),)
        if "both_parts" in flags:
            mixers = (self._state_space(), *mixers)
        if s.get("use_post_norm") is False or s.get("use_sandwich_norm") is False:  # HyperCLOVA X, LFM3
            place = "pre"
        if "before" in flags and s.get("do_layer_norm_before", True) is False:  # OPT-350m
            place = "after"
        if "olmo_hybrid" in flags:
            place = "pre" if kind == "linear_attention" else "post"
        if "falcon" in flags:
            if s.get("new_decoder_architecture"):
                place = "beside" if s.get("num_ln_in_parallel_attn", 2) == 2 else "shared"
            elif s.get("parallel_attn", True) is False:
                place = "pre"
        sparse = self._is_sparse(number)
        network: MLP | MoE = self._mixture() if sparse else self._network(number)
        networks: tuple[MLP | MoE, ...] = (network,)
        vectors = 0
        if "gemma4" in flags and s.get("enable_moe_block"):
            networks = (self._network(number), self._mixture())
            vectors = 4 * self.hidden + s.size("experts")  # three more norms, and two scales of the router
        per = s.get("hidden_size_per_layer_input", 0) if "per_layer" in flags else 0
        if "expert_norm" in flags and sparse:
            vectors = self.hidden
        if s.get("use_parallel_residual") is False and self.kind == "gpt_neox":
            place = "pre"
        if "last_bias" in flags and number == self.count - 1:
            vectors += self.hidden
        return Layer(mixers, networks, place, vectors, per, s.size("laurel_rank") if "altup" in flags else 0)

    def _searched(self, block: Mapping[str, Any]) -> Layer:
        """A layer that a search of architectures chose (DeciLM): either part may be left out."""
        s, attention, network = self.s, block["attention"], block["ffn"]
        heads = s.size("heads")
        mixers: tuple[Mixer, ...] = ()
        networks: tuple[MLP | MoE, ...] = ()
        if not attention.get("no_op"):
            head = self.hidden // heads
            mixers = (Attention(heads, heads // attention["n_heads_in_group"], head, head, rotary=head),)
        if not network.get("no_op"):
            networks = (MLP(-(-int(2 * network["ffn_mult"] * self.hidden / 3) // 256) * 256),)
        return Layer(mixers, networks, "pre" if mixers and networks else "single")

    # What mixes tokens.

    def _mixer(self, kind: str, number: int) -> Mixer:
        linear = self.family.linear
        if kind == "linear_attention":
            if linear in ("mamba", "mamba1"):
                return self._state_space()
            if linear == "lru":
                width = self.s.size("lru_width", self.hidden)
                return Lru(width, self.s.size("heads"), self.s.size("conv1d_width", 4))
            if linear == "wkv":
                self.s.settled("rescale_every", "context_length")
                return Wkv(self.s.size("attention_hidden_size", self.hidden))
            if linear == "conv":
                width = self.s.size("conv_dim", self.hidden)
                return ShortConv(width, self.s.size("conv"), self.s.flag("conv_bias"))
            if linear in ("gated_delta", "kda", "lightning"):
                return self._delta(linear)
            raise ModelError(f"{self.s.name}: layers of the kind {kind!r} are not known of {self.kind}")
        if self.family.attention == "mla":
            return self._latent(number)
        if self.family.attention == "compressed":
            return self._compressed(kind, number)
        return self._attention(kind, number)

    def _attention(self, kind: str, number: int) -> Attention:
        s, family, flags = self.s, self.family, self.flags
        each = s.get("num_attention_heads_per_layer")
        heads = each[number] if isinstance(each, list) and number < len(each) else s.size("heads")
        groups = self._groups(heads)
        if heads % groups:
            stated = "num_attention_heads", "num_key_value_heads"
            raise ModelError(f"{s.name}: {stated[0]} {heads} is not a multiple of {stated[1]} {groups}")
        if self.hidden % heads and s.get("head") is None:
            raise ModelError(f"{s.name}: hidden_size {self.hidden} is not a multiple of the number of heads, {heads}")
        sliding = kind == "sliding_attention"
        window = s.size("window") if sliding and "modern" not in flags else None
        chunk = s.size("attention_chunk_size") if kind == "chunked_attention" else None
        wide = 2 * self.hidden if "along" in flags else self.hidden
        head = s.size("head", s.size("attention_hidden_size", wide) // heads)
        value, sinks, alone, borrowed = head, "sinks" in flags, False, False
        if "mimo" in flags:
            value = s.size("v_head_dim", head)
            if sliding:
                heads, groups = s.size("swa_num_attention_heads", heads), s.size("swa_num_key_value_heads", groups)
                head, value = s.size("swa_head_dim", head), s.size("swa_v_head_dim", value)
            sinks = s.flag("add_swa_attention_sink_bias+" if sliding else "add_full_attention_sink_bias")
        if "gemma4" in flags and not sliding:
            head = value = s.size("global_head_dim", head)
            alone = bool(s.get("attention_k_eq_v"))
            groups = s.size("num_global_key_value_heads", groups) if alone else groups
        if "per_layer" in flags:
            borrowed = number >= self.count - s.size("num_kv_shared_layers", 0, 0)
        norms = family.norms
        if norms.startswith("?"):
            norms = "head" if s.get(norms[1:]) else ""
        if s.get("qk_layernorm") or (s.get("use_qk_norm") and family.title in ("Cohere", "Cohere2")):
            norms = norms or {"StableLm": "heads", "Cohere": "heads"}.get(family.title, "head")
        inside = "gate_in_queries" in flags and s.flag("attn_output_gate+")
        wide = "gate" in flags or inside or s.get("gating") == "per-element"
        gate = heads * value if wide else heads if "head_gate" in flags else 0
        if "modern" in flags and sliding:
            local = s.size("local_attention", 128)
            window = local if "encoder" in flags else s.size("window", local // 2 + 1)
        rotary = 0 if not self._unplaced() or s.get("alibi") else self._rotated(head)
        if "along" in flags and not s.flag("use_mem_rope"):
            rotary = 0
        index, block = self._blocks(kind, number)
        return Attention(
            heads,
            groups,
            head,
            value,
            window,
            chunk,
            s.flag(family.bias),
            s.flag(family.out),
            norms,
            sinks,
            rotary,
            gate,
            inside,
            alone,
            borrowed,
            "encoder" not in flags,
            4 * head if "differential" in flags else heads if "gate_bias" in flags else 0,
            1 if "sub_norms" in flags else 0,
            "softcap" in flags,
            plain_keys="plain_keys" in flags,
            differential="differential" in flags,
            relative=self._relative(),
            indexer=index,
            block=block,
        )

    def _blocks(self, kind: str, number: int) -> tuple[Indexer | None, int]:
        """The scores that choose blocks of keys in a layer, and the keys of a block (MiniMax-M3)."""
        s, own = self.s, self.s.get("sparse_attention_config")
        if "block_index" not in self.flags:
            return None, 0
        s.settled("index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks", "index_local_blocks")
        if isinstance(own, Mapping):
            freq = own.get("sparse_attention_freq")
            sparse = bool(freq[number]) if isinstance(freq, list) and number < len(freq) else True
            names = ("sparse_num_index_heads", "sparse_index_dim", "sparse_topk_blocks", "sparse_block_size")
            s = Settings(s.name, own)
        else:
            sparse = kind == "sparse_attention"
            names = ("index_n_heads", "index_head_dim", "index_topk_blocks", "index_block_size")
        if not sparse:
            return None, 0
        heads, head, most, block = (s.size(name) for name in names)
        return Indexer(heads, head, most), block

    def _relative(self) -> Relative | None:
        """The table of distances of a disentangled attention."""
        s = self.s
        if "disentangled" not in self.flags or not s.get("relative_attention"):
            return None
        reach = s.get("max_relative_positions", -1)
        reach = s.size("positions") if reach < 1 else reach
        reach = max(s.get("position_buckets", -1), 0) or reach
        ways = s.get("pos_att_type") or ()
        return Relative(2 * reach, "c2p" in ways, "p2c" in ways, bool(s.get("share_att_key")))

    def _rotated(self, head: int) -> int:
        """Elements of a head that are rotary by positions."""
        rope = self.s.get("rope_parameters") or self.s.get("rope_scaling") or {}
        part = rope.get("partial_rotary_factor") if isinstance(rope, Mapping) else None
        part = part or self.s.get("partial_rotary_factor") or self.s.get("rotary_pct") or 1
        return int(head * part) // 2 * 2

    def _groups(self, heads: int) -> int:
        s = self.s
        if "falcon" in self.flags:
            if s.get("new_decoder_architecture"):
                return s.size("num_kv_heads", heads)
            return 1 if s.get("multi_query", True) else heads
        if "multi_query" in self.flags:
            return 1 if s.get("multi_query", True) else heads
        if self.family.positions is not None or "encoder" in self.flags:  # keys of their own for all heads
            return heads
        return s.size("groups", heads)

    def _latent(self, number: int) -> LatentAttention:
        s = self.s
        index, chosen = None, s.get("index_topk")
        kinds = s.get("indexer_types")
        if chosen and not (isinstance(kinds, list) and kinds[number] == "shared"):  # as one of an earlier layer
            index = Indexer(s.size("index_n_heads"), s.size("index_head_dim"), s.size("index_topk"))
        queries = s.get("q_lora_rank") or 0
        return LatentAttention(
            s.size("heads"),
            queries,
            s.size("kv_lora_rank"),
            s.size("qk_nope_head_dim"),
            s.size("qk_rope_head_dim"),
            s.size("v_head_dim"),
            s.flag("attention_bias"),
            index,
            chosen,
            s.size("heads") * s.size("v_head_dim")
            if s.get("mla_use_output_gate") or "mla_gate" in self.flags
            else s.size("heads")
            if "head_gate" in self.flags
            else 0,
            "sinks" in self.flags,
        )

    def _compressed(self, kind: str, number: int) -> CompressedAttention:
        s = self.s
        ratios = s.get("compress_ratios")
        own = ratios[number] if isinstance(ratios, list) else (s.get("compress_rates") or {}).get(kind, 0)
        sparse = own == 4 if isinstance(ratios, list) else kind == "compressed_sparse_attention"
        index = Indexer(s.size("index_n_heads"), s.size("index_head_dim"), s.size("index_topk")) if sparse else None
        head, rotary, queries, groups, out = (
            s.size(key) for key in ("head_dim", "qk_rope_head_dim", "q_lora_rank", "o_groups", "o_lora_rank")
        )
        return CompressedAttention(
            s.size("heads"), head, rotary, queries, groups, out, s.size("window"), own, sparse, index
        )

    def _delta(self, kind: str) -> LinearAttention:
        s = self.s
        if kind == "lightning":
            heads = s.size("heads")
            head = s.size("head", self.hidden // heads)
            return LinearAttention(heads, heads, head, head, 0, "gated", (heads * head,), (), 0, heads * head)
        if kind == "kda":
            nested = s.get("linear_attn_config")
            own = Settings(s.name, nested) if isinstance(nested, Mapping) else s
            heads = own.size("linear_num_heads", own.get("num_heads", s.get("heads")))
            head = own.size("linear_head_dim", own.get("head_dim"))
            kernel = own.size("conv", own.get("short_conv_kernel_size", 4))
            wide: tuple[int, ...] = (heads,)
            low: tuple[tuple[int, int], ...] = ((head, heads * head), (head, heads * head))
            if "whole_gates" in self.flags:
                wide, low = (heads, heads * head, heads * head), ()
            return LinearAttention(
                heads, heads, head, head, kernel, "gated_delta", wide, low, heads * head + heads, head
            )
        heads, groups = s.size("linear_num_value_heads"), s.size("linear_num_key_heads")
        key, value = s.size("linear_key_head_dim"), s.size("linear_value_head_dim")
        return LinearAttention(
            heads,
            groups,
            key,
            value,
            s.size("conv", 4),
            "gated_delta",
            (heads, heads, heads * value),
            (),
            2 * heads,
            value,
        )

    def _state_space(self) -> Mamba:
        s = self.s
        conv_bias = s.flag("use_conv_bias+") if s.has("use_conv_bias") else s.flag("mamba_conv_bias+")
        bias = s.flag("use_bias") or s.flag("mamba_proj_bias")
        if self.family.linear == "mamba1":
            inner = s.get("intermediate_size") if "alone" in self.flags else None
            inner = inner or s.size("expand", 2) * self.hidden
            stated = s.get("time_step_rank") or s.get("mamba_dt_rank") or "auto"
            rank = -(-self.hidden // 16) if stated == "auto" else int(stated)
            return Mamba(
                inner, 0, s.size("state", 16), 0, s.size("conv", 4), rank, conv_bias, bias, False, self.kind == "jamba"
            )
        heads = s.get("mamba_num_heads") or s.get("mamba_n_heads") or s.get("n_mamba_heads") or s.size("num_heads")
        head = s.get("mamba_head_dim") or s.get("mamba_d_head") or s.get("mamba_headdim") or s.get("head_dim")
        inner = s.get("mamba_d_ssm") or None
        if type(head) is not int:
            head = (inner or s.size("expand", 2) * self.hidden) // heads
        norm = s.flag("mamba_rms_norm") if self.kind == "falcon_h1" else True
        return Mamba(
            heads * head, heads, s.size("state"), s.size("mamba_groups", 1), s.size("conv", 4), 0, conv_bias, bias, norm
        )

    # What works on each token.

    def _is_sparse(self, number: int) -> bool:
        """True if a layer has experts."""
        s = self.s
        if "gemma4" in self.flags:
            return False
        if "experts" in self.flags:
            s.size("experts")
        if not s.get("experts") or s.get("experts") == 1:
            return False
        stated = s.get("mlp_layer_types")
        if isinstance(stated, list) and stated:
            return number < len(stated) and stated[number] != "dense"
        if isinstance(s.get("moe_layer_freq"), list):
            return bool(s.get("moe_layer_freq")[number])
        if isinstance(s.get("moe_layers"), list):
            return bool(number in s.get("moe_layers"))
        if s.get("interleave_moe_layer_step"):
            return bool((number + 1) % s.get("interleave_moe_layer_step") == 0)
        if s.get("expert_layer_period"):
            return bool(number % s.get("expert_layer_period") == s.get("expert_layer_offset", 0))
        if s.get("moe_layer_start_index") is not None:
            end = s.get("moe_layer_end_index", -1)
            end = self.count - 1 if end in (-1, None) else end
            every = s.get("moe_layer_interval", 1)
            return bool((number + 1) % every == 0 and s.get("moe_layer_start_index") <= number <= end)
        first = next((s.get(key) for key in ("first_k_dense_replace", "num_dense_layers") if s.get(key) is not None), 0)
        if number < first or number in (s.get("mlp_only_layers") or ()):
            return False
        return bool((number + 1) % s.get("decoder_sparse_step", 1) == 0)

    def _network(self, number: int = 0) -> MLP:
        s, family, flags = self.s, self.family, self.flags
        inner = (
            s.get("intermediate_size_mlp")
            or s.get("dense_intermediate_size")
            or s.get("prefix_dense_intermediate_size")
            or s.get("inner")
            or s.get("shared_intermediate_size")
        )
        if isinstance(inner, list):
            inner = inner[number]
        if inner is None and "four_times" in flags:
            inner = s.get("expansion_ratio", 4) * self.hidden
        if "half_inner" in flags and type(inner) is int:
            inner //= 2
        if "ff_multiple" in flags and s.flag("block_auto_adjust_ff_dim+"):
            inner = int(s.get("block_ffn_dim_multiplier", 1.0) * int(2 * (s.get("block_ff_dim") or inner) / 3))
            inner = -(-inner // s.size("block_multiple_of", 256)) * s.size("block_multiple_of", 256)
        if type(inner) is not int or inner < 1:
            inner = s.get("inner") if inner is None else inner
            raise ModelError(f"{s.name}: intermediate_size is {inner!r}; a whole number of at least 1 is expected")
        if (
            "gemma4" in flags
            and s.get("use_double_wide_mlp")
            and number >= self.count - s.size("num_kv_shared_layers", 0, 0)
        ):
            inner *= 2
        bias = s.flag(family.mlp)
        vectors = 2 if "act_vectors" in flags else 0
        gate = family.linear == "wkv"
        return MLP(inner, family.gated, bias, vectors, "sub_norms" in flags, gate, self.activation)

    def _mixture(self) -> MoE:
        s, family, flags = self.s, self.family, self.flags
        experts, chosen = s.size("experts"), self._one("top_k")
        if chosen > experts:
            raise ModelError(f"{s.name}: num_experts_per_tok is {chosen}, more than its {experts} experts")
        inner = s.get("expert_inner") or s.get("inner")
        inner = inner[0] if isinstance(inner, list) else inner
        shared: MLP | None = None
        wide = s.get("shared_inner")
        number = s.get("shared") or 0
        number = number[0] if isinstance(number, list) else number
        if wide:
            shared = MLP(wide, family.gated, activation=self.activation)
        elif number:
            shared = MLP(number * inner, family.gated, activation=self.activation)
        bias = "expert_bias" in flags
        vectors = experts if "router_vectors" in flags else 0
        if vectors and not s.get("moe_use_aux_free", True):
            vectors = 0
        corrected = s.has("n_routed_experts") and s.get("topk_method", "noaux_tc") == "noaux_tc"
        return MoE(
            experts,
            chosen,
            inner,
            family.gated,
            bias,
            "router_bias" in flags,
            vectors,
            corrected and family.title != "DeepseekV2" and not vectors,
            shared,
            "shared_gate" in flags,
            s.get("moe_latent_size") or s.get("routed_expert_hidden_size") or 0,
            s.get("zero_expert_num") or 0,
            self.activation,
        )

    def _one(self, key: str) -> int:
        """A size that a configuration may say for each layer; the first of them."""
        value = self.s.get(key)
        return value[0] if isinstance(value, list) else self.s.size(key)
