"""Towers, which make tokens of images and sound: a table, and their graphs by the parts of language models' layers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.language.graph import Call
from flopwise.formats.language.images import RULES, Processor, cut
from flopwise.formats.language.parts import MLP, Attention, CompressedAttention, Decoder, LatentAttention, Layer
from flopwise.formats.language.settings import Settings
from flopwise.formats.sources.location import in_words
from flopwise.graph import Graph, Tensor
from flopwise.graph.graph import Program, ProgramTensor


class TowerFamily(NamedTuple):
    """An architecture of a tower: what its configuration does not say."""

    norm: str = "layer"
    #: Biases of queries, keys and values, of attention's result, of networks, and of the product of patches.
    bias: bool = True
    out: bool = True
    mlp: bool = True
    patch_bias: bool = True
    gated: bool = False
    #: Positions that are learned: "" for none, "grid" (one for each patch), "class" (and one more), or a key's number.
    positions: str = "grid"
    #: Whether there are norms before and behind the layers.
    before: bool = False
    after: bool = False
    #: Frames of a patch; vectors of weights of a layer, of its hidden size.
    frames: int = 1
    vectors: int = 0
    #: Where the norms of a layer stand, and those of its queries and keys, as in ``Family``.
    place: str = "pre"
    norms: str = ""
    #: What joins it to the language model, where the model around it does not say.
    projector: str = "two"
    #: Keys that count as the configuration's own where it lacks them: the defaults of transformers.
    defaults: Mapping[str, Any] = {}


def _defaults(hidden: int, inner: int, layers: int, heads: int, image: int, patch: int, **own: Any) -> dict[str, Any]:
    """The usual sizes of a tower by the keys that configurations have."""
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers}
    return {**sizes, "num_attention_heads": heads, "image_size": image, "patch_size": patch, **own}


_QWEN = {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_heads": 16, "depth": 32}
_QWEN3 = {**_QWEN, "patch_size": 16, "depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
_WHISPER = {"num_mel_bins": 128, "max_source_positions": 1500, "num_hidden_layers": 32, "num_attention_heads": 20}
_WHISPER = {**_WHISPER, "hidden_size": 1280, "intermediate_size": 5120}

#: ``model_type`` of a vision or audio configuration -> its tower.
TOWERS: dict[str, TowerFamily] = {
    "siglip_vision_model": TowerFamily(after=True, defaults=_defaults(768, 3072, 12, 12, 224, 16)),
    "clip_vision_model": TowerFamily(
        patch_bias=False, positions="class", before=True, after=True, defaults=_defaults(768, 3072, 12, 12, 224, 32)
    ),
    "pixtral": TowerFamily(
        *("rms", False, False, False, False, True, "", True), defaults=_defaults(1024, 4096, 24, 16, 1024, 16)
    ),
    "qwen2_vl_vision": TowerFamily(
        patch_bias=False,
        positions="",
        frames=2,
        projector="merged",
        defaults={**_QWEN, "embed_dim": 1280, "mlp_ratio": 4},
    ),
    "qwen2_5_vl_vision": TowerFamily(
        "rms",
        gated=True,
        patch_bias=False,
        positions="",
        frames=2,
        projector="merged_rms",
        defaults={
            **_QWEN,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
    ),
    "qwen3_vl_vision": TowerFamily(
        positions="num_position_embeddings",
        frames=2,
        projector="merged",
        defaults={**_QWEN3, "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24]},
    ),
    "qwen3_5_vision": TowerFamily(
        positions="num_position_embeddings",
        frames=2,
        projector="merged",
        defaults={**_QWEN3, "num_position_embeddings": 2304},
    ),
    "kimi_k25_vision": TowerFamily(
        positions="pos_emb_height",
        after=True,
        projector="merged",
        defaults=_defaults(1152, 4304, 27, 16, 0, 14, pos_emb_height=64, pos_emb_width=64, spatial_merge_size=2),
    ),
    "gemma4_vision": TowerFamily(
        *("rms", False, False, False, False, True, "position_embedding_size"),
        place="both",
        norms="head",
        projector="pooled",
        defaults={"pooling_kernel_size": 3},
    ),
    "internvl_vision": TowerFamily(
        bias=False,
        positions="class",
        vectors=2,
        projector="joined_normed",
        defaults=_defaults(1024, 4096, 24, 16, 448, 14, pixel_shuffle_ratio=0.5),
    ),
    "llama4_vision_model": TowerFamily(
        patch_bias=False,
        positions="class",
        before=True,
        after=True,
        projector="shuffled",
        defaults=_defaults(768, 5632, 34, 16, 448, 14, projector_input_dim=4096, pixel_shuffle_ratio=0.5),
    ),
    "mllama_vision_model": TowerFamily(
        *("layer", False, False, True, False, False, "tiles", True, True),
        projector="across",
        defaults=_defaults(1280, 5120, 32, 16, 448, 14, num_global_layers=8, max_num_tiles=4, vision_output_dim=7680),
    ),
    # Sound: frames go through two convolutions, of which the second halves them.
    "voxtral_encoder": TowerFamily(positions="frames", after=True, projector="four_frames", defaults=_WHISPER),
    "qwen2_audio_encoder": TowerFamily(positions="frames", after=True, projector="two_frames", defaults=_WHISPER),
    "audioflamingo3_encoder": TowerFamily(positions="frames", after=True, projector="two_of_two", defaults=_WHISPER),
    "qwen2_5_omni_audio_encoder": TowerFamily(positions="sines", after=True, projector="two_frames", defaults=_WHISPER),
}

TOWERS["qwen2_5_omni_vision_encoder"] = TOWERS["qwen2_5_vl_vision"]
TOWERS["qwen3_omni_vision_encoder"] = TOWERS["qwen3_vl_vision"]

#: ``model_type`` of the model around a tower -> what joins both.
PROJECTORS = {
    "llava": "two",
    **dict.fromkeys(("llava_next", "llava_onevision"), "two_lines"),
    **dict.fromkeys(("mistral3", "pixtral"), "joined_rms"),
    "gemma3": "one_normed",
    "paligemma": "one",
}


#: Learned positions of images of one size.
_SQUARE = ("grid", "class", "tiles")


class Tower(NamedTuple):
    """A tower by its sizes."""

    layers: Decoder
    looks: TowerFamily
    patch: int
    channels: int
    positions: int
    #: Tokens of a piece beside its patches: that of the class.
    extra: int
    #: Pixels of the sides of an image with learned positions; sides of the square of patches that is one token.
    side: int
    merge: int
    #: Widths of the text, of what joins both, of all layers' results that are handed on; tokens of an image if fixed.
    text: int
    inner: int
    wide: int
    tokens: int
    #: Heads that look deeper; patches of the side of a window; whether products that join both have a bias; tiles.
    deep: int
    window: int
    bias: bool
    tiles: int
    projector: str
    #: Layers that follow, over all tiles at once.
    further: Decoder | None = None


class Encoded(NamedTuple):
    """The run of a tower, and the tokens that it makes."""

    graph: Graph
    #: Tokens of the prompt; and tokens that layers attend to beside the prompt (Llama 3.2 Vision).
    tokens: int
    crossed: int = 0
    notes: tuple[str, ...] = ()


def _own(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The settings of a tower, which may stand beside those of a part that thinks."""
    inner = content.get("thinker_config")
    part = (inner if isinstance(inner, Mapping) else content).get(key)
    return part if isinstance(part, Mapping) else {}


def tower_of(content: Mapping[str, Any], text_width: int, dtype: str, key: str = "vision_config") -> Tower | None:
    """The tower of a configuration; None where it has none, or one that is not in the table."""
    own, around = _own(content, key), str(content.get("model_type")).replace("_moe", "")
    kinds = [str(own.get("model_type")).replace("_moe", ""), around]
    names = (name for kind in kinds for name in (kind, f"{kind}_vision", f"{kind}_vision_model", f"{kind}_encoder"))
    looks = next((TOWERS[name] for name in names if name in TOWERS), None)
    if looks is None or not own or (key == "audio_config") != (looks.positions in ("frames", "sines")):
        return None
    spelled = {re.sub("^vt_|^init_(?=pos_)", "", name): value for name, value in own.items()}
    defaults = dict(looks.defaults)
    if {"hidden_size", "embed_dim"} <= {*spelled, *defaults} and "embed_dim" not in own and "hidden_size" in own:
        defaults.pop("embed_dim", None)
    s = Settings(key, spelled, defaults)
    hidden = s.size("embed_dim", s.get("d_model", s.get("hidden")))
    heads = s.get("encoder_attention_heads") or s.size("heads")
    inner = s.get("encoder_ffn_dim") or s.size("inner", int(hidden * s.get("mlp_ratio", 0)) or None)
    count = s.get("encoder_layers") or s.size("depth", s.get("num_hidden_layers"))
    if s.get("embed_dim"):  # Qwen2-VL, whose hidden_size is the text's
        text_width = s.size("hidden_size", text_width)
    if hidden % heads and not s.has("head_dim"):
        raise ModelError(f"{key}: hidden_size {hidden} is not a multiple of the number of heads, {heads}")
    head = s.size("head_dim", hidden // heads)
    sound = s.get("num_mel_bins", 0) if looks.positions in ("frames", "sines") else 0
    attention = Attention(
        heads,
        s.size("groups", heads),
        head,
        head,
        bias=looks.bias,
        out_bias=looks.out,
        norms=looks.norms,
        causal=False,
        plain_keys=bool(sound),
    )
    network = MLP(inner, looks.gated, looks.mlp, activation=s.activation(looks.gated))
    layer = Layer((attention,), (network,), looks.place, looks.vectors * hidden)
    layers = (layer,) * count
    patch, image = (_first(s.get(name)) for name in ("patch_size", "image_size"))
    least = {"patch_size": (patch, 1), "image_size": (image, patch)} if looks.positions in _SQUARE else {}
    least = least or ({} if sound else {"patch_size": (patch, 1)})
    for name, (value, low) in least.items():
        if type(value) is not int or value < low:
            raise ModelError(f"{key}: {name} is {s.get(name)!r}; a whole number of at least {low} is expected")
    window = s.get("window_size", 0) if s.get("fullatt_block_indexes") else 0
    if window:
        near = layer._replace(mixers=(attention._replace(chunk=window),))
        layers = tuple(layer if n in s.get("fullatt_block_indexes") else near for n in range(count))
    if looks.positions == "sines":  # blocks of 2 x n_window frames, of which the convolutions leave half
        window = s.size("n_window", 100)
        layers = (layer._replace(mixers=(attention._replace(chunk=window),)),) * count
    if looks is TOWERS["siglip_vision_model"] and s.get("vision_use_head", True) is not False:
        s.notes.append("the head by which SigLIP pools an image is left out: no language model uses it")
    longest = s.get("max_source_positions") if sound else None
    decoder = Decoder(
        "Tower", key, hidden, 1, layers, looks.norm, True, dtype, longest, sound=sound, notes=tuple(s.notes)
    )
    grid = (image or 0) // (patch or 1)
    positions = {"grid": grid**2, "class": grid**2 + 1, "": 0, "tiles": 0, "sines": 0, "frames": longest or 0}.get(
        looks.positions
    )
    positions = s.size(looks.positions) if positions is None else positions
    if looks.positions == "position_embedding_size":  # a table for each of the two axes
        positions *= 2
    if looks.positions == "pos_emb_height":
        positions *= s.size("pos_emb_width")
    stated = (s.get("merge_kernel_size"), s.get("pooling_kernel_size"), content.get("spatial_merge_size"))
    merge = _first(next((n for n in stated if n), s.get("spatial_merge_size")))
    ratio = content.get("downsample_ratio") or s.get("pixel_shuffle_ratio")
    projector = PROJECTORS.get(around, looks.projector)
    merge = merge or (2 if projector == "joined_rms" else round(1 / ratio) if ratio else 1)
    further = None
    if looks.positions == "tiles":
        gated = layer._replace(vectors=2)  # two numbers, by which its results are multiplied
        further = decoder._replace(layers=(gated,) * s.size("num_global_layers"))
    bias = content.get("multimodal_projector_bias", projector in ("two", "two_lines", "one"))
    return Tower(
        decoder,
        looks,
        patch or 1,
        s.size("in_channels", s.get("in_chans") or s.get("num_channels", 3)),
        positions,
        int(looks.positions == "class"),
        image or 0,
        merge,
        s.size("out_hidden_size", s.get("output_dim", text_width)),
        s.get("projector_input_dim", 0),
        s.get("vision_output_dim", 0),
        Settings(str(around), content).size("mm_tokens_per_image", 256),
        len(s.get("deepstack_visual_indexes") or ()),
        window,
        bool(bias),
        s.get("max_num_tiles", 1),
        projector,
        further,
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def weights_beside(
    content: Mapping[str, Any], text_width: int, dtype: str
) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], tuple[str, ...]]:
    """The weights of the towers of a configuration, and notes on parts of the model that the table does not have."""
    weights: dict[str, tuple[str, tuple[int, ...]]] = {}
    notes: list[str] = []
    missing = [key for key in ("talker_config", "token2wav_config", "code2wav_config") if content.get(key)]
    for key in ("vision_config", "audio_config", "image_config"):
        tower = tower_of(content, text_width, dtype, key)
        if tower is None:
            missing += [key] if _own(content, key) else []
            continue
        if key == "audio_config":
            graph = tower_graph(tower, 1, 1, tower.layers.longest or 2, every=True)
        else:
            whole = tower.projector in ("one_normed", "across")
            side = tower.side // tower.patch if whole else tower.merge
            graph = tower_graph(tower, 1, side, side, every=True)
        notes += tower.layers.notes
        for node in graph.nodes:
            for tensor in node.known_inputs:
                if tensor.kind == "weight":
                    weights[tensor.name] = tensor.name, tuple(int(size) for size in tensor.dims)
    if missing:
        what = " and ".join(missing)
        notes.append(f"{what}: parts for images or sound that are not in the table; their weights are left out")
    return tuple(weights.values()), tuple(notes)


def weights_of_crossing(model: Decoder) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The weights of the layers that attend to images."""
    call = Call(model._replace(layers=tuple(layer for _, layer in model.crossing)), 1, 1, 0, 1)
    call.memory = hidden = ProgramTensor("cross_attention_states", (1, 1, model.hidden), model.dtype, "input")
    call._stack("model.cross_layers", "DecoderLayer", hidden, True)
    tensors = {tensor.name: tensor for node in call.nodes for tensor in node.known_inputs if tensor.kind == "weight"}
    return tuple((name, tuple(map(int, tensor.dims))) for name, tensor in tensors.items())


def with_images(model: Decoder) -> Decoder:
    """A model whose layers that attend to images are among the others, as they are where there is one."""
    layers = list(model.layers)
    for number, layer in model.crossing:
        layers.insert(number, layer)
    beside = tuple(one for one in model.beside if not one[0].startswith("model.cross_layers."))
    return model._replace(layers=tuple(layers), beside=beside, crossing=())


def image_of(
    content: Mapping[str, Any],
    settings: Mapping[str, Any],
    name: str,
    text_width: int,
    dtype: str,
    width: int,
    height: int,
) -> Encoded:
    """The run of a model's tower for an image of so many pixels, and the tokens that it makes.

    Args:
        content: the configuration.
        settings: those of its image processor, as ``preprocessor_config.json`` has them; empty: the usual ones.
        name: what the model is called in messages.
        text_width: width of the model that takes the tokens.
        dtype: the element type that is multiplied.
        width: pixels.
        height: pixels.

    Raises:
        InputError: the model takes no images, its tower is not in the table, or the image is out of range.
        ModelError: a setting of the processor is none that can be.
    """
    kind = str(content.get("model_type"))
    tower = tower_of(content, text_width, dtype)
    if not any(_own(content, key) for key in ("vision_config", "image_config")):
        raise InputError(f"{name}: takes no images among its tokens")
    if kind == "llava" and tower is not None and tower.looks is TOWERS["pixtral"]:
        kind = "pixtral"
    if kind not in RULES:
        raise InputError(f"{name}: how its processor cuts images is not in the table of architectures ({kind})")
    for key in ("mm_tokens_per_image", "vision_soft_tokens_per_image"):
        Settings(name, content).size(key, 1)
    around = content if kind != "qwen2_5_omni" else content.get("thinker_config") or content
    if tower is None:
        if kind == "gemma3n":
            raise InputError(
                f"{name}: its tower, a MobileNet, is not in the table of architectures; an image is 256 tokens"
            )
        raise InputError(f"{name}: its tower is not in the table of architectures")
    processor = Processor(settings, around, tower.patch, tower.side, tower.merge)
    try:
        piece = cut(kind, processor, width, height)
        graph = tower_graph(tower, piece.pieces, piece.rows, piece.columns)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"{name}: its settings for images do not fit together ({in_words(error)})") from error
    notes = (
        ()
        if settings
        else (f"images are cut by the published settings of {kind}: there is no preprocessor_config.json",)
    )
    across = piece.pieces * (piece.rows * piece.columns + 1) if tower.projector == "across" else 0
    return Encoded(graph, piece.tokens, across, notes)


#: Samples of a second of sound, and those from a frame to the next, where a processor does not say: those of Whisper.
_RATE, _HOP = 16000, 160


def frames_per_second(settings: Mapping[str, Any]) -> int:
    """Frames of a second of sound, by the settings of a feature extractor.

    Raises:
        ModelError: they are no whole numbers.
    """
    rate, hop = (settings.get(key, usual) for key, usual in (("sampling_rate", _RATE), ("hop_length", _HOP)))
    if not (type(rate) is int and type(hop) is int and 0 < hop <= rate):
        raise ModelError(
            f"preprocessor_config.json: sampling_rate {rate!r}, hop_length {hop!r}; whole numbers expected"
        )
    return rate // hop


def sound_of(
    content: Mapping[str, Any], settings: Mapping[str, Any], name: str, text_width: int, dtype: str, seconds: float
) -> Encoded:
    """The run of a model's encoder of sound, and the tokens that it makes; arguments as those of ``image_of``.

    Raises:
        InputError: the model takes no sound, or its encoder is not in the table.
        ModelError: a setting of the processor is none that can be.
    """
    tower = tower_of(content, text_width, dtype, "audio_config")
    if tower is None:
        what = (
            "its encoder of sound is not in the table of architectures"
            if _own(content, "audio_config")
            else "takes no sound"
        )
        raise InputError(f"{name}: {what}")
    frames = math.ceil(seconds * frames_per_second(settings))
    if tower.looks.positions == "sines":
        after = (frames - 1) // 2 + 1
        return Encoded(tower_graph(tower, 1, 1, after), max((after - 2) // 2 + 1, 1))
    positions = tower.layers.longest or 1500
    windows = -(-frames // (2 * positions))
    tokens = {"four_frames": -(-positions * tower.layers.hidden // _inner(tower))}.get(tower.projector, positions // 2)
    if tower.projector != "four_frames":  # which leaves out what stands for padding
        full, rest = divmod(frames, 2 * positions)
        counted = full * tokens + (((rest - 1) // 2 + 1 - 2) // 2 + 1 if rest > 2 else min(rest, 1))
    else:
        counted = windows * tokens
    note = f"{seconds:g} s of sound are {windows:,} windows of {2 * positions:,} frames"
    return Encoded(tower_graph(tower, windows, 1, positions), counted, notes=(note,))


def _inner(tower: Tower) -> int:
    """The width of networks of a tower's layers."""
    network = tower.layers.layers[0].networks[0]
    return network.inner


def tower_graph(tower: Tower, pieces: int, rows: int, columns: int, every: bool = False) -> Graph:
    """The graph of a tower for so many pieces of rows and columns of patches each; of sound, columns are positions.

    Layers that are alike stand once, unless every one is asked for.
    """
    patches = rows * columns
    if tower.projector == "across":  # all tiles in one sequence, each filled up to a multiple of 8 patches
        each = -(-(patches + 1) // 8) * 8
        return _Tower(tower, "vision_tower", 1, pieces * each, rows, columns).graph_of(pieces, patches, every)
    prefix = "audio_tower" if tower.layers.sound else "vision_tower"
    return _Tower(tower, prefix, pieces, patches + tower.extra, rows, columns).graph_of(pieces, patches, every)


class _Tower(Call):
    """The operators of a tower."""

    def __init__(self, tower: Tower, prefix: str, batch: int, new: int, rows: int, columns: int) -> None:
        super().__init__(tower.layers, batch, new, 0)
        self.tower, self.prefix = tower, prefix
        side = tower.window // tower.patch // tower.merge or 1
        #: Tokens of a window -> how many windows of a piece have so many.
        self.windows = Counter(
            tall * wide * tower.merge**2
            for tall in _steps(rows // tower.merge, side if rows > 1 else 1)
            for wide in _steps(columns // tower.merge, side if rows > 1 else tower.window or 1)
        )

    def _weight(self, name: str, *shape: int) -> Tensor:
        return super()._weight(f"{self.prefix}.{name}", *shape)

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
        """Attention, within windows where a layer has them."""
        if not (isinstance(mixer, Attention) and mixer.chunk):
            return super()._scored(path, mixer, queries, keys, values, before, cap)
        parts = []
        for tokens, count in self.windows.items():
            shape = (self.batch * count, mixer.heads, tokens, mixer.head)
            three = [self._run("Slice", f"{path}.windows", [part], shape) for part in (queries, keys, values)]
            parts.append(self._run("Attention", f"{path}.attention", three, attrs={"is_causal": 0}))
        return self._run("Concat", f"{path}.joined", parts, queries.dims)

    def graph_of(self, pieces: int, patches: int, every: bool) -> Graph:
        """The graph."""
        tower, looks, hidden = self.tower, self.tower.looks, self.model.hidden
        with self._in("", "Tower"):
            if self.model.sound:
                given = ProgramTensor(
                    "input_features", (self.batch, self.model.sound, 2 * patches), self.model.dtype, "input"
                )
                x = self._after_convolutions(given)
            else:
                pixels = tower.channels * looks.frames * tower.patch**2
                size = (self.batch, self.batch and pieces * patches // self.batch, pixels)
                given = ProgramTensor("pixel_values", size, self.model.dtype, "input")
                x = self._linear("patch_embed", given, hidden, bias=looks.patch_bias)
            if tower.positions:
                x = self._vectors("positions", x, tower.positions * hidden)
            if tower.projector == "across":
                x = self._tile_positions(x, patches)
            if self.new != x.dims[1]:
                one = self._shaped("class", self._weight("class_embedding", hidden), (1, 1, hidden))
                x = self._run("Concat", "class", [one, x], (self.batch, self.new, hidden))
            x = self._norm("pre_norm", x) if looks.before else x
            x = self._stack("layers", "Layer", x, every)
            if tower.projector == "two_frames":
                x = self._run("ReduceMean", "pool", [x], (self.batch, self.new // 2, hidden))
            x = self._norm("post_norm", x) if looks.after else x
            if tower.further is not None:
                x = self._vectors("post_tile", x, 9 * tower.tiles * hidden + 1)
                self.model = tower.further
                x = self._stack("global_layers", "Layer", x, every)
                wide = (1, pieces * (patches + 1), tower.wide)
                x = self._run("Concat", "intermediate", [x], wide)  # with the results of some layers before
            out = self._projected(x, patches)
        return Graph("Tower", "config", "", (given,), (out,), tuple(self.nodes), {}, self.model.notes, Program())

    def _after_convolutions(self, x: Tensor) -> Tensor:
        """Frames of sound after two convolutions: [batch, positions, hidden]."""
        hidden = self.model.hidden
        for name, tokens in (("conv1", 2 * self.new), ("conv2", self.new)):
            weight = self._weight(f"{name}.weight", hidden, int(x.dims[1]), 3)
            x = self._run("Conv", name, [x, weight, self._weight(f"{name}.bias", hidden)], (self.batch, hidden, tokens))
            x = self._run("Gelu", f"{name}.act", [x])
        return self._run("Transpose", "across", [x], (self.batch, self.new, hidden))

    def _tile_positions(self, x: Tensor, patches: int) -> Tensor:
        """Positions of tiles by the shape of their grid, and of patches: nine shapes, gates of one number."""
        hidden, tiles = self.model.hidden, self.tower.tiles
        x = self._vectors("pre_tile", x, 9 * tiles * hidden + 1)
        x = self._vectors("position", x, (patches + 1) * hidden + 1)
        return self._vectors("tile_position", x, 9 * tiles * (patches + 1) * hidden)

    def _projected(self, x: Tensor, patches: int) -> Tensor:
        tower, hidden, batch = self.tower, self.model.hidden, self.batch
        kind, text, square = tower.projector, tower.text, tower.merge**2
        if kind == "across":
            return self._linear("multi_modal_projector", x, text, bias=True)
        if kind in ("four_frames", "two_of_two", "two_frames"):
            return self._projected_sound(kind, x)
        if x.dims[1] != patches:
            x = self._run("Slice", "patches", [x], (batch, patches, hidden))
        joined = (batch, patches // square, hidden * square)
        if kind in ("two", "two_lines"):
            x = self._run("Gelu", "act", [self._linear("linear_1", x, text, bias=tower.bias)])
            x = self._linear("linear_2", x, text, bias=tower.bias)
            if kind == "two":
                return x
            return self._run("Concat", "image_newline", [x, self._weight("image_newline", text)], x.dims)
        if kind == "one":
            return self._linear("linear", x, text, bias=True)
        if kind == "one_normed":
            pooled = self._run("ReduceMean", "pool", [x], (batch, tower.tokens, hidden))
            return self._linear("mm_input_projection", self._norm("mm_soft_emb_norm", pooled, "rms"), text)
        if kind == "pooled":
            x = self._run("ReduceMean", "pool", [x], (batch, patches // square, hidden))
            return self._linear("embedding_projection", self._norm("norm", x, "unit"), text)
        if kind == "shuffled":
            x = self._run("Gelu", "act", [self._linear("adapter.fc1", self._shaped("merge", x, joined), tower.inner)])
            x = self._run("Gelu", "act", [self._linear("adapter.fc2", x, tower.inner)])
            return self._linear("multi_modal_projector", x, text)
        if kind == "joined_rms":
            x = self._linear("merging_layer", self._shaped("merge", self._norm("norm", x, "rms"), joined), hidden)
            x = self._run("Gelu", "act", [self._linear("linear_1", x, text, bias=tower.bias)])
            return self._linear("linear_2", x, text, bias=tower.bias)
        for number in range(1 + tower.deep):
            last = number == tower.deep
            if kind == "joined_normed" or not last:
                own = self._norm(f"merger.{number}.norm", self._shaped("merge", x, joined), "layer")
            else:
                normal = self._norm("merger.norm", x, "rms" if kind == "merged_rms" else "layer")
                own = self._shaped("merge", normal, joined)
            width = text if kind == "joined_normed" else hidden * square
            own = self._run("Gelu", "act", [self._linear(f"merger.{number}.fc1", own, width, bias=True)])
            out = self._linear(f"merger.{number}.fc2", own, text, bias=True)
        return out

    def _projected_sound(self, kind: str, x: Tensor) -> Tensor:
        """Frames joined or averaged, in the width of the text."""
        tower, text, size = self.tower, self.tower.text, (self.batch, self.new // 2, self.model.hidden)
        if kind == "two_frames":
            x = self._linear("multi_modal_projector", x, text, bias=True)
            if tower.looks.positions != "sines":
                return x
            return self._run("Concat", "audio_bos_eos", [x, self._weight("audio_bos_eos", 2, text)], x.dims)
        if kind == "two_of_two":
            x = self._run("ReduceMean", "pool", [x], size)
            x = self._run("Gelu", "act", [self._linear("linear_1", x, text, bias=True)])
            return self._linear("linear_2", x, text, bias=True)
        inner = _inner(tower)
        x = self._shaped("merge", x, (self.batch, self.new * self.model.hidden // inner, inner))
        return self._linear("linear_2", self._run("Gelu", "act", [self._linear("linear_1", x, text)]), text)


def _steps(length: int, step: int) -> Iterator[int]:
    """A length in steps, the last of them what is left."""
    yield from [step] * (length // step)
    if length % step:
        yield length % step
