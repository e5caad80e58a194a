"""Every operator test of onnx."""
