"""Questions about a model beyond its profile, one package for each."""
