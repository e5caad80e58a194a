"""Modules that nodes belong to, from the names that PyTorch's exporters leave behind.

The exporter on torch.export writes the module path and the classes into each node's metadata; the older TorchScript
exporter writes the path into the node's name (``/layer1/layer1.0/conv1/Conv``).
"""

from __future__ import annotations

import re
from functools import lru_cache

from flopwise.formats.onnx.file.decode import entries
from flopwise.formats.onnx.file.model import Node
from flopwise.graph import Module

#: Key of a node's metadata: the paths of the modules around it, and of the node.
SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
#: Operators that a norm is fused into -> the class of module, but for its dimensions.
_FUSED = {"Conv": "Conv", "ConvTranspose": "ConvTranspose", "Gemm": "Linear"}
_QUOTED = re.compile(r"'([^']*)'")


def scope_of(node: Node) -> tuple[tuple[Module, ...], str]:
    """The modules around a node, outermost first, and what PyTorch called the operator ("" if unknown)."""
    if node.metadata and SCOPES in (notes := entries(node.metadata)):
        around, _, _ = notes[SCOPES].rpartition("', '")  # the last one is the node itself
        kinds, _, last = notes.get(_CLASSES, "").rpartition("', '")
        return _of_weight(node, _from_notes(around, kinds)), last.strip("[']")
    return scope_of_path(node.name), ""


def scope_of_path(name: str) -> tuple[Module, ...]:
    """The modules around a node without metadata, by its name; outermost first."""
    return _from_name(name.rpartition("/")[0]) if "/" in name else ()


def _of_weight(node: Node, scope: tuple[Module, ...]) -> tuple[Module, ...]:
    """The scope, with the module that the weight belongs to in place of a norm that was fused into it.

    Of a convolution and the norm after it, the exporter keeps the convolution, and the norm's metadata.
    """
    if node.op not in _FUSED or not scope or "Norm" not in scope[-1].kind or len(node.inputs) < 2:
        return scope
    path, _, name = node.inputs[1].rpartition(".")
    if name != "weight" or not path or path == scope[-1].path:
        return scope
    around = tuple(module for module in scope[:-1] if not module.path or path.startswith(f"{module.path}."))
    return (*around, Module(path, _class(node), (scope[-1].path, scope[-1].kind)))


def _class(node: Node) -> str:
    """The class of module that a fused node stands for, as far as it says."""
    sizes = {name: len(value) for name, value in node.attributes.values.items() if isinstance(value, tuple)}
    dims = sizes.get("kernel_shape") or sizes.get("strides") or sizes.get("pads", 0) // 2
    return "Linear" if node.op == "Gemm" else f"{_FUSED[node.op]}{dims}d" if dims else ""


@lru_cache(maxsize=4096)
def _from_notes(paths: str, classes: str) -> tuple[Module, ...]:
    """Modules from the beginnings of two lists in quotes, whose last item is cut off with the quote before it."""
    names = _QUOTED.findall(f"{paths}'")
    kinds = [c.rpartition(".")[2] for c in _QUOTED.findall(f"{classes}'")]
    kinds += [""] * (len(names) - len(kinds))
    return tuple(Module(n, k) for n, k in zip(names, kinds, strict=False))


@lru_cache(maxsize=4096)
def _from_name(prefix: str) -> tuple[Module, ...]:
    """Modules from the path in a node's name. A part of a container repeats the container: ``layer1/layer1.0``."""
    modules: list[Module] = []
    above = path = last = ""
    for part in prefix.split("/"):
        if not part:
            continue
        if not last or not part.startswith(last + "."):
            above = f"{path}." if path else ""
        path, last = above + part, part
        modules.append(Module(path, ""))
    return tuple(modules)
