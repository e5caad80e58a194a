"""ONNX models written back to files."""
