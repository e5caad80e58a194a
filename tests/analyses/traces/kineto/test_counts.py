"""The work of single operators of a trace."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from flopwise.analyses.traces.kineto.records import Arguments, Work, work_of


def test_sizes_that_were_not_recorded_are_unknown() -> None:
    """``aten::zero_`` of a tensor whose values were not recorded: its bytes are unknown, not an open size."""
    assert work_of("aten::zero_", Arguments(shapes=((1,),), types=("float",))) == Work("ConstantOfShape", 0, 0)
    assert work_of("aten::relu", Arguments(shapes=((4, 8),), types=("float",))).bytes == 2 * 4 * 8 * 4
