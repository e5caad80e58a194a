"""onnx's C++ code, called so that a damaged or hostile model cannot take the process down.

Comes in: models and nodes. Goes out: the same with types, or an exception. What is not proven safe runs in a child.
"""
