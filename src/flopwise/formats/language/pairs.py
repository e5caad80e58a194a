"""Encoders with their decoders: T5, BART and what follows them, Whisper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flopwise.formats.language.parts import MLP, Attention, Decoder, Layer
from flopwise.formats.language.settings import Settings


class EncoderDecoder(NamedTuple):
    """An architecture of an encoder with its decoder: what its configuration does not say."""

    title: str
    norm: str = "layer"
    place: str = "after"
    bias: bool = True
    #: Learned positions of both, rows beside the stated ones; None for none.
    positions: int | None = 2
    embedding_norm: bool = True
    final_norm: bool = False
    #: Whether keys have no bias; whether both have tables of embeddings of their own.
    plain_keys: bool = False
    two_tables: bool = False
    scores_bias: bool = False
    gated: bool = False
    tied: bool = True
    norms: str = ""
    #: Whether the encoder reads sound.
    sound: bool = False


_PEGASUS: dict[str, Any] = {"place": "pre", "positions": 0, "embedding_norm": False, "final_norm": True}
_T5: dict[str, Any] = {
    "norm": "rms",
    "place": "pre",
    "bias": False,
    "positions": None,
    "embedding_norm": False,
    "final_norm": True,
}

#: ``model_type`` -> its architecture.
PAIRS: dict[str, EncoderDecoder] = {
    "t5": EncoderDecoder("T5", **_T5),
    "mt5": EncoderDecoder("MT5", **{**_T5, "tied": False, "gated": True}),
    "umt5": EncoderDecoder("UMT5", **{**_T5, "tied": False, "gated": True}),
    "t5gemma": EncoderDecoder("T5Gemma", **{**_T5, "place": "both", "two_tables": True, "gated": True}),
    "bart": EncoderDecoder("Bart"),
    "mvp": EncoderDecoder("Mvp"),
    "plbart": EncoderDecoder("PLBart"),
    "mbart": EncoderDecoder("MBart", place="pre", final_norm=True),
    "pegasus": EncoderDecoder("Pegasus", **_PEGASUS),
    "marian": EncoderDecoder("Marian", positions=0, embedding_norm=False),
    "blenderbot": EncoderDecoder("Blenderbot", **_PEGASUS),
    "blenderbot-small": EncoderDecoder("BlenderbotSmall", positions=0),
    "m2m_100": EncoderDecoder("M2M100", **{**_PEGASUS, "positions": None}),
    "whisper": EncoderDecoder("Whisper", **{**_PEGASUS, "plain_keys": True, "sound": True}),
}


def encoder_decoder_of(name: str, content: Mapping[str, Any], dtype: str) -> Decoder | None:
    """The sizes of a decoder with its encoder; None for a type that is no pair of the table."""
    pair = PAIRS.get(str(content.get("model_type")))
    if pair is None:
        return None
    stacks = [_stack(name, _part(content, side), pair, dtype, side == "decoder") for side in ("encoder", "decoder")]
    return stacks[1]._replace(encoder=stacks[0])


def _part(content: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The settings of one of the two."""
    inner = content.get(side)
    if isinstance(inner, Mapping):
        return {**content, **inner}
    own = {key.removeprefix(f"{side}_"): value for key, value in content.items() if key.startswith(f"{side}_")}
    if side == "decoder" and content.get("num_decoder_layers"):
        own["num_hidden_layers"] = content["num_decoder_layers"]
    return {**content, **({"num_hidden_layers": own["layers"]} if "layers" in own else {}), **own}


def _stack(name: str, content: Mapping[str, Any], pair: EncoderDecoder, dtype: str, decodes: bool) -> Decoder:
    s = Settings(name, content)
    hidden = s.size("hidden")
    count = content.get("num_hidden_layers") or s.size("num_layers")
    heads = content.get("attention_heads") or s.size("heads")
    head = s.size("head", s.size("d_kv", hidden // heads))
    groups = s.size("groups", heads)
    inner = content.get("ffn_dim") or s.size("inner")
    gated = "gated" in str(s.get("feed_forward_proj", "gated" if pair.gated else ""))
    own = Attention(
        heads, groups, head, head, bias=pair.bias, out_bias=pair.bias, causal=decodes, plain_keys=pair.plain_keys
    )
    network = MLP(inner, gated, pair.bias, activation=s.activation(gated))
    layer = Layer((own,), (network,), pair.place, cross=own._replace(causal=False, cross=True) if decodes else None)
    table = s.size("relative_attention_num_buckets") * heads if s.get("relative_attention_num_buckets") else 0
    rows = s.get("max_position_embeddings") or s.get("max_target_positions" if decodes else "max_source_positions")
    if rows is None and pair.positions is not None:
        s.size("max_target_positions" if decodes else "max_source_positions")
    return Decoder(
        f"{pair.title}ForConditionalGeneration",
        name,
        hidden,
        s.size("vocabulary"),
        (layer,) * count,
        pair.norm,
        bool(s.get("tie_word_embeddings", pair.tied)),
        dtype,
        rows if type(rows) is int else None,
        positions=0 if pair.positions is None else rows + pair.positions,
        embedding_norm=pair.embedding_norm,
        final_norm=pair.final_norm,
        vectors=table,
        own_table=pair.two_tables or decodes,
        sound=s.size("num_mel_bins") if pair.sound and not decodes else 0,
        notes=tuple(s.notes),
    )
