"""Subgraphs: how often they run, what comes out of them, and what is refused."""

from __future__ import annotations

import pytest
from tests.tflite_models import Net, loop

import flopwise


def test_a_loop_runs_as_often_as_its_condition_holds() -> None:
    profile = flopwise.profile(loop(5))
    assert {row.name: row.node.times for row in profile.rows} == {
        "end": 1,
        "end/cond/flag": 6,
        "end/body/more": 5,
        "end/body/twice": 5,
    }
    assert profile.total("flops") == 6 + 5 + 5 * 4
    with pytest.raises(flopwise.InputError, match="runs 5 times, not 7"):
        flopwise.profile(loop(5), trips={"end": 7})


def test_a_loop_that_the_data_end_asks_for_its_trips() -> None:
    open_, stated = flopwise.profile(loop(None)), flopwise.profile(loop(None), trips={"end": 3})
    assert not open_.exact
    assert "give it with --trip end=N" in " ".join(open_.graph.warnings)
    assert stated.total("flops") == 4 * (4 + 1) + 3 * (1 + 4)
    with pytest.raises(flopwise.InputError, match="no loop is named 'other'"):
        flopwise.profile(loop(None), trips={"other": 3})


def test_the_dearer_branch_counts() -> None:
    net = Net()
    g, then, other = net.main, net.subgraph(), net.subgraph()
    for branch, times in ((then, 1), (other, 3)):
        x = branch.tensor((1, 4), name="x")
        branch.inputs = [x]
        for number in range(times):
            y = branch.tensor((1, 4), name=f"y{number}")
            branch.add("EXP", [x], [y])
            x = y
        branch.outputs = [x]
    flag, x, y = g.tensor((), "bool", name="flag"), g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y")
    g.add("IF", [flag, x], [y], {0: ("int32", 1), 1: ("int32", 2)})
    g.inputs, g.outputs = [flag, x], [y]
    assert flopwise.profile(net.bytes()).total("flops") == 12


def test_a_call_runs_its_subgraph_and_call_once_does_not() -> None:
    net = Net()
    g, called = net.main, net.subgraph()
    x, y = called.tensor((1, 4), name="x"), called.tensor((1, 4), name="y")
    called.add("TANH", [x], [y])
    called.inputs, called.outputs = [x], [y]
    x, y = g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y")
    g.add("CALL_ONCE", [], [], {0: ("int32", 1)})
    g.add("CALL", [x], [y], {0: ("uint32", 1)})
    g.inputs, g.outputs = [x], [y]
    profile = flopwise.profile(net.bytes())
    assert profile.total("flops") == 4
    assert [row.name for row in profile.rows if row.count] == ["y/body/y"]


def test_a_subgraph_that_runs_itself_is_refused() -> None:
    net = Net()
    g = net.main
    x, y = g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y")
    g.add("CALL", [x], [y], {0: ("uint32", 0)})
    g.inputs, g.outputs = [x], [y]
    with pytest.raises(flopwise.ModelError, match="subgraph 0 runs itself"):
        flopwise.read(net.bytes())


def test_subgraphs_that_double_each_other_are_refused() -> None:
    net = Net()
    for number in range(25):
        g = net.main if number == 0 else net.subgraph()
        x, y, z = (g.tensor((1, 4), name=name) for name in "xyz")
        for one, other in ((x, y), (y, z)):
            g.add("CALL" if number < 24 else "TANH", [one], [other], {0: ("uint32", number + 1)})
        g.inputs, g.outputs = [x], [z]
    with pytest.raises(flopwise.ModelError, match="more than 100,000 operators beyond those in the file"):
        flopwise.read(net.bytes())


def test_variables_are_states() -> None:
    net = Net()
    g = net.main
    handle, value = g.tensor((), "resource", name="handle"), g.tensor((1, 4), name="value")
    x, y = g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y")
    g.add("VAR_HANDLE", [], [handle], {})
    g.add("READ_VARIABLE", [handle], [value], {})
    g.add("ADD", [value, x], [y], {})
    g.add("ASSIGN_VARIABLE", [handle, y], [], {})
    g.inputs, g.outputs = [x], [y]
    profile = flopwise.profile(net.bytes())
    assert profile.exact
    assert profile.total("flops") == 4
