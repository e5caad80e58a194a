"""The least time of a model on a device, layer by layer: as tables, as JSON, and as a figure."""
