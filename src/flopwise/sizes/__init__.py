"""The sizes of all tensors of a graph: one forward pass over its nodes, by the rules in the operators' rows.

Comes in: a graph as a file holds it (``program.py``), and facts about its inputs. Goes out: a `Scope`, the facts about
all its tensors (``facts.py``): element types, shapes, members of sequences, and the elements of small tensors. Nothing
here knows a file format, and nothing but Python is needed.
"""
