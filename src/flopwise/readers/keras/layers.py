"""The layers of a model by their paths, and the names of their variables."""

from __future__ import annotations

from typing import Any


def sublayers(layer: Any) -> dict[str, Any]:
    """The layers that a layer is made of, by their names; those of one name are told apart by numbers.

    Layers that other layers wrap or keep in lists are among them; those that stand for inputs alone are not.
    """
    inner: dict[str, Any] = {}
    for part in [*getattr(layer, "_layers", ())]:
        if part is getattr(layer, "_functional", None) or type(part).__name__ == "InputLayer":
            continue
        name, number = part.name.replace(".", "_") or "layer", 1
        while (key := name if number == 1 else f"{name}_{number}") in inner:
            number += 1
        inner[key] = part
    return inner


def named(variables: Any) -> dict[str, Any]:
    """Variables of a layer by their names; those of one name are told apart by numbers."""
    result: dict[str, Any] = {}
    for variable in variables:
        name, number = variable.name.replace(".", "_"), 1
        while (key := name if number == 1 else f"{name}_{number}") in result:
            number += 1
        result[key] = variable
    return result


def own_variables(layer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The trained variables of a layer itself, and its statistics and states of random numbers, by name."""
    states = [generator.state for generator in getattr(layer, "_seed_generators", ())]
    still = [*getattr(layer, "_non_trainable_variables", ()), *states]
    return named(getattr(layer, "_trainable_variables", ())), named(still)


def paths_of(root: Any) -> dict[int, str]:
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
