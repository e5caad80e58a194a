"""The meter beside the profile of the very batch: language models, packed rows, images of changing size, LoRA."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy, scaled_dot_product_attention  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import flopwise  # noqa: E402
from flopwise.operators.counts import FLOPS  # noqa: E402

VOCABULARY, WIDTH, HEADS = 97, 32, 4


class Block(nn.Module):
    def __init__(self, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, borders: Any = None, mask: Any = None) -> Any:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).unbind(-3)
        if self.packed:
            from torch.nn.attention.varlen import varlen_attn

            y = varlen_attn(q, k, v, borders, borders, 64, 64, window_size=(-1, 0)).flatten(-2)
        else:
            heads = [part.transpose(-2, -3) for part in (q, k, v)]
            y = scaled_dot_product_attention(*heads, is_causal=mask is None, attn_mask=mask)
            y = y.transpose(-2, -3).flatten(-2)
        return x + self.out(y)


class Language(nn.Module):
    """A small language model, of sequences beside each other or in a row."""

    def __init__(self, packed: bool = False, checkpointed: bool = False) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block(packed) for _ in range(2)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Any, labels: Any, cu_seqlens: Any = None, attention_mask: Any = None) -> Any:
        x = self.embedding(input_ids)
        mask = None
        if attention_mask is not None and not attention_mask.all():
            mask = attention_mask[:, None, None].bool()
        for block in self.blocks:
            if self.checkpointed:
                x = checkpoint(block, x, cu_seqlens, mask, use_reentrant=False)
            else:
                x = block(x, cu_seqlens, mask)
        return cross_entropy(self.head(x).flatten(0, -2), labels.flatten())


class LoRA(nn.Module):
    """A linear layer that is frozen, and two small ones that are not."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.down = nn.Linear(linear.in_features, 2, bias=False)
        self.up = nn.Linear(2, linear.out_features, bias=False)

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.up(self.down(x))


def lora() -> nn.Module:
    model = Language().requires_grad_(False)
    for block in model.blocks:
        block.qkv = LoRA(block.qkv)
    return model


class Detector(nn.Module):
    """Maps of two strides, as detectors have them before their boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.heads = nn.ModuleList([nn.Conv2d(8, 5, 1), nn.Conv2d(16, 5, 1)])

    def forward(self, x: Any) -> Any:
        fine = self.stem(x)
        return [self.heads[0](fine), self.heads[1](self.deep(fine))]


def ids(chance: random.Random, masked: bool = False) -> dict[str, Any]:
    shape = chance.randint(2, 5), chance.randint(3, 40)
    batch = {name: torch.randint(VOCABULARY, shape) for name in ("input_ids", "labels")}
    if masked:
        batch["attention_mask"] = torch.ones(shape, dtype=torch.int64)
        batch["attention_mask"][0, 0] = chance.randint(0, 1)
    return batch


def packed(chance: random.Random) -> dict[str, Any]:
    lengths = [chance.randint(1, 30) for _ in range(chance.randint(1, 5))]
    borders = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    rows = {name: torch.randint(VOCABULARY, (sum(lengths),)) for name in ("input_ids", "labels")}
    return {**rows, "cu_seqlens": borders}


def image(chance: random.Random) -> Any:
    return torch.rand(chance.randint(2, 4), 3, chance.randint(9, 60), chance.randint(9, 60))


def ids_twice(chance: random.Random) -> dict[str, Any]:
    """Labels that are the tokens themselves, so that their memory is kept once."""
    tokens = ids(chance)["input_ids"]
    return {"input_ids": tokens, "labels": tokens}


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[random.Random], Any]]] = {
    "language model": (Language, ids),
    "labels that are the tokens": (Language, ids_twice),
    "masks with holes": (Language, lambda chance: ids(chance, masked=True)),
    "checkpoints": (lambda: Language(checkpointed=True), ids),
    "LoRA": (lora, ids),
    "sequences in a row": (lambda: Language(packed=True), packed),
    "images of changing size": (Detector, image),
}


@pytest.fixture(autouse=True)
def _a_store_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOPWISE_STORE", str(tmp_path / "times.sqlite"))


def expected(model: nn.Module, batch: Any) -> dict[str, int | None]:
    """The figures of a profile of the very batch."""
    profile = flopwise.profile(model, batch, train=True)
    again = sum(row.checkpointed.dot(FLOPS) for row in profile.rows if row.checkpointed is not None)
    kernel = sum(row.recomputed.dot(FLOPS) for row in profile.rows if row.recomputed is not None)
    forward, backward = profile.total("flops"), profile.total("backward_flops") - again
    return {
        "flops": forward + backward,
        "forward_flops": forward,
        "recomputed_flops": again + kernel,
        "hardware_flops": forward + backward + again + kernel,
        "bytes": profile.sum.read_bytes + profile.sum.written_bytes,
    }


@pytest.mark.parametrize("case", CASES)
def test_a_step_costs_what_the_profile_of_its_batch_says(case: str) -> None:
    pytest.importorskip("torch.nn.attention.varlen")
    build, batch = CASES[case]
    model, chance = build(), random.Random(case)
    meter = flopwise.Meter(model, batch(chance), keep=False)
    for _ in range(6):
        inputs = batch(chance)
        cost = meter.step(inputs)
        assert (cost.how, cost.exact) == ("formula", True)
        figures = expected(model, inputs)
        assert {name: getattr(cost, name) for name in figures} == figures
    assert meter.notes == ()


def test_a_tensor_that_is_given_twice_is_kept_once() -> None:
    model, tokens = Language(), torch.randint(VOCABULARY, (3, 8))
    meter = flopwise.Meter(model, keep=False)
    once, twice = (meter.step({"input_ids": tokens, "labels": labels}) for labels in (tokens, tokens.clone()))
    assert (once.how, twice.how, once.flops) == ("formula", "formula", twice.flops)
    assert twice.saved_bytes == (once.saved_bytes or 0) + 8 * tokens.numel()


def test_calls_inside_a_with_block_add_up_and_those_without_gradients_do_not_count() -> None:
    model, chance = Detector(), random.Random(1)
    images = [image(chance) for _ in range(3)]
    meter = flopwise.Meter(model, images[0], keep=False)
    with meter:
        for one in images[:2]:
            sum(part.sum() for part in model(one)).backward()
        with torch.no_grad():
            model(images[2])
    total = meter.step(images[0]) + meter.step(images[1])
    with meter:
        model(images[0])
        model(images[1])
    assert meter.cost == total
    assert total.batches == 2
    assert total.samples == sum(len(one) for one in images[:2])
    assert not model._forward_pre_hooks


def test_a_formula_is_kept_and_believed_where_it_gives_the_profile(tmp_path: Path) -> None:
    steps: list[str] = []
    flopwise.Meter(Detector(), torch.rand(2, 3, 20, 24))
    (kept,) = (tmp_path / "meters").iterdir()
    flopwise.Meter(Detector(), torch.rand(3, 3, 18, 30), progress=steps.append)
    assert "the formula was derived before, and gives the profile of this batch" in steps
    kept.write_text(kept.read_text().replace('"guards"', '"wards"'))
    cost = flopwise.Meter(Detector(), torch.rand(3, 3, 18, 30)).step(torch.rand(2, 3, 30, 30))
    assert cost.how == "formula"


class OfElements(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.linear(x[x.sum(1) > 0])


def test_where_elements_decide_each_new_shape_is_profiled() -> None:
    model = OfElements()
    meter = flopwise.Meter(model, torch.ones(3, 8), keep=False)
    batch = torch.ones(5, 8)
    assert meter.step(batch).how == "profile"
    assert meter.step(batch).flops == expected(model, batch)["flops"]
    assert "each new shape is counted by a profile" in meter.notes[0]


class Branching(nn.Module):
    """A program that asks its input for elements: floats, or token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(9, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = x if x.is_floating_point() else self.embedding(x)
        asked = x.sum() > 0 if x.is_floating_point() else (x == 7).any()
        return self.linear(self.linear(y)) if asked else self.linear(y)


@pytest.mark.parametrize("batch", [torch.ones(5, 8), torch.full((5, 4), 7)], ids=["floats", "token ids"])
def test_a_cost_that_hangs_on_elements_is_not_exact(batch: Any) -> None:
    model = Branching()
    meter = flopwise.Meter(model, keep=False)
    for inputs in (batch, torch.zeros_like(batch)):  # which are one to the meter
        cost = meter.step(inputs)
        assert (cost.how, cost.exact) == ("profile", False)
        assert cost.flops == expected(model, batch)["flops"]
    assert any("batches of one shape count as the first of them" in note for note in meter.notes)


class Rooted(nn.Module):
    """A loop that runs as often as the root of a size says."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        for _ in range(int(math.sqrt(x.shape[0]))):
            y = torch.cat([y, x])
        return self.linear(y)


def test_turns_by_the_root_of_a_size_count_as_the_profile_of_each_size() -> None:
    model = Rooted()
    meter = flopwise.Meter(model, keep=False)
    for rows in (9, 300, 323, 324):
        cost, inputs = meter.step(torch.ones(rows, 8)), torch.ones(rows, 8)
        assert cost.flops == expected(model, inputs)["flops"]
        assert cost.exact


def test_a_profile_without_a_formula_is_said() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(12, 3))
    meter = flopwise.Meter(model, keep=False)
    assert meter.step(torch.ones(3, 4)).how == "profile"
    assert meter.notes == ("no formula where no size above 1 may change: each new shape is counted by a profile",)


def test_a_model_without_operators_costs_nothing() -> None:
    assert flopwise.Meter(torch.nn.Identity(), keep=False).step(torch.ones(4, 8)).flops == 0


def test_rates_name_their_device() -> None:
    meter = flopwise.Meter(Detector(), torch.rand(2, 3, 20, 24), device="H100 SXM", dtype="bfloat16", keep=False)
    cost = meter.step(torch.rand(4, 3, 40, 40))
    rates = meter.rates(0.5)
    assert rates.mfu == pytest.approx(cost.flops / 0.5 / 989.4e12, rel=1e-3)  # dense, of NVIDIA's datasheet
    assert rates.samples_per_s == 8
    assert rates.tokens_per_s is None
    with pytest.raises(flopwise.InputError, match="unknown device 'H1000'"):
        flopwise.Meter(Detector(), device="H1000")
    with pytest.raises(flopwise.InputError, match="expected a module of PyTorch"):
        flopwise.Meter("model.onnx")
    with pytest.raises(flopwise.InputError, match="'float61'"):
        flopwise.Meter(Detector(), dtype="float61")
    with pytest.raises(flopwise.InputError, match="devices=0"):
        flopwise.Meter(Detector(), devices=0)
    assert flopwise.Meter(Detector(), dtype="bf16").dtype == "bfloat16"
    assert flopwise.Meter(Detector(), dtype="tf32").dtype == "tfloat32"


class Rounding(nn.Module):
    """A model that turns autocast on itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.head(self.embedding(x))


def test_autocast_inside_of_a_model_says_what_products_are() -> None:
    model = Rounding()
    meter = flopwise.Meter(model, keep=False)
    with meter:
        model(torch.zeros(2, 3, dtype=torch.int64))
    assert meter.dtype == "bfloat16"
    assert not model.head._forward_pre_hooks


def test_no_share_of_a_peak_is_above_it() -> None:
    meter = flopwise.Meter(Detector(), torch.rand(2, 3, 20, 24), device="H100 SXM", keep=False)
    meter.step(torch.rand(4, 3, 40, 40))
    rates = meter.rates(1e-12)
    assert (rates.mfu, rates.hfu) == (None, None)
    assert meter.notes[-1].startswith("more than the peak of 'NVIDIA H100 SXM5 80GB' for float32: no MFU")


def test_weights_that_are_frozen_and_thawed_between_steps_count_as_they_are_then() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    meter = flopwise.Meter(model, torch.rand(3, 8), keep=False)
    batch = torch.rand(5, 8)
    costs = []
    for frozen in (True, False, True):
        model[0].requires_grad_(not frozen)
        costs.append(meter.step(batch))
        assert costs[-1].flops == expected(model, batch)["flops"]
    assert costs[0] == costs[2] != costs[1]
    assert meter.step(batch.requires_grad_()).flops == expected(model, batch)["flops"]


class OfNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Any, step: int, scale: float = 1.0) -> Any:
        return (self.linear(self.linear(x)) if step > 3 else self.linear(x)) * scale


def test_a_number_that_changes_with_each_batch_derives_no_formula_each_time() -> None:
    model, x = OfNumbers(), torch.ones(4, 8)
    meter = flopwise.Meter(model, {"x": x, "step": 0}, keep=False, ignore=["scale"])
    for step in range(1, 6):
        batch = {"x": x, "step": step, "scale": step / 7}
        assert meter.step(batch).flops == expected(model, batch)["flops"]
    assert meter._program.formulas == 2
    assert [note[:50] for note in meter.notes] == ["step: other numbers in each batch, of which each i"]


class Stepped(nn.Module):
    """A program that treats a length on its own, takes even ones alone, or as many of one input as of the other."""

    def __init__(self, case: str) -> None:
        super().__init__()
        self.case, self.layer = case, nn.Conv1d(4, 4, 3)

    def forward(self, x: Any, other: Any = None) -> Any:
        y = self.layer(x)
        if self.case == "longer" and x.shape[2] > other.shape[1] + 9:
            return self.layer(y).sum()
        return (y[:, :, :4] if self.case == "own" and x.shape[2] == 8 else y).sum()


@pytest.mark.parametrize(
    ("case", "shapes", "where"),
    [
        ("own", [((2, 4, 12),), ((2, 4, 8),)], "x.shape[2], such as 8"),
        ("own", [((2, 4, 8),), ((2, 4, 12),), ((3, 4, 8),)], "x.shape[2], such as 8"),
        (
            "longer",
            [((2, 4, 12), (2, 5)), ((2, 4, 22), (2, 6)), ((2, 4, 31), (2, 3))],
            "x.shape[2] and other.shape[1], such as 22 and 6",
        ),
    ],
)
def test_a_size_outside_of_the_formula_is_called_as_users_know_it(case: str, shapes: Any, where: str) -> None:
    model = Stepped(case)
    meter = flopwise.Meter(model, keep=False)
    for batch in shapes:
        inputs = [torch.rand(shape) for shape in batch]
        assert meter.step(inputs).flops == expected(model, inputs)["flops"]
    said = f"the formula does not hold for some sizes of {where}: each new shape is counted by a profile"
    assert meter.notes == (said,)


def test_nested_tensors_are_profiled_and_those_without_a_shape_refused() -> None:
    model = nn.Linear(8, 4)
    meter = flopwise.Meter(model, keep=False)
    for lengths in ((3, 5), (4, 6), (4, 6)):
        parts = [torch.rand(length, 8) for length in lengths]
        nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
        assert meter.step(nested).flops == expected(model, torch.cat(parts))["flops"]
    assert meter.notes == ("no formula (input 'input' is a nested tensor): each new shape is counted by a profile",)
    strided = torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(5, 8)])
    for batch in (strided, {"input": strided}, {"input": [strided]}):
        with pytest.raises(flopwise.InputError, match=r"^input 'input.*' is a nested tensor .* layout=torch.jagged"):
            meter.step(batch)
    with meter:
        model(strided)
    assert meter.notes[-1].startswith("not counted: input 'input' is a nested tensor of the layout torch.strided")
