"""PyTorch's operators that ONNX has no operator for, a file for each family."""
