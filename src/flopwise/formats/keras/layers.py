"""The layers of a model by their paths, and the names of their variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras


def sublayers(layer: keras.Layer) -> dict[str, keras.Layer]:
    """The layers that a layer is made of, by their names; those of one name are told apart by numbers.

    Layers that other layers wrap or keep in lists are among them; those that stand for inputs alone are not.
    """
    inner: dict[str, keras.Layer] = {}
    for part in [*getattr(layer, "_layers", ())]:
        if part is getattr(layer, "_functional", None) or type(part).__name__ == "InputLayer":
            continue
        name, number = part.name.replace(".", "_") or "layer", 1
        while (key := name if number == 1 else f"{name}_{number}") in inner:
            number += 1
        inner[key] = part
    return inner


def named(variables: Iterable[keras.Variable]) -> dict[str, keras.Variable]:
    """Variables of a layer by their names; those of one name are told apart by numbers."""
    result: dict[str, keras.Variable] = {}
    for variable in variables:
        name, number = variable.name.replace(".", "_"), 1
        while (key := name if number == 1 else f"{name}_{number}") in result:
            number += 1
        result[key] = variable
    return result


#: Element types of weights that a model keeps quantized; Keras trains none of them.
_QUANTIZED = frozenset({"int8", "uint8", "int4", "uint4"})


def own_variables(layer: keras.Layer) -> tuple[dict[str, keras.Variable], dict[str, keras.Variable]]:
    """The weights of a layer itself, frozen and quantized ones too, and its statistics and states of random numbers."""
    trained = getattr(layer, "_trainable_variables", ())
    still = getattr(layer, "_non_trainable_variables", ())
    quantized = [variable for variable in still if str(variable.dtype) in _QUANTIZED]
    statistics = [variable for variable in still if str(variable.dtype) not in _QUANTIZED]
    states = [generator.state for generator in getattr(layer, "_seed_generators", ())]
    return named([*trained, *quantized]), named([*statistics, *states])


def weights_of(root: keras.Layer) -> set[int]:
    """The ids of the variables of a model that are weights."""
    weights: set[int] = set()
    seen: set[int] = set()
    rest = [root]
    while rest:
        layer = rest.pop()
        if id(layer) not in seen:
            seen.add(id(layer))
            weights |= {id(variable) for variable in own_variables(layer)[0].values()}
            rest += sublayers(layer).values()
    return weights


def paths_of(root: keras.Layer) -> dict[int, str]:
    """The path of each variable of a model, by its id."""
    paths: dict[int, str] = {}
    seen: set[int] = set()
    rest = [(root, "")]
    while rest:
        layer, path = rest.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        for variables in own_variables(layer):
            for name, variable in variables.items():
                paths.setdefault(id(variable), f"{path}{name}")
        rest += [(part, f"{path}{name}.") for name, part in sublayers(layer).items()]
    return paths
