"""An exported program as a module that runs its operators one by one, looked up by name; nothing is evaluated."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import mmap
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from flopwise.errors import InputError, ModelError, UntrustedError
from flopwise.formats.sources.location import naming
from flopwise.formats.sources.text import JsonObject
from flopwise.formats.torch.kinds import Function, Kwargs
from flopwise.formats.torch.stored import DTYPES, Content, Place, damaged, last_element
from flopwise.graph import Module
from flopwise.graph.construction import no_search_for_garbage

#: How deep graphs may nest.
DEEPEST = 32


class ExportedModule(nn.Module):
    """A program in a file. It runs on meta tensors alone."""

    def __init__(self, path: str, program: JsonObject, tensors: Mapping[str, object], example: object) -> None:
        """
        Args:
            path: the file, for messages.
            program: what it says (``Content.program``).
            tensors: its parameters, buffers and constants by name.
            example: the inputs that it was exported with, as a pair of positional and keyword arguments; or None.
        """
        super().__init__()
        self.path = path
        self.example = example
        graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
        self._block = Block(graph)
        self._results = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
        self._written = {
            spec["buffer_mutation"]["buffer_name"]: spec["buffer_mutation"]["arg"]["name"]
            for spec in signature["output_specs"]
            if "buffer_mutation" in spec
        }
        self._inputs: list[str] = []
        self._stored: dict[str, str] = {}
        for spec in signature["input_specs"]:
            ((kind, content),) = spec.items()
            if kind in ("parameter", "buffer", "tensor_constant"):
                name = content[f"{kind}_name"]
                self._stored[content["arg"]["name"]] = name
                self._keep(name, tensors[name], kind)
            elif kind == "constant_input":
                self._inputs.append("")
            elif kind == "user_input":
                self._inputs.append(_name(content["arg"]))
            else:
                raise ModelError(f"{path}: takes an input of the kind {kind[:50]!r}, which is not read")
        calls = program["graph_module"].get("module_call_graph") or [{}]
        names = (calls[0].get("signature") or {}).get("forward_arg_names")
        names = names or [name or f"arg_{i}" for i, name in enumerate(self._inputs)]
        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._signature = inspect.Signature([inspect.Parameter(str(name), either) for name in names])

        def forward(*args: object, **kwargs: object) -> object:
            return self.run(None, *args, **kwargs)

        forward.__signature__ = self._signature  # type: ignore[attr-defined]
        self.forward = forward

    def _keep(self, name: str, tensor: Any, kind: str) -> None:
        """Register a tensor at its path, in modules made for it."""
        *path, last = name.split(".")
        owner: nn.Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        if kind == "parameter":
            owner.register_parameter(last, nn.Parameter(tensor, tensor.is_floating_point()))
        elif kind == "buffer":
            owner.register_buffer(last, tensor)
        else:
            setattr(owner, last, tensor)

    def run(self, position: Any, *args: object, **kwargs: object) -> object:
        """As ``forward``; ``position.scope`` follows the modules in which the operators were before the export."""
        bound = self._signature.bind(*args, **kwargs).arguments
        leaves: list[object] = pytree.tree_leaves(tuple(bound.values()))
        if len(leaves) != len(self._inputs):
            raise InputError(f"{self.path}: takes {len(self._inputs)} tensors or numbers, and not {len(leaves)}")
        values = {name: leaf for name, leaf in zip(self._inputs, leaves, strict=True) if name}
        before = position and position.scope
        try:
            with naming(self.path):
                values |= {name: self._stored_at(path) for name, path in self._stored.items()}
                self._block.run(values, position)
                for path, name in self._written.items():
                    self._stored_at(path).copy_(values[name])
                results = tuple(value(result, values) for result in self._results)
                return results[0] if len(results) == 1 else results
        finally:
            if position is not None:
                position.scope = before

    def _stored_at(self, path: str) -> Any:
        owner, _, last = path.rpartition(".")
        return getattr(self.get_submodule(owner), last)


class Block:
    """A graph of a program: its own, or one in an argument of an operator."""

    #: Kind of an argument that is given by its name.
    KEYWORD = 2

    def __init__(self, graph: JsonObject, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ModelError(f"its graphs nest deeper than {DEEPEST}")
        self._inputs = [_name(argument) for argument in graph["inputs"]]
        self._outputs = graph["outputs"]
        self._single = bool(graph.get("is_single_tensor_return"))
        self._nodes = []
        for node in graph["nodes"]:
            blocks = {
                place: Block(one["arg"]["as_graph"]["graph"], depth + 1)
                for place, one in enumerate(node["inputs"])
                if "as_graph" in one["arg"]
            }
            stack = str((node.get("metadata") or {}).get("nn_module_stack") or "")
            self._nodes.append((function(node["target"]), node, blocks, _scope(stack)))

    def __call__(self, position: object, *args: object) -> object:
        """The outputs of the graph for these inputs."""
        values = dict(zip(self._inputs, args, strict=True))
        self.run(values, position)
        results = tuple(value(output, values) for output in self._outputs)
        return results[0] if self._single else results

    def run(self, values: Kwargs, position: Any) -> None:
        """Run the operators one after the other, on values by name; what they give is added to these."""
        for call, node, blocks, scope in self._nodes:
            if position is not None:
                position.scope = scope
            args, kwargs = [], {}
            for place, argument in enumerate(node["inputs"]):
                block = blocks.get(place)
                one = value(argument["arg"], values) if block is None else functools.partial(block, position)
                if argument.get("kind") == self.KEYWORD:
                    kwargs[argument["name"]] = one
                else:
                    args.append(one)
            _name_results(node["outputs"], call(*args, **kwargs), values)


def _name(argument: Mapping[str, object]) -> str:
    """The name of an input; "" for one without."""
    ((_, content),) = argument.items()
    return str(content.get("name") or content.get("as_name") or "") if isinstance(content, Mapping) else ""


def _name_results(outputs: list[JsonObject], result: Any, values: Kwargs) -> None:
    """Write down what an operator gave under the names that the program has for it."""
    results = [result] if len(outputs) == 1 else list(result or ())
    for output, one in zip(outputs, results, strict=False):
        ((kind, content),) = output.items()
        if kind == "as_tensor":  # what is handed graphs gives a tuple, whatever is in it
            values[content["name"]] = one[0] if isinstance(one, (tuple, list)) else one
        elif kind in ("as_tensors", "as_optional_tensors"):
            for inner, each in zip(content, one, strict=False):
                _name_results([inner if kind == "as_optional_tensors" else {"as_tensor": inner}], each, values)
        elif kind == "as_optional_tensor":
            _name_results([content], one, values)
        elif kind in ("as_sym_int", "as_sym_bool", "as_sym_float") and "as_name" in content:
            values[content["as_name"]] = one


@functools.lru_cache
def _scope(stack: str) -> tuple[Module, ...]:
    """The modules around an operator: ``key,path,class`` of each, with semicolons between them."""
    steps = [step.split(",", 2) for step in stack.split(";") if step]
    return tuple(Module(step[1], step[2].rpartition(".")[2]) for step in steps if len(step) == 3)


def load(path: str) -> ExportedModule:
    """The module of an exported program, its tensors mapped from the file.

    Raises:
        ModelError: it is damaged, or calls more than operators on tensors and sizes.
    """
    with contextlib.closing(Content(path)) as content, damaged(path), no_search_for_garbage():
        places, tensors, _ = content.tensors()
        tensors |= _mapped(path, places)
        with naming(path):
            return ExportedModule(path, content.program(), tensors, content.example())


def _mapped(path: str, places: Mapping[str, Place]) -> Kwargs:
    """Tensors that look into the file; what is written to them stays in memory."""
    tensors: dict[str, torch.Tensor] = {}
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if places else None
        for name, place in places.items():
            dtype = getattr(torch, place.dtype)
            count = last_element(place)
            if count * dtype.itemsize > place.nbytes:
                raise ModelError(f"{path}: tensor {name!r} of shape {place.shape} is longer than what is stored")
            flat = torch.empty(0, dtype=dtype)
            if count:
                assert view is not None
                flat = torch.frombuffer(view, dtype=dtype, count=count, offset=place.start)
            tensors[name] = flat.as_strided(place.shape, place.strides, min(place.offset, count))
    return tensors


# The functions that a program in a file may call, and its arguments as values. Names are looked up, never evaluated.

#: Namespaces whose operators compute on tensors and do nothing else ...
NAMESPACES = frozenset({"aten", "prims", "quantized", "quantized_decomposed", "torchvision"})

#: ... but for these, which open files or are handed code.
REFUSED = frozenset({"aten.from_file", "aten._print", "quantized.make_quantized_cell_params"})

#: Arithmetic on sizes: what programs call -> the function.
ARITHMETIC: dict[str, Function] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pos", "pow", "abs"),
            *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "invert"),
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "ceil", "floor", "sqrt", "log2")},
    **{f"torch.sym_{name}": getattr(torch, f"sym_{name}") for name in ("float", "int", "max", "min", "not", "ite")},
    "torch.sym_sqrt": math.sqrt,
    "torch._sym_sqrt": math.sqrt,
}

#: Exponents of sizes are small; a larger one is refused before it takes all memory.
MOST_POWER = 64


#: Operators that are handed graphs of the program.
HIGHER: dict[str, Function] = {
    "torch.ops.higher_order.cond": lambda predicate, taken, other, operands=(): torch.ops.higher_order.cond(
        predicate, taken, other, tuple(operands)
    ),
    "torch.ops.higher_order.wrap_with_set_grad_enabled": lambda enabled, block, *operands: block(*operands),
    "torch.ops.higher_order.wrap_with_autocast": lambda device, dtype, on, cache, block, *operands: block(*operands),
}

_NUMBERS = (int, float, complex, torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)

_MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
_LAYOUTS = {1: torch.sparse_coo, 2: torch.sparse_csr, 7: torch.strided}


@functools.cache
def function(target: str) -> Function:
    """The function that a program names.

    Raises:
        ModelError: it is none that computes on tensors and sizes alone, or is not registered.
    """
    name = f"_{target}" if target.startswith("operator.") else target
    if name == "_operator.getitem":
        return operator.getitem
    if name in HIGHER:
        return HIGHER[name]
    if name in ARITHMETIC:
        return functools.partial(_computed, ARITHMETIC[name])
    parts = target.split(".")
    if len(parts) != 5 or parts[:2] != ["torch", "ops"] or not all(part.isidentifier() for part in parts):
        raise _untrusted(target)
    space, operation, overload = parts[2:]
    if space not in NAMESPACES or f"{space}.{operation}" in REFUSED:
        raise _untrusted(target)
    packet = getattr(getattr(torch.ops, space), operation, None)
    resolved = getattr(packet, overload, None)
    if not isinstance(resolved, torch._ops.OpOverload):
        raise ModelError(f"calls {target[:100]!r}, which this version of PyTorch does not know")
    return resolved


def _computed(arithmetic: Callable[..., object], *operands: object) -> object:
    """A number or a tensor; neither lists, which could be multiplied, nor numbers that no size has."""
    if not all(isinstance(operand, _NUMBERS) for operand in operands):
        raise ModelError("does arithmetic on what is neither a number nor a tensor")
    if arithmetic is operator.pow and isinstance(operands[1], int) and abs(operands[1]) > MOST_POWER:
        raise ModelError(f"raises a size to the power {operands[1]}")
    result = arithmetic(*operands)
    if isinstance(result, int) and abs(result) >= 1 << 63:
        raise ModelError("computes a size beyond 2^63")
    return result


def _untrusted(target: str) -> UntrustedError:
    return UntrustedError(
        f"calls {target[:100]!r}, which may do more than compute; --trust-code (trust_code=True) loads the program "
        "with PyTorch, which runs what is in it"
    )


def value(argument: JsonObject, values: JsonObject) -> Any:
    """The value of an argument in the schema of exported programs.

    Args:
        argument: as in the file: one entry, whose key says its kind.
        values: values by their names.

    Raises:
        ModelError: it is of a kind that is not data: an object, a graph of its own.
    """
    ((kind, content),) = argument.items()
    if kind not in _KINDS:
        raise UntrustedError(
            f"has an argument of the kind {kind[:50]!r}, which is not read; --trust-code (trust_code=True) loads the "
            "program with PyTorch, which runs what is in it"
        )
    return _KINDS[kind](content, values)


def _plain(kind: type, depth: int, content: Any, values: JsonObject) -> object:
    """A number or a text, or lists of them as deep as ``depth``."""
    return [_plain(kind, depth - 1, one, values) for one in content] if depth else kind(content)


def _symbol(content: JsonObject, values: JsonObject) -> object:
    ((kind, inner),) = content.items()
    return values[inner] if kind == "as_name" else inner


_KINDS: dict[str, Callable[[Any, JsonObject], object]] = {
    "as_none": lambda content, values: None,
    "as_tensor": lambda content, values: values[content["name"]],
    "as_tensors": lambda content, values: [values[one["name"]] for one in content],
    "as_optional_tensor": lambda content, values: value(content, values),
    "as_optional_tensors": lambda content, values: [value(one, values) for one in content],
    "as_nested_tensors": lambda content, values: [[values[one["name"]] for one in part] for part in content],
    "as_complex": lambda content, values: complex(float(content["real"]), float(content["imag"])),
    "as_scalar_type": lambda content, values: getattr(torch, DTYPES[content]),
    "as_memory_format": lambda content, values: _MEMORY_FORMATS[content],
    "as_layout": lambda content, values: _LAYOUTS[content],
    "as_device": lambda content, values: torch.device("cpu"),  # wherever it was exported
    **{
        f"as_{name}{more}": functools.partial(_plain, kind, depth)
        for name, kind in (("int", int), ("float", float), ("bool", bool), ("string", str))
        for depth, more in enumerate(("", "s", "_lists"))
    },
    **{f"as_sym_{name}": _symbol for name in ("int", "float", "bool")},
    **{
        f"as_sym_{name}s": lambda content, values: [_symbol(one, values) for one in content]
        for name in ("int", "float", "bool")
    },
}
