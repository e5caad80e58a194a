"""The cost of a training step beside the forward pass: the optimizer, and the memory from forward to step.

Optimizers are counted as PyTorch 2.13 writes them (torch/optim, the loop over tensors). Coefficients that do not change
with the step (1 − β₁) are constants; what is left at its default does not run (no weight decay except in AdamW, no
damping, no Nesterov momentum).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flopwise._results import Json
from flopwise.graph import Tensor
from flopwise.graph.dtypes import is_complex
from flopwise.operators.counts import FLOPS, Counts, words
from flopwise.rows import Row, Sum

_NONE = Counts()


@dataclass(frozen=True, slots=True, eq=False)
class Optimizer:
    """One optimizer: its operations for each trained element and tensor, and its state."""

    name: str
    equations: str
    each: Counts
    #: For each tensor, whatever its size: bias corrections and the number of steps.
    tensor: Counts = _NONE
    #: Tensors of state that are as large as the weight and of its type.
    copies: int = 0
    #: Further bytes of state for each tensor.
    extra: int = 0

    @property
    def formula(self) -> str:
        """The count and the equations in words."""
        once = f"for each element {words(self.each)}"
        also = f", for each tensor {words(self.tensor)}" if any(self.tensor) else ""
        return f"{once}{also}: {self.equations}"

    def step(self, weight: Tensor) -> Counts:
        """Operations of one step for one weight; PyTorch's optimizers take complex numbers for two real ones each."""
        parts = 2 if is_complex(weight.dtype) else 1
        return self.each * (weight.numel * parts) + self.tensor

    def state(self, weight: Tensor) -> int:
        """Bytes that are kept from step to step for one weight."""
        return self.copies * weight.nbytes + self.extra


@dataclass(frozen=True, eq=False)
class Training:
    """The cost of a training step beside the rows: the optimizer, and the memory that lasts from forward to step."""

    optimizer: Optimizer | None
    #: The weights that are trained, each once.
    weights: tuple[Tensor, ...]
    #: Canonical operations of the optimizer's step; None when a shape is missing or no optimizer was named.
    update: Counts | None
    #: Bytes of the stored tensors, of the gradients of the trained ones, and of the optimizer's state.
    weight_bytes: int
    gradient_bytes: int
    state_bytes: int | None
    #: Bytes of the activations that the backward pass needs, each storage once; a lower bound unless ``exact``.
    saved_bytes: int
    #: Operators without a rule for their gradient -> how many rows.
    unknown: Mapping[str, int]
    #: Whether every row that runs backward has a count, and every kept tensor a size.
    exact: bool

    @property
    def memory_bytes(self) -> int:
        """Stored tensors, gradients, state and kept activations together."""
        return self.weight_bytes + self.gradient_bytes + (self.state_bytes or 0) + self.saved_bytes

    def to_dict(self, rows: Sequence[Row], sums: Sum) -> Json:
        """The key "training" of the JSON schema.

        Args:
            rows: the layers of the trained profile.
            sums: their sum.
        """
        update = self.update
        has_counts = self.exact or any(row.backward_counts is not None for row in rows)
        backward = sums.backward_counts if has_counts else None
        return {
            "backward": sums.backward if any(row.backward is not None for row in rows) else None,
            "backward_macs": None if backward is None else backward.mac,
            "backward_flops": None if backward is None else backward.dot(FLOPS),
            "backward_ops": None if backward is None else backward.to_dict(),
            "recomputed_macs": sums.recomputed_macs,
            "saved_bytes": self.saved_bytes,
            "trained_params": sum(t.numel for t in self.weights if t.resolved),
            "weight_bytes": self.weight_bytes,
            "gradient_bytes": self.gradient_bytes,
            "optimizer": None if self.optimizer is None else self.optimizer.name,
            "optimizer_macs": None if update is None else update.mac,
            "optimizer_flops": None if update is None else update.dot(FLOPS),
            "optimizer_ops": None if update is None else update.to_dict(),
            "state_bytes": self.state_bytes,
            "memory_bytes": self.memory_bytes,
            "unknown": dict(self.unknown),
            "exact": self.exact,
        }


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
