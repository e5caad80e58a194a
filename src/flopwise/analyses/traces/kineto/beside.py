"""Files beside a trace that say more of it: of the capture of its CUDA graphs, of its compiled kernels."""

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


class More(NamedTuple):
    """Captures and descriptions of kernels, as the files beside a trace have them."""

    captures: Sequence[Capture]
    #: Name of a compiled kernel -> the operators in it, with "_" between them.
    nodes: Mapping[str, str]


def more_of(files: Sequence[Scan]) -> More:
    """The content of files, each a trace of the capture of graphs or Inductor's kernel_information.json.

    Raises:
        ModelError: one of them is neither.
    """
    captures: list[Capture] = []
    nodes: dict[str, list[str]] = {}
    for scan in files:
        if scan.array:
            records = records_of(scan)
            own = captures_of(records, threads_of(records))
            if not own:
                raise ModelError(f"{scan.name}: no CUDA graph was captured while it was recorded")
            captures += own
        else:
            _add_nodes(scan, nodes)
    return More(captures, {name: "_".join(dict.fromkeys(operators)) for name, operators in nodes.items()})


def _add_nodes(scan: Scan, nodes: dict[str, list[str]]) -> None:
    """Add the operators of kernels as ``torch._inductor.debug.create_kernel_information_json`` writes them."""
    for key, value in scan.head.items():
        try:
            program, lowered = list(value["pre_grad_nodes"]), list(value["post_grad_nodes"])
        except (KeyError, TypeError) as error:
            what = "a trace of the capture of CUDA graphs nor kernel_information.json of compiled code"
            raise ModelError(f"{scan.name}: neither {what}") from error
        name = key.partition(":")[0]
        # What the compiler lowers to says less of a program than the operators in the kernel's own name.
        listed = program or ([] if fused.listed(name) else lowered)
        nodes.setdefault(name, []).extend(re.sub(r"_\d+$", "", str(node)) for node in listed)
