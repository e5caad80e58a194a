"""OpenVINO layers as operators of the tables, with their attributes."""
