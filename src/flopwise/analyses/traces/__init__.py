"""Recorded time: what a profiler wrote down, on the rows of a model, to the last nanosecond; no engine is run."""
