"""All that flopwise knows about operators: what each one computes, in tables by family.

Comes in: a node with resolved shapes. Goes out: its operations by class (Counts).
"""
