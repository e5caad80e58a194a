"""MODEL on the command line: one file, one URL, or every model in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from flopwise._user_code import place_of, user_code
from flopwise.cli import BAD, NO
from flopwise.cli.streams import Progress, say
from flopwise.errors import FlopwiseError, InputError, UnknownDimensionError, did_you_mean
from flopwise.formats.sources.text import text_of_file
from flopwise.formats.table import LANGUAGE, is_one_model, models_in, stored_in
from flopwise.operators.operator import Operator
from flopwise.operators.own import Rules, own_rows, using

T = TypeVar("T")

#: Called with what is being done.
Step = Callable[[str], None]


def find(model: str) -> list[str]:
    """The model files that MODEL names, in order of their names; for a directory without models, its weights.

    Raises:
        ModelError: a directory holds none.
    """
    return models_in(model) if is_collection(model) else [model]


def find_stored(model: str) -> list[str]:
    """The files with stored tensors that MODEL names: as ``find``, and in a directory also files without a graph.

    Raises:
        ModelError: a directory holds none.
    """
    return stored_in(model) if is_collection(model) else [model]


def is_collection(model: str) -> bool:
    """True where MODEL is a directory of models and not the directory of one model."""
    return os.path.isdir(model) and not LANGUAGE.match(model) and not is_one_model(model)


def refuse_directory(model: str, why: str) -> None:
    """Refuse a directory of models where one model is needed.

    Raises:
        InputError: MODEL is one.
    """
    if is_collection(model):
        raise InputError(f"{model}: is a directory; {why}")


def each(
    models: Sequence[str], work: Callable[[str, Step, dict[str, int]], T], dims: Mapping[str, int] | None = None
) -> tuple[dict[int, T], list[str]]:
    """The result of ``work`` for each model, by its place among them, and the errors of those that failed.

    With one model an error is raised at once.

    Args:
        models: their paths.
        work: path of a model, what to call with each step, and the sizes of ``--dim`` that the model takes -> a result.
        dims: the sizes of ``--dim``; each model takes those of the dimensions that it has.

    Raises:
        InputError: no model has a dimension of such a name.
    """
    results: dict[int, T] = {}
    errors: list[str] = []
    sizes = _Sizes(dims or {}, len(models) > 1)

    def result(place: int, model: str) -> T:
        label = f"{place + 1} of {len(models)}: {os.path.basename(model)}: " if len(models) > 1 else ""
        return sizes.call(lambda own: work(model, lambda step: progress(label + step), own))

    with Progress() as progress:
        for place, model in enumerate(models):
            try:
                results[place] = result(place, model)
            except FlopwiseError as error:
                if len(models) == 1:
                    raise
                errors.append(str(error))
    sizes.check()
    return results, errors


def exit_code(errors: Sequence[str], answer: bool) -> int:
    """The exit code of a command, after a line on stderr for each model that failed.

    Args:
        errors: of the models that failed.
        answer: whether the answer is yes where none failed.
    """
    for error in errors:
        say(error)
    return BAD if errors else 0 if answer else NO


class _Sizes:
    """The sizes of ``--dim`` for one model or several, of which each takes those of the dimensions that it has."""

    def __init__(self, sizes: Mapping[str, int], several: bool) -> None:
        self._sizes, self._several = dict(sizes), several
        self._taken: set[str] = set()
        self._dimensions: set[str] = set()

    def call(self, read: Callable[[dict[str, int]], T]) -> T:
        """The result of ``read`` for the sizes that its model takes.

        Raises:
            UnknownDimensionError: there is one model, and it has no such dimension.
        """
        sizes = dict(self._sizes)
        while True:
            try:
                result = read(sizes)
            except UnknownDimensionError as error:
                if not self._several:
                    raise
                self._dimensions.update(error.dimensions)
                sizes.pop(error.name)
            except InputError:  # such as another dimension without a size
                self._taken.update(sizes)
                raise
            else:
                self._taken.update(sizes)
                return result

    def check(self) -> None:
        """Refuse a size that no model has taken.

        Raises:
            InputError: there is one.
        """
        for name in sorted(self._sizes.keys() - self._taken) if self._several else ():
            there = ", ".join(sorted(self._dimensions | self._taken)) or "none"
            raise InputError(
                f"--dim {name}: no model has a dimension of this name; the symbolic dimensions are: {there}"
            )


def load_rules(path: str | None) -> Rules | None:
    """The user's own rules: the mapping RULES of a Python file, which is executed.

    Raises:
        InputError: the file is not there, fails, or has no RULES.
    """
    if path is None:
        return None
    import click

    rules = executed_file(path).get("RULES")
    if not isinstance(rules, Mapping) or not all(callable(r) or isinstance(r, Operator) for r in rules.values()):
        raise InputError(f'{path}: defines no RULES = {{"MyOp": rule}}, where a rule takes a Node and returns Counts')
    context = click.get_current_context(silent=True)
    if context is not None:
        context.with_resource(using(own_rows(rules)))
    return rules


def executed_file(path: str) -> dict[str, object]:
    """The names that a Python file of the user defines; it is executed.

    Raises:
        InputError: the file is not there, or fails.
    """
    import runpy

    try:
        text_of_file(path)  # a device would be read for ever
        with user_code(path, "it was executed"):
            return runpy.run_path(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except FlopwiseError:
        raise
    except Exception as error:  # whatever the user's file raises is the user's to see, on one line
        raise InputError(f"{path}: failed with {type(error).__name__}: {error}{place_of(error)}") from error


def idle_rules(path: str | None, rules: Mapping[str, object] | None, operators: Collection[str]) -> list[str]:
    """Warnings of rules for operators that neither the models have nor the tables know: a name may be wrong."""
    from flopwise.operators.tables import ROWS

    return [
        f"{path}: no operator is called {op}, so its rule counts nothing{did_you_mean(op, operators)}"
        for op in rules or ()
        if op not in operators and op not in ROWS
    ]
