"""Whole architectures: the multiply-adds of PyTorch's own counter, and the same number however a model is run."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests import torch_golden  # noqa: E402
from tests.torch_models import MODELS  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import flopwise  # noqa: E402

#: Operators that a matrix engine runs.
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Attention", "Einsum", "aten::_grouped_mm")


def products(profile: flopwise.Profile) -> int:
    """Multiply-adds of products alone."""
    return sum(row.macs or 0 for row in profile.rows if row.node.op in PRODUCTS)


@pytest.mark.parametrize("name", torch_golden.MACS)
def test_products_of_an_architecture(name: str) -> None:
    with torch.device("meta"):
        model, args, kwargs = MODELS[name]()
    shapes = {key: tuple(value.shape) for key, value in kwargs.items()}
    text = name in ("bert_base", "gpt2")
    profile = flopwise.profile(model, ([], {"input_ids": (1, 128), **shapes}) if text else list(args))
    assert products(profile) == torch_golden.MACS[name]
    assert not profile.unknown
    assert profile.total("params") == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "vit_b_16", "googlenet", "inception_v3"])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_products_are_those_of_flop_counter_mode(name: str, mode: Any) -> None:
    with torch.device("meta"):
        model, args, _ = MODELS[name]()
        model.train(mode == "train")
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
                model(*[torch.zeros(2, *a.shape[1:]) for a in args])
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    profile = flopwise.profile(model, [(2, *a.shape[1:]) for a in args], mode=mode)
    assert 2 * products(profile) == counter.get_total_flops()


SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def configured(kind: str) -> Any:
    """A small model's configuration and class."""
    t = transformers
    return {
        "bert": lambda: (t.BertModel, t.BertConfig(**SMALL)),
        "gpt2": lambda: (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)),
        "llama": lambda: (t.LlamaForCausalLM, t.LlamaConfig(**SMALL, num_key_value_heads=2)),
        "mixtral": lambda: (
            t.MixtralForCausalLM,
            t.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4),
        ),
        "t5": lambda: (
            t.T5ForConditionalGeneration,
            t.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
        ),
        "whisper": lambda: (
            t.WhisperForConditionalGeneration,
            t.WhisperConfig(
                vocab_size=100,
                d_model=32,
                encoder_layers=2,
                encoder_attention_heads=4,
                decoder_layers=2,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_source_positions=50,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
            ),
        ),
        "vit": lambda: (
            t.ViTModel,
            t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
        ),
    }[kind]()


#: Small models, inputs from their configurations (128 tokens, one image, or one window of sound).
MACS = {
    "bert": 4_195_328,
    "gpt2": 5_652_480,
    "llama": 4_866_048,
    "mixtral": 6_471_680,
    "t5": 11_943_936,
    "whisper": 8_212_992,
    "vit": 13_013_120,
}


@pytest.mark.parametrize("kind", MACS)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("device", ["meta", "cpu", "fake"])
def test_the_same_number_however_a_model_is_run(kind: str, attention: str, device: str) -> None:
    cls, config = configured(kind)
    options = {} if kind == "t5" else {"attn_implementation": attention}
    if device == "fake":
        from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

        try:
            with FakeTensorMode():
                model = cls._from_config(config, **options)
        except DataDependentOutputException:
            pytest.skip("the model cannot be made in fake mode")
    else:
        with torch.device(device):
            model = cls._from_config(config, **options)
    profile = flopwise.profile(model)
    assert products(profile) == MACS[kind]
    assert not profile.unknown
    assert profile.total("params") == sum(p.numel() for p in model.parameters())
    assert not any("real" in note for note in profile.notes)


@pytest.mark.parametrize("kind", ["gpt2", "mixtral", "t5"])
def test_gradients_change_no_number(kind: str) -> None:
    cls, config = configured(kind)
    model = cls(config)
    graph = flopwise.read(model, grad=True)
    assert products(flopwise.profile(graph)) == MACS[kind]


def test_sizes_of_configured_inputs_can_be_chosen() -> None:
    cls, config = configured("llama")
    profile = flopwise.profile(cls(config), dims={"sequence": 64}, batch_size=2)
    assert {t.name: t.dims for t in profile.graph.inputs} == {"input_ids": (2, 64), "attention_mask": (2, 64)}
    with_cache = flopwise.profile(cls(config), {"input_ids": (2, 64)})
    without = flopwise.profile(cls(config), ((), {"input_ids": (2, 64), "use_cache": False}))
    assert products(with_cache) == products(without) == products(profile)


def test_seven_billion_parameters_take_no_memory() -> None:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig())
    profile = flopwise.profile(model, {"input_ids": (1, 128)})
    assert products(profile) == 850_000_871_424
    assert profile.total("params") == 6_738_415_616
