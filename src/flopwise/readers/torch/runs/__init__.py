"""Running a module so that its operations are recorded.

Comes in: a module and its arguments. Goes out: the run's events, the calls of its modules, its outputs; the module, the
arguments and PyTorch's settings are as before.
"""
