"""The types of the results of operators that onnx does not infer; loaded when a model has such an operator.

Comes in: an application of an operator (``operators/shape.py``). Goes out: the types of its results.
Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""
