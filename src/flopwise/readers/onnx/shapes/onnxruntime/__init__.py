"""Shapes of onnxruntime's own operators, which onnx does not know."""
