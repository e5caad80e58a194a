"""Requests to language models: figures worked out by hand, and those of three published models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

pytest.importorskip("transformers")

from tests.language_models import (
    BIASED_EXPERTS,
    ENCODER_DECODER,
    ENCODERS,
    LATENT,
    LLAMA,
    MIXTURE,
    PUBLISHED,
    SOUND,
    UNFUSED,
    UNFUSED_WINDOW,
    UNSAID,
    WINDOW,
    written,
)

import flopwise
from flopwise.api.language.program import language_module

FIGURES = json.loads((Path(__file__).parents[2] / "recorded" / "language_models.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models(tmp_path: Path, name: str) -> None:
    golden = FIGURES[name]
    model = written(tmp_path, PUBLISHED[name])
    prefill = flopwise.profile(model, {"input_ids": (1, 4096)})
    assert prefill.total("macs") == golden["prefill4096"]
    result = flopwise.llm(model, prompt=8192, generate=1).to_dict()
    assert result["params"] == golden["params"]
    assert result["decode"]["macs"] == golden.get("decode8192_absorbed", golden["decode8192"])
    assert result["cache"]["bytes"] == golden["cache_bytes"]
    if "decode_bytes_gb" in golden:
        assert result["decode"]["bytes"] / 1e9 == pytest.approx(golden["decode_bytes_gb"], rel=0.05)
    if "needed_prefill8192" in golden:
        assert result["prefill"]["needed_macs"] == golden["needed_prefill8192"]
    if "decode8192_absorbed" in golden:
        assert result["rewrites"]["absorb-mla"]["macs"] == golden["decode8192_absorbed"]


def test_a_small_model_by_hand(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=8, batch=2)
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96
    products = 2 * layer + 64 * 320
    attention = 2 * 2 * 4 * 16  # queries with keys and weights with values, for each pair of tokens in both layers
    assert result.prefill.macs == 2 * (32 * products + 32 * 32 * attention)
    assert result.prefill.attention_macs == 2 * 32 * 32 * attention
    every = 2 * (32 * products + 32 * 33 // 2 * attention)
    assert result.prefill.needed_macs == every - 2 * 31 * 64 * 320
    assert flopwise.llm(tmp_path, prompt=32, generate=8, batch=2, logits="all").prefill.needed_macs == every
    assert result.decode.macs == result.decode.needed_macs == 2 * (products + 33 * attention)
    assert result.generated_macs == sum(2 * (products + (past + 1) * attention) for past in range(32, 40))
    assert result.request_macs == result.prefill.macs + result.generated_macs
    assert result.generated_bytes == sum(
        result.decode.bytes + grown * 2 * result.cache_bytes_per_token for grown in range(8)
    )
    assert result.to_dict()["request"] == {
        "tokens": 40,
        "macs": result.request_macs,
        "flops": result.prefill.flops + result.generated_flops,
        "bytes": result.prefill.bytes + result.generated_bytes,
    }
    assert result.params == result.active_params == 2 * 64 * 320 + 2 * (layer + 2 * 64) + 64
    assert result.weight_bytes == 2 * result.params
    assert result.cache_bytes_per_token == 2 * 2 * 2 * 16 * 2
    assert result.cache_bytes == 2 * 32 * result.cache_bytes_per_token
    assert result.final_cache_bytes == 2 * 40 * result.cache_bytes_per_token
    table = 320 * 64 * 2
    assert result.decode.weights.most == 2 * result.params - table + 2 * 64 * 2  # of the table two rows


def test_attention_that_is_no_operator_of_its_own(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, UNFUSED), prompt=32, generate=1)
    attention = 2 * 2 * 4 * 16
    assert result.prefill.attention_macs == 32 * 32 * attention
    assert result.decode.attention_macs == 33 * attention
    assert result.prefill.needed_macs == result.prefill.macs - (32 * 32 - 32 * 33 // 2) * attention - 31 * 64 * 320
    assert result.decode.needed_macs == result.decode.macs


def test_a_window_of_attention_that_is_no_operator_of_its_own(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, UNFUSED_WINDOW), prompt=32, generate=1, logits="all")
    pair = 2 * 4 * 16  # of one layer
    full, window = 32 * 33 // 2, 8 * 9 // 2 + 24 * 8
    assert result.prefill.macs - result.prefill.needed_macs == (2 * 32 * 32 - full - window) * pair


def test_a_mask_of_which_nothing_is_known_is_needed_whole_and_causal_in_the_floor(tmp_path: Path) -> None:
    model = language_module(written(tmp_path, UNSAID), None, False)
    result = flopwise.llm(model, prompt=32, generate=1, device="a100")
    pair, logits = 2 * 2 * 4 * 16, 64 * 320
    assert result.prefill.needed_macs == result.prefill.macs - 31 * logits
    least = result.prefill.needed_macs - (32 * 32 - 32 * 33 // 2) * pair
    assert sum(result.prefill.products.values()) == least
    assert any("4 products of attention are operators of their own, of whose masks nothing" in n for n in result.notes)
    assert any("masks that are not known leave no more than causal ones" in note for note in result.notes)


def test_an_encoder_reads_the_prompt_once(tmp_path: Path) -> None:
    folder = written(tmp_path, ENCODER_DECODER)
    result = flopwise.llm(folder, prompt=32, generate=8)
    pair = 2 * 2 * 4 * 16  # multiply-accumulates of attention for each pair of tokens, in both layers
    assert result.prefill.attention_macs == (32 * 32 + 1 + 32) * pair  # the encoder's, and the decoder's first token
    assert result.prefill.macs == flopwise.profile(folder, {"input_ids": (1, 32), "decoder_input_ids": (1, 1)}).total(
        "macs"
    )
    first = result.decode.macs
    assert result.decode.past == 1
    assert result.decode.attention_macs == (2 + 32) * pair
    assert result.generated_macs == 8 * first + sum(range(8)) * pair
    kept = 2 * 2 * 4 * 16 * 2  # keys and values of a token in both layers, in bfloat16
    assert result.cache_bytes == (32 + 1) * kept
    assert result.cache_bytes_per_token == kept
    assert result.final_cache_bytes == (32 + 1 + 8) * kept
    assert any("the encoder reads the prompt once" in note for note in result.notes)
    assert "decode step of the decoder" in str(result)


def test_the_rule_of_thumb_of_an_encoder(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, ENCODER_DECODER), prompt=32, generate=8, batch=2)
    encoder = result.prefill.weights.active - result.active_params
    assert result.rules_of_thumb[0] == 2 * 2 * (32 * encoder + result.active_params)
    assert result.to_dict()["rule_of_thumb"] == {"forward_flops": result.rules_of_thumb[0]}


def test_an_encoder_of_sound_reads_what_it_is_made_for(tmp_path: Path) -> None:
    folder = written(tmp_path, SOUND)
    result = flopwise.llm(folder, prompt=7, generate=8, batch=2)
    prefill = flopwise.profile(folder, {"input_features": (2, 16, 80), "decoder_input_ids": (2, 1)})
    assert result.prompt == result.to_dict()["prefill"]["tokens"] == 40
    assert result.prefill.macs == prefill.total("macs")
    kept = 2 * 2 * 2 * 64 * 2  # keys and values of a position in both layers for both sequences, in bfloat16
    assert result.cache_bytes == (40 + 1) * kept
    assert result.final_cache_bytes == (40 + 1 + 8) * kept
    assert any("the encoder always reads 40 positions" in note for note in result.notes)
    assert not any("made for" in note for note in result.notes)
    assert any("33 tokens are more than the 32" in note for note in flopwise.llm(folder, generate=32).notes)
    assert len(flopwise.llm(folder, generate=1, curve=True).curve) == 1
    device = flopwise.llm(folder, generate=1, device="h100").device
    assert device is not None
    assert device.largest_context is None
    assert device.largest_batch


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prompt": 1.5}, "llm(prompt=...): expected a whole number or None, not 1.5"),
        ({"prompt": "100"}, "llm(prompt=...): expected a whole number or None, not '100'"),
        ({"batch": True}, "llm(batch=...): expected a whole number, not True"),
        ({"generate": None}, "llm(generate=...): expected a whole number, not None"),
        ({"train": True, "dp": 2.0}, "llm(dp=...): expected a whole number or None, not 2.0"),
        ({"dtype": 16}, "llm(dtype=...): expected text or None, not 16"),
        ({"kv_dtype": 8}, "llm(kv_dtype=...): expected text or None, not 8"),
        ({"logits": "first"}, "llm(logits=...): expected 'last' or 'all', not 'first'"),
        ({"device": 3}, "llm(device=...): expected text or None, not 3"),
    ],
)
def test_arguments_of_other_kinds(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(flopwise.InputError) as error:
        flopwise.llm(written(tmp_path, LLAMA), **arguments)
    assert str(error.value) == words


def test_arguments_that_are_not_there(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    with pytest.raises(TypeError, match=r"llm\(\) got an unexpected keyword argument 'promt' for a request"):
        flopwise.llm(folder, promt=8)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="'generate' for a training step"):
        flopwise.llm(folder, train=True, generate=8)  # type: ignore[call-overload]


def test_a_single_name_needs_no_list(tmp_path: Path) -> None:
    result = flopwise.llm(
        written(tmp_path, LATENT), prompt=numpy.int64(8), generate=1, conventions="palm", rewrites="absorb-mla"
    )
    assert list(result.conventions) == ["palm"]
    assert result.rewrites
    json.dumps(result.to_dict())


def test_a_cache_in_another_type_is_smaller(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    plain, small = (flopwise.llm(folder, prompt=32, generate=2, kv_dtype=kind) for kind in (None, "fp8"))
    assert plain.cache_bytes == 2 * small.cache_bytes
    assert plain.decode.macs == small.decode.macs


def test_a_window_bounds_the_cache(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, WINDOW), prompt=32, generate=16)
    assert result.cache_bytes_per_token == 0
    assert any("windows of 8 tokens are full: a token beyond adds nothing to their caches" in n for n in result.notes)
    assert result.cache_bytes == result.final_cache_bytes == 2 * 2 * 2 * 16 * 2 * 7
    steps = [flopwise.profile(tmp_path, past=past, new=1).total("macs") for past in range(32, 48)]
    assert result.generated_macs == sum(steps)


def test_the_window_fills_up_while_tokens_are_generated(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, WINDOW), prompt=3, generate=12)
    steps = [flopwise.profile(tmp_path, past=past, new=1).total("macs") for past in range(3, 15)]
    assert result.generated_macs == sum(steps)


def test_a_mixture_of_experts(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, MIXTURE), prompt=16, generate=2)
    expert = 3 * 64 * 96
    assert result.params - result.active_params == 2 * 6 * expert
    assert result.decode.weights.most == 2 * (result.active_params - 320 * 64 + 64)
    assert {e.matrices for e in result.decode.weights.experts} == {8}
    many = flopwise.llm(tmp_path, prompt=16, generate=1, batch=3).decode.weights
    assert [e.touched for e in many.experts] == [6] * len(many.experts)
    assert result.decode.weights.most < many.expected < many.most
    assert any("mixture of experts: 2 of 8" in note for note in result.notes)


def test_biases_of_experts_that_no_token_takes_are_not_read(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, BIASED_EXPERTS), prompt=16, generate=2)
    expert = 3 * 64 * 96 + 2 * 96 + 64  # two products and their biases
    assert result.params - result.active_params == 2 * 6 * expert
    table = 320 * 64 - 64  # of the embedding one row
    buffers = result.weight_bytes - 2 * result.params
    assert result.decode.weights.most <= 2 * (result.active_params - table) + buffers
    assert result.decode.weights.least == result.decode.weights.most


def test_a_configuration_that_transformers_overrides_says_so(tmp_path: Path) -> None:
    untied = {**ENCODER_DECODER, "tie_word_embeddings": False}
    result = flopwise.llm(written(tmp_path, untied), prompt=8, generate=1, trust_code=True)
    assert any("tie_word_embeddings is false in the configuration, and transformers" in note for note in result.notes)
    graph = flopwise.read(tmp_path, {"input_ids": (1, 8), "decoder_input_ids": (1, 1)}, trust_code=True)
    assert any("tie_word_embeddings is false" in note for note in graph.warnings)
    plain = flopwise.llm(written(tmp_path, LLAMA), prompt=8, generate=1)
    assert not any("in the configuration, and transformers" in note for note in plain.notes)


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_alone_has_its_prompt_and_no_step(tmp_path: Path, kind: str) -> None:
    folder = written(tmp_path, ENCODERS[kind])
    result = flopwise.llm(folder, prompt=32, batch=2, device="h100", curve=True)
    assert result.prefill.macs == flopwise.profile(folder, {"input_ids": (2, 32)}).total("macs")
    assert result.decode is None
    assert (result.generate, result.generated_macs, result.cache_bytes, result.final_cache_bytes) == (0, 0, 0, 0)
    assert result.request_macs == result.prefill.macs
    assert result.device is not None
    assert result.device.fits
    assert result.device.decode is None
    assert result.device.prefill.seconds > 0
    content = result.to_dict()
    assert content["decode"] is None
    assert content["device"]["decode"] is None
    json.dumps(content)
    assert any("predicts no next token, so there is no step and no cache" in note for note in result.notes)
    assert content["logits"] == "all"
    assert "prefill, 32 tokens" in str(result)
    assert "cache" not in str(result).replace("no cache", "")
    with pytest.raises(flopwise.InputError, match=r"kv_dtype fp8: .* predicts no next token, so there is no cache"):
        flopwise.llm(folder, prompt=32, kv_dtype="fp8")
    assert f"at most {2 / result.device.prefill.seconds:,.0f} sequences/s in batches of 2" in content["verdict"]
    assert all(point.decode is None for point in result.curve)


def test_encoders_by_hand(tmp_path: Path) -> None:
    width, inner, layers, vocabulary, tokens = 64, 96, 2, 320, 32
    heads = ENCODERS["bert"]["num_attention_heads"] * 16
    layer = 4 * width * heads + 2 * width * inner
    scores = width * width + width * vocabulary  # every position may be the one that is filled in
    bert = flopwise.llm(written(tmp_path, ENCODERS["bert"]), prompt=tokens)
    assert bert.prefill.macs == tokens * (layers * layer + scores) + layers * 2 * heads * tokens**2
    assert bert.prefill.needed_macs == bert.prefill.macs
    config = {**ENCODERS["modernbert"], "local_attention": 8, "layer_types": ["full_attention", "sliding_attention"]}
    modern = flopwise.llm(written(tmp_path, config), prompt=tokens)
    layer += width * inner  # a gated network
    window = sum(abs(a - b) <= 4 for a in range(tokens) for b in range(tokens))
    pairs = tokens**2 + window
    assert modern.prefill.needed_macs == tokens * (layers * layer + scores) + 2 * heads * pairs


def test_models_that_predict_no_token_have_no_step(tmp_path: Path) -> None:
    embedding = flopwise.llm(written(tmp_path, {**LLAMA, "architectures": ["LlamaModel"]}), prompt=32)
    assert (embedding.decode, embedding.generate, embedding.final_cache_bytes) == (None, 0, 0)
    alone = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=0)
    assert alone.prefill.needed_macs == embedding.prefill.needed_macs + 64 * 320
    assert alone.decode is None
    assert "no token is generated, so there is no step, and no cache is kept" in alone.notes
    encoder = flopwise.llm(written(tmp_path, {**ENCODER_DECODER, "architectures": ["T5EncoderModel"]}), prompt=32)
    assert encoder.decode is None
    assert encoder.prefill.macs == flopwise.profile(tmp_path, {"input_ids": (1, 32)}).total("macs")


def test_an_encoder_reads_no_more_than_it_was_made_for(tmp_path: Path) -> None:
    written(tmp_path, {**ENCODERS["bert"], "max_position_embeddings": 48})
    assert flopwise.llm(tmp_path).prompt == flopwise.llm(tmp_path, train=True).sequence == 48
    with pytest.raises(flopwise.InputError, match="64 tokens are more than the 48 that the model was made for"):
        flopwise.llm(tmp_path, prompt=64)
    written(tmp_path, {**ENCODERS["xlm-roberta"], "max_position_embeddings": 50, "pad_token_id": 1})
    assert flopwise.llm(tmp_path).prompt == 48  # positions count from behind the padding's


def test_a_note_says_where_a_step_has_more_flops_than_twice_its_macs(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=256, generate=1)
    assert result.decode is not None
    scaled = 2 * 4 * 16 * (257 + 1)  # in both layers, of 4 heads of 16: the keys of 257 tokens, and the query
    share = round(100 * scaled / result.decode.flops)
    assert share >= 1
    assert any(f"{share} % of a step's FLOPs scale queries and keys" in note for note in result.notes)


def test_a_step_absorbs_latents_and_a_prompt_expands_them(tmp_path: Path) -> None:
    """By hand: H × (N R + T (R + P) + T R + R V) for a step after T - 1 tokens, T R H (N + V) for a prompt of T."""
    folder = written(tmp_path, {**LATENT, "kv_lora_rank": 64})
    result = flopwise.llm(folder, prompt=20, generate=1)
    assert result.decode is not None
    heads, key, rotated, value, latent, layers = 4, 32, 8, 24, 64, 2

    def of_expansion(past: int, new: int) -> int:
        rows = flopwise.profile(folder, past=past, new=new).rows
        return sum(row.macs or 0 for row in rows if "kv_b_proj" in row.name)

    assert of_expansion(20, 1) == layers * heads * latent * (key + value)
    assert of_expansion(0, 20) == layers * 20 * heads * latent * (key + value)
    assert of_expansion(20, 256) == layers * 276 * heads * latent * (key + value)  # absorbed scores would cost more
    assert result.decode.attention_macs == layers * heads * 21 * (2 * latent + rotated)
    assert result.prefill.attention_macs == layers * heads * 20 * 20 * (key + rotated + value)
    assert any("a step multiplies queries with latents, as engines do" in note for note in result.notes)
    step = result.decode.macs
    assert result.rewrites["absorb-mla"] == (step, step)
    more = flopwise.llm(tmp_path, prompt=20, generate=5, rewrites=["absorb-mla"])
    single = [flopwise.llm(tmp_path, prompt=past, generate=1).rewrites["absorb-mla"][0] for past in range(20, 25)]
    assert more.rewrites["absorb-mla"] == (step, sum(single))
    with pytest.raises(flopwise.InputError, match="expands no latents"):
        flopwise.llm(written(tmp_path, LLAMA), prompt=8, generate=1, rewrites=["absorb-mla"])
    with pytest.raises(flopwise.InputError, match="unknown rewrite 'absorb'; known: absorb-mla"):
        flopwise.llm(tmp_path, rewrites=["absorb"])


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"prompt": 0}, {"generate": -1}, {"dtype": "fp7"}, {"kv_dtype": "x"}]
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(flopwise.InputError):
        flopwise.llm(written(tmp_path, LLAMA), **options)


def test_a_context_longer_than_the_model_was_made_for_is_noted(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=510, generate=4)
    assert "514 tokens are more than the 512 that the model was made for" in result.notes
    result = flopwise.llm(tmp_path, prompt=508, generate=4)
    assert not any("made for" in note for note in result.notes)


@pytest.mark.parametrize(("prompt", "words"), [(80, "80 tokens are more than the 64"), (64, "")])
def test_a_prompt_longer_than_its_encoder_was_made_for_is_noted(prompt: int, words: str, tmp_path: Path) -> None:
    """The decoder starts anew: its few tokens are far from its limit."""
    sizes = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    config = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 32, **sizes}
    config |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 64, "max_position_embeddings": 64}
    notes = [
        note for note in flopwise.llm(written(tmp_path, config), prompt=prompt, generate=4).notes if "made" in note
    ]
    assert notes == ([f"{words} that the model was made for"] if words else [])


def test_on_a_device(tmp_path: Path) -> None:
    result = flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=8, device="h100")
    assert result.device is not None
    assert result.device.fits
    assert result.device.decode.roof == "memory"
    assert result.to_dict()["device"]["decode"]["least_ns"] >= 1
    with pytest.raises(flopwise.InputError, match="unknown device"):
        flopwise.llm(tmp_path, device="h1000")


@pytest.mark.parametrize("batch", [4, 40_000_000])
@pytest.mark.parametrize("config", [LLAMA, WINDOW, ENCODER_DECODER], ids=["plain", "window", "encoder"])
def test_what_fits_a_device_is_what_must_fit(tmp_path: Path, config: dict[str, Any], batch: int) -> None:
    model = written(tmp_path, config)
    result = flopwise.llm(model, prompt=32, generate=8, batch=batch, device="h100").device
    assert result is not None
    assert result.fits is (batch == 4)
    assert result.largest_batch is not None
    assert (result.largest_context is None) == (config is WINDOW and batch == 4)
    for more in (0, 1):
        other = flopwise.llm(model, prompt=32, generate=8, batch=result.largest_batch + more, device="h100").device
        assert other is not None
        assert other.fits is (more == 0)
    if result.largest_context:
        prompt = result.largest_context - 8
        for more in (0, 1):
            other = flopwise.llm(model, prompt=prompt + more, generate=8, batch=batch, device="h100").device
            assert other is not None
            assert other.fits is (more == 0)


def test_conventions_count_each_part(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    result = flopwise.llm(folder, prompt=24, generate=3, conventions=["palm", "macs"])
    content = result.to_dict()["conventions"]
    assert content["macs"]["unit"] == "MAC"
    for part in ("prefill", "decode", "generate", "request"):
        assert content["macs"][part] == result.to_dict()[part]["macs"]
    steps = [flopwise.profile(folder, past=24 + i, new=1, convention="palm").total("count") for i in range(3)]
    assert content["palm"]["decode"] == steps[0]
    assert content["palm"]["generate"] == sum(steps)
    assert "FLOP by palm" in str(result)
    with pytest.raises(flopwise.InputError, match="unknown convention"):
        flopwise.llm(folder, conventions=["plam"])
