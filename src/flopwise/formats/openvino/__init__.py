"""OpenVINO's intermediate representation (``.xml`` beside ``.bin``), read as ONNX models are.

Comes in: the XML, by the standard library's parser. Its layers become operators of the house with rules for sizes of
their own, in the form in which the ONNX reader holds a model; from there on they take the same way. Weights stay where
they lie in the ``.bin``, which need not be there.
"""
