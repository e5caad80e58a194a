"""The cost of a model: rows counted in a convention, grouped and summed.

Comes in: a Graph and a Convention. Goes out: a Profile.
"""
