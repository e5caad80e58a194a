#!/usr/bin/env bash
# flopwise without any extra, on the Python that PATH has: installed from a wheel, then the tests that need nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q . pytest hypothesis
"$work/venv/bin/flopwise" profile examples/tiny_resnet.onnx --by op
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests/readers/onnx tests/readers/caffe tests/operators tests/memory \
  tests/graph tests/conventions tests/profiles tests/report tests/cli
