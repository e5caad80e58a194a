"""The room that a serving engine leaves for the cache: a band from public logs of vLLM.

Beyond weights and activations an engine keeps buffers of its own. Its samplers hold the scores of as many sequences as
may run at once, in single precision, sorted with their places: 38 to 41 bytes for each score in the logs, where no
kernel does without. The rest is what CUDA has less than the driver reports, memory outside of PyTorch (0.13 GiB on one
device, 0.55 on two), graphs, and weights padded for kernels.
"""

from __future__ import annotations

from typing import NamedTuple

from flopwise._results import Json
from flopwise.analyses.llm.serving.memory import Memory

_GIB = 2**30

#: The least and the most that the logs have beyond weights, activations and samplers, in bytes, and how many logs.
REST = (int(0.3 * _GIB), int(1.9 * _GIB))
LOGS = 16

#: Bytes of a sampler for each score.
SCORE = 39

#: Sequences at once that vLLM allows by itself: the first on devices of 70 GiB and more that are no A100.
#: https://github.com/vllm-project/vllm, vllm/engine/arg_utils.py, default_max_num_seqs
SEQUENCES = (1024, 256)
LARGE = 70 * _GIB

SOURCE = (
    "16 public logs of vLLM from 0.5 to 0.28: 0.3 to 1.9 GiB of buffers, and 39 bytes for each score of the sequences "
    "that it samples at once where its sampler is PyTorch's; tests/recorded/pools.json names them"
)


class Pool(NamedTuple):
    """The room for the cache, in bytes."""

    #: All that weights and activations leave, and what engines make of it, at least and at most.
    nbytes: int
    low: int
    high: int

    def to_dict(self) -> Json:
        """The key "serving.pool" of ``flopwise.llm/1``."""
        return {"bytes": self.nbytes, "low_bytes": self.low, "high_bytes": self.high, "figures": LOGS, "source": SOURCE}


def pool_of(memory: Memory, sequences: int, have: int, device: str, device_bytes: int) -> Pool | None:
    """The room for the cache on a device; None where nothing grows or nothing is left.

    Args:
        memory: what the device holds.
        sequences: of the request.
        have: bytes that the engine may use.
        device: its name.
        device_bytes: all of its memory.
    """
    activations = memory.workspace_bytes(sequences)
    left = have - memory.weight_bytes - activations
    if left <= 0 or not memory.cache.kept:
        return None
    large = device_bytes >= LARGE and "A100" not in device
    samplers = SCORE * memory.workspace.scores * SEQUENCES[0 if large else 1]
    least, most = REST
    low = left - most - max(samplers - activations, 0)
    return Pool(left, max(low, 0), max(left - least, 0))
