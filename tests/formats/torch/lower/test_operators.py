"""PyTorch's operators have a lowering, or stand here with the reason why they have none and stay unknown."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from flopwise.formats.torch.lower.operators import LOWERINGS  # noqa: E402
from flopwise.operators.tables import NOT_RULED  # noqa: E402

#: Reason -> beginnings or names of operators.
LEFT_OUT = {
    "gradients, which a forward pass does not call": ("backward",),
    "questions about a tensor": ("sym_", "_local_scalar_dense"),
    "comparisons that give no tensor, whose row has the operator's own name": ("equal",),
    "checks, which compute nothing": ("_assert_",),
    "special functions, whose work is the library's choice": ("special_",),
}


def _bare(name: str) -> str:
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@pytest.mark.parametrize("tag", ["core", "pointwise"])
def test_every_tagged_operator_is_known(tag: str) -> None:
    wanted = getattr(torch.Tag, tag)
    missing = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(torch.ops.aten):
            packet = getattr(torch.ops.aten, name, None)
            overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()
            if any(wanted in getattr(packet, o).tags for o in overloads):
                bare = _bare(name)
                if bare not in LOWERINGS and bare.removesuffix("_copy") not in LOWERINGS:
                    missing.add(bare)
    reasons = [part for parts in LEFT_OUT.values() for part in parts]
    assert not {name for name in missing if f"aten::{name}" not in NOT_RULED and not any(r in name for r in reasons)}


def test_operators_without_a_rule_are_unknown_and_never_zero() -> None:
    import flopwise

    class Special(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.lgamma(x) + torch.linalg.svdvals(x)

    profile = flopwise.profile(Special(), (4, 4))
    assert profile.unknown == {"aten::lgamma": 1, "aten::linalg_svdvals": 1}
    assert any("a special function" in note for note in profile.notes)
