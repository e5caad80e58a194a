"""Random graphs that compute with shapes, as exporters write them: none of their operators gets what it cannot take."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

#: The largest size that a graph computes, and the most elements of a tensor.
LARGEST, MOST = 64, 4096


class Arithmetic:
    """One graph while it grows."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        #: Sizes that the graph has computed, each a scalar or a vector of one, by name.
        self.sizes: dict[str, int] = {}
        #: Tensors of numbers with their shapes.
        self.tensors: dict[str, tuple[int, ...]] = {}
        for place in range(2):
            shape = tuple([self.chance.choice((1, 2, 3, 4, 6, 8)) for _ in range(self.chance.randint(2, 4))])
            self.inputs[f"x{place}"] = self.tensors[f"x{place}"] = shape

    def model(self, steps: int, padding: int = 0) -> onnx.ModelProto:
        """A model of so many steps, with so many operators more that change nothing."""
        kinds: list[Callable[[], None]] = [
            *[self.extent] * 4,
            *[self.arithmetic] * 5,
            *[self.rounded] * 2,
            self.chosen,
            self.of_vector,
            *[self.reshaped] * 3,
            self.flattened,
            self.expanded,
            self.filled,
            self.counted,
            self.sliced,
            self.padded,
            self.tiled,
            self.largest,
            self.joined,
            self.parted,
            self.multiplied,
        ]
        for _ in range(steps):
            self.chance.choice(kinds)()
        for place in range(padding):
            self.add("Relu" if place % 2 else "Neg", ["x0" if not place else f"pad{place - 1}"], f"pad{place}")
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs.items()]
        made = [onnx.ValueInfoProto(name=self.nodes[-1].output[0])]
        graph = helper.make_graph(self.nodes, "g", values, made, self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def add(self, op: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        """Name of the result of a new operator."""
        name = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Name of a stored tensor, or of one that a Constant makes."""
        name = f"c{len(self.stored) + len(self.nodes)}"
        held = numpy_helper.from_array(numpy.array(value, dtype), name)
        if self.chance.random() < 0.5:
            self.stored.append(held)
            return name
        return self.add("Constant", [], value=held)

    def size(self, most: int = LARGEST) -> tuple[str, int]:
        """A size that the graph has computed as a vector of one, or that is stored."""
        listed = [one for one in self.sizes.items() if 1 <= one[1] <= most]
        if not listed or self.chance.random() < 0.2:
            value = self.chance.randint(1, min(4, most))
            return self.constant([value]), value
        return self.chance.choice(listed)

    def tensor(self) -> tuple[str, tuple[int, ...]]:
        return self.chance.choice(list(self.tensors.items()))

    def keep(self, name: str, value: int) -> None:
        if 0 <= value <= LARGEST:
            self.sizes[name] = value

    def hold(self, name: str, shape: tuple[int, ...]) -> None:
        if 0 < math.prod(shape) <= MOST and len(shape) <= 5:
            self.tensors[name] = shape

    def extent(self) -> None:
        name, shape = self.tensor()
        if not shape:
            return
        axis, way = self.chance.randrange(len(shape)), self.chance.randrange(4)
        if way == 0:
            picked = self.add("Gather", [self.add("Shape", [name]), self.constant([axis])], axis=0)
        elif way == 1:
            scalar = self.add("Gather", [self.add("Shape", [name]), self.constant(axis - len(shape))], axis=0)
            picked = self.add("Unsqueeze", [scalar, self.constant([0])])
        elif way == 2:
            ends = [self.constant([axis]), self.constant([axis + 1])]
            picked = self.add("Slice", [self.add("Shape", [name]), *ends])
        else:
            picked = self.add("Shape", [name], start=axis, end=axis + 1)
        self.keep(picked, shape[axis])

    def arithmetic(self) -> None:
        (a, one), (b, other) = self.size(), self.size()
        op = self.chance.choice(("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"))
        made = {
            "Add": one + other,
            "Sub": one - other,
            "Mul": one * other,
            "Div": one // other,
            "Mod": one % other,
            "Max": max(one, other),
            "Min": min(one, other),
        }[op]
        self.keep(self.add(op, [a, b]), made)

    def rounded(self) -> None:
        """A size times a number or by another, rounded."""
        a, one = self.size()
        ratio, op = self.chance.choice((0.5, 0.25, 2.0, 1.5)), self.chance.choice(("Floor", "Ceil", "Round"))
        product = self.add("Mul", [self.add("Cast", [a], to=1), self.constant([ratio], "float32")])
        way = {"Floor": math.floor, "Ceil": math.ceil, "Round": round}[op]
        self.keep(self.add("Cast", [self.add(op, [product])], to=7), way(one * ratio))

    def chosen(self) -> None:
        (a, one), (b, other) = self.size(), self.size()
        op = self.chance.choice(("Equal", "Less", "Greater"))
        flag = {"Equal": one == other, "Less": one < other, "Greater": one > other}[op]
        self.keep(self.add("Where", [self.add(op, [a, b]), a, b]), one if flag else other)

    def of_vector(self) -> None:
        """One number of several: their product, sum, largest or one of them."""
        listed = [self.size(8) for _ in range(self.chance.randint(1, 3))]
        vector, values = self.add("Concat", [name for name, _ in listed], axis=0), [value for _, value in listed]
        op = self.chance.choice(("ReduceProd", "ReduceMax", "ReduceMin", "Gather", "CumSum"))
        if op == "Gather":
            place = self.chance.randrange(len(values))
            self.keep(self.add("Gather", [vector, self.constant([place])], axis=0), values[place])
        elif op == "CumSum":
            sums = self.add("CumSum", [vector, self.constant(0)])
            self.keep(self.add("Slice", [sums, self.constant([-1]), self.constant([LARGEST])]), sum(values))
        else:
            way = {"ReduceProd": math.prod, "ReduceMax": max, "ReduceMin": min}[op]
            self.keep(self.add(op, [vector], axes=[0], keepdims=1), way(values))

    def reshaped(self) -> None:
        name, shape = self.tensor()
        total = math.prod(shape)
        fitting = [one for one in self.sizes.items() if one[1] and total % one[1] == 0]
        if not fitting:
            return
        size, value = self.chance.choice(fitting)
        parts = [size, self.constant([-1])]
        target: tuple[int, ...] = (value, total // value)
        if self.chance.random() < 0.3:
            parts, target = parts[::-1], target[::-1]
        elif shape and shape[0] == value and self.chance.random() < 0.5:
            parts[0] = self.constant([0])
        self.hold(self.add("Reshape", [name, self.add("Concat", parts, axis=0)]), target)

    def flattened(self) -> None:
        name, shape = self.tensor()
        axis = self.chance.randint(0, len(shape))
        self.hold(self.add("Flatten", [name], axis=axis), (math.prod(shape[:axis]), math.prod(shape[axis:])))

    def expanded(self) -> None:
        name, shape = self.tensor()
        size, value = self.size(8)
        parts = [size, self.constant([1] * len(shape))]
        self.hold(self.add("Expand", [name, self.add("Concat", parts, axis=0)]), (value, *shape))

    def filled(self) -> None:
        (a, one), (b, other) = self.size(16), self.size(16)
        self.hold(self.add("ConstantOfShape", [self.add("Concat", [a, b], axis=0)]), (one, other))

    def counted(self) -> None:
        a, one = self.size()
        step = self.chance.choice((1, 2, 3))
        limit = self.add("Squeeze", [a, self.constant([0])])
        numbers = self.add("Range", [self.constant(0), limit, self.constant(step)])
        self.hold(self.add("Cast", [numbers], to=1), (-(-one // step),))

    def sliced(self) -> None:
        name, shape = self.tensor()
        if not shape:
            return
        axis = self.chance.randrange(len(shape))
        (a, start), (b, end) = self.size(), self.size()
        step = self.chance.choice((1, 1, 2))
        if self.chance.random() < 0.3:
            a, start = self.add("Neg", [a]), -start
        inputs = [name, a, b, self.constant([axis]), self.constant([step])]
        extent = len(range(*slice(start, end, step).indices(shape[axis])))
        self.hold(self.add("Slice", inputs), (*shape[:axis], extent, *shape[axis + 1 :]))

    def padded(self) -> None:
        name, shape = self.tensor()
        if not shape:
            return
        size, value = self.size(8)
        zeros = self.constant([0] * (2 * len(shape) - 1))
        pads = self.add("Concat", [size, zeros], axis=0)
        self.hold(self.add("Pad", [name, pads]), (shape[0] + value, *shape[1:]))

    def tiled(self) -> None:
        name, shape = self.tensor()
        if not shape:
            return
        size, value = self.size(4)
        times = self.add("Concat", [*[self.constant([1])] * (len(shape) - 1), size], axis=0)
        self.hold(self.add("Tile", [name, times]), (*shape[:-1], shape[-1] * value))

    def largest(self) -> None:
        name, shape = self.tensor()
        if not shape:
            return
        size, value = self.size(shape[-1])
        best = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("TopK", [name, size], [best, f"{best}_places"], best, axis=-1))
        self.hold(best, (*shape[:-1], value))

    def joined(self) -> None:
        name, shape = self.tensor()
        if shape:
            self.hold(self.add("Concat", [name, name], axis=-1), (*shape[:-1], 2 * shape[-1]))

    def parted(self) -> None:
        name, shape = self.tensor()
        if not shape or shape[-1] < 2:
            return
        size, value = self.size(shape[-1] - 1)
        rest = self.add("Sub", [self.constant([shape[-1]]), size])
        parts, first = self.add("Concat", [size, rest], axis=0), f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Split", [name, parts], [first, f"{first}_rest"], first, axis=-1))
        self.hold(first, (*shape[:-1], value))
        self.hold(f"{first}_rest", (*shape[:-1], shape[-1] - value))

    def multiplied(self) -> None:
        name, shape = self.tensor()
        if len(shape) > 1:
            turned = self.add("Transpose", [name], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
            self.hold(self.add("MatMul", [name, turned]), (*shape[:-1], shape[-2]))


def outputs_of(model: onnx.ModelProto) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a model, and what onnxruntime makes of each of its tensors."""
    import onnxruntime

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=o) for n in model.graph.node for o in n.output)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    chance = numpy.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        feeds[value.name] = chance.random([d.dim_value for d in value.type.tensor_type.shape.dim], numpy.float32)
    names = [o.name for o in session.get_outputs()]
    return feeds, dict(zip(names, session.run(names, feeds), strict=True))


def compared(model: onnx.ModelProto) -> tuple[int, int, list[str]]:
    """How many shapes, and elements of small tensors, are right, and what is wrong."""
    from flopwise.formats.onnx.read import resolve_onnx

    _, made = outputs_of(model)
    shapes, right, elements, wrong = resolve_onnx(model.SerializeToString()).shapes, 0, 0, list[str]()
    for name, value in made.items():
        fact = shapes.of(name)
        if fact.shape != value.shape:
            wrong.append(f"{name}: {fact.shape}, but {value.shape} came out")
            continue
        right += 1
        for said, element in zip(fact.elements or (), value.ravel().tolist(), strict=False):
            if said is not None and said != element:
                wrong.append(f"{name}: {said} among its elements, but {element} came out")
                break
        else:
            elements += fact.elements is not None
    return right, elements, wrong
