"""Derivation of a formula: a first point, sizes followed from there, figures compared with profiles, other ways."""
