"""A language model as serving engines run it: what fits their memory."""
