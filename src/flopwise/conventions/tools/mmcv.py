"""mmcv 2.2.0, ``get_model_complexity_info``: the hooks of early ptflops, without its counts of functions.

Source: https://github.com/open-mmlab/mmcv, ``mmcv/cnn/utils/flops_counter.py``, which says that it is derived from
ptflops; figures of that time that name ptflops follow it too. A function of ``torch.nn.functional`` or an operator such
as ``+`` counts nothing, nor does a class of module that is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flopwise.conventions.convention import Convention, Whole
from flopwise.conventions.emulation import as_modules, modules
from flopwise.conventions.emulation.layer import Layer, ranked, results
from flopwise.conventions.tools import ptflops
from flopwise.graph import Graph
from flopwise.operators.counts import Counts


def _linear(layer: Layer) -> int:
    """numel(X) × outputs; no bias."""
    return layer.x.numel * layer.y.dims[-1]


def _scaled(layer: Layer) -> int:
    """numel(X), twice that where the module has ``affine`` or ``elementwise_affine``."""
    affine = layer.options.get("affine") or layer.options.get("elementwise_affine")
    return layer.x.numel * (2 if affine else 1)


#: Class of a module -> what the tool's hook counts.
HOOKS: dict[str, Callable[[Layer], int]] = {
    **{
        kind: hook
        for kind, hook in ptflops.HOOKS.items()
        if kind.startswith(("Conv1d", "Conv2d", "Conv3d", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool"))
    },
    **dict.fromkeys(["ReLU", "PReLU", "ELU", "LeakyReLU", "ReLU6"], results),
    **dict.fromkeys(ranked("BatchNorm", "InstanceNorm"), _scaled),
    **dict.fromkeys(["GroupNorm", "LayerNorm"], _scaled),
    "Linear": _linear,
    "Upsample": results,
    "ConvTranspose2d": ptflops.HOOKS["ConvTranspose2d"],
}


def _graph_counts(graph: Graph, canonical: Sequence[Counts | None]) -> list[Counts | None]:
    return ptflops.image_counts(
        [0] * len(graph.nodes), ptflops.module_counts(graph, HOOKS, once=True), ptflops.batch(graph)
    )


CONVENTION = Convention(
    name="mmcv",
    unit="MAC",
    summary="mmcv, early ptflops: multiply-adds of modules with the bias of convolutions; norms, ReLUs and poolings.",
    source="mmcv 2.2.0, mmcv/cnn/utils/flops_counter.py",
    weights=Counts(mac=1),
    others="zero",
    fold=False,
    overrides=as_modules.in_words(_graph_counts, HOOKS, {}),
    whole=Whole(
        _graph_counts,
        totals={"params": modules.trained},
        remarks=lambda graph: modules.remarks("mmcv", graph, modules.without_rule(graph, HOOKS)),
    ),
    notes=("mmcv divides by the batch; functions and operators outside modules count nothing",),
)
