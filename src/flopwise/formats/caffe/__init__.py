"""Caffe nets.

Comes in: a .prototxt or .caffemodel. Goes out: a Graph with resolved shapes.
"""
