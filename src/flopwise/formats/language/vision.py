"""Vision towers, which make tokens of images: a table, and their graph by the parts of language models' layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from flopwise.formats.language.graph import Call
from flopwise.formats.language.parts import MLP, Attention, Decoder, Layer
from flopwise.formats.language.settings import Settings
from flopwise.graph import Graph, Tensor
from flopwise.graph.graph import Program, ProgramTensor


class TowerFamily(NamedTuple):
    """An architecture of a tower: what its configuration does not say."""

    norm: str = "layer"
    bias: bool = True
    out: bool = True
    mlp: bool = True
    gated: bool = False
    patch_bias: bool = True
    #: Positions that are learned: "" for none, "grid" (one for each patch), "class" (and one more), or a key's number.
    positions: str = "grid"
    before: bool = False
    after: bool = False
    #: Frames of a patch; vectors of weights of a layer, of its hidden size.
    frames: int = 1
    vectors: int = 0
    #: Where the norms of a layer stand, and those of its queries and keys, as in ``Family``.
    place: str = "pre"
    norms: str = ""
    #: What joins it to the language model: products of (its width by that of joined patches or of the text, bias).
    projector: str = "two"


#: ``model_type`` of a vision configuration -> its tower.
TOWERS: dict[str, TowerFamily] = {
    "siglip_vision_model": TowerFamily(after=True, projector="one_normed"),
    "clip_vision_model": TowerFamily(patch_bias=False, positions="class", before=True, after=True),
    "pixtral": TowerFamily("rms", False, False, False, True, False, "", before=True, projector="pixtral"),
    "qwen2_vl_vision": TowerFamily(patch_bias=False, positions="", frames=2, projector="merged"),
    "qwen2_5_vl_vision": TowerFamily(
        "rms", gated=True, patch_bias=False, positions="", frames=2, projector="merged_rms"
    ),
    "qwen3_vl_vision": TowerFamily(positions="num_position_embeddings", frames=2, projector="merged"),
    "qwen3_5_vision": TowerFamily(positions="num_position_embeddings", frames=2, projector="merged"),
    "kimi_k25_vision": TowerFamily(positions="pos_emb_height", after=True, projector="merged"),
    "gemma4_vision": TowerFamily(
        "rms",
        False,
        False,
        False,
        True,
        False,
        "position_embedding_size",
        place="both",
        norms="head",
        projector="pooled",
    ),
    "internvl_vision": TowerFamily(bias=False, positions="class", vectors=2, projector="joined_normed"),
}


class Tower(NamedTuple):
    """A tower by its sizes."""

    layers: Decoder
    looks: TowerFamily
    patch: int
    channels: int
    positions: int
    extra: int
    #: Sides of the square of patches that is joined into one token; widths of the text, and heads that look deeper.
    merge: int
    text: int
    deep: int


def tower_of(content: Mapping[str, Any], text_width: int, dtype: str) -> Tower | None:
    """The tower of a configuration; None where it has none, or one that is not in the table."""
    own = content.get("vision_config")
    kinds = [str(part.get("model_type")).replace("_moe", "") for part in (own, content) if isinstance(part, Mapping)]
    looks = next((TOWERS[n] for kind in kinds for n in (kind, f"{kind}_vision") if n in TOWERS), None)
    if looks is None or not isinstance(own, Mapping) or not {"hidden_size", "vt_hidden_size"} & own.keys():
        return None
    s = Settings("vision_config", {re.sub("^vt_|^init_(?=pos_)", "", key): value for key, value in own.items()})
    hidden, heads = s.size("embed_dim", s.get("hidden")), s.size("heads")
    inner = s.size("inner", int(hidden * s.get("mlp_ratio", 0)) or None)
    count = s.size("depth", s.get("num_hidden_layers"))
    if s.has("embed_dim"):  # Qwen2-VL, whose hidden_size is the text's
        text_width = s.size("hidden_size", text_width)
    attention = Attention(
        heads,
        heads,
        hidden // heads,
        hidden // heads,
        bias=looks.bias,
        out_bias=looks.out,
        norms=looks.norms,
        causal=False,
    )
    layer = Layer((attention,), (MLP(inner, looks.gated, looks.mlp),), looks.place, looks.vectors * hidden)
    decoder = Decoder("Tower", "vision_config", hidden, 1, (layer,) * count, looks.norm, True, dtype, None)
    patch, image = (v[0] if isinstance(v, list) else v for v in (s.get("patch_size"), s.get("image_size")))
    rows = {"grid": (image or 0) // patch, "class": (image or 0) // patch}.get(looks.positions)
    extra = int(looks.positions == "class")
    positions = rows**2 + extra if rows is not None else s.get(looks.positions, 0) if looks.positions else 0
    if looks.positions == "position_embedding_size":  # a table for each of the two axes
        positions *= 2
    if looks.positions == "pos_emb_height":
        positions = positions * s.size("pos_emb_width")
    merge = (
        s.get("spatial_merge_size")
        or s.get("pooling_kernel_size")
        or content.get("spatial_merge_size")
        or (s.get("merge_kernel_size") or [0])[0]
    )
    merge = merge or (round(1 / content["downsample_ratio"]) if content.get("downsample_ratio") else 1)
    deep = len(s.get("deepstack_visual_indexes") or ())
    return Tower(
        decoder,
        looks,
        patch,
        s.size("in_channels", s.get("in_chans") or s.get("num_channels", 3)),
        positions,
        extra,
        merge,
        s.size("out_hidden_size", text_width),
        deep,
    )


def weights_beside(
    content: Mapping[str, Any], text_width: int, dtype: str
) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], tuple[str, ...]]:
    """The weights of the tower of a configuration, and notes on parts of the model that the table does not have."""
    missing = [key for key in ("audio_config", "image_config") if isinstance(content.get(key), Mapping)]
    tower = tower_of(content, text_width, dtype)
    weights: dict[str, tuple[str, tuple[int, ...]]] = {}
    if tower is None:
        missing += ["vision_config"] if isinstance(content.get("vision_config"), Mapping) else []
    else:
        for node in vision_graph(tower, 1, tower.merge**2).nodes:
            for tensor in node.known_inputs:
                if tensor.kind == "weight":
                    shape = tuple(int(size) for size in tensor.dims)
                    for number in range(node.copies):
                        name = tensor.name.replace("layers.0.", f"layers.{number}.", 1)
                        weights[name] = (f"vision_tower.{name}", shape)
    note = f"{' and '.join(missing)}: what reads images or sound is not in the table; its weights are left out"
    return tuple(weights.values()), (note,) if missing else ()


def vision_graph(tower: Tower, images: int, patches: int) -> Graph:
    """The graph of a tower for so many images of so many patches each."""
    call = _Tower(tower.layers, images, patches + tower.extra, 0)
    return call.tower(tower, patches)


class _Tower(Call):
    """The operators of a tower."""

    def tower(self, tower: Tower, patches: int) -> Graph:
        """Its graph."""
        looks, hidden = tower.looks, self.model.hidden
        pixels = tower.channels * looks.frames * tower.patch**2
        given = ProgramTensor("pixel_values", (self.batch, patches, pixels), self.model.dtype, "input")
        with self._in("", "VisionTower"):
            x = self._linear("patch_embed", given, hidden, bias=looks.patch_bias)
            if tower.positions:
                x = self._vectors("positions", x, tower.positions * hidden)
            if tower.extra:
                one = self._weight("class_embedding", hidden)
                x = self._run(
                    "Concat",
                    "class",
                    [self._shaped("class", one, (1, 1, hidden)), x],
                    (self.batch, patches + 1, hidden),
                )
            x = self._norm("pre_norm", x) if looks.before else x
            x = self._stack("layers", "Layer", x, every=False)
            x = self._norm("post_norm", x) if looks.after else x
            out = self._projected(tower, x, patches)
        return Graph("VisionTower", "config", "", (given,), (out,), tuple(self.nodes), {}, (), Program())

    def _projected(self, tower: Tower, x: Tensor, patches: int) -> Tensor:
        kind, hidden, text, side = tower.looks.projector, self.model.hidden, tower.text, tower.merge**2
        x = self._run("Slice", "patches", [x], (self.batch, patches, hidden))
        joined = (self.batch, patches // side, hidden * side)
        if kind == "two":
            x = self._run("Gelu", "act", [self._linear("linear_1", x, text, bias=True)])
            return self._linear("linear_2", x, text, bias=True)
        if kind == "one_normed":
            x = self._norm("mm_soft_emb_norm", self._run("ReduceMean", "pool", [x], (self.batch, 256, hidden)), "rms")
            return self._linear("mm_input_projection", x, text)
        if kind == "pooled":
            x = self._run("ReduceMean", "pool", [x], (self.batch, patches // side, hidden))
            return self._linear("embedding_projection", self._norm("norm", x, "unit"), text)
        if kind == "pixtral":
            x = self._linear("merging_layer", self._shaped("merge", self._norm("norm", x, "rms"), joined), hidden)
            x = self._run("Gelu", "act", [self._linear("linear_1", x, text)])
            return self._linear("linear_2", x, text)
        for number in range(1 + tower.deep):
            last = number == tower.deep
            if kind == "joined_normed" or not last:
                own = self._norm(f"merger.{number}.norm", self._shaped("merge", x, joined), "layer")
            else:
                own = self._shaped(
                    "merge", self._norm("merger.norm", x, "rms" if kind == "merged_rms" else "layer"), joined
                )
            width = text if kind == "joined_normed" else hidden * side
            own = self._run("Gelu", "act", [self._linear(f"merger.{number}.fc1", own, width, bias=True)])
            out = self._linear(f"merger.{number}.fc2", own, text, bias=True)
        return out
