"""Bytes from files, streams, memory and URLs, read only where somebody asks; and the protobuf wire format."""
