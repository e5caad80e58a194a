#!/usr/bin/env bash
# flopwise without PyTorch, on the Python that PATH or PYTHON has: the core alone on an example, then the tests of files.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q .
"$work/venv/bin/flopwise" profile examples/tiny_resnet.onnx --by op
"$work/venv/bin/pip" install -q '.[symbolic,budget,h5,gguf,pandas,arrow]' pytest pytest-xdist hypothesis
"$work/venv/bin/python" -m pytest -q -n auto -p no:cacheprovider tests/graph tests/storage tests/profiles tests/conventions \
  tests/formats/caffe tests/formats/onnx tests/formats/weights tests/report/formats tests/analyses/budget
