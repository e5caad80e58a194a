"""One file for each tool whose numbers are reproduced."""
