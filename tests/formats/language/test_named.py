"""Widths by name: weights beside the sizes of published files."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import pytest
from tests.analyses.llm.model_cards import CARDS
from tests.language_models import LLAMA, MIXTURE, written

import flopwise
from flopwise.formats.language.read import language, weights_of
from flopwise.formats.language.stored import Weights, named_widths, type_in_mixture

#: Bytes of files of Meta-Llama-3-8B-Instruct, https://huggingface.co/ddh0/UnquantizedEmbeddingTesting/raw/main/sizes.txt
TO_THE_BYTE = {
    "q2_k": 3_179_131_168,
    "q3_k_s": 3_664_498_976,
    "q3_k_m": 4_018_917_664,
    "q3_k_l": 4_321_956_128,
    "q4_k_s": 4_692_668_704,
    "q4_k_m": 4_920_733_984,
}

#: What stands in these files before the weights: the vocabulary of the tokenizer, for the most part.
HEADER = 7_835_936

#: Model -> gigabytes of files, as the pages print them.
#: https://huggingface.co/mradermacher/Meta-Llama-3-8B-GGUF, https://huggingface.co/armx40/Meta-Llama-3-8B-Instruct-GGUF
#: (q4_0, q5_0), https://huggingface.co/pavan01729/Meta-Llama-3.1-8B-Instruct-AWQ;
#: https://huggingface.co/bartowski/Meta-Llama-3.1-70B-Instruct-GGUF as quoted by
#: https://ozeki.chat/p_8590-understanding-ai-model-files.html;
#: https://huggingface.co/mradermacher/Mixtral-8x7B-v0.1-GGUF, https://huggingface.co/gobean/Mixtral-8x7B-Instruct-v0.1-GGUF
#: (q6_k), https://huggingface.co/shenberg1/Mixtral-8x7B-Instruct-v0.1-GGUF (q8_0).
FILES = {
    "Llama-3-8B": {
        "q5_k_s": 5.6, "q5_k_m": 5.73, "q6_k": 6.6, "q8_0": 8.54, "q4_0": 4.66, "q5_0": 5.6, "awq": 5.73
    },
    "Llama-3.1-70B": {
        "q3_k_s": 30.91, "q3_k_m": 34.27, "q3_k_l": 37.14, "q4_k_s": 40.35, "q4_k_m": 42.52,
        "q5_k_s": 48.66, "q5_k_m": 49.95, "q6_k": 57.89, "q8_0": 74.98,
    },
    "Mixtral-8x7B": {
        "q2_k": 17.3, "q3_k_s": 20.4, "q3_k_m": 22.5, "q3_k_l": 24.2, "q4_k_s": 26.7, "q4_k_m": 28.4,
        "q5_k_s": 32.2, "q5_k_m": 33.2, "q6_k": 38.4, "q8_0": 49.6,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cards")


@functools.cache
def _weights(card: str, folder: Path) -> Weights:
    return weights_of(language(written(folder, CARDS[card].config)).decoder)


def size(card: str, name: str, folder: Path) -> int:
    """Bytes of a model's weights, of which half precision is the usual type."""
    weights = _weights(card, folder)
    widths = named_widths(weights, name).elements
    return round(sum(math.prod(shape) * widths.get(path, 2) for path, shape in weights.shapes.items()))


@pytest.mark.parametrize("name", TO_THE_BYTE)
def test_mixtures_have_the_bytes_of_published_files(name: str, folder: Path) -> None:
    assert size("Llama-3-8B", name, folder) + HEADER == TO_THE_BYTE[name]


@pytest.mark.parametrize(("card", "name"), [(card, name) for card, sizes in FILES.items() for name in sizes])
def test_sizes_are_those_of_published_files(card: str, name: str, folder: Path) -> None:
    assert size(card, name, folder) == pytest.approx(FILES[card][name] * 1e9, rel=0.005)


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        ("int8", 64 + 2),  # a byte for each element of a row, and a scale
        ("fp8", 64 + 2),
        ("awq", 32 + 2 + 0.5),  # half a byte, a scale and a zero point of a group
        ("gptq", 32 + 2 + 0.5),
        ("nf4", 32 + 1 + 4 / 256),  # a scale for 64 elements in one byte, one of 256 of these
        ("mxfp4", 32 + 2),  # a scale of one byte for each 32
        ("q8_0", 2 * 34),
    ],
)
def test_rows_of_64_elements(tmp_path: Path, name: str, nbytes: float) -> None:
    settings = {**LLAMA, "num_key_value_heads": 4, "intermediate_size": 64}
    weights = weights_of(language(written(tmp_path, settings)).decoder)
    width = float(named_widths(weights, name).elements["model.layers.0.self_attn.k_proj.weight"])
    group = 64 * width if name != "gptq" else 64 * width - 4  # the group of each input
    assert group == pytest.approx(nbytes if name not in ("awq", "gptq") else 64 * (0.5 + 2.5 / 128), rel=1e-9)


def test_mxfp4_takes_experts_alone(tmp_path: Path) -> None:
    weights = weights_of(language(written(tmp_path, MIXTURE)).decoder)
    assert {path.rpartition(".")[2] for path in named_widths(weights, "mxfp4").elements} == {
        "gate_up_proj",
        "down_proj",
    }


def test_a_request_with_other_widths(tmp_path: Path) -> None:
    model = written(tmp_path, LLAMA)
    plain, small = (flopwise.llm(model, prompt=8, generate=1, weights=name) for name in (None, "q8_0"))
    assert small.weight_bytes < 0.6 * plain.weight_bytes
    assert small.params == plain.params
    assert any("llama-quantize Q8_0" in note for note in small.notes)
    with pytest.raises(flopwise.InputError, match="unknown width 'int5' of the weights; known: int8, fp8, "):
        flopwise.llm(model, prompt=8, generate=1, weights="int5")
    half, quarter = (flopwise.llm(model, prompt=8, generate=1, kv_dtype=name) for name in ("fp8", "q4_0"))
    assert (half.cache_bytes, quarter.cache_bytes) == (plain.cache_bytes // 2, plain.cache_bytes * 18 // 64)


def test_a_table_that_scores_as_well_has_the_type_of_scores() -> None:
    names = ("model.embed_tokens.weight", "lm_head.weight", "embed_out.weight", "model.norm.weight")
    for tied in (False, True):
        weights = Weights({}, (), layers=32, tied=tied)
        types = [type_in_mixture(name, "q4_k_m", weights) for name in names]
        assert types == ["q6_K" if tied else "q4_K", "q6_K", "q6_K", "q4_K"]
    assert type_in_mixture(names[1], "q8_0", Weights({}, (), layers=32)) == "q8_0"
