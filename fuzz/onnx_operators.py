"""Operators of ONNX with inputs and attributes that nobody gives them: python -m fuzz.onnx_operators SECONDS FOLDER.

Each version of each operator gets random nodes in turn: inputs that are missing, untyped, not tensors, of any rank and
element type, stored tensors whose elements do not fit, attributes of any value and type. With more than a minute, the
models of onnx's own operator tests are changed in the same way. A crash ends the process; the model lies in
FOLDER/current then.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, TypeProto, defs

from fuzz.one import limit_memory

NUMBERS = (0, 1, 2, 3, -1, -2, 4, 5, 7, 16, 1000, -1000, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63))
TEXTS = ("", "abc", "ij,jk->ik", "NOTSET", "SAME_UPPER", "linear", "a..b", "mean", "0")
KINDS = (1, 7, 1, 7, 2, 3, 6, 8, 9, 10, 11, 14, 16, 17, 22, 0)


class Chance(random.Random):
    """Random parts of models."""

    def number(self) -> int:
        return self.choice(NUMBERS)

    def small(self) -> int:
        return self.choice((0, 1, 2, 3, -1)) if self.random() < 0.7 else self.number()

    def type(self, depth: int = 0) -> TypeProto:
        """A type: mostly a tensor of some rank."""
        type_, kind = TypeProto(), self.random()
        if kind < 0.86 or depth > 2:
            tensor = type_.sparse_tensor_type if self.random() < 0.03 else type_.tensor_type
            tensor.elem_type = self.choice(KINDS)
            if self.random() < 0.9:
                tensor.shape.SetInParent()
                for _ in range(self.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 9))):
                    dim = tensor.shape.dim.add()
                    if self.random() < 0.8:
                        dim.dim_value = self.choice((1, 1, 2, 3, 4, 8)) if self.random() < 0.8 else self.number()
                    elif self.random() < 0.5:
                        dim.dim_param = self.choice("NMK")
        elif kind < 0.9:
            type_.sequence_type.elem_type.CopyFrom(self.type(depth + 1))
        elif kind < 0.94:
            type_.optional_type.elem_type.CopyFrom(self.type(depth + 1))
        elif kind < 0.98:
            type_.map_type.key_type = self.choice((7, 8))
            type_.map_type.value_type.CopyFrom(self.type(depth + 1))
        return type_

    def tensor(self, name: str) -> TensorProto:
        """A stored tensor, which may hold too little or too much."""
        code, length = self.choice((7, 7, 7, 1, 6, 11, 8, 9)), self.choice((0, 1, 2, 3, 4, 8))
        tensor = TensorProto(name=name, data_type=code, dims=[length] if self.random() < 0.8 else [1, length])
        if self.random() < 0.05:
            tensor.dims.append(self.choice((3, 2**40)))
        for _ in range(length):
            if code == 7:
                tensor.int64_data.append(self.small())
            elif code in (6, 9):
                tensor.int32_data.append(max(-(2**31), min(2**31 - 1, self.small())))
            elif code == 1:
                tensor.float_data.append(float(self.small()))
            elif code == 11:
                tensor.double_data.append(float(self.small()))
            else:
                tensor.string_data.append(b"x")
        return tensor

    def body(self) -> onnx.GraphProto:
        """A graph for a control-flow operator."""
        graph = onnx.GraphProto(name="b")
        names = [f"i{place}" for place in range(self.choice((0, 1, 2, 3, 4)))]
        for name in names:
            graph.input.add(name=name, type=self.type() if self.random() < 0.6 else None)
        for place in range(self.choice((0, 1, 2, 3))):
            graph.node.add(op_type="Identity", input=[self.choice([*names, "x0"])], output=[f"o{place}"])
            graph.output.add(name=f"o{place}", type=self.type() if self.random() < 0.4 else None)
        return graph

    def attribute(self, name: str, kind: int) -> AttributeProto:
        """An attribute of this kind, or of another."""
        kind = self.choice((1, 2, 3, 4, 6, 7, 8)) if self.random() < 0.08 else kind
        made = AttributeProto(name=name, type=kind)
        if kind == AttributeProto.FLOAT:
            made.f = self.choice((0.0, 1.0, 0.5, -1.0, 1e30, float("nan")))
        elif kind == AttributeProto.INT:
            made.i = self.small()
        elif kind == AttributeProto.STRING:
            equation = "".join(self.choice("ij.k,-> .") for _ in range(self.randint(0, 12)))
            made.s = (equation if name == "equation" else self.choice(TEXTS)).encode()
        elif kind == AttributeProto.TENSOR:
            made.t.CopyFrom(self.tensor("t"))
        elif kind == AttributeProto.GRAPH:
            made.g.CopyFrom(self.body())
        elif kind == AttributeProto.FLOATS:
            made.floats.extend(self.choice((0.0, 1.0, 2.0, 0.5, -1.0, 1e30)) for _ in range(self.randint(0, 5)))
        elif kind == AttributeProto.INTS:
            made.ints.extend(self.small() for _ in range(self.choice((0, 1, 2, 3, 4, 6, 8))))
        elif kind == AttributeProto.STRINGS:
            made.strings.extend(self.choice(TEXTS).encode() for _ in range(self.randint(0, 3)))
        elif kind == AttributeProto.TENSORS:
            made.tensors.extend([self.tensor("t")] * self.randint(0, 2))
        elif kind == AttributeProto.SPARSE_TENSOR:
            made.sparse_tensor.dims.extend(self.small() for _ in range(self.randint(0, 2)))
            made.sparse_tensor.values.CopyFrom(self.tensor("v"))
            made.sparse_tensor.indices.CopyFrom(self.tensor("i"))
        elif kind == AttributeProto.TYPE_PROTO:
            made.tp.CopyFrom(self.type())
        return made

    def node(self, schema: Any) -> onnx.ModelProto:
        """A model of one node of an operator; what is untyped comes from an operator that nobody knows."""
        model = onnx.ModelProto(ir_version=10)
        graph = model.graph
        graph.name = "g"
        model.opset_import.add(domain="", version=17 if schema.domain else schema.since_version)
        if schema.domain:
            model.opset_import.add(domain=schema.domain, version=schema.since_version)
        model.opset_import.add(domain="acme", version=1)
        node = onnx.NodeProto(op_type=schema.name, domain=schema.domain)
        untyped = []
        number = schema.min_input if self.random() < 0.3 else self.randint(0, min(schema.max_input, 8))
        for place in range(number):
            name, kind = f"x{place}", self.random()
            node.input.append("" if kind < 0.06 else name)
            if 0.06 <= kind < 0.2:
                untyped.append(name)
            elif 0.2 <= kind < 0.4:
                graph.initializer.append(self.tensor(name))
            elif kind >= 0.4:
                graph.input.add(name=name, type=self.type())
        if not any(name in (v.name for v in (*graph.input, *graph.initializer)) for name in ("x0",)):
            untyped = list(dict.fromkeys([*untyped, "x0"]))
        if untyped:
            graph.node.add(op_type="Foo", domain="acme", output=untyped)
        for place in range(self.randint(0, min(schema.max_output, 6))):
            node.output.append(f"y{place}")
            graph.output.add(name=f"y{place}")
        for name, attribute in schema.attributes.items():
            if self.random() < (0.85 if attribute.required else 0.45):
                node.attribute.append(self.attribute(name, int(attribute.type.value)))
        graph.node.append(node)
        return model

    def changed(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A model with a few of its parts replaced."""
        new = onnx.ModelProto()
        new.CopyFrom(model)
        for _ in range(self.choice((1, 1, 2, 4))):
            kind = self.randrange(6)
            node = self.choice(new.graph.node) if new.graph.node else onnx.NodeProto()
            if kind == 0 and new.graph.input:
                self.choice(new.graph.input).type.CopyFrom(self.type())
            elif kind == 1 and node.input:
                node.input[self.randrange(len(node.input))] = self.choice(("", "nowhere", node.input[0]))
            elif kind == 2 and node.attribute:
                place = self.randrange(len(node.attribute))
                old = node.attribute[place]
                node.attribute[place].CopyFrom(self.attribute(old.name, old.type))
            elif kind == 3 and node.input:
                del node.input[self.randrange(len(node.input)) :]
            elif kind == 4 and new.graph.initializer:
                tensor = self.choice(new.graph.initializer)
                tensor.CopyFrom(self.tensor(tensor.name))
            elif kind == 5:
                node.op_type = self.choice(_SCHEMAS).name
        return new


_SCHEMAS = defs.get_all_schemas_with_history()


def models(chance: Chance, seconds: float) -> Iterator[onnx.ModelProto]:
    """Random models without end."""
    tested: list[onnx.ModelProto] = []
    if seconds > 60:
        from tests.onnx_suite.cases import made

        tested = [case.model for case in made()]
    while True:
        for schema in _SCHEMAS:
            with contextlib.suppress(ValueError, TypeError):  # what protobuf itself does not hold
                yield chance.node(schema)
            if tested:
                with contextlib.suppress(ValueError, TypeError):
                    yield chance.changed(chance.choice(tested))


def main() -> int:
    import flopwise
    from flopwise.errors import FlopwiseError

    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    limit_memory()
    current, runs = folder / "current", 0
    end = time.monotonic() + seconds
    for model in models(Chance(time.time_ns()), seconds):
        if time.monotonic() > end:
            break
        try:
            data = model.SerializeToString()
        except ValueError:
            continue
        current.write_bytes(data)
        began = time.monotonic()
        with contextlib.suppress(FlopwiseError):
            flopwise.profile(data, assume={"*": 3}).to_dict()
        if time.monotonic() - began > 10:
            raise AssertionError("takes more than 10 seconds")
        runs += 1
    print(f"runs {runs}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
