"""One file for each format that a sheet or a profile is written in."""
