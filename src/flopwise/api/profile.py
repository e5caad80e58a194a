"""``flopwise.profile``: read a model, count it, and know how to print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise import conventions
from flopwise._arguments import checked
from flopwise.api.read import read
from flopwise.conventions import Convention
from flopwise.errors import InputError
from flopwise.formats.options import JaxOptions, Keywords, Options, TorchOptions, is_given, options_of
from flopwise.formats.table import format_of
from flopwise.operators.gradient import BackwardRule
from flopwise.operators.own import Rules, own_rows, using
from flopwise.profiles.count import profile_graph
from flopwise.profiles.notes import Masked
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: The arguments of ``profile`` that say how a graph is counted; the others say how the model is read.
COUNTING = frozenset({"convention", "rules", "fold", "train", "optimizer", "masked", "backward_rules"})


@checked
def profile(
    model: object,
    inputs: object = None,
    *,
    convention: str | Convention = "flops",
    rules: Rules | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: Options | None = None,
    fold: bool | None = None,
    train: bool = False,
    optimizer: str | None = None,
    masked: Masked = "executed",
    backward_rules: Mapping[str, BackwardRule] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **keywords: Unpack[Keywords],
) -> Profile:
    """The cost of a model, per layer and in total.

    Args:
        model: as in ``flopwise.read``.
        inputs: as in ``flopwise.read``.
        convention: how operations are added up: a name from ``flopwise.CONVENTIONS`` or a Convention.
        rules: your own operators: name -> function from Node to Counts, or a whole ``flopwise.Operator`` with its
            gradient, roles, view and shape. They win over the built-in ones.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        options: as in ``flopwise.read``; with ``train``, the mode of a PyTorch model is "train" unless it says
            otherwise.
        fold: whether operators on weights and constants only are left out; None: of a file as the convention does, of a
            program of PyTorch or JAX, which runs them in each call, never.
        train: whether each row also gets its backward pass, and the profile what a training step takes.
        optimizer: with ``train``: "sgd", "momentum", "adam" or "adamw", whose step and state are counted.
        masked: of attention, "executed" counts every score that a kernel computes, "needed" only those that causal,
            sliding-window, block or constant masks leave.
        backward_rules: with ``train``: your own gradients: operator name -> function from Node and the places of the
            inputs whose gradients are wanted to Counts.
        progress: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, the convention is unknown, or an option is for another format.
    """
    if (optimizer is not None or backward_rules) and not train:
        raise InputError("an optimizer and rules for gradients are for a training step: train=True, or --train")
    chosen = conventions.get(convention)
    if chosen.sees == "programs" and of_pytorch(model):
        keywords["program"] = True
    if train and format_of(model).options is JaxOptions:
        raise InputError("the training step of a JAX function is a function: give jax.value_and_grad of its loss")
    if train and format_of(model).options is TorchOptions:
        own = options_of(TorchOptions, options, keywords)
        own.refuse_type()
        options, keywords = replace(own, mode=own.mode or "train", grad=True), {}
    with using(own_rows(rules)):
        graph = read(model, inputs, dims=dims, batch_size=batch_size, options=options, progress=progress, **keywords)
    progress("counting")
    result = profile_graph(graph, chosen, rules, fold, train, masked)
    if train:
        from flopwise.analyses.training import train as with_training

        result = with_training(result, optimizer, backward_rules)
    return result


def of_pytorch(model: object) -> bool:
    """True for models that are PyTorch programs, or can be: those who look at programs have them read with
    ``program=True``, such as tools that count them, and recordings of them.
    """
    return format_of(model).options is TorchOptions


def given_profile(profile: Profile, arguments: Mapping[str, object]) -> Profile:
    """A profile that is given in place of a model.

    Args:
        profile: the profile.
        arguments: those of ``profile`` that are given beside it.

    Raises:
        InputError: one of them says how to read or count the model.
    """
    for name, value in arguments.items():
        if is_given(value):
            raise InputError(f"{name}= does not apply to a profile, which is counted already; give the model")
    return profile
