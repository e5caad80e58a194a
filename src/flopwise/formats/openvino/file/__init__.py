"""The file: layers, ports and edges from the XML, and element types."""
