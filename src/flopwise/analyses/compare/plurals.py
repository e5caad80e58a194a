"""Layers of an operator in a sentence: convolutions, linear layers, attention's projections."""

from __future__ import annotations

from typing import NamedTuple

from flopwise.graph import Graph, Node
from flopwise.graph.names import layer_kind


class Layers(NamedTuple):
    """A name for several layers, and the module in which they lie."""

    words: str
    #: The module that several of them are one of; "" where each is a layer of its own.
    place: str = ""
    #: The multi-head attention that they are a part of; "" outside of one.
    attention: str = ""


#: Operator -> what its layers are called; any other by the name that its rows show.
PLURALS = {
    "Add": "additions",
    "Attention": "scaled dot-product attention",
    "AveragePool": "average pooling",
    "BatchNormalization": "batch norm",
    "Clip": "clipping (ReLU6 and the like)",
    "Concat": "concatenation",
    "Conv": "convolutions",
    "ConvTranspose": "transposed convolutions",
    "Div": "divisions",
    "Dropout": "dropout",
    "Einsum": "einsum products",
    "Elu": "ELU",
    "Erf": "erf (in GELU)",
    "Exp": "exponentials",
    "GRU": "GRUs",
    "Gather": "look-ups (embeddings and indexing)",
    "Gelu": "GELU",
    "Gemm": "linear layers",
    "GlobalAveragePool": "global average pooling",
    "GlobalMaxPool": "global max pooling",
    "GroupNormalization": "group norm",
    "HardSigmoid": "hard sigmoid",
    "HardSwish": "hard swish",
    "InstanceNormalization": "instance norm",
    "LRN": "local response norm",
    "LSTM": "LSTMs",
    "LayerNormalization": "layer norm",
    "LeakyRelu": "leaky ReLU",
    "MatMul": "matrix products",
    "MaxPool": "max pooling",
    "Mul": "multiplications",
    "PRelu": "PReLU",
    "Pow": "powers",
    "RMSNormalization": "RMS norm",
    "RNN": "RNNs",
    "ReduceMean": "means",
    "ReduceSum": "sums over axes",
    "Relu": "ReLU",
    "Resize": "resizing (interpolation)",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Sqrt": "square roots",
    "Sub": "subtractions",
    "Sum": "sums",
    "Swish": "SiLU (swish)",
    "Tanh": "tanh",
}

#: The public function of PyTorch that an attention with packed projections runs in.
ATTENTION = "torch.nn.functional.multi_head_attention_forward"


def layers_of(node: Node, graph: Graph) -> Layers:
    """The name of the layers that a node is one of, for a sentence; projections in an attention are set apart."""
    words = PLURALS.get(node.op) or layer_kind(node, graph)
    if not (ATTENTION in node.via or (node.scope and node.scope[-1].kind.endswith("MultiheadAttention"))):
        return Layers(words)
    if node.op in ("Gemm", "MatMul"):
        return Layers("attention's in and out projections", node.module, node.module)
    return Layers(words, "", node.module)
