"""A recorded trace, and two of them side by side: as tables, and as figures."""
