"""The PyTorch models that are exported: real architectures with random weights, small where a size may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

BATCH, SEQUENCE = 2, 16
IMAGE = 64
VOCABULARY = 100


@dataclass(frozen=True)
class Model:
    """How to build a module, and the names of its inputs: images if there is an ``image``, else tokens."""

    build: Callable[[], nn.Module]
    inputs: tuple[str, ...] = ("image",)

    def arguments(self) -> dict[str, Tensor]:
        """The module's inputs by name."""
        tokens = torch.arange(BATCH * SEQUENCE).reshape(BATCH, SEQUENCE) % VOCABULARY
        values = {"image": torch.zeros(1, 3, IMAGE, IMAGE), "attention_mask": torch.ones_like(tokens)}
        return {name: values.get(name, tokens) for name in self.inputs}


class Called(nn.Module):
    """A transformers model called with tensors by position; its first result alone is kept."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.options = options

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True)), **self.options)[0]


class Recurrent(nn.Module):
    """An embedding, two bidirectional LSTM layers and a classifier for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.lstm = nn.LSTM(32, 48, 2, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(96, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.classifier(self.lstm(self.embedding(tokens))[0])


#: Keeps the declarations below, which last as long as their Library.
_DECLARED: list[torch.library.Library] = []


def torchvision() -> ModuleType:
    """torchvision, also where its compiled part does not fit the installed torch.

    No model needs that part, but importing torchvision (which transformers does as well) fails when two of the
    operators that it declares are missing.
    """
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        import torchvision
    return torchvision


def transformers() -> ModuleType:
    """transformers, which imports torchvision where it is installed."""
    torchvision()
    import transformers

    return transformers


def _image(build: Callable[[Any], nn.Module]) -> Model:
    """A network of torchvision's that is built from the module of its architectures."""

    def built() -> nn.Module:
        from importlib import import_module

        torchvision()
        return build(import_module("torchvision.models"))

    return Model(built)


def _resnet(models: Any) -> nn.Module:
    """A ResNet of bottlenecks, of which one has another beside it in its stage."""
    network: nn.Module = models.ResNet(models.resnet.Bottleneck, [2, 1, 1, 1])
    return network


def _convnext(models: Any) -> nn.Module:
    sizes = ((24, 48, 1), (48, 96, 2), (96, 192, 1))
    stages = [models.convnext.CNBlockConfig(a, b, n) for a, b, n in (*sizes, (192, None, 1))]
    network: nn.Module = models.ConvNeXt(stages)
    return network


def _vit(models: Any) -> nn.Module:
    network: nn.Module = models.VisionTransformer(IMAGE, 16, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128)
    return network


def _swin(models: Any) -> nn.Module:
    """Windows that are shifted and not, that are padded, and one that is larger than its stage."""
    network: nn.Module = models.SwinTransformer([4, 4], 24, [2, 1, 1], [3, 6, 12], [7, 7], 4.0)
    return network


def _mobilenet(models: Any) -> nn.Module:
    """A large MobileNetV3 with one block of each kind in each stage."""
    blocks, channels = models.mobilenetv3._mobilenet_v3_conf("mobilenet_v3_large")
    network: nn.Module = models.MobileNetV3([b for i, b in enumerate(blocks) if i not in (5, 7, 9, 11, 14)], channels)
    return network


def _efficientnet(models: Any) -> nn.Module:
    """An EfficientNet-B0 with one block in each stage, and two in one."""
    stages, channels = models.efficientnet._efficientnet_conf("efficientnet_b0", width_mult=1.0, depth_mult=0.3)
    network: nn.Module = models.EfficientNet(stages, 0.2, last_channel=channels)
    return network


def _text(kind: str, config: str, sizes: dict[str, int], inputs: tuple[str, ...], **options: Any) -> Model:
    def build() -> nn.Module:
        library = transformers()
        # Written out, attention is matrix products that FlopCounterMode sees.
        settings = getattr(library, config)(
            vocab_size=VOCABULARY,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=2,
            attn_implementation="eager",
            **sizes,
        )
        return Called(getattr(library, kind)(settings), inputs, **options)

    return Model(build, inputs)


_BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
_T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
_LLAMA = {**_BERT, "num_key_value_heads": 2}
#: With a mask, transformers does not look for packed sequences, which the TorchScript exporter cannot translate.
_MASKED = ("input_ids", "attention_mask")

MODELS: dict[str, Model] = {
    "resnet": _image(_resnet),
    "mobilenet_v3": _image(_mobilenet),
    "efficientnet": _image(_efficientnet),
    "convnext": _image(_convnext),
    "vit": _image(_vit),
    "swin": _image(_swin),
    "bert": _text("BertForSequenceClassification", "BertConfig", _BERT, _MASKED),
    "gpt2": _text("GPT2LMHeadModel", "GPT2Config", _GPT2, _MASKED, use_cache=False),
    "t5": _text("T5ForConditionalGeneration", "T5Config", _T5, ("input_ids", "decoder_input_ids"), use_cache=False),
    "llama": _text("LlamaForCausalLM", "LlamaConfig", _LLAMA, _MASKED, use_cache=False),
    "lstm": Model(Recurrent, ("tokens",)),
}
