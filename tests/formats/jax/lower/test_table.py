"""The table of primitives against all that JAX defines."""

import gc
import importlib
import pkgutil

import jax._src.lax as definitions
from jax.extend.core import Primitive, primitives

from flopwise.formats.jax.table import LOWERINGS, SAME
from flopwise.formats.jax.walk import OPENED
from flopwise.operators.tables import find


def defined():
    """The names of all primitives, those of modules of jax.lax that nothing has imported so far among them."""
    for module in pkgutil.walk_packages(definitions.__path__, "jax._src.lax."):
        importlib.import_module(module.name)
    listed = {getattr(primitives, name).name for name in dir(primitives) if name.endswith("_p")}
    own = {
        one.name for one in gc.get_objects() if isinstance(one, Primitive) and type(one).__module__.startswith("jax")
    }
    return listed | own


def test_every_primitive_has_a_rule_or_a_reason():
    left = {name for name in defined() if name not in {*OPENED, *SAME, *LOWERINGS} and find(f"lax::{name}") is None}
    assert not left


def test_every_operator_of_the_table_has_a_row():
    assert not {op for op in SAME.values() if find(op) is None}
