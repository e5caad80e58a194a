"""Requests divided among devices: each figure of the fullest one is the one worked out by hand, to the last digit."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analyses.llm.by_hand import Gated, Grouped, Latent, Layer, Mixture, Model
from tests.analyses.llm.model_cards import CARDS
from tests.language_models import written

pytest.importorskip("transformers")

from flopwise.analyses.llm.division import Split
from flopwise.analyses.llm.runs import Program, Runs
from flopwise.analyses.llm.serving.split import Divisible, Stage, divisible
from flopwise.api.language.program import ConfiguredProgram, LanguageProgram, language_module
from flopwise.errors import InputError
from flopwise.formats.language.read import language

PROMPT = 700

#: Corrections of the routers, which are no parameters.
CORRECTIONS = {"DeepSeek-V3": 256, "Kimi-K2": 384}


@functools.cache
def _request(name: str, folder: Path, by: str = "table") -> Divisible:
    """A request to a model by the table of architectures, or by transformers' program."""
    card = CARDS[name]
    model = written(folder, {**card.config, "num_hidden_layers": card.shallow})
    program: Program = ConfiguredProgram(language(model), model)
    if by == "program":
        program = LanguageProgram(language_module(model, None, False), model, None)
    runs = Runs(program, 1)
    return divisible(runs, PROMPT, 1, runs.largest_step(PROMPT, PROMPT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cards")


def one_of(name: str, tp: int) -> Model:
    """A device of so many that share each product: a model with its part of the heads, features and vocabulary."""
    model = CARDS[name].model(CARDS[name].shallow)
    return replace(model, vocabulary=model.vocabulary // tp, layers=tuple(_one(layer, tp) for layer in model.layers))


def _one(layer: Layer, tp: int) -> Layer:
    mixer, feed = layer.mixer, layer.feed
    if isinstance(mixer, Grouped):
        mixer = replace(mixer, heads=mixer.heads // tp, groups=max(mixer.groups // tp, 1))
    else:
        assert isinstance(mixer, Latent)
        mixer = replace(mixer, heads=mixer.heads // tp)
    assert isinstance(feed, Gated | Mixture)
    return replace(layer, mixer=mixer, feed=replace(feed, inner=feed.inner // tp))


def only(stages: list[Stage]) -> Stage:
    (stage,) = stages
    return stage


@pytest.mark.parametrize("by", ["table", "program"])
@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("name", CARDS)
def test_a_device_of_tensor_parallelism_is_a_smaller_model(name: str, tp: int, by: str, folder: Path) -> None:
    request = _request(name, folder, by)
    heads = CARDS[name].config["num_attention_heads"]
    if heads % tp:
        with pytest.raises(InputError, match=f"tp {tp}: {heads} heads of .* do not divide by it"):
            request.stages(Split(tp=tp))
        return
    stage, hand = only(request.stages(Split(tp=tp))), one_of(name, tp)
    assert stage.weight_bytes == 2 * (hand.params + CORRECTIONS.get(name, 0))
    assert stage.cache.nbytes(PROMPT + 1) == hand.cache(PROMPT + 1)
    assert stage.prefill.macs == hand.needed_prefill(PROMPT)
    assert stage.decode is not None
    assert stage.decode.macs == hand.needed_step(PROMPT)


@pytest.mark.parametrize(
    ("split", "tp", "copies"),
    [
        (Split(tp=2, ep=2), 2, 2),
        (Split(tp=4, ep=2), 4, 4),
        (Split(ep=4, dp=4), 1, 4),
        (Split(tp=2, ep=8, dp=4), 2, 8),
        (Split(tp=4, ep=2, dp=2), 4, 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("by", ["table", "program"])
@pytest.mark.parametrize("name", ["Mixtral-8x7B", "Qwen3-30B-A3B", "gpt-oss-20b", "DeepSeek-V3", "Kimi-K2"])
def test_experts_are_divided_among_the_devices_of_a_stage(
    name: str, split: Split, tp: int, copies: int, by: str, folder: Path
) -> None:
    stage = only(_request(name, folder, by).stages(split))
    hand, whole = one_of(name, tp), one_of(name, 1)
    of_all = [layer.feed for layer in whole.layers if isinstance(layer.feed, Mixture)]
    apart = 0
    for one in of_all:
        matrices = one.experts * 3 * one.width * one.inner
        apart += matrices // copies - matrices // tp
        if one.biased:
            apart += one.experts * 2 * one.inner // copies - one.experts * 2 * one.inner // tp
            apart += one.experts * one.width // split.ep - one.experts * one.width
    assert stage.weight_bytes == 2 * (hand.params + apart + CORRECTIONS.get(name, 0))


def test_stages_have_equally_many_layers_and_a_table_each_at_the_ends(folder: Path) -> None:
    first, last = _request("Llama-3-8B", folder).stages(Split(pp=2))
    layer, table = 4096 * 128 * 80 + 3 * 4096 * 14336 + 2 * 4096, 128256 * 4096
    assert (first.weight_bytes, last.weight_bytes) == (2 * (layer + table), 2 * (layer + table + 4096))
    assert first.cache.nbytes(PROMPT + 1) == last.cache.nbytes(PROMPT + 1) == 2 * 2 * 8 * 128 * (PROMPT + 1)
    assert first.prefill.sent_bytes == {"pp": 2 * 4096 * PROMPT}
    assert last.prefill.sent_bytes == {}
    with pytest.raises(InputError, match="pp 3: the model has 2 layers"):
        _request("Llama-3-8B", folder).stages(Split(pp=3))


def test_context_parallelism_divides_tokens_and_the_cache(folder: Path) -> None:
    request, hand = _request("Llama-3-8B", folder), one_of("Llama-3-8B", 1)
    stage = only(request.stages(Split(cp=2)))
    assert stage.weight_bytes == 2 * hand.params
    assert stage.cache.nbytes(PROMPT + 1) == hand.cache(math.ceil((PROMPT + 1) / 2))
    assert stage.prefill.macs == math.ceil(hand.needed_prefill(PROMPT) / 2)
    assert stage.prefill.sent_bytes == {"cp": hand.cache(PROMPT) // 2}  # one hop of a ring of two
    assert stage.decode is not None
    attention = 2 * 2 * 32 * 128 * (PROMPT + 1)
    assert stage.decode.macs == hand.needed_step(PROMPT) - attention // 2
    assert stage.decode.sent_bytes == {"cp": 2 * 2 * 4096}  # a result of each layer, 2 (n - 1) / n of its bytes


@pytest.mark.parametrize("by", ["table", "program"])
def test_a_sum_goes_round_a_ring(by: str, folder: Path) -> None:
    stage = only(_request("Llama-3-8B", folder, by).stages(Split(tp=4)))
    sums, scores = 2 * 2 + 1, 128256 // 4 * 2  # attention and network of two layers, and the table
    assert stage.prefill.sent_bytes == {"tp": sums * PROMPT * 4096 * 2 * 2 * 3 // 4 + scores}
    assert stage.decode is not None
    assert stage.decode.sent_bytes == {"tp": sums * 4096 * 2 * 2 * 3 // 4 + scores}


def test_tokens_go_to_their_experts_and_back(folder: Path) -> None:
    request = _request("Mixtral-8x7B", folder)
    both_ways = 2 * 2 * 4096 * 2  # two experts, there and back, in bfloat16
    stage = only(request.stages(Split(ep=4, dp=4)))
    assert stage.decode is not None
    assert stage.decode.sent_bytes == {"ep": 2 * both_ways * 3 // 4}
    inside = only(request.stages(Split(tp=4, ep=4)))
    assert inside.decode is not None
    assert set(inside.decode.sent_bytes) == {"tp"}  # every device has the tokens already


#: A layer of version 2 of Mamba: 8 heads of 16 features, one group of B and C with 32 states, 4 taps.
MAMBA = {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 64, "expand": 2} | {
    "num_heads": 8,
    "head_dim": 16,
    "state_size": 32,
    "n_groups": 1,
    "conv_kernel": 4,
    "num_hidden_layers": 1,
    "vocab_size": 322,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_groups_of_state_space_layers_are_repeated_and_a_vocabulary_is_padded(tp: int, tmp_path: Path) -> None:
    model = written(tmp_path, MAMBA)
    runs = Runs(ConfiguredProgram(language(model), model), 1)
    request = divisible(runs, 8, 1, runs.largest_step(8, 8))
    stage, inner, groups, heads = only(request.stages(Split(tp=tp))), 128 // tp, 2 * 32, 8 // tp
    projections = 64 * (2 * inner + groups + heads) + inner * 64
    convolution = (inner + groups) * (4 + 1)
    tables = 2 * -(-322 * 64 // tp)  # rounded up
    vectors = 3 * 8 + 128 + 2 * 64  # time steps, decays and skips of heads; the norm inside, and two of hidden states
    assert stage.weight_bytes == 2 * (projections + convolution + tables + vectors)
    assert stage.cache.fixed_bytes == inner * 32 * 4 + (inner + groups) * 4 * 2  # states in single precision


def test_replicas_share_the_sequences(folder: Path) -> None:
    request = _request("Llama-3-8B", folder)
    four = request.with_batch(4)
    assert four.stages(Split(dp=4)) == request.stages(Split())
    assert four.sequences(Split(dp=3)) == 2
    assert four.stages(Split())[0].prefill.macs == 4 * request.stages(Split())[0].prefill.macs


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Split(tp=0), "tp 0: must be at least 1"),
        (Split(ep=2), "ep 2: the model has no experts to divide"),
        (Split(ep=2, dp=2), "ep 2: the model has no experts to divide"),
        (Split(tp=64), "tp 64: 32 heads of model.layers.0.self_attn do not divide by it; 2, 4, 8, 16 and 32 do"),
    ],
)
def test_what_does_not_divide(split: Split, words: str, folder: Path) -> None:
    with pytest.raises(InputError, match=words):
        _request("Llama-3-8B", folder).stages(split)


def test_experts_that_do_not_divide(folder: Path) -> None:
    request = _request("Mixtral-8x7B", folder)
    with pytest.raises(InputError, match=r"ep 3: 8 experts of .* do not divide by it; 2, 4 and 8 do"):
        request.stages(Split(ep=3, dp=3))
    with pytest.raises(InputError, match="ep 2: experts are divided among the tp × cp × dp = 1 devices of a stage"):
        request.stages(Split(ep=2))
