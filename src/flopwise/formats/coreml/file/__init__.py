"""The files of a Core ML model: the package, the specification, and the file of weights."""
