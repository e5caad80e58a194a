"""What formulas are made of: polynomials with floors, their bounds and values, and how they are written."""
