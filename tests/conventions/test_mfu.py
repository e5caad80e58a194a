"""Published shares of a peak: each is what a named rule says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import UNSAID, written

import flopwise
from flopwise.analyses.timing.catalog import find
from flopwise.conventions import get
from flopwise.conventions.language import training_flops
from flopwise.profiles.count import profile_graph

PUBLISHED = json.loads((Path(__file__).parents[1] / "recorded" / "mfu.json").read_text())


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_published_shares_of_a_peak(tmp_path: Path, row: dict[str, Any]) -> None:
    """By the rule, and of the products that the result needs, six operations for each multiply-add."""
    pytest.importorskip("transformers")
    graph = flopwise.read(
        written(tmp_path, {**row["config"], "torch_dtype": row["dtype"]}), {"input_ids": (1, row["sequence"])}
    )
    peak = find(row["device"]).rated(row["dtype"])
    assert peak is not None
    percent = 100 * row["tokens_per_s"] / row["sequence"] / (row["count"] * peak.value)
    profile = profile_graph(graph, get(row["rule"]))
    assert 3 * profile.total("count") * percent == pytest.approx(row["published_mfu_percent"], rel=0.01)
    assert 3 * profile.total("count") * percent == pytest.approx(row["rule_percent"], abs=0.01)
    assert 6 * profile.total("needed_macs") * percent == pytest.approx(row["needed_percent"], abs=0.01)


def test_attention_counts_where_it_is_no_operator_of_its_own(tmp_path: Path) -> None:
    """BLOOM multiplies queries and keys by itself: 6 × 2 layers × 2 × 64 × T for each token."""
    pytest.importorskip("transformers")
    graph = flopwise.read(written(tmp_path, UNSAID), {"input_ids": (1, 32)})
    rules = training_flops(graph)
    attention = 6 * 32 * 2 * 2 * 64 * 32
    assert rules["palm"] - rules["6N"] == attention
    assert rules["megatron"] == 6 * 32 * (64 * 320 + 2 * (12 * 64 * 64 + 2 * 64 * 32))
