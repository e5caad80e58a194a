"""What masks leave of attention: equal to asking every pair of a query and a key."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - after the check that torch is there
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import flopwise  # noqa: E402

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
