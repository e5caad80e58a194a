"""Profiles for the viewers that people already use: Netron, Model Explorer, notebooks."""
