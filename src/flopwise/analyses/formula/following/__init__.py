"""Models whose own code runs with sizes that carry expressions: programs, and the layers of Caffe nets."""
