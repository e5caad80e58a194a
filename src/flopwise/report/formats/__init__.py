"""One file for each format of reports; ``format`` has the table of them all."""
