"""Layer types of Caffe as operators with their shapes, a file for each family."""
