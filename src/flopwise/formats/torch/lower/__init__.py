"""PyTorch's operators in the vocabulary of ONNX, a file for each family."""
