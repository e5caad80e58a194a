"""The files of a Core ML model: the messages of its specification, the package around it, the weights beside it.

Sources: https://apple.github.io/coremltools/mlmodel/index.html (messages),
https://apple.github.io/coremltools/docs-guides/source/convert-to-ml-program.html (packages) and
https://github.com/apple/coremltools/blob/main/mlmodel/src/MILBlob/Blob/StorageFormat.hpp (weights).
"""

from __future__ import annotations

import json
import os
import struct

from flopwise.errors import ModelError, damaged
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.schema import Messages, schema
from flopwise.formats.sources.source import BytesSource, FileSource, Source

# Messages.

#: As far as anything is counted by them; what is a place is read when somebody asks for it.
SCHEMA = schema("""
Model: specificationVersion 1 int, description 2 ModelDescription, mlProgram 502 Program
ModelDescription: input 1 FeatureDescription*, functions 20 FunctionDescription*, defaultFunctionName 21 text
FunctionDescription: name 1 text, input 2 FeatureDescription*
FeatureDescription: name 1 text, type 3 FeatureType
FeatureType: imageType 4 ImageFeatureType, multiArrayType 5 ArrayFeatureType, stateType 8 StateFeatureType
StateFeatureType: arrayType 1 ArrayFeatureType
ImageFeatureType: width 1 int, height 2 int, colorSpace 3 int
ArrayFeatureType: shape 1 int*, dataType 2 int, enumeratedShapes 21 EnumeratedShapes, shapeRange 31 ShapeRange
EnumeratedShapes: shapes 1 Shape*
Shape: shape 1 int*
ShapeRange: sizeRanges 1 SizeRange*
SizeRange: lowerBound 1 int, upperBound 2 int
Program: version 1 int, functions 2 FunctionsEntry*
FunctionsEntry: key 1 text, value 2 Function
Function: inputs 1 NamedValueType*, opset 2 text, block_specializations 3 BlockSpecializationsEntry*
BlockSpecializationsEntry: key 1 text, value 2 Block
Block: inputs 1 NamedValueType*, outputs 2 text*, operations 3 Operation*
Operation: type 1 text, inputs 2 InputsEntry*, outputs 3 NamedValueType*, blocks 4 Block*, attributes 5 AttributesEntry*
InputsEntry: key 1 text, value 2 Argument
AttributesEntry: key 1 text, value 2 place
Argument: arguments 1 Binding*
Binding: name 1 text, value 2 place
NamedValueType: name 1 text, type 2 ValueType
ValueType: tensorType 1 TensorType, listType 2 ListType, tupleType 3 TupleType, stateType 5 StateType
TensorType: dataType 1 int, rank 2 int, dimensions 3 Dimension*
TupleType: types 1 ValueType*
ListType: type 1 ValueType
StateType: wrappedType 1 ValueType
Dimension: constant 1 ConstantDimension, unknown 2 UnknownDimension
ConstantDimension: size 1 int
UnknownDimension: variadic 1 int
Value: type 2 ValueType, immediateValue 3 ImmediateValue, blobFileValue 5 BlobFileValue
ImmediateValue: tensor 1 TensorValue
BlobFileValue: fileName 1 text, offset 2 int
TensorValue: floats 1 Numbers, ints 2 Numbers, bools 3 Numbers, strings 4 Texts, longInts 5 Numbers, \
doubles 6 Numbers, bytes 7 Numbers
Numbers: values 1 place
Texts: values 1 text*
""")

#: Kinds of model that are no network, by the field of Model that holds them.
OTHERS = {
    200: "a pipeline",
    201: "a pipeline",
    202: "a pipeline",
    300: "a generalised linear model",
    301: "a support vector machine",
    302: "a tree ensemble",
    303: "a neural network of the format before MIL programs",
    304: "a Bayesian regression",
    400: "a generalised linear model",
    401: "a support vector machine",
    402: "a tree ensemble",
    403: "a neural network of the format before MIL programs",
    404: "a nearest-neighbour classifier",
    500: "a neural network of the format before MIL programs",
    501: "a recommender of similar items",
    555: "a custom model, whose code is an app's",
    556: "a link to another model",
    560: "thresholds of confidences",
    600: "a one-hot encoder",
    601: "an imputer",
    602: "a vectoriser of features",
    603: "a vectoriser of dictionaries",
    604: "a scaler",
    606: "a mapping of categories",
    607: "a normaliser",
    609: "a picker of features",
    610: "a suppression of overlapping boxes",
    900: "an identity",
    2000: "a classifier of texts, whose network is a part of the system",
    2001: "a tagger of words, whose network is a part of the system",
    2002: "image features, whose network is a part of the system",
    2003: "a preprocessing of sound",
    2004: "a gazetteer",
    2005: "a word embedding",
    2006: "audio features, whose network is a part of the system",
    3000: "an encrypted or serialised model",
}

WHAT = "Core ML model"

#: Specifications of up to so many bytes are read at once.
_AT_ONCE = 1 << 26


def specification(source: Source) -> Messages:
    """The messages of a specification."""
    small = source.size <= _AT_ONCE
    return Messages(BytesSource(source.read(0, source.size), source.name) if small else source, SCHEMA, WHAT)


# The package: a folder with a manifest that says which of its files is the specification.

#: The manifest of a package, and the folder in it that its paths start from.
MANIFEST, DATA = "Manifest.json", "Data"

#: Bytes that a manifest may take.
_LARGEST = 1 << 20


def is_package(path: str) -> bool:
    """True for a folder that is a package by its name, or by the manifest and the data in it."""
    if not os.path.isdir(path):
        return False
    named = path.rstrip("/\\").lower().endswith(".mlpackage")
    return named or all(os.path.exists(os.path.join(path, name)) for name in (MANIFEST, DATA))


def opened(model: object) -> tuple[Source, str]:
    """The specification of a model, and what to call the model: a package by its path, or a file, bytes or a stream.

    Raises:
        ModelError: it cannot be read, or the manifest names a file outside the package.
    """
    if not isinstance(model, (str, os.PathLike)) or not os.path.isdir(model):
        source = open_source(model)
        if source.read(0, min(source.size, 4)) == b"PK\x03\x04":
            source.close()
            raise ModelError(f"{source.name}: a Core ML package in a ZIP archive; unpack it first")
        return source, source.name
    path = os.path.normpath(os.fsdecode(model))
    return FileSource(_inside(path, os.path.join(DATA, _specification(path)))), path


def _specification(path: str) -> str:
    """Path of the specification in a package's data."""
    try:
        manifest = FileSource(_inside(path, MANIFEST))
    except ModelError as error:
        raise ModelError(f"{path}: no package of Core ML ({error})") from None
    try:
        if manifest.size > _LARGEST:
            raise ModelError(f"{path}: {MANIFEST} takes {manifest.size:,} bytes")
        listed = json.loads(manifest.read(0, manifest.size))
        entry = listed["itemInfoEntries"][listed["rootModelIdentifier"]]["path"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ModelError(f"{path}: {MANIFEST} names no model") from None
    finally:
        manifest.close()
    if not isinstance(entry, str) or "\0" in entry:
        raise ModelError(f"{path}: {MANIFEST} names no model")
    return entry


def _inside(package: str, name: str) -> str:
    """The path of a file of a package.

    Raises:
        ModelError: it lies outside, be it through a link.
    """
    path = os.path.join(package, name)
    root = os.path.join(os.path.realpath(package), DATA if name.startswith(DATA) else "")
    if not os.path.realpath(path).startswith(os.path.join(root, "")):
        raise ModelError(f"{package}: {name!r} lies outside the package; refused")
    return path


# The file of weights: a header before each tensor says its type, length and place.

#: What a fileName of a specification begins with: the folder that the specification is in.
ROOT = "@model_path/"

#: The first number of the header of a tensor, and its fields: that number, a type, length and place in bytes.
_MARK = 0xDEADBEEF
_FIELDS = struct.Struct("<IIQQ")

#: Bytes of a header.
HEADER = 64


class Weights:
    """The files of weights of a model, opened when somebody reads; they need not be there."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._files: dict[str, Source | None] = {}
        #: The files that cannot be read -> why.
        self.missing: dict[str, str] = {}

    def place(self, file: str, offset: int, what: str) -> tuple[int, int] | None:
        """Where the elements of a tensor begin in a file, and how many bytes they are; None where it is not there.

        Raises:
            ModelError: the file has no tensor at that place.
        """
        opened = self._opened(file)
        if opened is None:
            return None
        fits = 0 <= offset <= opened.size - _FIELDS.size
        mark, _, length, start = _FIELDS.unpack(opened.read(offset, _FIELDS.size)) if fits else (0, 0, 0, 0)
        if mark != _MARK or start + length > opened.size:
            raise damaged(self._source.name, f"{what}: {file} has no tensor at {offset}", WHAT)
        return start, length

    def read(self, file: str, start: int, length: int) -> bytes:
        """Bytes of a file."""
        opened = self._opened(file)
        return b"" if opened is None else opened.read(start, length)

    def _opened(self, file: str) -> Source | None:
        if file not in self._files:
            try:
                self._files[file] = self._source.beside(file, f"{self._source.name}: weights")
            except ModelError as error:
                if "refused" in str(error):
                    raise
                self._files[file], self.missing[file] = None, str(error)
        return self._files[file]

    def close(self) -> None:
        """Close the files that are open."""
        for file in self._files.values():
            if file is not None:
                file.close()
