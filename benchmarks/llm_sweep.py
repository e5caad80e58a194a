"""Every causal and encoder-decoder model type of transformers, reduced: prefill and a step with a cache, counted by
flopwise on tensors without memory and by PyTorch's FlopCounterMode around the real program; and the bytes of the cache.

    python benchmarks/llm_sweep.py [TYPE ...]

FlopCounterMode does not see fused attention on the CPU, so the real program runs with eager attention. What does not
equal is listed with its reason. It takes about ten minutes.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from pathlib import Path

from limited import limited

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PAST, NEW, BATCH = 12, 1, 2
SECONDS = 240


def types() -> list[str]:
    """The model types with a causal head, or with an encoder and a decoder."""
    import tests.torch_vision  # noqa: F401 - before a model of transformers asks for torchvision
    from transformers.models.auto import modeling_auto as auto

    causal, pairs = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return sorted({*causal, *pairs})


def one(kind: str) -> str:
    """ "equal", or in a line what differs or why nothing can be compared."""
    import tests.torch_vision  # noqa: F401
    import torch
    from tests.language_steps import compare

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        return compare(kind, PAST, NEW, BATCH)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _limited(kind: str) -> tuple[str, str]:
    """A type and what came of it, which is printed at once where there is something to say."""
    result = limited(one, kind, SECONDS)
    if result != "equal":
        print(f"{kind:34} {result}", flush=True)
    return kind, result


def main() -> None:
    from concurrent.futures import ThreadPoolExecutor

    kinds = sys.argv[1:] or types()
    with ThreadPoolExecutor(2) as pool:
        results = dict(pool.map(_limited, kinds))
    counts = Counter(result.partition(":")[0] for result in results.values())
    equal = sum(number for result, number in counts.items() if result.startswith("equal"))
    print(f"{equal} of {len(results)} equal ({100 * equal / len(results):.1f} %);", dict(counts))


if __name__ == "__main__":
    main()
