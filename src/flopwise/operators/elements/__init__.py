"""The elements of small results: the arithmetic on shapes that models do; loaded when a model has such an operator.

Elements are flat tuples in row-major order. Each is a number, flag or text, a size of any kind, or None where it is not
known. Comes in: an application of an operator and the shapes of its results. Goes out: their elements.
"""
