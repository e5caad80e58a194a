"""Model types of transformers, small ones from their configurations: the multiply-adds of PyTorch's own counter."""

from __future__ import annotations

import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import tests.torch_vision  # noqa: E402, F401 # before a model of transformers asks for it
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import flopwise  # noqa: E402
from flopwise.formats.torch.arguments import settle  # noqa: E402
from flopwise.formats.torch.description import filled  # noqa: E402

#: What configurations call their sizes, and how large they are here.
SIZES = {
    **dict.fromkeys(["vocab_size"], 99),
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "embed_dim", "dim", "emb_dim", "embedding_size"], 32),
    **dict.fromkeys(["hidden_dim", "intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_dim"], 64),
    **dict.fromkeys(["num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"], 2),
    **dict.fromkeys(["num_decoder_layers", "num_encoder_layers", "encoder_num_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"], 4),
    **dict.fromkeys(["decoder_attention_heads", "encoder_num_attention_heads", "decoder_num_attention_heads"], 4),
    **dict.fromkeys(["num_local_experts", "num_experts", "n_routed_experts"], 4),
    **dict.fromkeys(["num_key_value_heads", "num_experts_per_tok"], 2),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size", "num_mel_bins"], 16),
    **dict.fromkeys(["max_position_embeddings", "n_positions"], 128),
    **dict.fromkeys(["head_dim", "d_kv"], 8),
    "max_source_positions": 64,
}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}

#: Model types; all are made with a width of 32 and two layers where they have such sizes.
TEXT = """
    albert apertus arcee bart bert big_bird biogpt bitnet blenderbot bloom camembert canine cohere convbert cpmant ctrl
    deberta deberta-v2 distilbert electra ernie falcon fnet fsmt gemma gemma2 gemma3_text glm gpt2 gpt_bigcode
    gpt_neox granite helium internlm3 llama longt5 m2m_100 marian mbart megatron-bert mistral mobilebert modernbert
    mpt mra mvp nystromformer olmo olmo2 openai-gpt opt pegasus persimmon phi phi3 plbart qwen2 qwen3 rembert roberta
    roc_bert roformer smollm3 splinter squeezebert stablelm starcoder2 switch_transformers t5 umt5 xglm xlm xlm-roberta
    xlnet yoso
""".split()  # noqa: SIM905 # one word each

#: Those whose state runs along the sequence, and mixtures of experts.
OTHERS = "falcon_mamba mamba rwkv granitemoe mixtral olmoe phimoe qwen2_moe qwen3_moe".split()  # noqa: SIM905

VISION = """
    beit clip clipseg convnext convnextv2 data2vec-vision deit dinov2 dpt focalnet git glpn groupvit hiera ijepa
    layoutlm levit markuplm mobilenet_v1 mobilenet_v2 mobilevit owlvit poolformer pvt regnet resnet segformer
    siglip_vision_model swiftformer timesformer videomae visual_bert vit vit_mae vit_msn vitdet vivit
""".split()  # noqa: SIM905

SOUND = """
    audio-spectrogram-transformer data2vec-audio hubert moonshine sew speech_to_text unispeech wav2vec2 wav2vec2-bert
    wav2vec2-conformer wavlm whisper
""".split()  # noqa: SIM905


def small(kind: str) -> Any:
    """The configuration of a type, with small sizes wherever it has them, also in the configurations that it holds."""

    def sizes(config: Any) -> dict[str, Any]:
        found = {k: v for k, v in vars(config).items() if type(v) is int and k in SIZES}
        return {
            **{k: min(v, SIZES[k]) for k, v in found.items()},
            **{k: v for k, v in TOKENS.items() if hasattr(config, k)},
        }

    cls = transformers.CONFIG_MAPPING[kind]
    plain = cls()
    held = {k: v for k, v in vars(plain).items() if isinstance(v, transformers.PretrainedConfig)}
    return cls(**sizes(plain), **{k: {**v.to_dict(), **sizes(v)} for k, v in held.items()})


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """What configurations say about sizes that do not fit is not said."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def counted(kind: str) -> int:
    """What PyTorch counts: on meta tensors, or where a model asks them for elements, on real ones."""
    for device in ("meta", "cpu"):
        with torch.device(device):
            model = transformers.AutoModel.from_config(small(kind), attn_implementation="eager")
        given = settle(model, None, None, None).kwargs
        if device == "cpu":
            given = {k: filled(v, k) for k, v in given.items()}
        model.eval().requires_grad_(False)
        try:
            with FlopCounterMode(display=False) as counter:
                model(**given)
        except RuntimeError:
            continue
        return int(counter.get_total_flops())
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", [*TEXT, *OTHERS, *VISION, *SOUND])
def test_a_model_type(kind: str) -> None:
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(small(kind))
    profile = flopwise.profile(model, convention="torch")
    assert not profile.unknown
    assert not profile.unresolved
    assert profile.total("params") == sum(p.numel() for p in model.parameters())
    assert profile.sum.count == counted(kind)


def test_programs_that_count_tokens_name_the_cure_where_only_shapes_are_given() -> None:
    sizes: dict[str, Any] = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    bart = transformers.BartConfig(d_model=32, encoder_attention_heads=2, decoder_attention_heads=2, **sizes, **TOKENS)
    head = transformers.BartForSequenceClassification(bart).eval()
    cure = "give -i input_ids:i64:2x8:@input_ids.npy, in Python real tensors"
    profile = flopwise.profile(head, (2, 8))
    assert not profile.exact
    assert any(note.endswith(cure) for note in profile.notes)
    assert flopwise.profile(head, torch.tensor([[5, 6, 7, 2]] * 2)).exact
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    eyes = {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14, **small}
    words = {"model_type": "llama", "vocab_size": 99, **small}
    config = transformers.LlavaConfig(vision_config=eyes, text_config=words, image_token_index=90)
    llava = transformers.LlavaForConditionalGeneration(config).eval()
    with pytest.raises(flopwise.ModelError, match=f"{cure.replace('2x8', '1x8')}$"):
        flopwise.profile(llava, {"input_ids": (1, 8), "pixel_values": (1, 3, 28, 28)})
    tokens = torch.tensor([[90, 90, 90, 90, 1, 2, 3, 4]])
    assert flopwise.profile(llava, {"input_ids": tokens, "pixel_values": torch.zeros(1, 3, 28, 28)}).exact
