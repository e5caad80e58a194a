"""One file for each command: what it prints."""
