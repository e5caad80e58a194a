"""Names of layers, and their kinds in the words of the framework that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from flopwise.graph.graph import Graph, Node

#: What the names of nodes begin with that PyTorch's exporter numbered, which says nothing of where they come from.
NUMBERED = "node_"

#: Function of PyTorch -> what people call a layer of it; any other goes by its own name.
LAYERS = {
    "linear": "Linear",
    "bilinear": "Bilinear",
    "embedding": "Embedding",
    "embedding_bag": "EmbeddingBag",
    "layer_norm": "LayerNorm",
    "group_norm": "GroupNorm",
    "instance_norm": "InstanceNorm",
    "batch_norm": "BatchNorm",
    "rms_norm": "RMSNorm",
    "conv1d": "Conv1d",
    "conv2d": "Conv2d",
    "conv3d": "Conv3d",
    "conv_transpose1d": "ConvTranspose1d",
    "conv_transpose2d": "ConvTranspose2d",
    "conv_transpose3d": "ConvTranspose3d",
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn_tanh": "RNN",
    "rnn_relu": "RNN",
    "scaled_dot_product_attention": "SDPA",
}


class FreshNames:
    """Names that differ from each other and from those that are taken, in as many steps as there are names."""

    def __init__(
        self,
        names: Iterable[str] = (),
        form: Callable[[str, int], str] = lambda name, number: f"{name} ({number + 1})",
        alike: Callable[[str], str] = lambda name: name,
    ) -> None:
        """
        Args:
            names: those that are no longer free.
            form: what a name becomes that is taken, with a number from 1 on.
            alike: what two names have in common that cannot both be taken.
        """
        self._taken = set(map(alike, names))
        self._form, self._alike = form, alike
        #: How many names a name has become so far.
        self._numbers: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Take a name."""
        self._taken.add(self._alike(name))

    def is_free(self, name: str) -> bool:
        """True where a name is not taken."""
        return self._alike(name) not in self._taken

    def fresh(self, name: str) -> str:
        """The name, or one made of it if it is taken; it is taken now.

        >>> names = FreshNames(["a"])
        >>> names.fresh("a"), names.fresh("a"), names.fresh("b")
        ('a (2)', 'a (3)', 'b')
        """
        fresh = name
        while not self.is_free(fresh):
            self._numbers[name] += 1
            fresh = self._form(name, self._numbers[name])
        self.add(fresh)
        return fresh


def primed(name: str, number: int) -> str:
    """A name with a prime, and a number from the second on."""
    return f"{name}'{number if number > 1 else ''}"


def layer_names(nodes: Sequence[Node]) -> list[str]:
    """A name for each node: its own, or the operator in lower case with its running number (``conv_3``).

    What PyTorch's exporter numbered (``node_Conv_292``) goes by the path of its module.
    """
    numbers: Counter[str] = Counter()
    paths = _paths(nodes) if any(_numbered(node) for node in nodes) else {}
    names: list[str] = []
    for position, node in enumerate(nodes):
        numbers[node.op] += 1
        name = paths.get(position) or node.name
        names.append(name or f"{node.op.rpartition('::')[2].lower()}_{numbers[node.op]}")
    return names


def _numbered(node: Node) -> bool:
    return node.name.startswith(NUMBERED) and bool(node.scope)


def _paths(nodes: Sequence[Node]) -> dict[int, str]:
    """Position -> the path of the module, with the function in it unless it is all that the module does."""
    functions: dict[str, set[str]] = {}
    outer: set[str] = set()
    for node in nodes:
        if _numbered(node):
            if node.op != "Constant":
                functions.setdefault(node.module, set()).add(node.op)
            outer.update(module.path for module in node.scope[:-1])
    other_names = {node.name for node in nodes if not _numbered(node)}
    used: Counter[str] = Counter()
    paths: dict[int, str] = {}
    for position, node in enumerate(nodes):
        if not _numbered(node):
            continue
        name = node.module
        if not name or name in outer or len(functions.get(name, ())) > 1:
            name = f"{name}.{_function(node)}".lstrip(".")
        used[name] += 1
        several = f"{name}:{used[name]}" if used[name] > 1 else name
        paths[position] = node.name if several in other_names else several
    return paths


def _function(node: Node) -> str:
    return _bare(node.origin) if node.origin.startswith("aten.") else node.op.rpartition("::")[2].lower()


def _bare(origin: str) -> str:
    """The name of a function without its library and overload, nor that it works in place.

    >>> _bare("aten.add_.Tensor"), _bare("aten._to_copy.default"), _bare("aten::silu")
    ('add', 'to_copy', 'silu')
    """
    _, _, name = origin.replace("::", ".").partition(".")
    return name.partition(".")[0].strip("_") or origin


def layer_kind(node: Node, graph: Graph) -> str:
    """The usual name of a layer: Linear, LayerNorm, SDPA, silu in a program of PyTorch, elsewhere the operator.

    Args:
        node: the operator.
        graph: the model that it is a part of; the operators of an ONNX file go by their own names.
    """
    if not graph.program.recorded or not node.origin.startswith(("aten.", "aten::")):
        return node.op
    function = _bare(node.origin)
    return LAYERS.get(function, function)
