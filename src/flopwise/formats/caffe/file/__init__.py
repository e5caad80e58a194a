"""The text, binary and HDF5 forms of a Caffe net as messages without a schema."""
