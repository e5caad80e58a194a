"""A report before it is decided how it is written: lines, columns, units and texts."""
