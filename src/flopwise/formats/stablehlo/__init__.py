"""StableHLO modules: MLIR as text or bytecode, decoded by the bindings of jaxlib in a child process."""
