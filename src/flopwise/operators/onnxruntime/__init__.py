"""onnxruntime's own operators (``com.microsoft`` and its memory layouts), a file for each family."""
