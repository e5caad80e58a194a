"""The names of PyTorch's events: what an annotation says, which operators are units, what is no layer's work."""

from __future__ import annotations

import functools
import re

from flopwise.analyses.traces.kineto.counts import ENCODERS
from flopwise.formats.torch.lower.elements import MOVEMENT
from flopwise.formats.torch.lower.layers import LOSSES
from flopwise.formats.torch.lower.operators import LOWERINGS

OPTIMISER, LOADING, LOSS = "optimiser", "data loading", "loss"
ACCUMULATION, COPIES, LAYOUT = "accumulate gradients", "copies", "layout"
COMMUNICATION, COMPILER, GRAPHS, COMPILED = "communication", "compiler", "CUDA graphs", "compiled kernels"
UNMATCHED, OTHER_THREADS = "unmatched", "other threads"

#: Beginning of the name of an annotation -> what the operators in it are part of.
_CONTEXTS = {"Optimizer.": OPTIMISER, "enumerate(DataLoader)": LOADING}

_COPIES = frozenset(("to", "_to_copy", "copy", "item", "_local_scalar_dense", "is_nonzero", "pin_memory", "lift_fresh"))

_COMPILER = re.compile(
    r"TorchDynamo|Torch-Compiled Region|CompiledFunction|AOTDispatcher|Pregraph ?[Bb]ytecode|Inductor|Runtime Wrapper"
)
_COMPILED = re.compile(r"triton_|graph_\d+_|cpp_fused_|## Call CompiledFxGraph")
#: What begins the name of the annotation around compiled code.
CALL = "## Call CompiledFxGraph"

_COMMUNICATION = re.compile(r"nccl|rccl|gloo|c10d|record_param_comms", re.IGNORECASE)
_GRAPHS = re.compile(r"(cuda|hip|cu)GraphLaunch")

#: Namespaces of PyTorch's own operators.
_OWN = frozenset(("aten", "prim", "prims", "profiler", "inductor", "flopwise"))

#: Names of kernels of matrix products -> the product.
_PRODUCTS = (
    (re.compile(r"implicit_?gemm|fprop|winograd", re.IGNORECASE), "convolution"),
    (re.compile(r"matmul_ogs|fused_moe|moe_?gemm|grouped_?gemm", re.IGNORECASE), "_grouped_mm"),
    (re.compile(r"^Cijk_|gemm|nvjet|_mm_kernel|scaled_mm|cutlass.*tensorop", re.IGNORECASE), "linear"),
)

#: Kernels that add up the parts of the product before them.
_PARTS = re.compile(r"split_?k_?(kernel|reduce)", re.IGNORECASE)

#: A node of the backward pass as files of 2021 name it, without the engine's own event around it.
_GRADIENT = re.compile(r"(^|: )\w+Backward\d*$|^torch::autograd::|^autograd::")


def context_of(annotation: str) -> str:
    """The part of a training step that an annotation stands for; "" for others."""
    return next((context for start, context in _CONTEXTS.items() if annotation.startswith(start)), "")


@functools.cache
def is_gradient(name: str) -> bool:
    """True for an operator of the backward pass by its name.

    >>> is_gradient("ConvolutionBackward0"), is_gradient("aten::convolution_backward")
    (True, False)
    """
    return bool(_GRADIENT.search(name))


@functools.cache
def is_compiled_gradient(name: str) -> bool:
    """True for the whole of a backward pass that was compiled."""
    return name.endswith("CompiledFunctionBackward")


@functools.cache
def is_unit(name: str) -> bool:
    """True for an operator that does the work of a row, or of several, rather than standing around such operators."""
    space, _, bare = name.rpartition("::")
    base = bare.rstrip("_")
    if is_gradient(name):
        return not is_compiled_gradient(name)
    return base in ENCODERS or (space == "aten" and (base in LOWERINGS or base.endswith("_backward")))


@functools.cache
def is_custom(name: str) -> bool:
    """True for an operator that is none of PyTorch's own, such as those of libraries for serving.

    >>> is_custom("vllm::unified_attention"), is_custom("aten::mm"), is_custom("ConvolutionBackward0")
    (True, False, False)
    """
    space, separator, _ = name.rpartition("::")
    return bool(separator) and space not in _OWN and not is_gradient(name) and not _COMMUNICATION.search(name)


@functools.cache
def computes(name: str) -> bool:
    """True for an operator of PyTorch that does the work of a row, and does not only make or move elements."""
    return is_unit(name) and name.rpartition("::")[2].rstrip("_") not in MOVEMENT


@functools.cache
def product_of(name: str) -> str:
    """The product that a kernel computes by its name, as a program calls it; "" for others.

    >>> [product_of(name) for name in ("Cijk_Alik_Bljk_BBS", "sm90_xmma_gemm_bf16", "_matmul_ogs_NNT", "rope")]
    ['linear', 'linear', '_grouped_mm', '']
    """
    return next((product for pattern, product in _PRODUCTS if pattern.search(name)), "")


def adds_parts(kernel: str) -> bool:
    """True for a kernel that adds up the parts of a product that another one computed just before.

    >>> adds_parts("void cublasLt::splitKreduce_kernel<32, 16>(...)"), adds_parts("sm90_xmma_gemm_bf16_execute_kernel")
    (True, False)
    """
    return bool(_PARTS.search(kernel))


def bare(kernel: str) -> str:
    """The name of a kernel without its result, namespace, template and arguments; one that is mangled as it is.

    >>> bare("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)")
    'rotary_embedding_kernel'
    """
    return re.split(r"[<(]", kernel)[0].rpartition("::")[2].rpartition(" ")[2] or kernel


def is_graph(launch: str) -> bool:
    """True for the call of the driver that starts a CUDA graph."""
    return bool(_GRAPHS.match(launch))


@functools.cache
def remainder_of(name: str) -> str:
    """The name under which the time of an operator is reported that no row does."""
    base = name.rpartition("::")[2].rstrip("_")
    if "AccumulateGrad" in name:
        return ACCUMULATION
    if _COMPILED.match(name):
        return COMPILED
    if _COMPILER.search(name):
        return COMPILER
    if _COMMUNICATION.search(name):
        return COMMUNICATION
    if base in _COPIES:
        return COPIES
    if base.startswith(("_foreach", "_fused_")):
        return OPTIMISER
    if base in LOSSES:
        return LOSS
    return LAYOUT if base in MOVEMENT else UNMATCHED


@functools.cache
def remainder_of_kernel(name: str, launch: str, copy: bool) -> str:
    """The same of a kernel that no operator started."""
    if copy:
        return COPIES
    if _COMMUNICATION.search(name):
        return COMMUNICATION
    if _GRAPHS.match(launch):
        return GRAPHS
    return COMPILED if _COMPILED.match(name) else UNMATCHED
