"""Public measurements: none is faster than its floor. ``pytest -s`` prints how they are distributed."""

from __future__ import annotations

import importlib
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.language_models import PUBLISHED, written

import flopwise
from flopwise.analyses.timing.bound import physical_bound
from flopwise.analyses.timing.catalog import find
from flopwise.analyses.timing.device import arithmetic
from flopwise.analyses.timing.quantities import products
from flopwise.analyses.timing.roofline import roofline
from flopwise.conventions import get as get_convention
from flopwise.graph import Graph, Node, Tensor
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

RECORDED = json.loads((Path(__file__).parents[2] / "recorded" / "measured.json").read_text())
Row = Mapping[str, Any]


def figures(kind: str) -> list[Row]:
    """The recorded measurements of a kind."""
    return [row for row in RECORDED["figures"] if row["kind"] == kind]


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
    assert len(RECORDED["figures"]) == 406
    for row in RECORDED["figures"]:
        assert RECORDED["sources"][row["source"]]["url"].startswith("https://")
        assert RECORDED["sources"][row["source"]]["date"]
        assert row["measured"] > 0
        assert find(row["device"])


@pytest.mark.parametrize("row", figures("products"), ids=lambda r: f"{r['device']} {r['stored']} {r['measured']}")
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


#: Further configurations, by the figures that say what is computed.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    **PUBLISHED,
    "llama2-7b": {
        **PUBLISHED["llama3-8b"],
        "intermediate_size": 11008,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "llama3-70b": {
        **PUBLISHED["llama3-8b"],
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_hidden_layers": 48,
        "max_position_embeddings": 40960,
        "vocab_size": 151936,
        "torch_dtype": "bfloat16",
    },
}

#: How checkpoints of these types say it.
QUANTISED: dict[str, dict[str, Any]] = {
    "float8e4m3fn": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "float4e2m1": {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
        },
        "ignore": ["lm_head"],
    },
}


class Request(NamedTuple):
    """What a request computes and moves, by element types."""

    prefill: Mapping[tuple[str, ...], int]
    prefill_bytes: int
    generated: Mapping[tuple[str, ...], int]
    state_bytes: int


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Row, int, int], Request]:
    """Requests to the models of rows, each counted once.

    All layers after the first few of a model are alike, so that two shallow models tell what a deep one costs.
    """
    pytest.importorskip("transformers")
    made: dict[tuple[object, ...], Request] = {}

    def shallow(row: Row, layers: int, prompt: int, generate: int) -> Request:
        config = {**CONFIGURATIONS[row["model"]], "max_position_embeddings": 163840, "num_hidden_layers": layers}
        if row["stored"] in QUANTISED:
            config["quantization_config"] = QUANTISED[row["stored"]]
        else:
            config["torch_dtype"] = row["stored"]
        result = flopwise.llm(written(tmp_path_factory.mktemp("model"), config), prompt=prompt, generate=generate)
        prefill = result.prefill
        return Request(prefill.products, prefill.least_bytes, result.generated_products, result.decode.state_bytes)

    def request(row: Row, prompt: int, generate: int) -> Request:
        key = row["model"], row["stored"], prompt, generate
        if key not in made:
            few = CONFIGURATIONS[row["model"]].get("first_k_dense_replace", 0) + 1
            less, more = (shallow(row, layers, prompt, generate) for layers in (few, few + 1))
            made[key] = deep(less, more, CONFIGURATIONS[row["model"]]["num_hidden_layers"] - few)
        return made[key]

    return request


def deep(less: Request, more: Request, layers: int) -> Request:
    """A request to a model with so many more layers than ``less``, each of which costs what ``more`` has more."""

    def work(one: Mapping[tuple[str, ...], int], other: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
        return {types: one.get(types, 0) + layers * (macs - one.get(types, 0)) for types, macs in other.items()}

    return Request(
        work(less.prefill, more.prefill),
        less.prefill_bytes + layers * (more.prefill_bytes - less.prefill_bytes),
        work(less.generated, more.generated),
        less.state_bytes + layers * (more.state_bytes - less.state_bytes),
    )


def test_a_deep_model_costs_what_shallow_ones_tell(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    row: Row = {"model": "qwen3-30b-a3b", "stored": "bfloat16"}
    config = {**CONFIGURATIONS[row["model"]], "torch_dtype": "bfloat16"}
    found = []
    for layers in (1, 2, 4):
        written(tmp_path, {**config, "num_hidden_layers": layers})
        result = flopwise.llm(tmp_path, prompt=100, generate=7)
        prefill, steps = result.prefill, result.generated_products
        found.append(Request(prefill.products, prefill.least_bytes, steps, result.decode.state_bytes))
    assert deep(found[0], found[1], 3) == found[2]


@pytest.mark.parametrize("row", figures("prompt"), ids=lambda r: f"{r['device']} {r['model']}")
def test_prompts(row: Row, requests: Callable[..., Request], seen: Callable[[Row, float], None]) -> None:
    tokens = row.get("prompt", 512)
    request = requests(row, tokens, 1)
    known_batch = "batch" in row
    least = roofline(find(row["device"]), request.prefill, request.prefill_bytes if known_batch else 0).seconds
    rate = row["measured"] * row.get("computed", 1) / row["count"]
    seen(row, least / (tokens / rate))


@pytest.mark.parametrize("row", figures("output"), ids=lambda r: f"{r['device']} {r['model']} {r['measured']}")
def test_generated_tokens(row: Row, requests: Callable[..., Request], seen: Callable[[Row, float], None]) -> None:
    """Of many requests at once, whose number is not published, so that weights are read for nothing."""
    device, alone = find(row["device"]), "context" in row
    result = requests(row, row.get("context") or row["prompt"], row.get("generate", 1))
    work = dict(result.generated)
    for types, macs in {} if alone else result.prefill.items():  # else others read the prompts
        work[types] = work.get(types, 0) + macs
    generate = row.get("generate", 1)
    state = result.state_bytes * generate
    seen(row, roofline(device, work, state).seconds / (generate * row["count"] / row["measured"]))


IMAGES = sorted({(row["model"], row["image"]) for row in figures("images")})


@pytest.mark.parametrize(("name", "size"), IMAGES, ids=lambda v: str(v))
def test_images(name: str, size: int, seen: Callable[[Row, float], None]) -> None:
    torch = pytest.importorskip("torch")
    imports = importlib.import_module("flopwise.readers.torch.imports")
    try:
        timm = imports.repaired(lambda: importlib.import_module("timm"))
    except ImportError:
        pytest.skip("timm is not installed")
    with torch.device("meta"):
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
