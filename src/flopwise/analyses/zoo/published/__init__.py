"""Costs of models as pages, papers and tools publish them, and under which convention flopwise counts the same.

The figures lie beside the code, one ``.csv`` file for each source; ``sources.csv`` says what the sources are and which
conventions are tried.
"""
