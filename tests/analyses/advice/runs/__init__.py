"""Rules of a run."""
