"""What the test environment has, as lines of constraints.txt:

python3 -m venv fresh && fresh/bin/pip install -c <(grep '  #' constraints.txt) -e '.[test]'
fresh/bin/python packaging/constraints.py > constraints.txt

Run the tests with it before it is committed: a new version of a tool that we compare with brings operators, options and
figures that want an answer first.
"""

from __future__ import annotations

import re
from importlib import metadata

from packaging.specifiers import SpecifierSet

#: Why a version is held back, by package; these stay as they are when the others move.
REASONS = {
    "torch": "unpinned, it brings gigabytes of CUDA packages into an environment without a GPU",
    "torchvision": "goes with that torch",
    "timm": "the published figures are recorded with this version",
    "opencv-python": "5.0 reads no Caffe nets any more, and lies in the same folder as the headless one",
    "opencv-python-headless": "5.0 reads no Caffe nets any more",
}
#: A virtual environment has them of its own.
TOOLS = {"flopwise", "pip", "wheel"}


def constraints() -> list[str]:
    """A line for each installed package: its version, and the Python from which that version runs."""
    lines = []
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        if name in TOOLS:
            continue
        line = f"{name}=={distribution.version.split('+')[0]}"
        asked = distribution.metadata.get("Requires-Python")
        if asked and not SpecifierSet(asked).contains("3.10.99"):
            line += '; python_version >= "3.11"'
        lines.append(line + (f"  # {REASONS[name]}" if name in REASONS else ""))
    return sorted(set(lines))


if __name__ == "__main__":
    print("# The versions that the tests run with, written by packaging/constraints.py in a fresh environment.")
    print("\n".join(constraints()))
