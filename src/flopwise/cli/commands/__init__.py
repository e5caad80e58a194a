"""One file for each command: its options, and the call of the analysis and the report; the table is in ``cli``."""
