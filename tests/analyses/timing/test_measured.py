"""Public measurements: none is faster than its floor. ``pytest -s`` prints how they are distributed."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.analyses.timing.throughputs import CONFIGURATIONS, RECORDED, Row, at_most, figures, request
from tests.cases import each
from tests.language_models import written

import flopwise
from flopwise.analyses.timing.bound import physical_bound
from flopwise.analyses.timing.catalog import find
from flopwise.analyses.timing.device import arithmetic, roofline
from flopwise.analyses.timing.quantities import products
from flopwise.conventions import get as get_convention
from flopwise.graph import Graph, Node, Tensor
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile


@pytest.fixture(scope="module")
def seen() -> Iterator[Callable[[Row, float], None]]:
    """Refuses a floor above what was measured; at the end prints how the ratios of floor to measured time lie."""
    ratios: dict[str, list[float]] = {}

    def hold(row: Row, ratio: float) -> None:
        assert 0 < ratio <= 1, row
        ratios.setdefault(row["kind"], []).append(ratio)

    yield hold
    for kind, found in ratios.items():
        cuts = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
        print(
            f"\n{kind}: {len(found)} figures, floor / measured time: least {min(found):.2f}, quartiles",
            " ".join(f"{cut:.2f}" for cut in cuts),
            f"highest {max(found):.2f}",
        )


def single(op: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], dtype: str, **attrs: int) -> Profile:
    """The profile of one operator."""
    inputs = tuple(Tensor(name, shape, dtype, "input") for name, shape in zip("qkv", shapes, strict=False))
    node = Node(op, op, inputs, (Tensor("y", result, dtype),), attrs)
    return profile_graph(Graph("m", "onnx", "", inputs, node.known_outputs, (node,)), get_convention("flops"))


def test_every_measurement_says_where_it_stands() -> None:
    assert len(RECORDED["figures"]) == 526
    for row in RECORDED["figures"]:
        assert RECORDED["sources"][row["source"]]["url"].startswith("https://")
        assert RECORDED["sources"][row["source"]]["date"]
        assert row["measured"] > 0
        assert find(row["device"])


@each("row", figures("products"))
def test_products(row: Row, seen: Callable[[Row, float], None]) -> None:
    size = 10_240
    product = single("MatMul", [(size, size)] * 2, (size, size), row["stored"])
    bound = physical_bound(product, find(row["device"]))
    seen(row, bound.physical.ns * 1e-9 / (2 * size**3 / (row["measured"] * 1e12)))


@pytest.mark.parametrize("row", figures("attention"), ids=lambda r: r["device"])
def test_causal_attention(row: Row, seen: Callable[[Row, float], None]) -> None:
    shape = tuple(row["shape"])
    attention = single("Attention", [shape] * 3, shape, row["stored"], is_causal=1)
    bound = physical_bound(attention, find(row["device"]))
    batch, heads, length, width = shape
    assert bound.physical.compute_ns == pytest.approx(
        1e9 * 4 * batch * heads * length * (length + 1) / 2 * width / find(row["device"]).flops("float16").value  # type: ignore[union-attr]
    )
    seen(row, bound.physical.ns * 1e-6 / row["measured"])


THROUGHPUTS = figures("prompt", "output")

#: One figure of each model, type and kind: the shortest.
COUNTED_ANEW = {
    (row["model"], row["stored"], row["kind"], row.get("cache")): row
    for row in sorted(THROUGHPUTS, key=lambda row: -row.get("prompt", 0) - row.get("generate", 0))
}


@pytest.mark.parametrize("row", COUNTED_ANEW.values(), ids=lambda r: f"{r['device']} {r['model']} {r['stored']}")
def test_the_most_tokens_of_a_second(tmp_path: Path, row: Row) -> None:
    assert at_most(row, request(tmp_path, row)) == pytest.approx(row["at_most"], rel=1e-4)


@each("row", THROUGHPUTS)
def test_throughputs(row: Row, seen: Callable[[Row, float], None]) -> None:
    seen(row, row["measured"] / row["at_most"])


def test_one_user_of_llama_4(tmp_path: Path) -> None:
    """1,038 tokens a second for one user on eight B200, with EAGLE-3: less than the floor allows without a draft."""
    settings: dict[str, Any] = {"weights": "fp8", "kv_dtype": "fp8", "device": "8xb200", "tp": 8}
    folder = written(tmp_path, CONFIGURATIONS["llama4-maverick"])
    result = flopwise.llm(folder, prompt=1000, generate=1000, **settings)
    assert result.serving is not None
    assert result.serving.floors is not None
    assert result.serving.floors.tokens_per_second is not None
    assert result.serving.floors.tokens_per_second > 1038


IMAGES = sorted({(row["model"], row["image"]) for row in figures("images")})


@pytest.mark.parametrize(("name", "size"), IMAGES, ids=lambda v: str(v))
def test_images(name: str, size: int, seen: Callable[[Row, float], None]) -> None:
    torch = pytest.importorskip("torch")
    imports = importlib.import_module("flopwise.formats.torch.libraries")
    try:
        timm = imports.repaired(lambda: importlib.import_module("timm"))
    except ImportError:
        pytest.skip("timm is not installed")
    from tests.torch_models import zeros

    with torch.device("meta"), zeros():
        try:
            network = timm.create_model(name, img_size=size)
        except TypeError:
            network = timm.create_model(name)
    profile = flopwise.profile(network.eval(), (1, 3, size, size))
    assert profile.exact or not profile.unknown
    bound = physical_bound(profile, find("h100"))
    macs, moved = sum(products([row.work for row in bound.rows]).values()), bound.physical.movement
    for row in figures("images"):
        if (row["model"], row["image"]) == (name, size):
            count = row["batch"]  # weights and images in two bytes, as autocast multiplies them
            nbytes = moved.weights / 2 + count * (moved.inputs + moved.outputs) / 2
            least = roofline(find(row["device"]), {arithmetic((row["stored"],)): count * macs}, nbytes)
            seen(row, least.seconds / (count / row["measured"]))
