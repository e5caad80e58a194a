"""Modules that are made when somebody asks for them."""

import copy
import pickle
from dataclasses import replace

from flopwise.graph import Module, Node
from flopwise.graph.construction import constructor


def modules(name: str) -> tuple[Module, ...]:
    return (Module(name.rpartition("/")[0], ""),)


def test_a_function_stands_for_the_modules_of_its_name() -> None:
    plain = Node("Relu", "a/b", (), (), scope=(Module("a", ""),))
    for node in (Node("Relu", "a/b", (), (), scope=modules), constructor(Node)("Relu", "a/b", (), (), {}, modules)):  # type: ignore[arg-type]
        assert node == plain
        assert (repr(node), node.module) == (repr(plain), "a")
        for same in (copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
            assert same == plain
        assert replace(node, name="c/d").scope == plain.scope
