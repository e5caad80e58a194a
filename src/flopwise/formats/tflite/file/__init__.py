"""The file: flatbuffers, and what the schema calls their fields."""
