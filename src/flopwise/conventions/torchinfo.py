"""torchinfo 1.8.0: "mult-adds", the parameters of a layer times the positions of its result.

Source: https://github.com/TylerYep/torchinfo, ``torchinfo/layer_info.py`` and ``model_statistics.py`` of the release
1.8.0 on the Python package index. What the tool does by mistake is reproduced: a linear layer counts once for each row
of the first dimension only, embeddings and norms cost their parameters, and tied parameters count at each place.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flopwise.conventions.calls import Layer, bare, children, layers, parameters, parent_of
from flopwise.conventions.emulation import Tool, convention
from flopwise.graph import Graph, Shape, Submodule, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.extents import product

#: Containers whose truth value is that of their length: an empty one is not a child in the tool's eyes.
_SIZED = frozenset({"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})


def mult_adds(named: Mapping[str, Tensor], kind: str, shape: Shape) -> int:
    """Mult-adds by the names of parameters: ``weight`` and ``bias`` × rows of Y, others × its first two dimensions."""
    convolution = "Conv" in kind.rpartition(".")[2]
    total = 0
    for name, tensor in named.items():
        if name in ("weight", "bias"):
            times = product(shape[:1] + shape[2:]) if convolution else product(shape[:1])
        elif "weight" in name or "bias" in name:
            times = product(shape[:2])
        else:
            continue
        total += tensor.numel * times
    return total


def _of_call(layer: Layer) -> int:
    """Parameters × rows of Y; of a convolution × all positions; of inner weights × the first two dimensions."""
    named = {n: t for n, t in layer.tensors.items() if t.kind == "weight"}
    return mult_adds(named, layer.kind, layer.y.dims)


@dataclass(eq=False)
class Info:
    """One line of the tool's summary: a module that was called, or a container around one."""

    module: Submodule
    depth: int
    parent: Info | None
    leaf: bool
    #: Its parameters with those of the modules in it, by the name from here; a shared one once.
    named: Mapping[str, Tensor] = field(default_factory=dict)
    layer: Layer | None = None
    again: bool = False
    children: list[Info] = field(default_factory=list)
    number: int = 0
    #: The dimension that the tool takes as 1 in arguments and in results of several tensors; None for no such.
    batch_dim: int | None = None

    @property
    def params(self) -> int:
        """Elements of all its parameters."""
        return sum([t.numel for t in self.named.values()])

    @property
    def trainable(self) -> int:
        """The same of those that ask for a gradient."""
        return sum([t.numel for t in self.named.values() if t.grad])

    @property
    def param_bytes(self) -> int:
        """Bytes of all its parameters."""
        return sum([t.numel * _width(t) for t in self.named.values()])

    @property
    def input(self) -> Shape:
        """Shape of its first argument; () without one."""
        inputs = self.layer.inputs[: self.layer.positional] if self.layer is not None else ()
        return self._image_shape(inputs[0].dims) if inputs else ()

    @property
    def output(self) -> Shape:
        """Shape of the first tensor of its result; () without one."""
        outputs = self.layer.outputs if self.layer is not None else ()
        if not outputs:
            return ()
        return self._image_shape(outputs[0].dims) if len(outputs) > 1 else outputs[0].dims

    def _image_shape(self, shape: Shape) -> Shape:
        at = self.batch_dim
        return shape if at is None else (*shape[:at], 1, *shape[at + 1 :])

    @property
    def output_bytes(self) -> int:
        """Bytes of the first tensor of its result."""
        if self.layer is None or not self.layer.outputs:
            return 0
        return product(self.output) * _width(self.layer.y)

    @functools.cached_property
    def macs(self) -> int:
        """Mult-adds of its call; those of a module that holds others are no sum and count nowhere."""
        if self.layer is None or not self.layer.outputs:
            return 0
        return mult_adds(self.named, self.module.kind, self.output)

    def left_over(self, trainable: bool = False) -> int:
        """Elements of parameters that no line inside it has; negative where tied ones count more than once."""
        own = self.trainable if trainable else self.params
        for child in self.children:
            if not child.again:
                own -= (child.trainable if trainable else child.params) if child.leaf else child.left_over(trainable)
        return own


def _width(tensor: Tensor) -> int:
    return BITS.get(tensor.dtype or "float32", 32) // 8


def _parameters_below(infos: Sequence[Submodule]) -> dict[str, dict[str, Tensor]]:
    """For each module its parameters with those of the modules in it, by the name from there; a shared one once."""
    named: dict[str, dict[str, Tensor]] = {module.path: {} for module in infos}
    names: dict[str, set[str]] = {module.path: set() for module in infos}
    for module in infos:
        stored = [(name, tensor) for name, tensor in module.tensors.items() if tensor.kind == "weight"]
        around, inner = module.path, ""
        while True:
            for name, tensor in stored:
                if tensor.name not in names[around]:
                    names[around].add(tensor.name)
                    named[around][inner + name] = tensor
            if not around:
                break
            inner = f"{around.rpartition('.')[2]}.{inner}"
            around = parent_of(around)
    return named


def lines(graph: Graph, batch_dim: int | None = None) -> list[Info]:
    """The lines of the tool's summary: of the calls, or of all modules where the model did not run.

    Args:
        graph: the model.
        batch_dim: the dimension that the tool takes as 1 in arguments and in results of several tensors.
    """
    if not graph.program.modules:
        return []
    modules_by_path = _modules(graph)
    infos = [replace(modules_by_path[layer.path], layer=layer) for layer in layers(graph)]
    if not graph.program.calls:
        infos = [replace(info) for info in modules_by_path.values()]
    paths: set[str] = set()
    for info in infos:
        info.again = info.module.path in paths
        paths.add(info.module.path)
    if graph.program.calls:
        infos = _with_containers(infos, paths)
    _nest(infos)
    for info in infos:
        info.batch_dim = batch_dim
    return infos


def _modules(graph: Graph) -> dict[str, Info]:
    """Each module by its path: what the tool takes as the parent of what it holds."""
    held, below = children(graph), _parameters_below(graph.program.modules)
    infos: dict[str, Info] = {}
    for module in graph.program.modules:
        parent = infos[parent_of(module.path)] if module.path else None
        leaf = not any(
            held[child.path] or not _SIZED & {bare(base) for base in child.bases} for child in held[module.path]
        )
        depth = 0 if parent is None else parent.depth + 1
        infos[module.path] = Info(module, depth, parent, leaf, below[module.path])
    return infos


def _with_containers(called: Sequence[Info], paths: set[str]) -> list[Info]:
    """The lines with the containers around each of them that were not called themselves.

    Args:
        called: the lines.
        paths: of the modules that have a line; those of the containers come in.
    """
    infos: list[Info] = []
    shown: dict[int, Info] = {}
    for info in called:
        around, parent = [], info.parent
        while parent is not None and parent.depth > 0:
            around.append(parent)
            parent = parent.parent
        last = infos[-1] if infos else called[-1]
        for container in reversed(around):
            depth = container.depth
            if (depth not in shown or shown[depth].module is not container.module) and container is not last:
                container.again = container.again or container.module.path in paths
                paths.add(container.module.path)
                shown[depth] = last = container
                infos.append(container)
        shown = {depth: other for depth, other in shown.items() if depth < info.depth} | {info.depth: info}
        infos.append(info)
    return infos


def _nest(infos: Sequence[Info]) -> None:
    """Number the lines of each depth, and give each line those inside it."""
    numbers: Counter[int] = Counter()
    around: list[Info] = []
    for info in infos:
        numbers[info.depth] += 1
        info.number, info.children = numbers[info.depth], []
        while around and around[-1].depth >= info.depth:
            around.pop()
        for outer in around:
            outer.children.append(info)
        around.append(info)


def totals(infos: Sequence[Info]) -> dict[str, int]:
    """The tool's totals by their names there."""
    sums = dict.fromkeys(
        ("total_params", "trainable_params", "total_mult_adds", "total_param_bytes", "total_output_bytes"), 0
    )
    for info in infos:
        if info.leaf:
            sums["total_mult_adds"] += info.macs
            sums["total_output_bytes"] += 2 * info.output_bytes if info.params else 0
        if info.again:
            continue
        sums["total_params"] += max(info.params if info.leaf else info.left_over(), 0)
        sums["trainable_params"] += max(info.trainable if info.leaf else info.left_over(trainable=True), 0)
        sums["total_param_bytes"] += info.param_bytes if info.leaf else 0
    return sums


def _counted(graph: Graph) -> list[Layer]:
    """The calls that count: those of leaves. Of a file an attention counts nothing, because it holds another module."""
    if graph.program.modules:
        return [info.layer for info in lines(graph) if info.leaf and info.layer is not None]
    return [layer for layer in layers(graph) if layer.kind != "MultiheadAttention"]


#: Classes with parameters, of those that a file may have.
_COSTLY: tuple[str, ...] = (
    *("Conv2d", "ConvTranspose2d", "Linear", "Embedding", "PReLU"),
    *("BatchNorm2d", "InstanceNorm2d", "GroupNorm", "LayerNorm"),
    *("RNN", "GRU", "LSTM"),
)

CONVENTION = convention(
    Tool(
        name="torchinfo",
        title="torchinfo",
        summary="torchinfo's mult-adds: parameters of a layer times the rows or positions of its result.",
        source="torchinfo 1.8.0, torchinfo/layer_info.py and model_statistics.py",
        notes=("torchinfo's mult-adds are right for convolutions and for linear layers of two dimensions",),
        hooks=dict.fromkeys(_COSTLY, _of_call),
        every=_of_call,
        calls=_counted,
        totals={
            "params": lambda graph: (
                totals(lines(graph))["total_params"] if graph.program.modules else parameters(graph)
            ),
            "output_bytes": lambda graph: totals(lines(graph))["total_output_bytes"],
        },
    )
)
