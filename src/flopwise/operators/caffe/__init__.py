"""Caffe's layers that ONNX has no operator for, under the name ``caffe::Type``."""
