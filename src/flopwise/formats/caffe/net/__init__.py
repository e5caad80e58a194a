"""The layers of one phase of a net, in their order and in their newest form."""
