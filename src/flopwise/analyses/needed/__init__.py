"""The work that an engine needs of a program: pairs that masks leave, absorbed latents, scores of the last position."""
