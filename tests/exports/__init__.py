"""Models exported with PyTorch in the test session, and compared with PyTorch's own count of the module itself."""
