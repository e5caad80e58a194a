"""Companion files of a trace: the capture of its CUDA graphs, and the operators in its compiled kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import fused
from flopwise.analyses.traces.kineto.events import records_of
from flopwise.analyses.traces.kineto.graphs import Capture, captures_of
from flopwise.analyses.traces.kineto.threads import threads_of
from flopwise.analyses.traces.scan import Scan
from flopwise.errors import ModelError


class Companions(NamedTuple):
    """CUDA graph captures and operators of compiled kernels, from all companion files of a trace."""

    captures: Sequence[Capture]
    #: Name of a compiled kernel -> the operators in it, with "_" between them.
    kernel_operators: Mapping[str, str]


def read_companions(files: Sequence[Scan]) -> Companions:
    """Contents of companion files: traces that recorded a CUDA graph capture, or Inductor's kernel_information.json.

    Raises:
        ModelError: a file is neither, or its trace captured no CUDA graph.
    """
    captures: list[Capture] = []
    kernel_operators: dict[str, list[str]] = {}
    for scan in files:
        if scan.array:
            records = records_of(scan)
            own = captures_of(records, threads_of(records))
            if not own:
                raise ModelError(f"{scan.name}: no CUDA graph was captured in it")
            captures += own
        else:
            _add_kernel_operators(scan, kernel_operators)
    return Companions(
        captures, {name: "_".join(dict.fromkeys(operators)) for name, operators in kernel_operators.items()}
    )


def _add_kernel_operators(scan: Scan, kernel_operators: dict[str, list[str]]) -> None:
    """Add the operators of each compiled kernel in a kernel_information.json.

    ``torch._inductor.debug.create_kernel_information_json`` writes it.

    Raises:
        ModelError: the file is no such table.
    """
    for key, value in scan.head.items():
        try:
            program, lowered = list(value["pre_grad_nodes"]), list(value["post_grad_nodes"])
        except (KeyError, TypeError) as error:
            what = "a trace of a CUDA graph capture nor kernel_information.json of compiled code"
            raise ModelError(f"{scan.name}: neither {what}") from error
        name = key.partition(":")[0]
        # What the compiler lowers to says less of a program than the operators in the kernel's own name.
        listed = program or ([] if fused.listed(name) else lowered)
        kernel_operators.setdefault(name, []).extend(re.sub(r"_\d+$", "", str(node)) for node in listed)
