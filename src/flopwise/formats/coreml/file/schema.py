"""The messages of a Core ML specification: their fields by number, as far as anything is counted by them.

A field is written ``name number kind``; a kind is a number or text, a message of this page, or ``place`` for what is
read when somebody asks for it; ``*`` marks what repeats. Source: https://apple.github.io/coremltools/mlmodel/index.html
"""

from __future__ import annotations

from typing import NamedTuple

_TEXT = """
Model: specificationVersion 1 int, description 2 ModelDescription, mlProgram 502 Program
ModelDescription: input 1 FeatureDescription*, functions 20 FunctionDescription*, defaultFunctionName 21 text
FunctionDescription: name 1 text, input 2 FeatureDescription*
FeatureDescription: name 1 text, type 3 FeatureType
FeatureType: imageType 4 ImageFeatureType, multiArrayType 5 ArrayFeatureType, stateType 8 StateFeatureType
StateFeatureType: arrayType 1 ArrayFeatureType
ImageFeatureType: width 1 int, height 2 int, colorSpace 3 int
ArrayFeatureType: shape 1 ints, dataType 2 int, enumeratedShapes 21 EnumeratedShapes, shapeRange 31 ShapeRange
EnumeratedShapes: shapes 1 Shape*
Shape: shape 1 ints
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
"""

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


class FieldOf(NamedTuple):
    """A field of a message."""

    name: str
    #: "int", "ints", "text" or "place", or the name of a message.
    kind: str
    repeated: bool


def _parsed(text: str) -> dict[str, dict[int, FieldOf]]:
    messages: dict[str, dict[int, FieldOf]] = {}
    for line in text.strip().splitlines():
        message, _, listed = line.partition(": ")
        fields = messages[message] = {}
        for field in listed.split(", "):
            name, number, kind = field.split()
            fields[int(number)] = FieldOf(name, kind.rstrip("*"), kind.endswith("*"))
    return messages


#: Message -> number of a field -> the field.
SCHEMA = _parsed(_TEXT)
