"""Modules that are made when somebody asks for them."""

import copy
import pickle
from dataclasses import replace

from flopwise.graph import Module, Node


def modules(name: str) -> tuple[Module, ...]:
    return (Module(name.rpartition("/")[0], ""),)


def test_a_function_stands_for_the_modules_of_its_name() -> None:
    plain = Node("Relu", "a/b", (), (), modules=(Module("a", ""),))
    node = Node("Relu", "a/b", (), (), modules=modules)
    assert (node.scope, node.module) == (plain.scope, "a")
    for same in (copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
        assert same.scope == plain.scope
    assert replace(node, name="c/d").scope == (Module("c", ""),)
