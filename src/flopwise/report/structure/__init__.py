"""The structure of a model as reports show it: modules with what repeats in them, kinds of work, parts by name."""
