"""Predicted against measured savings of the faults that the tests plant, at sizes that take a time.

For each fault onnxruntime runs the network with it and without it, at level all and with one thread, in turns; what
counts is the least processor time of the thread. The prediction is the share that ``flopwise advise --level all`` names
(0 where it is silent, because the engine does it by itself).

    python benchmarks/advice_speed.py
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.analyses.advice.planted import Family, Fault, Network, faults

import flopwise

ROUNDS = 50

#: Savings within this are none.
NOISE = 0.05

#: Sizes of ``h`` that are worth measuring.
SHAPES = {
    "cnn": (1, 64, 56, 56),
    "decoder": (1, 32, 64, 64),
    "transformer": (1, 128, 384),
    "recurrent": (64, 1, 512),
    "mlp": (64, 1024),
}


def family(name: str, shape: tuple[int, ...]) -> Family:
    """A network of an element-wise operator on each side of the fault."""

    def before(net: Network) -> None:
        net.inputs["x"] = TensorProto.FLOAT, shape
        net.add("Relu", "x", "h")

    def behind(net: Network) -> None:
        net.add("LeakyRelu", "g", "y")

    return Family(name, shape, before, behind)


def measured(fault: Fault, folder: Path) -> tuple[float, float]:
    """Predicted and measured share of the time that the repair saves."""
    paths = [folder / "flawed.onnx", folder / "repaired.onnx"]
    for path, repaired in zip(paths, (False, True), strict=True):
        onnx.save(fault.model(repaired), path)
    advice = flopwise.advise(paths[0], optimization="all", keep_network=True)
    predicted = sum(each.time_share or 0.0 for each in advice.suggestions)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for path in paths]
    random = np.random.default_rng(0)
    feeds = {
        i.name: random.integers(0, 50, i.shape) if "int64" in i.type else random.standard_normal(i.shape, np.float32)
        for i in sessions[0].get_inputs()
    }
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for place, session in enumerate(sessions):
            given = {i.name: feeds[i.name] for i in session.get_inputs()}
            start = time.thread_time_ns()
            session.run(None, given)
            best[place] = min(best[place], time.thread_time_ns() - start)
    return predicted, 1 - best[1] / best[0]


def ranks(values: list[float]) -> np.ndarray:
    """Ranks, equal values with their mean."""
    array = np.array(values)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])


def main() -> None:
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for fault in faults({name: family(name, shape) for name, shape in SHAPES.items()}):
            predicted, saved = measured(fault, Path(folder))
            pairs.append((predicted, saved))
            print(f"{fault.family.name:12} {fault.name:18} predicted {predicted:6.3f}  measured {saved:6.3f}")
    predictions, savings = ([pair[side] for pair in pairs] for side in (0, 1))
    savings = [saved if abs(saved) > NOISE else 0.0 for saved in savings]
    correlation = float(np.corrcoef(ranks(predictions), ranks(savings))[0, 1])
    right = sum(saved > 0 if predicted > 0 else abs(saved) < NOISE for predicted, saved in pairs)
    print(f"{len(pairs)} pairs: rank correlation {correlation:.2f}, right sign {right} of {len(pairs)}")


if __name__ == "__main__":
    main()
