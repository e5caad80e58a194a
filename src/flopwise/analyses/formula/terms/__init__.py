"""The parts of formulas: polynomials with floors, their bounds and values, and how they are written."""
