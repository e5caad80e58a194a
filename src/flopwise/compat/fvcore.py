"""The functions of ``fvcore.nn``: flops and activations by module and operator, parameters, tables.

They take the same arguments and give the same results and texts as fvcore 0.1.5.post20221221, but the module runs on
meta tensors: no weights are touched. Attention is counted the same whether gradients are on or off; fvcore loses it
when they are off. What fvcore fails on is an error here as well.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from flopwise._arguments import checked
from flopwise.compat.modules import above, parameter_count, parameter_count_table, pipes, rows, shapes, tree
from flopwise.conventions import fvcore as convention
from flopwise.errors import InputError
from flopwise.graph import Graph, Module, Node, Tensor

if TYPE_CHECKING:
    import torch
    from torch import nn
    from typing_extensions import Self

#: A user's rule: the inputs and outputs of an operator -> its count, or counts by name.
Handle: TypeAlias = Callable[[list[Any], list[Any]], Any]

__all__ = [
    "ActivationCountAnalysis",
    "FlopCountAnalysis",
    "activation_count",
    "flop_count",
    "flop_count_str",
    "flop_count_table",
    "parameter_count",
    "parameter_count_table",
]


class _Statistics(NamedTuple):
    """The findings of one run, by canonical name of a module."""

    counts: dict[str, Counter[str]]
    unsupported: dict[str, Counter[str]]
    uncalled: set[str]


class _Analysis:
    """Figures of the operators that run in a module; it runs when the first figure is requested.

    An operator belongs to a module when it ran inside a call of the module.
    """

    #: Operators of a trace that have a rule, and the rule.
    _RULES: ClassVar[Mapping[str, Callable[[convention.Traced], object]]] = {}

    @checked
    def __init__(self, model: nn.Module, inputs: Any) -> None:
        """
        Args:
            model: the module to count.
            inputs: the tuple of its positional arguments, or the only one.
        """
        self._model = model
        self._inputs = inputs
        self._aliases = dict(_aliases(model))
        self._handles: dict[str, Callable[..., Any]] = dict(self._RULES)
        self._own: set[str] = set()
        self._ignored = set(convention.IGNORED)
        self._stats: _Statistics | None = None
        self._graph: Graph | None = None
        self._ancestors = "owner"
        self._tracer = "no_tracer_warning"
        self._warn_unsupported = True
        self._warn_uncalled = True

    def total(self, module_name: str = "") -> Any:
        """The figure of a module, "" for the whole model."""
        return sum(self.by_operator(module_name).values())

    def by_operator(self, module_name: str = "") -> Counter[str]:
        """The figures of a module by operator."""
        return self._analyzed().counts[self.canonical_module_name(module_name)]

    def by_module(self) -> Counter[str]:
        """The figures of all modules."""
        return Counter({name: sum(counts.values()) for name, counts in self._analyzed().counts.items()})

    def by_module_and_operator(self) -> dict[str, Counter[str]]:
        """The figures of all modules, each by operator."""
        return self._analyzed().counts

    def unsupported_ops(self, module_name: str = "") -> Counter[str]:
        """Number of operators of each kind that have no rule and are not ignored.

        Raises:
            RuntimeError: no figure was asked for before.
        """
        if self._stats is None:
            raise RuntimeError("Analysis results should be computed before calling unsupported_ops()")
        return self._stats.unsupported[self.canonical_module_name(module_name)]

    def uncalled_modules(self) -> set[str]:
        """The modules in which nothing ran."""
        return self._analyzed().uncalled

    def set_op_handle(self, *args: Any, **kwargs: Handle | None) -> Self:
        """Give operators rules: pairs of a name ("aten::linear") and a function, or names as keywords.

        A function takes the lists of inputs and outputs and returns a number, or numbers by name. None ignores an
        operator that has no rule.

        Raises:
            TypeError: a name has no function.
        """
        if len(args) % 2:
            raise TypeError("set_op_handle should be called with pairs of names and handles!")
        for name, handle in (*zip(args[::2], args[1::2], strict=True), *kwargs.items()):
            if handle is None:
                self._ignored.add(name)
            else:
                self._handles[name] = handle
                self._own.add(name)
        self._stats = None
        return self

    def clear_op_handles(self) -> Self:
        """Forget all rules."""
        self._handles, self._own, self._stats = {}, set(), None
        self._ignored = set(convention.IGNORED)
        return self

    def canonical_module_name(self, name: str) -> str:
        """The first name of a module that has several.

        Raises:
            KeyError: the model has no such module.
        """
        assert isinstance(name, str), "Module name must be a string."
        if name not in self._aliases:
            raise KeyError("Requested module name is not among the descendants of the analyzed model.")
        return self._aliases[name]

    def copy(self, new_model: nn.Module | None = None, new_inputs: object = None) -> Self:
        """The same settings for another model or other inputs; None keeps those of this one."""
        other = type(self)(
            self._model if new_model is None else new_model, self._inputs if new_inputs is None else new_inputs
        )
        other._handles, other._own, other._ignored = dict(self._handles), set(self._own), set(self._ignored)
        other._warn_unsupported, other._warn_uncalled = self._warn_unsupported, self._warn_uncalled
        other._tracer, other._ancestors = self._tracer, self._ancestors
        return other

    def tracer_warnings(self, mode: str) -> Self:
        """Accepted and without effect, because nothing is traced: "all", "no_tracer_warning" or "none".

        Raises:
            ValueError: the mode is none of these.
        """
        if mode not in ("all", "no_tracer_warning", "none"):
            raise ValueError(f"Unrecognized tracer warning mode {mode}.")
        self._tracer = mode
        return self

    def ancestor_mode(self, mode: str) -> Self:
        """To which modules an operator belongs: to those above the innermost one by name, or to all that are running.

        Args:
            mode: "owner" or "caller".

        Raises:
            ValueError: the mode is neither.
        """
        if mode not in ("owner", "caller"):
            raise ValueError(f"Unrecognized ancestor mode: {mode}")
        self._ancestors = mode
        self._stats = None
        return self

    def unsupported_ops_warnings(self, enabled: bool) -> Self:
        """Log operators without a rule, or not."""
        self._warn_unsupported = enabled
        return self

    def uncalled_modules_warnings(self, enabled: bool) -> Self:
        """Log modules in which nothing ran, or not."""
        self._warn_uncalled = enabled
        return self

    def _analyzed(self) -> _Statistics:
        if self._stats is None:
            self._stats = self._analyze()
            self._warn(self._stats)
        return self._stats

    def _taken(self) -> Graph:
        """The graph of the module, in the mode that each of its modules is in."""
        if self._graph is None:
            self._graph = _read(self._model, self._inputs)
        return self._graph

    def _analyze(self) -> _Statistics:
        names = dict.fromkeys(self._aliases.values())
        statistics = _Statistics({n: Counter() for n in names}, {n: Counter() for n in names}, set(names))
        applied: set[str] = set()
        for paths in _dropouts(self._taken()):
            statistics.uncalled.difference_update(*self._places(paths))
        graph = self._taken()
        for node, is_traced in zip(graph.nodes, convention.traced(graph), strict=True):
            if not is_traced or node.op == convention.UNUSED:
                continue
            scopes, owners = self._places([module.path for module in node.scope])
            statistics.uncalled.difference_update(scopes, owners)
            function = convention.applied(node)
            if function:
                if function in applied:
                    continue
                applied.add(function)
            for one in convention.trace_operators(node):
                counts = self._counted(node, one)
                for name in owners:
                    if counts is not None:
                        statistics.counts[name] += counts
                    elif one.kind not in self._ignored:
                        statistics.unsupported[name][one.kind] += one.times
        return statistics

    def _places(self, paths: Sequence[str]) -> tuple[list[str], set[str]]:
        """Names of the modules around an operator, outermost first, and those to which it belongs."""
        scopes = [self._aliases.get(path, path) for path in paths] or [""]
        return scopes, set(scopes) if self._ancestors == "caller" else set(above(scopes[-1]))

    def _counted(self, node: Node, one: convention.Traced) -> Counter[str] | None:
        """The figures of one operator; None when it has no rule.

        Raises:
            InputError: the rule fails.
        """
        handle = self._handles.get(one.kind)
        if handle is None:
            return None
        if one.kind in self._own:
            inputs, outputs = _values_of(node, one.kind)
            number = handle(inputs, outputs)
            if isinstance(number, Counter):
                return number
            return Counter({one.kind.partition("::")[2] or one.kind: number * one.times})
        number = handle(one)
        if number is None:
            raise InputError(f"fvcore fails on {one.kind} at {node.name!r}, whose shapes its rule does not expect")
        return Counter({one.label: number})

    def _warn(self, analysis: _Statistics) -> None:
        logger = logging.getLogger(__name__)
        if self._warn_unsupported:
            for kind, times in analysis.unsupported[""].items():
                logger.warning("Unsupported operator %s encountered %s time(s)", kind, times)
        if self._warn_uncalled:
            uncalled = sorted(name for name in analysis.uncalled if _has_forward(self._model, name))
            if uncalled:
                logger.warning(
                    "The following submodules of the model were never called during the trace of the graph. They may "
                    "be unused, or they were accessed by direct calls to .forward() or via other python methods. In "
                    "the latter case they will have zeros for statistics, though their statistics will still "
                    "contribute to their parent calling module.\n%s",
                    ", ".join(uncalled),
                )


class FlopCountAnalysis(_Analysis):
    """Multiply-adds of a module, and what else fvcore counts as a flop."""

    _RULES: ClassVar = dict.fromkeys(convention.RULES, lambda one: one.flops)


class ActivationCountAnalysis(_Analysis):
    """Elements of the results of a module's convolutions, linear layers and matrix products."""

    _RULES: ClassVar = dict.fromkeys(convention.ACTIVATIONS, lambda one: one.activations)


# A module as the tool traces it: its graph, each part in its own mode, also in the wrappers of parallel runs.


class Value:
    """An input or output of an operator, with the methods of ``torch._C.Value`` that rules call.

    It stands for its type and for what made it as well, of which rules ask the shape and the members of a list.
    """

    def __init__(self, thing: object) -> None:
        self._thing: Any = thing

    def isCompleteTensor(self) -> bool:  # noqa: N802 - the name that rules call
        """True for a tensor."""
        return isinstance(self._thing, Tensor)

    def toIValue(self) -> object:  # noqa: N802 - the name that rules call
        """The thing itself; None for a tensor."""
        return None if isinstance(self._thing, Tensor) else self._thing

    def type(self) -> Value:
        """Its type, which knows ``sizes`` and ``dim``."""
        return self

    def sizes(self) -> list[int]:
        """The shape of a tensor."""
        return list(self._thing.dims)

    def dim(self) -> int:
        """The number of dimensions of a tensor."""
        return len(self._thing.dims)

    def node(self) -> Value:
        """The node that made it, which knows ``inputs``."""
        return self

    def inputs(self) -> list[Value]:
        """The members of a list; none of anything else."""
        return [Value(thing) for thing in self._thing] if isinstance(self._thing, (list, tuple)) else []


def _values_of(node: Node, kind: str) -> tuple[list[Value], list[Value]]:
    """Inputs in the order of the operator's schema, and outputs."""
    import torch

    arguments = dict(node.arguments)
    outputs = [Value(tensor) for tensor in node.outputs]
    if kind == "aten::_convolution":
        names = ("stride", "padding", "dilation")
        settled = [arguments.get(name) for name in names]
        x, weight, bias = (*node.inputs, None)[:3]
        transposed = node.op == "ConvTranspose"
        flags = [transposed, arguments.get("output_padding", [0]), arguments.get("groups", 1), False, False, True, True]
        return [Value(thing) for thing in (x, weight, bias, *settled, *flags)], outputs
    if kind in ("aten::linear",) and node.op.endswith("_cell"):
        return [Value(tensor) for tensor in node.inputs[:2]], outputs
    packet = getattr(torch.ops.aten, kind.partition("::")[2], None) if kind.startswith("aten::") else None
    if packet is None:
        return [Value(thing) for thing in arguments.values()], outputs
    schema = getattr(packet, packet.overloads()[0])._schema
    named = [("input" if a.name == "self" else a.name, a) for a in schema.arguments]
    values = [
        arguments.pop(
            name, arguments.pop(f"arg{place}", argument.default_value if argument.has_default_value() else None)
        )
        for place, (name, argument) in enumerate(named)
    ]
    return [Value(thing) for thing in values], outputs


def _read(model: nn.Module, inputs: torch.Tensor | Sequence[object]) -> Graph:
    """The graph of a module, each of its modules in the mode that it is in.

    Args:
        model: the module.
        inputs: the tuple of the positional arguments, or the only one: a tensor, a list, a dict.
    """
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    from flopwise.formats.torch.read import read_torch

    args = list(inputs) if type(inputs) is tuple else [inputs]  # a tuple with names is an argument
    if not isinstance(model, (DataParallel, DistributedDataParallel)):
        return read_torch(model, (args, {}), mode="as-is")
    graph = read_torch(model.module, (args, {}), mode="as-is")

    def inside(path: str) -> str:
        """The path of a module under the name that the wrapper has for what it holds."""
        return f"module.{path}" if path else "module"

    program = graph.program._replace(
        modules=tuple(module._replace(path=inside(module.path)) for module in graph.program.modules),
        calls=tuple(call._replace(path=inside(call.path)) for call in graph.program.calls),
    )
    nodes = tuple(
        replace(node, modules=(Module("", ""), *(Module(inside(m.path), m.kind) for m in node.scope)))
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, program=program)


def _dropouts(graph: Graph) -> Iterator[list[str]]:
    """The modules around each call of a dropout layer, the layer last: in eval mode it leaves no node, but a trace."""
    layers = {m.path for m in graph.program.modules if "torch.nn.modules.dropout._DropoutNd" in m.bases}
    for call in graph.program.calls:
        if call.path in layers:
            around = [call.path]
            while call.caller is not None:
                call = graph.program.calls[call.caller]
                around.append(call.path)
            yield around[::-1]


def _aliases(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Every name of a module, and its first one."""
    first: dict[int, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        yield name, first.setdefault(id(module), name)


def _has_forward(model: nn.Module, name: str) -> bool:
    """True for a module that is called: containers have no forward, and nothing runs in an Identity."""
    from torch import nn as modules

    forward = getattr(type(model.get_submodule(name)), "forward", None)
    silent = (modules.ModuleList, modules.ModuleDict, modules.Module, modules.Identity)
    return all(forward is not getattr(kind, "forward", None) for kind in silent)


def _by_operator(
    analysis: _Analysis, supported_ops: Mapping[str, Handle] | None, scale: float
) -> tuple[defaultdict[str, float], Counter[str]]:
    analysis.set_op_handle(**(supported_ops or {}))
    sums: defaultdict[str, float] = defaultdict(float)
    for name, number in analysis.by_operator().items():
        sums[name] = number / scale
    return sums, analysis.unsupported_ops()


@checked
def flop_count(
    model: nn.Module, inputs: tuple[object, ...], supported_ops: Mapping[str, Handle] | None = None
) -> tuple[defaultdict[str, float], Counter[str]]:
    """Giga-flops by operator, and how many operators have no rule.

    Args:
        model: the module.
        inputs: its positional arguments.
        supported_ops: rules of your own.
    """
    return _by_operator(FlopCountAnalysis(model, inputs), supported_ops, 1e9)


@checked
def activation_count(
    model: nn.Module, inputs: tuple[object, ...], supported_ops: Mapping[str, Handle] | None = None
) -> tuple[defaultdict[str, float], Counter[str]]:
    """Mega-activations by operator, and how many operators have no rule.

    Args:
        model: the module.
        inputs: its positional arguments.
        supported_ops: rules of your own.
    """
    return _by_operator(ActivationCountAnalysis(model, inputs), supported_ops, 1e6)


def table_of(
    flops: _Analysis, activations: _Analysis | None, max_depth: int, show_param_shapes: bool
) -> tuple[list[str], list[list[str]]]:
    """Titles and lines of the table of modules."""
    columns, uncalled = _columns(
        flops, activations, ("#parameters or shape" if show_param_shapes else "#parameters", "#flops", "#activations")
    )
    return ["module", *columns], rows(columns, shapes(flops._model), uncalled, max_depth, show_param_shapes)


def _columns(
    flops: _Analysis, activations: _Analysis | None, titles: tuple[str, str, str]
) -> tuple[dict[str, Mapping[str, int | float]], dict[str, set[str]]]:
    """The figures of each column, and the modules that have none."""
    columns: dict[str, Mapping[str, int | float]] = {titles[0]: parameter_count(flops._model)}
    uncalled: dict[str, set[str]] = {}
    for title, analysis in zip(titles[1:], (flops, activations), strict=True):
        if analysis is not None:
            analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
            columns[title] = analysis.by_module()
            uncalled[title] = analysis.uncalled_modules()
    return columns, uncalled


@checked
def flop_count_table(
    flops: FlopCountAnalysis,
    max_depth: int = 3,
    activations: ActivationCountAnalysis | None = None,
    show_param_shapes: bool = True,
) -> str:
    """Parameters, flops and activations of the modules as a Markdown table.

    Args:
        flops: what counted the flops.
        max_depth: how many levels of modules to show.
        activations: what counted the activations; None: no such column.
        show_param_shapes: whether parameters have lines of their own.
    """
    return pipes(*table_of(flops, activations, max_depth, show_param_shapes))


@checked
def flop_count_str(flops: FlopCountAnalysis, activations: ActivationCountAnalysis | None = None) -> str:
    """The printed form of the model with parameters, flops and activations of each module.

    Args:
        flops: what counted the flops.
        activations: what counted the activations; None: without.
    """
    columns, uncalled = _columns(flops, activations, ("#params", "#flops", "#acts"))
    return tree(flops._model, columns, uncalled)
