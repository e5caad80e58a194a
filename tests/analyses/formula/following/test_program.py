"""Formulas of PyTorch modules beside profiles at other sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import flopwise

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


class Convolutions(nn.Module):  # type: ignore[misc, name-defined] # torch is imported where it is
    """Strides, a pooling that rounds up, and an average of 7 by 7 windows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.average = nn.AdaptiveAvgPool2d(7)
        self.last = nn.Linear(8 * 49, 10)

    def forward(self, image: Any) -> Any:
        x = self.average(self.pool(self.first(image).relu()))
        return self.last(x.flatten(1))


class Windows(nn.Module):  # type: ignore[misc, name-defined]
    """Padding to whole windows, attention within each, and the padding cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.qkv = nn.Linear(8, 24)

    def forward(self, image: Any) -> Any:
        x = self.embed(image).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        x = functional.pad(x, (0, 0, 0, (7 - w % 7) % 7, 0, (7 - h % 7) % 7))
        _, high, wide, _ = x.shape
        x = x.view(n, high // 7, 7, wide // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = self.qkv(x).reshape(x.size(0), 49, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        x = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 7, 7, c)
        x = x.view(n, high // 7, wide // 7, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(n, high, wide, c)
        return x[:, :h, :w].mean((1, 2))


class Branch(nn.Module):  # type: ignore[misc, name-defined]
    """Another way for long inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Linear(8, 16), nn.Linear(8, 32)

    def forward(self, x: Any) -> Any:
        return self.long(x) if x.shape[1] > 40 else self.short(x)


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    """Attention over earlier keys and new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Any, past: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = torch.cat([past, k], 1), torch.cat([past, v], 1)
        mask = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - x.shape[1])
        scores = (q @ keys.transpose(1, 2)) / q.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ values


class Parts(nn.Module):  # type: ignore[misc, name-defined]
    """Places in a list, a product of batches that is added to, and a tensor that is written part by part."""

    def forward(self, x: Any) -> Any:
        ends = x[:, [-1, 0]].sum(1, keepdim=True)
        joined = x.new_empty(*x.shape[:2], 12)
        joined[..., :8] = x
        joined[..., 8:] = ends[..., :4]
        scores = joined[..., 0].unsqueeze(1).baddbmm(batch1=joined, batch2=joined.transpose(1, 2), beta=1.0, alpha=0.5)
        return scores.softmax(-1) @ joined


class Pyramid(nn.Module):  # type: ignore[misc, name-defined]
    """A head on two scales, in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.head = nn.Conv2d(8, 6, 1)

    def forward(self, image: Any) -> Any:
        large = self.stem(image)
        small = self.down(large)
        large = large + functional.interpolate(small, size=large.shape[-2:])
        outputs = [self.head(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 6) for x in (large, small)]
        return torch.cat(outputs, 1).softmax(-1)


class Sampled(nn.Module):  # type: ignore[misc, name-defined]
    """Moments, a grid that places are taken from, and windows side by side."""

    def forward(self, image: Any) -> Any:
        variance, mean = torch.var_mean(image, dim=(2, 3), keepdim=True)
        theta = torch.eye(2, 3).expand(image.shape[0], 2, 3)
        grid = functional.affine_grid(theta, image.shape, align_corners=False)
        moved = functional.grid_sample((image - mean) / variance, grid, align_corners=False)
        columns = functional.unfold(moved, 3, padding=1, stride=2)
        return columns @ columns.transpose(1, 2)


CASES: list[tuple[Callable[[], Any], Any, dict[str, int]]] = [
    (Convolutions, ("N", 3, "H", "W"), {"N": 0, "H": 3, "W": 3}),
    (Windows, ("N", 3, "H", "W"), {"N": 1, "H": 4, "W": 4}),
    (Branch, ("N", "S", 8), {"N": 0, "S": 1}),
    (Parts, ("N", "S", 8), {"N": 0, "S": 1}),
    (Pyramid, ("N", 3, "H", "W"), {"N": 1, "H": 1, "W": 1}),
    (Sampled, ("N", 3, "H", "W"), {"N": 1, "H": 2, "W": 2}),
    (Decoder, {"x": ("N", "S", 16), "past": ("N", "P", 16)}, {"N": 1, "S": 1, "P": 1}),
]


@pytest.mark.parametrize(("make", "inputs", "least"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_values_are_those_of_profiles(make: Callable[[], Any], inputs: Any, least: dict[str, int]) -> None:
    model = make()
    formula = flopwise.formula(model, inputs)
    assert formula.exact
    chance = random.Random(4)
    points = [
        {n: chance.choice((low, low + 1, chance.randint(low, 90))) for n, low in least.items()} for _ in range(12)
    ]
    for point in points:
        profile = flopwise.profile(model, _placed(inputs, point))
        at = formula.at(**point)
        assert at == {figure: getattr(profile.sum, figure) for figure in at}, point


def _placed(inputs: Any, point: dict[str, int]) -> Any:
    if isinstance(inputs, dict):
        return {name: _placed(shape, point) for name, shape in inputs.items()}
    return tuple(point.get(extent, extent) for extent in inputs)


def test_branches_of_a_program_are_conditions() -> None:
    formula = flopwise.formula(Branch(), ("N", "S", 8))
    (condition,) = formula.conditions
    assert condition.startswith("S >= 41 (test_program.py:")
    assert formula.text(formula.whole.terms["macs"]) == "256*N*S"
    assert formula.at(N=1, S=40)["macs"] == 128 * 40


def test_windows_are_counted_with_their_padding() -> None:
    formula = flopwise.formula(Windows(), ("N", 3, "H", "W"))
    assert "floor(H/4) != 7*floor((H + 24)/28) (getitem)" in formula.conditions
    assert not any("min" in str(term) for term in formula.whole.terms.values())


class Scaled(nn.Module):  # type: ignore[misc, name-defined]
    """Poolings and an upsampling whose cost tools round."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(cells)

    def forward(self, image: Any) -> Any:
        x = self.act(self.conv(image))
        return self.pool(functional.interpolate(x, scale_factor=1.5))


@pytest.mark.parametrize("convention", ["ptflops", "thop"])
def test_what_tools_round_is_rounded_down(convention: str) -> None:
    model = Scaled(4)
    formula = flopwise.formula(model, ("N", 3, "H", "W"), convention=convention)
    assert formula.exact
    for n, h, w in ((1, 5, 9), (2, 31, 64), (0, 8, 8), (7, 33, 101), (3, 2, 1)):
        profile = flopwise.profile(model, (n, 3, h, w), convention=convention)
        assert formula.at(N=n, H=h, W=w)["count"] == profile.sum.count, (n, h, w)


def test_a_quotient_of_floating_point_numbers_has_no_formula() -> None:
    formula = flopwise.formula(Scaled(7), ("N", 3, "H", "W"), convention="thop")
    assert not formula.exact
    profile = flopwise.profile(Scaled(7), (2, 3, 90, 77), convention="thop")
    assert formula.at(N=2, H=90, W=77)["count"] < profile.sum.count
    assert "count" in formula.at(N=2, H=90, W=77).lower_bounds


def test_the_peak_is_that_of_the_profile_where_a_size_has_no_formula() -> None:
    class Chosen(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.repeat_interleave(x.shape[1] ** 2 % 7 + 1, 0)

    formula = flopwise.formula(Chosen(), ("N", "S"))
    for point in ({"N": 3, "S": 10}, {"N": 2, "S": 5}):
        profile = flopwise.profile(Chosen(), tuple(point.values()))
        assert formula.value("peak_activation_bytes", **point) == profile.peak_activation_bytes


def test_lists_of_tensors_have_no_symbols() -> None:
    with pytest.raises(flopwise.InputError, match="is a list of tensors, whose sizes cannot be symbols"):
        flopwise.formula(Pyramid(), {"image": [(3, "H", "W")]})


def test_blocks_alike_are_one_group() -> None:
    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, width), nn.Linear(width, 8)

        def forward(self, x: Any) -> Any:
            return x + self.second(self.first(x).relu())

    model = nn.Sequential(nn.Sequential(*[Block(16) for _ in range(24)]), Block(32))
    groups = flopwise.formula(model, ("N", 8)).by("block")
    named = [(group.name, group.kind, group.times, len(group.rows)) for group in groups]
    assert named[1:6] == [
        ("0", "Sequential", 1, 96),
        ("0.0", "Block", 24, 96),
        ("0.0.first", "Linear", 1, 1),
        ("0.0.second", "Linear", 1, 1),
        ("1", "Block", 1, 4),
    ]
    assert str(groups[2].terms["macs"]) == "6144*N"
    assert groups[2].one is not None
    assert str(groups[2].one.terms["macs"]) == "256*N"


class Turns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[2] // 4):
            x = x.exp()
        return x


class Shrunk(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=0.7, mode="bilinear").relu()


@pytest.mark.parametrize("module", [Turns(), Shrunk()])
def test_formulas_answer_only_where_profiles_agree(module: torch.nn.Module) -> None:
    module.eval()
    formula = flopwise.formula(module, {"x": ("B", 3, "H", "W")})
    count = formula.lambdify("flops")
    answers = 0
    for height in (8, 10, 90, 91, 100, 312, 313, 315, 316, 400):
        there = flopwise.profile(module, {"x": (1, 3, height, 11)}).to_dict()["totals"]["flops"]
        assert formula.at(B=1, H=height, W=11)["flops"] == there
        try:
            assert count(1, height, 11) == there
            answers += 1
        except flopwise.InputError:
            continue
    assert 0 < answers < 10


class Copied(torch.nn.Module):
    """It copies what a single column needs not, and the smallest size of all is one that it treats on its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp() if x.shape[0] % 8 == 0 else x.T.contiguous()


def test_the_smallest_sizes_are_compared_where_a_condition_excludes_the_least() -> None:
    module = Copied().eval()
    formula = flopwise.formula(module, {"x": ("N", 5)})
    for size in (1, 2, 3, 9, 100):
        rows = flopwise.profile(module, {"x": (size, 5)}).to_dict()["totals"]
        assert formula.at(N=size)["output_bytes"] == rows["output_bytes"], size


class Grown(torch.nn.Module):
    """It makes a parameter of what it computed, asks for its sizes, and whether all of it is positive."""

    runs = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        table = torch.nn.Parameter(x.exp(), requires_grad=False)
        return torch.where(torch._is_all_true(table > 0), table, -table).view(table.shape[1], -1)


def test_parameters_made_on_the_way_have_the_sizes_of_what_they_are_made_of() -> None:
    module = Grown().eval()
    formula = flopwise.formula(module, {"x": ("N", "M")})
    assert formula.exact
    assert not formula.conditions
    assert module.runs < 6  # nothing is fitted, for which it would run at more sizes
    expected = flopwise.profile(module, {"x": (7, 3)}).to_dict()["totals"]
    assert formula.at(N=7, M=3)["flops"] == expected["flops"]


def test_loops_over_a_size_run_as_often_as_it_says() -> None:
    formula = flopwise.formula(Turns().eval(), {"x": ("B", 3, "H", "W")})
    (low,) = formula.conditions
    assert low.startswith("H >= 12 (test_program.py:")
    for height in (12, 15, 16, 311, 1000):
        expected = flopwise.profile(Turns().eval(), (2, 3, height, 9)).total("flops")
        assert formula.at(B=2, H=height, W=9)["flops"] == expected


class Recurrence(nn.Module):
    """A recurrence over a sequence, whose results are put together at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, results = x[:, 0], []
        for i in range(x.shape[1]):
            state = torch.tanh(self.linear(state + x[:, i]))
            results.append(state)
        return torch.stack(results, dim=1) * 2


def test_a_loop_over_a_sequence_has_as_many_turns_as_the_sequence_has_elements() -> None:
    found = flopwise.formula(Recurrence(), {"x": ("N", "S", 8)})
    assert str(found.total("macs")) == "64*N*S"
    assert found.conditions == ("S >= 3 (test_program.py:" + found.conditions[0].partition("py:")[2],)
    for n, s in ((2, 3), (1, 40), (3, 2), (2, 1)):
        expected = flopwise.profile(Recurrence(), (n, s, 8))
        values = found.at(N=n, S=s)
        for figure in ("macs", "flops", "params", "input_bytes", "output_bytes", "activations"):
            assert values[figure] == expected.total(figure), (figure, n, s)
        assert found.value("peak_activation_bytes", N=n, S=s) == expected.peak_activation_bytes


class Uneven(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x[:, :1] * 0
        for i in range(1, x.shape[1]):
            total = total + x[:, :i].exp().sum(1, keepdim=True)
        return total


def test_a_loop_whose_turns_cost_differently_runs_as_often_as_it_did() -> None:
    found = flopwise.formula(Uneven(), {"x": ("N", "S")})
    assert any(condition.startswith("S = ") for condition in found.conditions)
    assert found.at(N=2, S=9)["flops"] == flopwise.profile(Uneven(), (2, 9)).total("flops")


class Boxes(nn.Module):  # type: ignore[misc, name-defined]
    """A backbone, a head, and a second stage for the places that score: a detector in small."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1), nn.Linear(4, 7)

    def forward(self, x: Any) -> Any:
        scores = self.head(self.backbone(x).relu()).flatten(2).transpose(1, 2)
        return self.second(scores[scores.max(-1).values > 0.5])


def test_a_detector_has_formulas_until_the_data_decide_and_says_where() -> None:
    with torch.device("meta"):
        formula = flopwise.formula(Boxes().eval(), {"x": ("N", 3, "H", "W")})
    assert [row.name for row in formula.rows if row.count is None] == ["rest of the program"]
    assert formula.at(N=2, H=9, W=8)["macs"] == 2 * 5 * 4 * (27 * 8 + 8 * 4)
    assert "macs" in formula.at(N=2, H=9, W=8).lower_bounds
    assert formula.at(N=2, H=9, W=8)["params"] == sum(p.numel() for p in Boxes().parameters())
    assert any("reads elements (test_program.py:" in note for note in formula.notes)


class Divided(nn.Module):  # type: ignore[misc, name-defined]
    """Sizes that Python's own numbers go through, and an operator without a rule."""

    def forward(self, x: Any) -> Any:
        return torch.cdist(x[:, : int(x.shape[1] / 2)], x)


def test_sizes_without_an_expression_are_fitted_where_they_stand() -> None:
    formula = flopwise.formula(Divided(), {"x": ("N", "T", 8)})
    assert formula.exact
    for n, t in ((1, 2), (3, 7), (2, 40)):
        profile = flopwise.profile(Divided(), (n, t, 8))
        assert formula.at(N=n, T=t)["count"] == profile.total("flops")
        assert formula.value("peak_activation_bytes", N=n, T=t) == profile.peak_activation_bytes
