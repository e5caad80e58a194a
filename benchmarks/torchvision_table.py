"""Every model of torchvision that publishes its operations, beside them and its parameters.

The table of docs/reference/torchvision.md: ``python benchmarks/torchvision_table.py > docs/reference/torchvision.md``.
The models are made on the meta device, at the input size of their published weights; nothing is downloaded.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from tests.torch_vision import torchvision

import flopwise

#: Height and width of the two images of the RAFT entries, which record no size.
RAFT = 512

SUMMARY = """torchvision {version} publishes the multiply-adds (in G, three decimals) and the parameters of its weights.
Of {entries} entries, the column MACs of flopwise agrees in {exact}, the parameters in {parameters}. A figure agrees
when it differs by less than 0.0006 G.

What each call computes of weights and constants alone is counted, as torchvision does: the position biases of Swin V2,
0.2 to 0.8 % of its multiply-adds, come from a small network over constant coordinates. GoogLeNet is made
without the auxiliary heads, as its weights are published. The recipes of the video models do not record how many frames
the figures are for; it is 16. The RAFT entries record no input size at all; they are for two images of 512 × 512."""


def size_of(weights: Any) -> tuple[int, ...] | None:
    """The input of the published figure; None when it is not recorded."""
    recipe = getattr(weights.transforms, "keywords", {})
    crop = recipe.get("crop_size") or recipe.get("resize_size")
    if crop is None:
        return None
    if "frames" in str(weights.transforms.func) or "video" in type(weights).__module__:
        side = crop if isinstance(crop, (list, tuple)) else (crop, crop)
        return (1, 3, 16, side[0], side[-1])  # the recipes do not record the frames; 16 is what the figures are for
    side = (crop, crop) if isinstance(crop, int) else tuple(crop) * (2 if len(tuple(crop)) == 1 else 1)
    return (1, 3, side[0], side[-1])


def made(name: str, side: int) -> Any:
    """The model without weights, on the meta device where it allows that."""
    options: dict[str, Any] = {"weights": None}
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = False
    if name == "googlenet":
        options["aux_logits"] = False  # its weights are published without the auxiliary heads
    if name.startswith("vit_"):
        options["image_size"] = side
    builder = torchvision.models.get_model_builder(name)
    if "segmentation" in builder.__module__:
        options |= {"weights_backbone": None, "num_classes": 21}
        options |= {} if "lraspp" in name else {"aux_loss": True}
    try:
        with torch.device("meta"):
            return builder(**options)
    except (NotImplementedError, RuntimeError):
        return builder(**options).to("meta")


def rows() -> Any:
    """One line per set of published weights: model, weights, input, published and found figures."""
    for name in torchvision.models.list_models():
        for weights in torchvision.models.get_model_weights(name):
            published = weights.meta
            if "_ops" not in published or "num_params" not in published or "Quantized" in type(weights).__name__:
                continue
            size = (1, 3, RAFT, RAFT) if name.startswith("raft") else size_of(weights)
            if size is None:
                continue
            inputs = [size, size] if name.startswith("raft") else size
            profile = flopwise.profile(made(name, size[-1]), inputs)
            figures = profile.total("macs"), published["num_params"], profile.total("params")
            yield name, weights, size, published["_ops"], *figures


def main() -> None:
    start, exact, parameters, found = time.perf_counter(), 0, 0, []
    for name, weights, size, ops, macs, params, ours in rows():
        agrees = abs(macs / 1e9 - ops) < 0.00061
        exact, parameters = exact + agrees, parameters + (params == ours)
        found.append(
            f"| {name} | {weights.name} | {'×'.join(map(str, size))} | {ops} | {macs / 1e9:.3f} | {macs:,} | "
            f"{'yes' if agrees else '**no**'} | {params:,} | {'yes' if params == ours else f'**{ours:,}**'} |"
        )
    print("# torchvision's published figures\n")
    print("Made by `benchmarks/torchvision_table.py`; do not edit.\n")
    version = torchvision.__version__.partition("+")[0]
    print(SUMMARY.format(version=version, entries=len(found), exact=exact, parameters=parameters))
    print("\n| model | weights | input | published G | found G | MACs | agree | parameters | agree |")
    print("|---|---|---|--:|--:|--:|---|--:|---|")
    print("\n".join(found))
    print(f"{len(found)} models in {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
