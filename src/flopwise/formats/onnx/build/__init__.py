"""Nodes with resolved shapes made into a Graph: scopes, and what each stored tensor is for."""
