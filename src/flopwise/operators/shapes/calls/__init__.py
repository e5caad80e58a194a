"""Shapes of PyTorch's operators whose arguments say what ONNX has in attributes."""
