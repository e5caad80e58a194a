"""How a formula is derived: a first point, sizes followed from there, figures compared with profiles, other ways."""
