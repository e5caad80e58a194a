"""Uses of formulas: source code, functions, largest sizes, grids, plots, documents; other ways of a program."""
