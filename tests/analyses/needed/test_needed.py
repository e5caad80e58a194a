"""What results need of the multiply-adds that programs execute: figures worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx.parser
import pytest
from tests.language_models import ENCODER_DECODER, LATENT, LLAMA, MIXTURE, UNFUSED, UNSAID, written

import flopwise
from flopwise.analyses.needed import Needed, needed


def of(
    folder: Path, config: dict[str, Any], past: int, new: int, program: bool = False, **others: Any
) -> tuple[int, int, int, Needed]:
    """Multiply-adds that are executed, that are needed, and those of floors."""
    profile = flopwise.profile(written(folder, config), past=past, new=new, program=program)
    found = needed(profile, **others)
    return profile.total("macs"), sum(n or 0 for n in found.macs), sum(n or 0 for n in found.least), found


@pytest.mark.parametrize("config", [LLAMA, UNFUSED], ids=["fused", "unfused"])
def test_masks_leave_the_pairs_below_the_diagonal(tmp_path: Path, config: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    executed, least, floors, found = of(tmp_path, config, past=16, new=8)
    pair = 2 * 2 * 4 * 16
    assert executed - least == pair * (8 * 24 - sum(range(17, 25)))
    assert floors == least
    assert found.rewrites == ("pairs that masks leave out are not multiplied",)


def test_latents_are_absorbed_where_that_is_less(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    heads, key, rotated, value, latent = 4, 32, 8, 24, 16
    config = {**LATENT, "n_shared_experts": 1}
    executed, least, _, found = of(tmp_path, config, past=20, new=1, program=True)
    expansion = 21 * latent * heads * (key + value)
    attention = heads * 21 * (key + rotated + value)
    absorbed = heads * (latent * (key + value) + 21 * (2 * latent + rotated))
    assert executed - least == 2 * (expansion + attention - absorbed)
    assert "latents are absorbed" in found.rewrites
    assert of(tmp_path, config, past=20, new=1)[:2] == (least, least)  # the table's step absorbs them itself
    executed, least, _, found = of(tmp_path, config, past=0, new=20, program=True)
    assert executed - least == 2 * heads * (key + rotated + value) * (20 * 20 - 20 * 21 // 2)
    assert "latents are absorbed" not in found.rewrites


def test_a_step_of_many_tokens_absorbs_no_more_than_it_gains(tmp_path: Path) -> None:
    """Absorbed scores cost 2 R + P a pair where plain ones cost N + P + V: with many new tokens that is more."""
    pytest.importorskip("transformers")
    for new in (1, 4, 16, 64, 256):
        executed, least, _, _ = of(tmp_path, {**LATENT, "kv_lora_rank": 64}, past=64, new=new, program=True)
        assert 0 < least <= executed


@pytest.mark.parametrize("config", [LLAMA, UNFUSED, MIXTURE], ids=["plain", "capped", "mixture"])
def test_the_vocabulary_is_scored_for_the_last_position(tmp_path: Path, config: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    _, every, _, _ = of(tmp_path, config, past=0, new=32)
    _, least, floors, found = of(tmp_path, config, past=0, new=32, last_logits=True)
    assert every - least == 31 * 64 * 320
    assert floors == least
    assert "the vocabulary is scored for the last position alone" in found.rewrites


def test_without_a_head_there_is_nothing_to_score(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    headless = {**LLAMA, "architectures": ["LlamaModel"]}
    assert of(tmp_path, headless, past=0, new=32, last_logits=True) == of(tmp_path, headless, past=0, new=32)


def test_masks_that_nobody_states_leave_a_causal_one_in_floors(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    executed, least, floors, found = of(tmp_path, UNSAID, past=0, new=32, program=True)
    assert executed == least
    assert executed - floors == 2 * 2 * 4 * 16 * (32 * 32 - 32 * 33 // 2)
    assert "masks that are not known leave no more than causal ones" in found.floors


def test_positions_that_pick_a_bias_are_no_mask(tmp_path: Path) -> None:
    """T5 adds a bias that it looks up by distance: its encoder sees all pairs."""
    pytest.importorskip("transformers")
    profile = flopwise.profile(written(tmp_path, ENCODER_DECODER), {"input_ids": (1, 32), "decoder_input_ids": (1, 1)})
    found = needed(profile)
    assert [n for n in found.least if n] == [row.macs for row in profile.rows if row.macs]


#: An attention of 4 queries and keys in ONNX; what stands for MASK gives the flags of the pairs that are left out.
EXPORTED = """<ir_version: 8, opset_import: ["": 17]>
attention (float[1,2,4,8] q, float[1,2,8,4] k, float[1,2,4,8] v, float[4,4] data) => (float[1,2,4,8] y)
<int64 zero = {0}, int64 one = {1}, int64 last = {3}, int64[1] axis = {1}, float low = {-1e9}, float none = {0}>
{
  scores = MatMul (q, k)
  MASK
  masked = Where (flags, low, scores)
  weights = Softmax (masked)
  y = MatMul (weights, v)
}"""

POSITIONS = """shape = Shape (scores)
  count = Gather (shape, last)
  columns = Range (zero, count, one)
  rows = Unsqueeze (columns, axis)
  flags = Less (rows, columns)"""


@pytest.mark.parametrize(
    ("mask", "pairs"), [(POSITIONS, 4 * 5 // 2), ("flags = Less (data, none)", 16)], ids=["positions", "data"]
)
def test_masks_of_onnx_files(mask: str, pairs: int) -> None:
    content = onnx.parser.parse_model(EXPORTED.replace("MASK", mask)).SerializeToString()
    found = needed(flopwise.profile(content))
    assert sum(n or 0 for n in found.macs) == 2 * 2 * 16 * 8
    assert sum(n or 0 for n in found.least) == 2 * 2 * pairs * 8
