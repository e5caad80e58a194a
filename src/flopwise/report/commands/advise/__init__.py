"""Reports of advice: the changes with their savings, and the rules."""
