"""Programs in files: what an archive says, read as data. Nothing of it is evaluated, imported or compiled.

Comes in: an exported program (.pt2) or a TorchScript file. Goes out: their stored tensors, and of an exported program a
module that runs its operators on meta tensors.
"""
