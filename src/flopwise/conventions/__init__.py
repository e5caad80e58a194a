"""How published tools and texts add operations up: one file each, loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from flopwise.conventions.convention import Convention, Override
from flopwise.errors import InputError

__all__ = ["CONVENTIONS", "Convention", "Override", "get"]

#: Name -> the file that holds it and its name there, flopwise's own first.
_HOMES: dict[str, tuple[str, str]] = {
    "flops": ("own", "FLOP_COUNT"),
    "macs": ("own", "MAC_COUNT"),
    "textbook": ("textbook", "CONVENTION"),
    "molchanov": ("molchanov", "CONVENTION"),
    "benanza": ("benanza", "CONVENTION"),
    "onnx-tool": ("onnx_tool", "CONVENTION"),
    "caffe": ("caffe", "CONVENTION"),
    "netscope": ("netscope", "CONVENTION"),
    "convnet-burden": ("convnet_burden", "CONVENTION"),
    "fvcore": ("fvcore", "CONVENTION"),
    "torch": ("torch", "CONVENTION"),
    "ptflops-aten": ("ptflops_aten", "CONVENTION"),
    "ptflops": ("ptflops", "CONVENTION"),
    "thop": ("thop", "CONVENTION"),
    "torchstat": ("torchstat", "CONVENTION"),
    "torchinfo": ("torchinfo", "CONVENTION"),
    "calflops": ("calflops", "CONVENTION"),
    "deepspeed": ("deepspeed", "CONVENTION"),
}


class _Conventions(Mapping[str, Convention]):
    """Conventions by name; each file is imported when one of its conventions is looked up."""

    def __getitem__(self, name: str) -> Convention:
        file, attribute = _HOMES[name]
        found: Convention = getattr(import_module(f"flopwise.conventions.{file}"), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


#: Every convention by name.
CONVENTIONS: Mapping[str, Convention] = _Conventions()


def get(name: str | Convention) -> Convention:
    """The convention of that name; a Convention is returned as it is.

    Raises:
        InputError: there is none of that name.
    """
    if isinstance(name, Convention):
        return name
    if name not in CONVENTIONS:
        raise InputError(f"unknown convention {name!r}; known: {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]
