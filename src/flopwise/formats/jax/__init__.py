"""Functions of JAX: their jaxpr, primitive by primitive, on abstract values."""
