"""The ways in which a request is divided among devices.

- ``dp``: replicas that share the sequences.
- ``tp``: devices that share each product (see ``flopwise.analyses.llm.division``). Heads of keys and values are
  repeated where there are fewer than devices, and latents always are. A sum of all devices' parts is a ring all-reduce,
  in which each device sends 2 (n - 1) / n of it.
- ``pp``: stages of equally many layers; each sends what the next one goes on with.
- ``cp``: devices that share the tokens of each sequence. Going through a prompt, keys and values go round a ring, in
  which each device sends (n - 1) / n of them; in a step, each device has a part of the cache, and their results are
  added up by a ring all-reduce.
- ``ep``: devices that share the experts, among those of a stage. Where these have tokens of their own (dp, cp), each
  sends its tokens to the experts that they take and gets results back: (n - 1) / n of both with balanced routing.

Sources: Megatron-LM, https://arxiv.org/abs/1909.08053; Ring Attention, https://arxiv.org/abs/2310.01889; GShard,
https://arxiv.org/abs/2006.16668; ring all-reduce in Horovod, https://arxiv.org/abs/1802.05799, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flopwise.errors import InputError

#: Their names.
WAYS = ("tp", "pp", "ep", "cp", "dp")


@dataclass(frozen=True)
class Split:
    """A division of a request among devices."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    dp: int = 1

    @property
    def stage(self) -> int:
        """Devices of a stage; experts are divided among these."""
        return self.tp * self.cp * self.dp

    @property
    def devices(self) -> int:
        """Devices all together."""
        return self.stage * self.pp

    @property
    def sharers(self) -> int:
        """Devices that have one copy of the experts: ``ep``, or the least multiple of it that ``tp`` divides too."""
        return math.lcm(self.tp, self.ep)

    @property
    def exchanges(self) -> bool:
        """True where tokens go to experts on devices that do not have these tokens."""
        return self.sharers > self.tp

    def __str__(self) -> str:
        return " × ".join(f"{name} {n}" for name in WAYS if (n := getattr(self, name)) > 1) or "1"

    def check(self) -> None:
        """Refuse what no devices can be divided into.

        Raises:
            InputError: a number is less than 1, or the experts' devices are not those of a stage.
        """
        for name in WAYS:
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}: must be at least 1")
        if self.stage % self.sharers:
            raise InputError(
                f"ep {self.ep}: experts are divided among the tp × cp × dp = {self.stage} devices of a stage"
            )
