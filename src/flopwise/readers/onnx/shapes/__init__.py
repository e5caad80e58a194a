"""Shapes of every tensor: onnx's C++ inference first, then what it leaves unresolved."""
