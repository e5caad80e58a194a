"""The meter beside the profile of the very batch, for thirty models of random shapes; and the time that it takes.

    python benchmarks/meter.py --shapes 200 [NAME ...]

One line for each model: seconds for the formulas, batches counted by a formula, batches whose figures differ from those
of the profile, and microseconds for a shape that was met before and for a new one.

    python benchmarks/meter.py --overhead

The part of a step that the meter takes, as callbacks watch a model.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import diffusers
import torch
import transformers
from tests.api.test_meter import Detector, Language, expected, lora, packed
from tests.torch_vision import torchvision
from torch import nn

import flopwise
from flopwise.integrations.steps import Steps

Batch = Callable[[random.Random], Any]

VOCABULARY = 256


def language(config: str, **options: Any) -> nn.Module:
    """A tiny language model of a type of transformers'."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    made = getattr(transformers, config)(**{**sizes, "num_key_value_heads": 2, **ends, **options})
    model: nn.Module = transformers.AutoModelForCausalLM.from_config(made)
    return model


def checkpointed() -> nn.Module:
    """A tiny Llama whose layers are computed twice."""
    model: Any = language("LlamaConfig")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model  # type: ignore[no-any-return]


def ids(chance: random.Random) -> dict[str, Any]:
    """Tokens with a mask and labels; every third batch has padding."""
    shape = chance.randint(1, 6), chance.randint(4, 96)
    tokens = torch.randint(3, VOCABULARY, shape)
    mask = torch.ones_like(tokens)
    if not chance.randrange(3):
        mask[0, : chance.randint(1, 3)] = 0
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.clone()}


def plain_ids(chance: random.Random) -> dict[str, Any]:
    """The same without a mask."""
    return {name: tensor for name, tensor in ids(chance).items() if name != "attention_mask"}


def both_ids(chance: random.Random) -> dict[str, Any]:
    """Tokens for an encoder, and labels of another length."""
    batch = plain_ids(chance)
    shape = len(batch["labels"]), chance.randint(4, 40)
    return {**batch, "labels": torch.randint(3, VOCABULARY, shape)}


def images(step: int, most: int, least: int = 1) -> Batch:
    """Images of random sizes that are multiples of a step."""
    return lambda chance: [
        torch.rand(
            chance.randint(least, 4), 3, *(step * chance.randint(1 + 31 // step, most // step) for _ in range(2))
        )
    ]


def fixed(size: int) -> Batch:
    """Batches of images of one size."""
    return lambda chance: [torch.rand(chance.randint(1, 64), 3, size, size)]


def latents(channels: int, **others: tuple[int, ...]) -> Batch:
    """Latents with a time step, and further inputs whose first sizes are the batch and a random length."""

    def batch(chance: random.Random) -> dict[str, Any]:
        count, length = chance.randint(1, 6), chance.randint(2, 30)
        image = torch.rand(count, channels, 8 * chance.randint(1, 5), 8 * chance.randint(1, 5))
        made = {name: torch.rand(count, *(length if n < 0 else n for n in dims)) for name, dims in others.items()}
        return {"time": torch.randint(1000, (count,)), "x": image, **made}

    return batch


class Diffusion(nn.Module):
    """A model of diffusers' with its inputs by other names."""

    def __init__(self, model: nn.Module, **names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, x: Any, time: Any, states: Any = None, pooled: Any = None) -> Any:
        given = {"states": states, "pooled": pooled}
        others = {name: given[key] for key, name in self.names.items() if key in given}
        return self.model(x, timestep=time, return_dict=False, **others)[0]


def unet() -> nn.Module:
    """A tiny U-Net with cross attention."""
    down, up = ("CrossAttnDownBlock2D", "DownBlock2D"), ("UpBlock2D", "CrossAttnUpBlock2D")
    model = diffusers.UNet2DConditionModel(
        down_block_types=down,
        up_block_types=up,
        block_out_channels=(16, 32),
        layers_per_block=1,
        cross_attention_dim=24,
        attention_head_dim=8,
        norm_num_groups=4,
    )
    return Diffusion(model, states="encoder_hidden_states")


def sd3() -> nn.Module:
    """A tiny diffusion transformer as Stable Diffusion 3 is."""
    model = diffusers.SD3Transformer2DModel(
        sample_size=32, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=24, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
        pos_embed_max_size=32,
    )  # fmt: skip
    return Diffusion(model, states="encoder_hidden_states", pooled="pooled_projections")


class Maps(nn.Module):
    """A detector of torchvision's up to its boxes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        whole = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=5)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x: Any) -> Any:
        return self.head([*self.backbone(x).values()])


class Recurrent(nn.Module):
    """A recurrent layer over sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(16, 24, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


def vision(name: str) -> Callable[[], nn.Module]:
    """A classifier of torchvision's."""
    return lambda: getattr(torchvision.models, name)(weights=None)  # type: ignore[no-any-return]


def encoder(config: str, model: str, **options: Any) -> nn.Module:
    """A tiny model of transformers' by its class."""
    return getattr(transformers, model)(getattr(transformers, config)(**options))  # type: ignore[no-any-return]


_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}

CASES: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "llama": (lambda: language("LlamaConfig"), ids),
    "mixtral": (lambda: language("MixtralConfig", num_local_experts=4), ids),
    "qwen3-moe": (lambda: language("Qwen3MoeConfig", **_EXPERTS), ids),
    "gemma3": (lambda: language("Gemma3TextConfig", head_dim=16, sliding_window=16), ids),
    "lora": (lora, plain_ids_of_97 := lambda chance: {k: v % 97 for k, v in plain_ids(chance).items()}),
    "rows": (lambda: Language(packed=True), packed),
    "sd3": (sd3, latents(4, states=(-1, 24), pooled=(16,))),
    "yolo-like": (Detector, images(1, 160)),
    "ssdlite": (lambda: Maps("ssdlite320_mobilenet_v3_large"), images(32, 320, 2)),
    "retinanet": (lambda: Maps("retinanet_resnet50_fpn"), images(32, 192)),
    "llama-checkpoints": (checkpointed, ids),
    "qwen3": (lambda: language("Qwen3Config", head_dim=16), ids),
    "mistral": (lambda: language("MistralConfig"), ids),
    "olmo2": (lambda: language("Olmo2Config"), ids),
    "phi3": (lambda: language("Phi3Config"), ids),
    "granite": (lambda: language("GraniteConfig"), ids),
    "gpt2": (lambda: language("GPT2Config", **_GPT2), ids),
    "opt": (lambda: language("OPTConfig", ffn_dim=96, word_embed_proj_dim=64), ids),
    "bert": (lambda: encoder("BertConfig", "BertForMaskedLM", vocab_size=VOCABULARY, **_BERT), ids),
    "t5": (lambda: encoder("T5Config", "T5ForConditionalGeneration", vocab_size=VOCABULARY, **_T5), both_ids),
    "unet": (unet, latents(4, states=(-1, 24))),
    "resnet18": (vision("resnet18"), images(1, 160)),
    "mobilenet": (vision("mobilenet_v3_small"), images(1, 160)),
    "convnext": (vision("convnext_tiny"), images(1, 160)),
    "vit": (vision("vit_b_32"), fixed(224)),
    "densenet": (vision("densenet121"), images(1, 128, 2)),
    "shufflenet": (vision("shufflenet_v2_x0_5"), images(1, 160)),
    "fcn": (lambda: torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None), images(1, 96)),
    "lstm": (Recurrent, lambda chance: [torch.rand(chance.randint(1, 9), chance.randint(1, 60), 16)]),
    "qwen3-next": (
        lambda: language(
            "Qwen3NextConfig", **_EXPERTS, shared_expert_intermediate_size=32, linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
            layer_types=["linear_attention", "full_attention"],
        ),
        ids,
    ),
}  # fmt: skip


#: Further models in training loops.
LOOPS: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "linears": (
        lambda: nn.Sequential(*(nn.Linear(96, 96) for _ in range(150))),
        lambda chance: [torch.rand(64, 96)],
    )
}

#: Models whose training loops are timed: steps of some milliseconds and more, 300 weights.
OVERHEAD = ("bert", "llama", "lstm", "mobilenet", "resnet18", "linears")


def measured(name: str, shapes: int) -> str:
    """The line of one model."""
    build, batch = CASES[name]
    chance = random.Random(name)
    model = build()
    start = time.perf_counter()
    meter = flopwise.Meter(model, batch(chance), keep=False)
    first = time.perf_counter() - start
    wrong, by_formula, new, known = 0, 0, [], []
    for _ in range(shapes):
        inputs = batch(chance)
        start = time.perf_counter()
        cost = meter.step(inputs)
        middle = time.perf_counter()
        meter.step(inputs)
        known.append(time.perf_counter() - middle)
        by_formula += cost.how == "formula"
        if cost.how == "formula":
            new.append(middle - start)
        figures = expected(model, inputs)
        wrong += any(getattr(cost, figure) != value for figure, value in figures.items())
    counted = f"by formula {by_formula}/{shapes}  wrong {wrong}"
    times = f"known {_middle(known):.0f} us  new {_middle(new):.0f} us"
    notes = "; ".join(meter.notes)[:90]
    return f"{name:18} first {first:5.1f} s  formulas {meter.seconds:6.1f} s  {counted}  {times}  {notes}"


def overhead(name: str, rounds: int = 300) -> str:
    """The line of one model in a training loop: processor time of a step, and what a meter that watches it takes of it.

    Steps without a hook, with one that does nothing, with the meter and with a meter that is timed take turns, because
    a meter that is asked at once again finds everything in the processor's caches. What a step with the meter takes
    longer than one without has less than the meter's own time: it loads weights that the model looks at next.
    """
    build, batch = {**CASES, **LOOPS}[name]
    model, chance = build(), random.Random(name)
    inputs = batch(chance)
    steps = Steps(flopwise.Meter(model, inputs, keep=False))
    args, kwargs = (inputs, {}) if isinstance(inputs, list) else ([], inputs)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    steps.start()
    ((key, watch),) = model._forward_pre_hooks.items()
    inside: list[float] = []

    def timed(*arguments: Any) -> None:
        start = time.perf_counter()
        watch(*arguments)
        inside.append(time.perf_counter() - start)

    hooks: dict[str, Callable[..., None]] = {"empty": lambda *_: None, "meter": watch, "timed": timed}

    def step(kind: str) -> float:
        model._forward_pre_hooks.clear()
        if kind in hooks:
            model._forward_pre_hooks[key] = hooks[kind]
        start = time.thread_time()
        result: Any = model(*args, **kwargs)
        loss = result.loss if hasattr(result, "loss") else result.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.thread_time() - start

    times: dict[str, list[float]] = {kind: [step(kind)] for kind in ("plain", *hooks) * 5}
    inside.clear()
    for _ in range(rounds):
        for kind in times:
            times[kind].append(step(kind))
    alone = []
    for _ in range(1000):
        start = time.perf_counter()
        watch(model, tuple(args), kwargs)
        alone.append(time.perf_counter() - start)
    plain = _middle(times["plain"])
    more = {kind: _longer(times[kind], times["plain"]) for kind in ("empty", "meter")}
    return (
        f"{name:12} {len([*model.parameters()]):4} weights  step {plain / 1e3:6.1f} ms  "
        f"longer by {more['meter']} us with the meter, by {more['empty']} us with an empty hook;  "
        f"the meter itself {_middle(inside):5.1f} us ({_middle(inside) / plain:.3%}), at once again "
        f"{_middle(alone):.1f} us"
    )


def _longer(ones: list[float], others: list[float]) -> str:
    """The median of differences in microseconds, and half of its interval of 95 %."""
    differences = sorted((one - other) * 1e6 for one, other in zip(ones, others, strict=True))
    low, middle, high = (differences[len(differences) * part // 100] for part in (25, 50, 75))
    return f"{middle:.1f} +- {1.57 * (high - low) / len(differences) ** 0.5:.1f}"


def _middle(seconds: list[float]) -> float:
    """The median in microseconds; 0 where there is none."""
    return sorted(seconds)[len(seconds) // 2] * 1e6 if seconds else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--overhead", action="store_true")
    given = parser.parse_args()
    for chosen in given.names or (OVERHEAD if given.overhead else CASES):
        try:
            print(overhead(chosen) if given.overhead else measured(chosen, given.shapes), flush=True)
        except Exception as error:  # a model of another version of its library
            print(f"{chosen:18} {type(error).__name__}: {str(error)[:200]}", flush=True)
