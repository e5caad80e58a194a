"""Options that only one model format takes, and how they are chosen from an object or from keywords."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, TypeVar

from flopwise.errors import InputError

#: The mode of the modules while a PyTorch model runs: "as-is" leaves each as it is.
Mode: TypeAlias = Literal["eval", "train", "as-is"]

#: Sizes by the names of dimensions, and what is told the name of each step: as every reader takes them.
Sizes: TypeAlias = "Mapping[str, int] | None"
Progress: TypeAlias = Callable[[str], None]

#: A kernel of PyTorch's attention: "math" keeps all weights for the gradient, the others make the scores once more.
AttentionKernel: TypeAlias = Literal["math", "flash", "efficient"]


@dataclass(frozen=True)
class Options:
    """Options of every format."""

    #: The models that the options are for, in the words of an error.
    models: ClassVar[str] = ""

    #: The element type that all floating-point tensors count as; None: their own.
    element_type: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class OnnxOptions(Options):
    """Options of ONNX models, and of OpenVINO's, Core ML's and TensorFlow's, which are read as these are."""

    models: ClassVar[str] = "ONNX, OpenVINO, Core ML and TensorFlow models"

    #: How often loops run, by name, where the model does not say.
    trips: Mapping[str, int] | None = None
    #: Recurrent states: an input, and the output that feeds it in the next step. The shape of the one is that of the
    #: other, found by inferring until both agree. Pairs whose names say so (``r1i`` and ``r1o``) are found.
    states: Mapping[str, str] | None = None
    #: Sizes of dimensions that nothing else says, by name; "*" stands for all others. For any figure at once.
    assume: Mapping[str, int] | None = None
    #: Bytes that a graph may take without its weights; None: 512 MB, which is some millions of operators.
    largest_graph: int | None = None
    #: Of a language model with a state among its inputs: tokens in it, and tokens that are fed now; for a formula also
    #: names of symbols.
    past: int | str | None = None
    new: int | str | None = None


@dataclass(frozen=True)
class TorchOptions(Options):
    """Options of PyTorch models."""

    models: ClassVar[str] = "PyTorch modules"

    #: The mode of the modules; None: eval, for a training step train.
    mode: Mode | None = None
    #: Whether tensors know their gradients (``Tensor.grad``), which training needs.
    grad: bool = False
    #: Keyword arguments of a callable that makes the model (``package.module:callable``), as texts.
    arguments: Mapping[str, str] | None = None
    #: The kernel of attention that a training step assumes; None: the one that PyTorch would choose on the device.
    attention: AttentionKernel | None = None
    #: Low-rank adapters beside linear layers, which alone are trained: "r=16,targets=q_proj,v_proj"; without targets
    #: beside all.
    lora: str | None = None
    #: Of a language model: tokens in the state that it is handed, and tokens that are fed to it now; for a formula also
    #: names of symbols.
    past: int | str | None = None
    new: int | str | None = None
    #: Whether code that belongs to a model may run.
    trust_code: bool = False
    #: Whether transformers' program is run where a configuration alone would do: tools that count programs, and
    #: recordings of them, know its modules and calls. Without transformers the configuration alone has to do.
    program: bool = False

    def refuse_type(self) -> None:
        """Raise InputError where a training step is to count as of another element type."""
        if self.element_type is not None:
            raise InputError(
                f"the types of a PyTorch module decide what its training keeps: give a module of {self.element_type} "
                "(model.to(dtype)) in place of --dtype (element_type=)"
            )


@dataclass(frozen=True)
class CaffeOptions(Options):
    """Options of Caffe nets."""

    models: ClassVar[str] = "Caffe nets (.prototxt)"

    #: "TEST" or "TRAIN"; None: as the file says, else TEST.
    phase: str | None = None
    #: The stages that are on.
    stages: Collection[str] = ()
    #: The level of the net; None: as the file says, else 0.
    level: int | None = None
    #: A .caffemodel to check the net against; None: one of the same name beside it.
    weights: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class JaxOptions(Options):
    """Options of JAX functions."""

    models: ClassVar[str] = "JAX functions"

    #: How often loops run, by name, where the program does not say.
    trips: Mapping[str, int] | None = None
    #: Keyword arguments of a callable that makes the function (``package.module:callable``), as texts.
    arguments: Mapping[str, str] | None = None
    #: Whether what all devices of a mesh run counts once, as on each of them.
    per_device: bool = False


@dataclass(frozen=True)
class StablehloOptions(Options):
    """Options of StableHLO modules."""

    models: ClassVar[str] = "StableHLO modules"

    #: How often loops run, by name, where the module does not say.
    trips: Mapping[str, int] | None = None
    #: Whether what all devices of a mesh run counts once, as on each of them.
    per_device: bool = False


@dataclass(frozen=True)
class ExecutorchOptions(Options):
    """Options of ExecuTorch programs."""

    models: ClassVar[str] = "ExecuTorch programs"

    #: How often loops run, by name, where the program does not say.
    trips: Mapping[str, int] | None = None


class Keywords(TypedDict, total=False):
    """The options of all formats as keywords of ``flopwise.read`` and its kin; see the classes above."""

    element_type: str | None
    trips: Mapping[str, int] | None
    states: Mapping[str, str] | None
    assume: Mapping[str, int] | None
    largest_graph: int | None
    mode: Mode | None
    grad: bool
    arguments: Mapping[str, str] | None
    attention: AttentionKernel | None
    lora: str | None
    past: int | str | None
    new: int | str | None
    trust_code: bool
    program: bool
    per_device: bool
    phase: str | None
    stages: Collection[str]
    level: int | None
    weights: str | os.PathLike[str] | None


_KINDS: tuple[type[Options], ...] = (
    OnnxOptions,
    TorchOptions,
    CaffeOptions,
    JaxOptions,
    StablehloOptions,
    ExecutorchOptions,
)

#: Keyword -> the options that it belongs to; a state of tokens is one of ONNX models and of PyTorch modules.
OWNERS: dict[str, tuple[type[Options], ...]] = {
    name: tuple(kind for kind in _KINDS if name in {field.name for field in fields(kind)})
    for name in Keywords.__annotations__
}

Chosen = TypeVar("Chosen", bound=Options)


def is_given(value: object) -> bool:
    """True unless an argument is None, False or empty."""
    if value is None or value is False:
        return False
    try:
        return not isinstance(value, Collection) or len(value) > 0
    except TypeError:  # an array without axes
        return True


def options_of(kind: type[Chosen], options: Options | None, keywords: Mapping[str, object]) -> Chosen:
    """The options of a format, from an object, from keywords, or from both.

    Args:
        kind: the class of the format's options.
        options: an object of that class, or None for the defaults.
        keywords: fields by name, which win over the object. None, False and empty texts and lists stand for a keyword
            that is left out.

    Raises:
        InputError: the object or a keyword is for another format.
        TypeError: no format has such a keyword.
    """
    if options is not None and not isinstance(options, kind):
        raise InputError(f"{type(options).__name__}: only for {options.models}")
    chosen = kind() if options is None else options
    strangers: dict[str, list[str]] = {}
    changes: dict[str, Any] = {}
    keys = {field.name for field in fields(kind)}
    for name, value in keywords.items():
        if name not in OWNERS and name not in keys:
            raise TypeError(f"unexpected keyword argument {name!r}")
        if not is_given(value):
            continue
        if name in keys:
            changes[name] = value
        else:
            strangers.setdefault(" and ".join(owner.models for owner in OWNERS[name]), []).append(name)
    for models, names in strangers.items():
        raise InputError(f"{' and '.join(names)}: only for {models}")
    return replace(chosen, **changes)


def tokens_of(option: str, value: int | str | None, size_of: Callable[[str], int | None]) -> int | None:
    """The number of tokens that an option stands for.

    Args:
        option: its name.
        value: the number, or a name.
        size_of: the size of a name; None where none is given.

    Raises:
        InputError: it is a name without a value.
    """
    if not isinstance(value, str):
        return value
    size = size_of(value)
    if size is None:
        raise InputError(f"{option} {value!r}: has no value; give --dim {value}=NUMBER, or ask for a formula")
    return size
