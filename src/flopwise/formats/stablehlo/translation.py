"""A module as a program: calls in place, regions as programs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise._limits import spend
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.stablehlo.lower import translate
from flopwise.formats.stablehlo.program import Body, Closed, Operation, Region, Value, Var, steps_of, type_of

#: Functions that call each other, at most.
_DEEPEST = 200


class Translation:
    """The program of one module."""

    def __init__(self, module: Json) -> None:
        self.functions: Json = module["functions"]
        self.meshes: dict[str, dict[str, int]] = module["meshes"]
        self.left = sum(_size(function["region"]) for function in self.functions.values())
        self.calls: list[str] = []
        self.backward = self.quantized = False

    def main(self) -> Closed:
        """The program of the function ``main``, or of the only one.

        Raises:
            ModelError: there is none, or it is not followed.
        """
        names = [name for name, function in self.functions.items() if function["region"]]
        name = "main" if "main" in names else names[0] if len(names) == 1 else ""
        if not name:
            raise ModelError(f"has no function main (its functions: {', '.join(names[:5]) or 'none'})")
        self.calls.append(name)
        return self.region(self.functions[name]["region"], None, []).closed(())

    def run(self, operations: Sequence[tuple[Any, ...]], region: Region, above: Sequence[str]) -> list[Value]:
        """Add operations to a program; the values that it returns."""
        for said in operations:
            op = Operation(*said)
            self.left -= 1
            spend(repeated_nodes=int(self.left < 0))
            if op.name.endswith(".return"):
                return [region.read(number) for number in op.operands]
            steps, backward = steps_of(op.place)
            self.backward |= backward
            path = steps if not above or steps[: len(above)] == list(above) else [*above, *steps]
            made = translate(self, op, region, path)
            rescaled = any(str(said[1]).startswith("!quant") for _, said in op.results)
            self.quantized |= rescaled and op.name != "stablehlo.uniform_quantize"
            for (number, _), value in zip(op.results, made, strict=True):
                region.values[number] = value
        return []

    def called(self, name: str, arguments: Sequence[Value], region: Region, path: Sequence[str]) -> list[Value] | None:
        """The results of a function, whose operations are added; None where there is none of this name and form.

        Raises:
            ModelError: it calls itself.
        """
        function = self.functions.get(name)
        if function is None or not function["region"] or len(function["region"][0]) != len(arguments):
            return None
        if name in self.calls or len(self.calls) > _DEEPEST:
            raise ModelError(f"function {name[:80]!r} calls itself, or calls go deeper than {_DEEPEST}")
        self.calls.append(name)
        kept = region.values
        inner, operations = function["region"]
        region.values = {number: value for (number, *_), value in zip(inner, arguments, strict=True)}
        results = self.run(operations, region, path)
        region.values = kept
        self.calls.pop()
        return results

    def region(self, body: Body, outer: Region | None, path: Sequence[str]) -> Region:
        """The program of a region of an operation."""
        arguments, operations = body
        region = Region(outer)
        for number, described, _ in arguments:
            region.values[number] = var = Var(type_of(described))
            region.program.invars.append(var)
        region.program.outvars = self.run(operations, region, path)
        return region


def _size(region: Body | None) -> int:
    return sum(1 + sum(map(_size, operation[4])) for operation in region[1]) if region else 0
