"""Core ML models: MIL programs of packages and files, read as protobuf by a schema of their own."""
