"""The rules of a run, with their thresholds: the table is read from top to bottom."""

from __future__ import annotations

from flopwise.analyses.advice.runs import finding
from flopwise.analyses.advice.runs.rule import RunRule

_TRACELENS = "TraceLens (171dd747), rules of its agent"
_KINETO = "PyTorch's TensorBoard profiler (041e7ce9), recommendations"
_TENSORRT = "NVIDIA, trt-perf-analysis (a892d222)"

RUN_RULES = (
    RunRule(
        "idle",
        "Keep the device busy: larger batches, asynchronous copies, fewer synchronisations, CUDA graphs.",
        f"{_TRACELENS}: idle for over 15 % of the step",
        0.15,
        finding.idle,
    ),
    RunRule(
        "data-loading",
        "Load data beside the step: workers, pinned memory, prefetching.",
        f"{_KINETO}: over 5 % of the step",
        0.05,
        finding.loading,
    ),
    RunRule(
        "copies",
        "Copy less between host and device, and convert types once.",
        f"{_TRACELENS}: copies over 5 % of the step",
        0.05,
        finding.copies,
    ),
    RunRule(
        "launch-bound",
        "Fuse short kernels, batch them, or launch them together (torch.compile, CUDA graphs).",
        f"{_TENSORRT}: 20 or more under 5 µs that take 20 %",
        0.20,
        finding.launch_bound,
    ),
    RunRule(
        "communication",
        "Overlap communication with arithmetic.",
        f"{_TRACELENS}: exposed for over 5 % of the step",
        0.05,
        finding.communication,
    ),
    RunRule(
        "transposes",
        "Keep one layout: channels last, for convolutions.",
        f"{_TRACELENS}: over 10 % of the convolutions' time",
        0.10,
        finding.transposes,
    ),
    RunRule(
        "far-from-roof",
        "Look at kernels that take most of the time far from what the device can do.",
        f"{_TENSORRT}: 10 % of the time is a hotspot; {_TRACELENS}: 75 % of the roof is within reach",
        0.10,
        finding.far_from_roof,
    ),
    RunRule(
        "tensor-cores",
        "Compute products of float32 in tf32, bfloat16 or float16.",
        f"{_KINETO}: eligible products without tensor cores; {_TENSORRT}: from 5 % of the time on",
        0.05,
        finding.without_tensor_cores,
    ),
    RunRule(
        "variance",
        "Find out why a layer takes longer in some steps: other programs, clocks, other shapes.",
        f"{_TRACELENS}: 10 steps and 5 % of the time; torch.utils.benchmark: a spread of over 10 %",
        0.10,
        finding.variance,
    ),
)
