"""Runs a module on tensors without memory and records every operation that it asks for."""
