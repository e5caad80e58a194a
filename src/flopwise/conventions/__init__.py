"""The conventions of published tools and texts: one file each, loaded when it is first asked for."""

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
    "textbook": ("papers.textbook", "CONVENTION"),
    "dot-product": ("papers.textbook", "DOT_PRODUCT"),
    "molchanov": ("papers.molchanov", "CONVENTION"),
    "benanza": ("tools.benanza", "CONVENTION"),
    "onnx-tool": ("tools.onnx_tool", "CONVENTION"),
    "caffe": ("tools.caffe", "CONVENTION"),
    "netscope": ("tools.netscope", "CONVENTION"),
    "convnet-burden": ("tools.convnet_burden", "CONVENTION"),
    "fvcore": ("tools.fvcore", "CONVENTION"),
    "torch": ("tools.torch", "CONVENTION"),
    "ptflops-aten": ("tools.ptflops_aten", "CONVENTION"),
    "ptflops": ("tools.ptflops", "CONVENTION"),
    "mmcv": ("tools.mmcv", "CONVENTION"),
    "thop": ("tools.thop", "CONVENTION"),
    "torchstat": ("tools.torchstat", "CONVENTION"),
    "torchinfo": ("tools.torchinfo", "CONVENTION"),
    "calflops": ("tools.calflops", "CONVENTION"),
    "deepspeed": ("tools.deepspeed", "CONVENTION"),
    "palm": ("papers.language_models", "PALM"),
    "nanogpt": ("papers.language_models", "NANOGPT"),
    "torchtitan": ("papers.language_models", "TORCHTITAN"),
    "megatron": ("papers.language_models", "MEGATRON"),
    "megatron-bridge": ("tools.megatron_bridge", "CONVENTION"),
    "vllm": ("tools.vllm", "CONVENTION"),
    "sglang": ("tools.sglang", "CONVENTION"),
    "verl": ("tools.verl", "CONVENTION"),
    "veomni": ("tools.veomni", "CONVENTION"),
    "transformers": ("tools.transformers", "CONVENTION"),
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
