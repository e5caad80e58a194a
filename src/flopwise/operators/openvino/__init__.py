"""Operators of OpenVINO that ONNX has none for, or that take their settings in a way of their own."""
