"""Files that are no tests of their own."""

from __future__ import annotations

#: They import torch, which must not be needed to look for tests; they hold no doctests.
collect_ignore = ["torch_modules.py", "torch_tools.py", "torch_models.py", "torch_vision.py", "compat/nets.py"]
