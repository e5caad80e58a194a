"""torchvision, also beside a PyTorch for which its compiled extension was not built."""

from __future__ import annotations

import torch

try:
    import torchvision
except RuntimeError:  # the extension did not load: models need nothing of it but the names of two operators
    _operators = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        _operators.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

__all__ = ["torchvision"]
