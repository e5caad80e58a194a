"""Requests in stages, each of which is a model of its own: encoders of text, images and sound, denoisers, decoders."""
