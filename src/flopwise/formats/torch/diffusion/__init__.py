"""Diffusion pipelines of diffusers: their modules without memory, and the calls that a request makes of each."""
