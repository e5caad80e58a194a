"""Forms in which a caller may hand over a model, its inputs and a batch size, and modes that are on meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import flopwise  # noqa: E402
from flopwise.errors import InputError, ModelError  # noqa: E402
from flopwise.formats.inputs import input_specs  # noqa: E402
from flopwise.operators.tables import count  # noqa: E402

LAYER = nn.Linear(4, 5)


def by_layer(x: Any, times: int = 1) -> Any:
    """A function that finds its layer among the names around it."""
    for _ in range(times):
        y = LAYER(x)
    return y


@pytest.mark.parametrize(
    ("function", "macs", "params"),
    [
        (by_layer, 60, 25),
        (functools.partial(by_layer, times=2), 120, 25),
        (LAYER.forward, 60, 25),
        (lambda x: x @ x.mT, 36, 0),
        (torch.square, 0, 0),
    ],
    ids=["function", "partial", "method", "lambda", "builtin"],
)
def test_functions(function: Any, macs: int, params: int) -> None:
    LAYER.train()
    profile = flopwise.profile(function, (3, 4))
    assert (profile.total("macs"), profile.total("params"), profile.exact) == (macs, params, True)
    assert LAYER.training


@pytest.mark.parametrize(
    "size", [[3, 4], (numpy.int64(3), 4), [[3, 4]], {"input": [3, numpy.int32(4)]}, torch.Size([3, 4])]
)
def test_shapes(size: Any) -> None:
    assert flopwise.profile(LAYER, size).total("macs") == 60


def test_batch_sizes() -> None:
    for size in (6, numpy.int64(6), numpy.uint8(6), torch.tensor(6)):
        assert flopwise.profile(LAYER, (3, 4), batch_size=size).total("macs") == 120
    for wrong in (True, 2.5, "6", -1):
        with pytest.raises(InputError, match="whole number"):
            flopwise.profile(LAYER, (3, 4), batch_size=wrong)


def test_inside_fake_mode() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model, x = nn.Linear(4, 5), torch.zeros(3, 4)
        assert flopwise.profile(LAYER, (3, 4)).total("macs") == 60
        assert flopwise.profile(model, (x,)).total("macs") == 60
        assert type(torch.zeros(2)).__name__ == "FakeTensor"


def test_inside_a_function_that_is_compiled() -> None:
    totals = []

    @torch.compile(backend="eager")
    def compiled(x: Any) -> Any:
        totals.append(flopwise.profile(LAYER, (3, 4)).total("macs"))
        return x + 1

    assert compiled(torch.zeros(2)).sum() == 2
    assert totals == [60]


class OfValues(nn.Module):
    """Takes images in a row with the shape of each, as image transformers do."""

    def forward(self, x: Any, img_shapes: Any, flag: bool = False) -> Any:
        (frames, height, width) = img_shapes[0]
        assert all(isinstance(size, int) for size in (frames, height, width))
        return x.reshape(-1, frames * height * width) @ x.new_ones(frames * height * width, 2 + flag)


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": (4, 64), "img_shapes": flopwise.Value([(1, 8, 8)])},
        [(4, 64), flopwise.Value([(1, 8, 8)])],
        ([(4, 64)], {"img_shapes": flopwise.Value([(1, 8, 8)])}),
        ["x:f32:4x64", "img_shapes:value:[(1, 8, 8)]"],
        ["4x64", "value:[(1, 8, 8)]"],
        {"x": (4, 64), "img_shapes": "value:[(1, 8, 8)]", "flag": flopwise.Value(False)},
    ],
    ids=["mapping", "sequence", "pair", "named texts", "texts", "text in a mapping"],
)
def test_a_value_is_handed_over_as_it_is(inputs: Any) -> None:
    assert flopwise.profile(OfValues(), inputs).total("macs") == 4 * 64 * 2


@pytest.mark.parametrize("text", ["__import__('os').getcwd()", "[(1, 8", "x"])
def test_what_is_no_literal_is_refused_and_not_evaluated(text: str) -> None:
    with pytest.raises(InputError, match="is no value; write it as in Python"):
        flopwise.profile(OfValues(), ["x:4x64", f"img_shapes:value:{text}"])


def test_a_value_is_no_input_of_a_file() -> None:
    with pytest.raises(InputError, match="takes no value"):
        input_specs({"x": flopwise.Value(1)}, ["x"])


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass(slots=True)
class Slotted:
    """An object of a program's own whose tensors lie in slots."""

    x: Any
    y: Any


class OfPairs(nn.Module):
    """Takes one object of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, pair: Any) -> Any:
        return self.layer(pair.x) + self.layer(pair.y)


class OfPython(nn.Module):
    """Takes Python values beside a tensor; by their parameters nobody sees what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def forward(self, x: Any, skip: Any = None, mode: Any = None, metas: Any = None, options: Any = None) -> Any:
        assert mode in (None, "tensor", "loss", "512x512", ["a cat", "a dog"]), mode
        assert metas is None or metas[0]["img_shape"] == (8, 8, 3), metas
        skip = (options or {"skip": skip})["skip"] or ()
        for place, layer in enumerate(self.layers):
            x = x if any(place == s for s in skip) else layer(x)
        return x


BATCH, X = Pair(torch.zeros(2, 4), torch.zeros(2, 4)), torch.zeros(2, 8)
METAS = [{"file": "a.jpg", "img_shape": (8, 8, 3), "scale": numpy.ones(4)}]


@pytest.mark.parametrize(
    ("inputs", "layers"),
    [
        ({"x": X, "skip": [1, 2]}, 2),
        ({"x": X, "skip": (0, 2)}, 2),
        ({"skip": [3], "x": X}, 3),
        ((X, [0, 2], "loss"), 2),
        ([X, (0, 1, 2)], 1),
        (([X], {"skip": [1], "mode": "512x512"}), 3),
        ({"x": X, "mode": ["a cat", "a dog"], "metas": METAS}, 4),
        ({"x": X, "options": {"skip": (1, 2, 3)}}, 1),
        ({"x": X.numpy(), "skip": (0, 2)}, 2),
        ({"x": (2, 8), "skip": [1, 2]}, 2),
        ({"x": (2, 8), "mode": "loss", "metas": flopwise.Value(METAS)}, 4),
        ({"x": (2, 8), "mode": ["a cat", "a dog"]}, 4),
        (([(2, 8)], {"mode": "tensor", "skip": [0]}), 3),
        ({"x": "2x8", "mode": "loss"}, 4),
        ({"x": "f32:2x8", "skip": [0, 1]}, 2),
        (["x:f32:2x8", "mode:value:'loss'", "skip:value:[1]"], 3),
    ],
    ids=str,
)
def test_python_values_beside_a_tensor_are_what_they_are(inputs: Any, layers: int) -> None:
    profile = flopwise.profile(OfPython(), inputs)
    assert (profile.total("macs"), profile.exact) == (layers * 2 * 64, True)


@pytest.mark.parametrize("pair", [BATCH, Slotted(*BATCH)], ids=["with names", "with slots"])
def test_an_object_of_ones_own_is_an_argument(pair: Any) -> None:
    for inputs in (pair, (pair,), [pair], {"pair": pair}, ((pair,), {}), flopwise.Value(pair)):
        profile = flopwise.profile(OfPairs(), inputs)
        assert (profile.total("macs"), len(profile.graph.inputs), profile.exact) == (80, 2, True)


def test_an_array_and_a_packed_sequence_alone() -> None:
    assert flopwise.profile(LAYER, numpy.zeros((3, 4), "float32")).total("macs") == 60
    packed = nn.utils.rnn.pack_sequence([torch.zeros(n, 6) for n in (7, 3, 1)])
    for inputs in (packed, (packed,), {"input": packed}):
        assert flopwise.profile(nn.LSTM(6, 8), inputs).total("macs") == 11 * 4 * 8 * 14


def test_a_parameter_says_what_it_takes() -> None:
    """By its annotation or its default, whatever stands beside it."""

    class Says(nn.Module):
        def forward(
            self, x: torch.Tensor, y: torch.Tensor | None, size: tuple[int, int] | None = None, order: Any = ()
        ) -> Any:
            assert size == (5, 3)
            assert order == (4, 4)
            return x @ y

    for x in (torch.zeros(2, 3), (2, 3)):
        assert flopwise.profile(Says(), {"x": x, "y": (3, 4), "size": (5, 3), "order": (4, 4)}).total("macs") == 24


def test_what_may_be_meant_otherwise_is_said_in_the_error() -> None:
    def scaled(x: Any, size: Any) -> Any:
        return nn.functional.interpolate(x, size=size)

    with pytest.raises(ModelError, match=r"'size' was read as the shape of a tensor; flopwise.Value\(\(4, 4\)\) hands"):
        flopwise.profile(scaled, {"x": (1, 3, 8, 8), "size": (4, 4)})
    with pytest.raises(ModelError, match=r"'y' was handed over as it is, .* torch.empty\(\(4, 4\), device='meta'\)"):
        flopwise.profile(lambda x, y: x @ y.mT, {"x": torch.zeros(3, 4), "y": (4, 4)})
    with pytest.raises(InputError, match=r"flopwise.Value\('loss'\)"):
        flopwise.profile(OfPython(), ["x:2x8", "mode:loss"])
    for wrong in (3, True, object()):
        with pytest.raises(InputError, match=r"flopwise\.Value"):
            flopwise.profile(LAYER, wrong)


class OfNumbers(nn.Module):
    """A layer behind what a program does with whole numbers."""

    def __init__(self, rule: Any) -> None:
        super().__init__()
        self.embed, self.layer, self.rule = nn.Embedding(40, 16), nn.Linear(16, 4), rule
        self.eval()

    def forward(self, x: Any, ids: Any, attention_mask: Any = None) -> Any:
        return self.rule(self, x, ids if attention_mask is None else attention_mask)


def padded(m: Any, x: Any, ids: Any) -> Any:
    """Asks for elements, and does the same whatever they are."""
    if (ids == 0).any():
        print("padding")
    return m.layer(m.embed(ids))


def marked(m: Any, x: Any, ids: Any) -> Any:
    x = x.clone()
    x[ids == 3] = 0
    return m.layer(x)


def by_expert(m: Any, x: Any, ids: Any) -> Any:
    for expert in range(3):
        (places,) = torch.where(ids == expert)
        x = x.index_add(0, places, m.layer(x[places]).repeat(1, 4))
    return x


def held(m: Any, x: Any, ids: Any) -> Any:
    flags = torch.zeros(20, dtype=torch.bool)
    flags[ids] = True
    return m.layer(x[flags])


def branching(m: Any, x: Any, ids: Any) -> Any:
    return m.layer(x) if (ids == 3).any() else x


#: What a program does with whole numbers of which only the shape is given, MACs, and the word that says on what they
#: rest: nothing where they are exact.
_NUMBERS_MADE_UP = [
    (lambda m, x, ids: m.layer(m.embed(ids)), 1280, ""),
    (padded, 1280, ""),
    (marked, 1280, ""),
    (lambda m, x, ids: m.layer(x.index_add(0, ids, x)), 1280, ""),
    (lambda m, x, ids: m.layer(x[ids != 0]), 1280, "choose"),
    (lambda m, x, ids: m.layer(x[ids.argsort() > 3]), 1280, "choose"),
    (lambda m, x, ids: m.layer(x[(ids > 0).nonzero()[:, 0]]), 1280, "choose"),
    (lambda m, x, ids: m.layer(torch.masked_select(x, (ids > 0)[:, None]).view(-1, 16)), 1280, "choose"),
    (held, 1280, "choose"),
    (by_expert, 3 * 1280, "choose"),
    (branching, 0, "decide"),
    (lambda m, x, ids: m.layer(x[: int(ids.max())]), 0, "decide"),
    (lambda m, x, ids: m.layer(x[: torch.tensor([ids[0], ids[1]]).max()]), 0, "decide"),
    (lambda m, x, ids: m.layer(x.repeat_interleave(ids, 0)), 0, "decide"),
    (lambda m, x, ids: m.layer(m.embed(ids.unique())), 64, "decide"),
    (lambda m, x, ids: m.layer(torch.zeros(int(ids.max()) + 1, 16).index_add(0, ids, x)), 64, "decide"),
    (lambda m, x, ids: m.layer(torch.cat(x[: int(ids.sum())].split(ids.tolist()))), 0, "decide"),
]


@pytest.mark.parametrize(("rule", "macs", "word"), _NUMBERS_MADE_UP)
def test_what_rests_on_numbers_that_are_made_up_is_not_exact(rule: Any, macs: int, word: str) -> None:
    model = OfNumbers(rule)
    for inputs in ({"x": (20, 16), "ids": (20,)}, ["x:f32:20x16", "ids:i64:20"]):
        profile = flopwise.profile(model, inputs)
        assert (profile.total("macs"), profile.exact) == (macs, not word)
        notes = [note for note in profile.notes if "-i ids:i64:20:@ids.npy" in note]
        assert len(notes) == bool(word)
        assert not word or word in notes[0]


def test_real_numbers_are_exact() -> None:
    for ids, rows in ((torch.arange(20), 19), (torch.zeros(20, dtype=torch.int64), 0)):
        profile = flopwise.profile(
            OfNumbers(lambda m, x, ids: m.layer(x[ids != 0])), {"x": torch.zeros(20, 16), "ids": ids}
        )
        assert (profile.total("macs"), profile.exact) == (rows * 64, True)


def test_a_mask_that_is_made_up_hides_nothing() -> None:
    def whole(m: Any, x: Any, mask: Any) -> Any:
        return m.layer(x) if mask.all() else x

    inputs = {"x": (20, 16), "ids": (20,), "attention_mask": (20,)}
    profile = flopwise.profile(OfNumbers(whole), inputs)
    assert (profile.total("macs"), profile.exact) == (1280, True)
    profile = flopwise.profile(OfNumbers(lambda m, x, mask: m.layer(x[mask.bool()])), inputs)
    assert (profile.total("macs"), profile.exact) == (1280, False)
    assert "-i attention_mask:i64:20:@attention_mask.npy" in profile.notes[0]


def test_formulas_end_where_numbers_that_are_made_up_decide() -> None:
    inputs = {"x": ("n", 16), "ids": ("n",)}
    for rule in (padded, lambda m, x, ids: m.layer(x[ids != 0])):
        assert flopwise.formula(OfNumbers(rule), inputs).at(n=7)["macs"] == 7 * 64
    for rule in (lambda m, x, ids: m.layer(x[: int(ids.max())]), branching):
        formula = flopwise.formula(OfNumbers(rule), inputs)
        assert "MACs                ≥ 0" in str(formula)
        assert any("the formulas end where" in note for note in formula.notes)


def test_an_error_names_the_numbers_that_were_made_up() -> None:
    def packed(m: Any, x: Any, ids: Any) -> Any:
        return nn.utils.rnn.pack_padded_sequence(x[None], ids[:1], batch_first=True).data

    with pytest.raises(ModelError, match="'ids' were made up, because only the shape is given: give -i ids:i64:20"):
        flopwise.profile(OfNumbers(packed), {"x": (20, 16), "ids": (20,)})


@pytest.mark.parametrize(
    "program",
    [
        lambda m, x, ids: x[ids],
        lambda m, x, ids: nn.functional.embedding(ids, x),
        lambda m, x, ids: nn.functional.one_hot(ids),
        lambda m, x, ids: x.repeat_interleave(ids, 0),
        lambda m, x, ids: nn.functional.cross_entropy(x, ids),
    ],
)
def test_an_error_for_want_of_whole_numbers_names_the_type(program: Any) -> None:
    model = OfNumbers(program)
    model.forward = lambda x, other: program(model, x, other)
    with pytest.raises(ModelError, match=r"'other', 'x' made as float32, .* in Python 'other:i64:20'$"):
        flopwise.profile(model, {"x": (20, 16), "other": (20,)})
    with pytest.raises(ModelError, match=r"cannot be multiplied \(20x3 and 16x4\) \(.*\)$"):
        flopwise.profile(OfNumbers(lambda m, x, ids: m.layer(x)), {"x": (20, 3), "ids": (20,)})


def test_formulas_hand_values_over() -> None:
    for inputs in (
        {"x": ("batch", 8), "skip": [1, 2], "mode": "loss"},
        ([("batch", 8)], {"skip": flopwise.Value((1, 2))}),
        ["x:f32:batchx8", "skip:value:[0, 1]"],
    ):
        assert flopwise.formula(OfPython(), inputs).at(batch=5)["macs"] == 2 * 5 * 64


def test_operators_that_repeat_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share their attributes, so that a long program takes no longer than a long file."""
    from flopwise.profiles import count as counting

    counted: list[str] = []
    monkeypatch.setattr(counting, "count", lambda node, rules: counted.append(node.op) or count(node, rules))
    steps = [nn.Softmax(-1), nn.ELU(2.0), nn.ELU(), nn.Softmax(0)]
    profile = flopwise.profile(nn.Sequential(*(steps * counting.MANY)), (4, 3))
    assert len(profile.rows) == len(steps) * counting.MANY
    assert len(counted) < 10
    assert profile.total("flops") == counting.MANY * flopwise.profile(nn.Sequential(*steps), (4, 3)).total("flops")


@pytest.mark.parametrize(
    "asked",
    [
        lambda ids: (ids == 49).any(),
        lambda ids: 50 in ids,
        lambda ids: ids.max() > 40,
        lambda ids: (ids > 5).sum() == 1,
    ],
    ids=["any", "in", "max", "sum"],
)
def test_what_a_special_number_would_decide_is_not_exact(asked: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear = nn.Embedding(100, 8), nn.Linear(8, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            rows = self.table(ids)
            return self.linear(rows) if asked(ids) else rows

    profile = flopwise.profile(Branch().eval(), {"ids": "i64:2x4"})
    assert not profile.exact
    assert any("@ids.npy" in note for note in profile.notes)


def test_a_question_that_changes_nothing_leaves_a_count_exact() -> None:
    class Checked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(100, 8)
            self.padded = False

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            if (ids == 49).any():
                self.padded = True
            if (ids < 0).any():
                raise ValueError("no such token")
            while (ids > 5).any() and self.training:
                ids = ids - 1
            return self.table(ids)

    assert flopwise.profile(Checked().eval(), {"ids": "i64:2x4"}).exact


def test_a_mask_of_padding_of_torch_hides_nothing() -> None:
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    shapes = {"src": (2, 4, 8), "src_key_padding_mask": "bool:2x4"}
    real = {"src": torch.rand(2, 4, 8), "src_key_padding_mask": torch.zeros(2, 4, dtype=torch.bool)}
    by_shape, as_it_is = (flopwise.profile(layer, inputs, masked="needed") for inputs in (shapes, real))
    assert by_shape.total("macs") == as_it_is.total("macs") > 0


# What masks leave of attention: equal to asking every pair of a query and a key.


B, H, S, T, D = 2, 4, 6, 9, 8


class Attention(nn.Module):
    """Attention with a mask that is a constant of the program."""

    def __init__(self, mask: Any = None, is_causal: bool = False) -> None:
        super().__init__()
        self.mask = mask
        self.is_causal = is_causal

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.is_causal)


def _needed(model: Any, *shapes: tuple[int, ...]) -> int:
    profile = flopwise.profile(model, list(shapes))
    (row,) = (row for row in profile.rows if row.needed is not None)
    assert row.macs == shapes[0][0] * shapes[0][1] * shapes[0][2] * shapes[1][2] * 2 * D
    assert profile.to_dict()["layers"][profile.rows.index(row)]["needed_macs"] == row.needed_macs
    assert profile.to_dict()["totals"]["needed_macs"] == profile.total("needed_macs") == row.needed_macs
    counted = flopwise.profile(model, list(shapes), masked="needed", convention="macs")
    assert counted.total("count") == row.needed_macs
    assert any(note.startswith("masks: ") for note in profile.notes) is (row.needed_macs != row.macs)
    return row.needed_macs  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(10))
def test_needed_work_is_what_a_thousand_random_masks_leave(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(B, H, S, T), (B, 1, S, T), (1, 1, S, T), (S, T), (B, 1, 1, T), (H, S, T), (1, T)]
    masks = [torch.rand(shapes[n % 7], generator=generator) < (n % 11) / 10 for n in range(100)]

    class Many(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            for number, mask in enumerate(masks):
                bias = mask if number % 2 else torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
                q = scaled_dot_product_attention(q, k, v, bias)
            return q

    profile = flopwise.profile(Many(), [(B, H, S, D), (B, H, T, D), (B, H, T, D)])
    rows = [row.needed_macs for row in profile.rows if row.needed is not None]
    assert rows == [int(mask.expand(B, H, S, T).sum()) * 2 * D for mask in masks]


def test_a_causal_mask_halves_what_is_needed() -> None:
    allowed = torch.ones(S, T, dtype=torch.bool).tril()
    assert _needed(Attention(is_causal=True), (B, H, S, D), (B, H, T, D), (B, H, T, D)) == B * H * allowed.sum() * 2 * D
    assert _needed(Attention(), (B, H, S, D), (B, H, T, D), (B, H, T, D)) == B * H * S * T * 2 * D


def test_a_mask_that_the_program_makes_of_positions() -> None:
    class Windowed(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            i = torch.arange(q.shape[-2], device=q.device)[:, None]
            j = torch.arange(k.shape[-2], device=q.device)
            mask = (j <= i) & (j > i - 3)
            return scaled_dot_product_attention(q, k, v, mask)

    shape = (1, 2, 3000, D)
    assert _needed(Windowed(), shape, shape, shape) == 2 * (1 + 2 + 3 * 2998) * 2 * D


def test_a_mask_of_the_input_leaves_what_the_modules_own_window_leaves_at_most() -> None:
    class Own(nn.Module):
        is_causal, sliding_window = True, 3

        def forward(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
            return scaled_dot_product_attention(q, k, v, bias)

    profile = flopwise.profile(Own(), [(1, 2, 5, D)] * 3 + [(1, 1, 5, 5)])
    assert profile.total("needed_macs") == 2 * (1 + 2 + 3 * 3) * 2 * D


@pytest.mark.filterwarnings("ignore")
def test_a_block_mask_of_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    lengths = torch.tensor([5, 200])
    rules = {
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: (q >= k) & (q - k < 7),
        "padding": lambda b, h, q, k: k < lengths[b],
    }
    for rule in rules.values():
        mask = create_block_mask(rule, 2, None, 256, 256, device="cpu")

        class Flex(nn.Module):
            def __init__(self, mask: Any) -> None:
                super().__init__()
                self.mask = mask

            def forward(self, q: Any, k: Any, v: Any) -> Any:
                return flex_attention(q, k, v, block_mask=self.mask)

        index = torch.arange(256)
        rows = [rule(torch.tensor(b), 0, index[:, None], index[None]).expand(256, 256).sum() for b in range(2)]
        assert _needed(Flex(mask), *[(2, 3, 256, D)] * 3) == 3 * sum(rows) * 2 * D


#: Borders of sequences that lie in a row, and the pairs within them.
RAGGED = [([0, 3, 8], 9 + 25), ([0, 1, 8], 1 + 49), ([0, 8], 64), ([0, 0, 8], 64)]


class Varlen(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Any, k: Any, v: Any, borders: Any) -> Any:
        from torch.nn.attention.varlen import varlen_attn

        return varlen_attn(q, k, v, borders, borders, 8, 8, **self.options)


class Jagged(nn.Module):
    def forward(self, q: Any, k: Any, v: Any, borders: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = [torch.nested.nested_tensor_from_jagged(x, borders).transpose(1, 2) for x in (q, k, v)]
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(*heads).transpose(1, 2).values()


def _in_a_row(borders: Any, heads: int = H) -> list[Any]:
    return [torch.rand(8, heads, D), torch.rand(8, heads, D), torch.rand(8, heads, D), borders]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("module", [Varlen(), Jagged()], ids=["varlen", "jagged"])
@pytest.mark.parametrize(("borders", "pairs"), RAGGED)
def test_sequences_in_a_row_attend_to_themselves_alone(module: Any, borders: list[int], pairs: int) -> None:
    pytest.importorskip("torch.nn.attention.varlen")
    profile = flopwise.profile(module, _in_a_row(torch.tensor(borders, dtype=torch.int32)))
    assert profile.exact
    assert profile.total("macs") == H * pairs * 2 * D


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("module", [Varlen(), Jagged()], ids=["varlen", "jagged"])
def test_the_gradient_of_sequences_in_a_row_is_that_of_each_alone(module: Any) -> None:
    pytest.importorskip("torch.nn.attention.varlen")
    q, k, v, borders = _in_a_row(torch.tensor([0, 3, 8], dtype=torch.int32))
    together = flopwise.profile(module, [*(x.requires_grad_() for x in (q, k, v)), borders], train=True)
    alone = [
        flopwise.profile(Plain(), [torch.rand(1, H, n, D, requires_grad=True) for _ in range(3)], train=True)
        for n in (3, 5)
    ]
    for figure in ("backward_macs", "backward_flops"):
        assert together.total(figure) == sum(profile.total(figure) for profile in alone)


class Plain(nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return scaled_dot_product_attention(q, k, v)


def test_a_window_leaves_fewer_pairs_of_sequences_in_a_row() -> None:
    pytest.importorskip("torch.nn.attention.varlen")
    given = _in_a_row(torch.tensor([0, 3, 8], dtype=torch.int32))
    profile = flopwise.profile(Varlen(window_size=(-1, 0)), given)
    assert profile.total("macs") == H * (9 + 25) * 2 * D
    assert profile.total("needed_macs") == H * (6 + 15) * 2 * D


def test_sequences_of_unknown_lengths_are_uncounted_and_never_zero() -> None:
    pytest.importorskip("torch.nn.attention.varlen")
    shapes = {"q": (8, H, D), "k": (8, H, D), "v": (8, H, D), "borders": "i32:3"}
    profile = flopwise.profile(Varlen(), shapes)
    assert [row.counts for row in profile.rows] == [None]
    assert not profile.exact
    assert any(note.startswith("uncounted: aten::ragged_attention") for note in profile.notes)
