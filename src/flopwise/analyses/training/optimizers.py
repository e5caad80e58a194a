"""What one step of an optimizer executes and keeps, as PyTorch 2.13 writes it (torch/optim, the loop over tensors).

Coefficients that do not change with the step (1 − β₁) are constants; what is left at its default does not run (no
weight decay except in AdamW, no damping, no Nesterov momentum).
"""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.operators.counts import Counts
from flopwise.profiles.training import Optimizer

_MOMENTS = "m += (1 − β₁)(g − m), v = β₂ v + (1 − β₂) g g, w −= lr / (1 − β₁ᵗ) × m / (√v / √(1 − β₂ᵗ) + ε)"
_ADAM = Counts(add=5, mul=5, sqrt=1, div=2)
_CORRECTIONS = Counts(add=3, pow=2, div=1, sqrt=1, bit=1)

OPTIMIZERS: Mapping[str, Optimizer] = {
    o.name: o
    for o in (
        Optimizer("sgd", "w −= lr g", Counts(mul=1, add=1)),
        Optimizer("momentum", "m = μ m + g, w −= lr m", Counts(mul=2, add=2), copies=1),
        Optimizer("adam", _MOMENTS, _ADAM, _CORRECTIONS, copies=2, extra=4),
        Optimizer("adamw", f"w ×= 1 − lr λ, {_MOMENTS}", _ADAM + Counts(mul=1), _CORRECTIONS, copies=2, extra=4),
    )
}
