"""Requests in stages: diffusion pipelines, and what stands before the prompt of a language model."""
