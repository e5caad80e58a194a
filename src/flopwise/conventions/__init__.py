"""The conventions of published tools and texts, each loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from flopwise import _extensions
from flopwise.conventions.convention import Convention, Display, Listing, Override, Whole
from flopwise.errors import InputError, did_you_mean

__all__ = ["CONVENTIONS", "Convention", "Display", "Listing", "Override", "Whole", "get"]

#: Name -> the file that holds it and its name there, flopwise's own first.
_HOMES: dict[str, tuple[str, str]] = {
    "flops": ("convention", "FLOP_COUNT"),
    "macs": ("convention", "MAC_COUNT"),
    "textbook": ("textbook", "TEXTBOOK"),
    "dot-product": ("textbook", "DOT_PRODUCT"),
    "molchanov": ("textbook", "MOLCHANOV"),
    "benanza": ("benanza", "CONVENTION"),
    "onnx-tool": ("onnx_tool", "CONVENTION"),
    "caffe": ("caffe", "CAFFE"),
    "netscope": ("caffe", "NETSCOPE"),
    "convnet-burden": ("caffe", "CONVNET_BURDEN"),
    "fvcore": ("fvcore", "CONVENTION"),
    "torch": ("torch", "CONVENTION"),
    "ptflops-aten": ("ptflops", "ATEN"),
    "ptflops": ("ptflops", "CONVENTION"),
    "mmcv": ("ptflops", "MMCV"),
    "thop": ("thop", "CONVENTION"),
    "torchstat": ("torchstat", "CONVENTION"),
    "torchinfo": ("torchinfo", "CONVENTION"),
    "calflops": ("deepspeed", "CALFLOPS"),
    "deepspeed": ("deepspeed", "DEEPSPEED"),
    "palm": ("language", "PALM"),
    "nanogpt": ("language", "NANOGPT"),
    "torchtitan": ("language", "TORCHTITAN"),
    "megatron": ("language", "MEGATRON"),
    "megatron-bridge": ("language", "MEGATRON_BRIDGE"),
    "vllm": ("language", "VLLM"),
    "sglang": ("language", "SGLANG"),
    "verl": ("language", "VERL"),
    "veomni": ("language", "VEOMNI"),
    "transformers": ("language", "TRANSFORMERS"),
}


class _Conventions(Mapping[str, Convention]):
    """Conventions by name, those of other installed packages last; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Convention:
        if name not in _HOMES:
            if name not in _extensions.names("conventions"):
                raise KeyError(name)
            return _extensions.load("conventions", name, Convention)
        file, attribute = _HOMES[name]
        convention: Convention = getattr(import_module(f"flopwise.conventions.{file}"), attribute)
        return convention

    def __iter__(self) -> Iterator[str]:
        yield from _HOMES
        yield from (name for name in _extensions.names("conventions") if name not in _HOMES)

    def __len__(self) -> int:
        return sum(1 for _ in self)


#: Every convention by name.
CONVENTIONS: Mapping[str, Convention] = _Conventions()


def get(name: str | Convention) -> Convention:
    """The convention of that name, whose case does not matter; a Convention is returned as it is.

    Raises:
        InputError: there is none of that name.
    """
    if isinstance(name, Convention):
        return name
    if name.lower() not in CONVENTIONS:
        near = did_you_mean(name.lower(), CONVENTIONS) or ";"
        raise InputError(f"unknown convention {name!r}{near} known: {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name.lower()]
