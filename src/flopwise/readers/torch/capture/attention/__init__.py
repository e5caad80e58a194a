"""What recording adds to attention.

Comes in: the call of an attention. Goes out: how many pairs its mask leaves, which kernel computes it, and the
operations of a function that changes its scores.
"""
