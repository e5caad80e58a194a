"""Small files that nobody honest would write, by name; each is made in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy
from onnx import helper, numpy_helper
from tests.fuzzing import make

#: Name of a file -> what is in it.
FILES: dict[str, Callable[[], bytes]] = {
    # external data
    "nul.onnx": lambda: make.external("a\0b"),
    "up.onnx": lambda: make.external("../../etc/passwd"),
    "absolute.onnx": lambda: make.external("/etc/passwd"),
    "windows.onnx": lambda: make.external("C:\\windows\\system.ini"),
    "device.onnx": lambda: make.external("/dev/zero", length=str(2**60)),
    "folder.onnx": lambda: make.external("."),
    "empty_place.onnx": lambda: make.external(""),
    "link.onnx": lambda: make.external("link.bin"),
    "fifo.onnx": lambda: make.external("fifo.bin"),
    "hard.onnx": lambda: make.external("hard.bin"),
    "offsets.onnx": lambda: make.external("hard.bin", offset="-5", length="99999999999999999999"),
    "no_number.onnx": lambda: make.external("hard.bin", offset="0x", length=make.ESCAPES),
    "long_place.onnx": lambda: make.external("a" * 100_000),
    "shared_data.onnx": lambda: make.shared_data(2000),
    "itself.onnx": lambda: make.external("itself.onnx"),
    # functions, equations, types, sizes
    **{f"doubling{n}.onnx": lambda n=n: make.doubling(n) for n in (16, 40, 400)},  # type: ignore[misc]
    "recursion.onnx": make.itself,
    **{
        f"einsum{i}.onnx": lambda e=e: make.einsum(e)  # type: ignore[misc]
        for i, e in enumerate(
            (
                ".ij->ij",
                "i..j->ij",
                "7ij,ij->i",
                "",
                "->",
                "ij,ij->" + "k" * 5000,
                "...,...->...." * 99,
                "é,ij->i",
                "," * 9999,
            )
        )
    },
    "untyped_eye.onnx": lambda: make.untyped("EyeLike"),
    "untyped_label.onnx": lambda: make.untyped("LabelEncoder", "ai.onnx.ml", keys_int64s=[1], values_int64s=[2]),
    "untyped_tree.onnx": lambda: make.untyped("TreeEnsembleRegressor", "ai.onnx.ml"),
    "untyped_dict.onnx": lambda: make.untyped("DictVectorizer", "ai.onnx.ml"),
    "untyped_concat.onnx": lambda: make.untyped("StringConcat", inputs=2),
    "untyped_regex.onnx": lambda: make.untyped("RegexFullMatch", pattern="(" * 1000),
    "no_input.onnx": lambda: make.model([helper.make_node("EyeLike", [""], ["y"])]),
    "huge_dims.onnx": lambda: make.huge(2**62, 2**62, 2**62),
    "negative_dims.onnx": lambda: make.huge(-1, 3),
    "many_dims.onnx": lambda: make.huge(*[1] * 5000),
    "huge_input.onnx": lambda: make.model([helper.make_node("Relu", ["x"], ["y"])], (2**62, 2**62)),
    "huge_fill.onnx": lambda: make.shape_from([2**31, 2**31]),
    "large_fill.onnx": lambda: make.shape_from([10**5, 10**5]),
    "negative_fill.onnx": lambda: make.shape_from([-1, 7]),
    "sparse.onnx": lambda: make.sparse(30_000, 30_000),
    "many_outputs.onnx": lambda: make.model(
        [helper.make_node("Split", ["x"], [f"o{i}" for i in range(50_000)], axis=0)], (50_000, 3)
    ),
    "huge_tile.onnx": lambda: make.constant(numpy.array([2**40, 2**40]), "Tile"),
    "huge_range.onnx": lambda: make.model(
        [helper.make_node("Range", ["a", "b", "c"], ["y"])],
        stored=[numpy_helper.from_array(numpy.array(v), n) for n, v in (("a", 0), ("b", 2**62), ("c", 1))],
    ),
    "bad_split.onnx": lambda: make.model([helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2**31 - 1)]),
    "bad_axis.onnx": lambda: make.model([helper.make_node("Concat", ["x", "x"], ["y"], axis=-(2**62))]),
    "zero_group.onnx": lambda: make.model(
        [helper.make_node("Conv", ["x", "x"], ["y"], group=0, strides=[0, 0])], (1, 2, 3, 4)
    ),
    "loops.onnx": lambda: make.loops(18),
    "deep.onnx": lambda: make.loops(30),
    # names
    "escapes.onnx": lambda: make.named(make.ESCAPES),
    "formula.onnx": lambda: make.named("=cmd|' /C calc'!A0"),
    "long_name.onnx": lambda: make.named("n" * 300_000),
    "markup.onnx": lambda: make.named("<script>alert(1)</script>[bold]$(id)`id`"),
    "symbols.onnx": lambda: make.model(
        [helper.make_node("Relu", ["x"], ["y"])], ("__import__('os').system('id')", "N" * 99_999)
    ),
    # bytes
    "empty.onnx": lambda: b"",
    "zeros.onnx": lambda: bytes(100_000),
    "fields.onnx": lambda: b"\x3a\x04" + b"\x0a\x00" * 200_000,
    "truncated.onnx": lambda: make.einsum("ij,ij->i")[:-9],
    "long_field.onnx": lambda: b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    # weights
    "header.safetensors": lambda: make.safetensors({}, size=2**62),
    "limit.safetensors": lambda: make.safetensors({}, size=2**28),
    "deep.safetensors": lambda: make.safetensors(b"[" * 200_000),
    "deep2.safetensors": lambda: make.safetensors(b'{"a":' * 100_000),
    "shape.safetensors": lambda: make.safetensors(make.tensor("F32", [2**62, 4], 0, 0)),
    "flags.safetensors": lambda: make.safetensors(make.tensor("F32", [True], 0, 4), bytes(4)),
    "floats.safetensors": lambda: make.safetensors(make.tensor("F32", [1e400], 0, 4), bytes(4)),
    "digits.safetensors": lambda: make.safetensors(
        b'{"t":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,4]}}'
    ),
    "overlap.safetensors": lambda: make.safetensors(
        {**make.tensor("F32", [1], 0, 4), "u": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}, bytes(6)
    ),
    "twice.safetensors": lambda: make.safetensors(b'{"t":1,"t":2}'),
    "escapes.safetensors": lambda: make.safetensors({make.ESCAPES: make.tensor("F32", [1], 0, 4)["t"]}, bytes(4)),
    "empty_tensors.safetensors": lambda: make.safetensors(
        {f"t{i}": {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]} for i in range(2000)}
    ),
    "up.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {"a": "../../../etc/passwd", "b": "/etc/passwd", "c": "a\0b"}}
    ).encode(),
    "itself.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {"a": "itself.safetensors.index.json"}}
    ).encode(),
    "kinds.safetensors.index.json": lambda: json.dumps({"weight_map": {"a": 5, "b": ["c"], "": None}}).encode(),
    "many.safetensors.index.json": lambda: json.dumps(
        {"weight_map": {f"t{i}": f"s{i}.safetensors" for i in range(5000)}}
    ).encode(),
    "counts.gguf": lambda: make.gguf(2**62, 2**62),
    "text.gguf": lambda: make.gguf(0, 1, struct.pack("<Q", 2**62)),
    "list.gguf": lambda: make.gguf(0, 1, make.gguf_text(b"k") + struct.pack("<IIQ", 9, 8, 2**60)),
    "lists.gguf": lambda: make.gguf(0, 1, make.gguf_text(b"k") + struct.pack("<IIQ", 9, 9, 1) * 20_000),
    "dims.gguf": lambda: make.gguf(1, 0, make.gguf_text(b"t") + struct.pack("<I", 2**31) + bytes(99)),
    "huge.gguf": lambda: make.gguf(
        1, 0, make.gguf_text(b"t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0) + bytes(99)
    ),
    "layers.gguf": lambda: make.gguf(
        0,
        2,
        make.gguf_text(b"general.architecture")
        + struct.pack("<I", 8)
        + make.gguf_text(b"llama")
        + make.gguf_text(b"llama.block_count")
        + struct.pack("<IQ", 10, 10**9),
    ),
    "objects.npy": make.objects,
    "code.npy": lambda: make.npy("{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (1,)}"),
    "deep.npy": lambda: make.npy("(" * 60_000),
    "shape.npy": lambda: make.npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
    "record.npy": lambda: make.npy("{'descr': [('a', '<f4', (99999999,))], 'fortran_order': False, 'shape': (1,)}"),
    "bomb.npz": lambda: make.zipped(
        {"a.npy": make.npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000,)}", bytes(40_000_000))},
        zipfile.ZIP_DEFLATED,
    ),
    **{
        f"{name}.npz": lambda method=method, turned=turned, rows=rows: make.zeros(  # type: ignore[misc]
            "a.npy",
            rows << 16,
            method,
            make.npy(f"{{'descr': '<f4', 'fortran_order': {turned}, 'shape': ({rows}, 16384)}}"),
        )
        for name, method, turned, rows in (  # bzip2 and LZMA pack slowly
            ("bzip2", zipfile.ZIP_BZIP2, False, 1024),
            ("lzma", zipfile.ZIP_LZMA, False, 1024),
            ("columns", zipfile.ZIP_DEFLATED, True, 8192),
        )
    },
    "many.npz": lambda: make.zipped({f"a{i}.npy": b"" for i in range(3000)}),
    "names.npz": lambda: make.zipped(
        {
            "../../x.npy": make.npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", bytes(4)),
            f"{make.ESCAPES}.npy": b"\x93NUMPY",
        }
    ),
    "runs.pth": lambda: make.checkpoint(pickle.dumps(make.Runs(), 2)),
    "old.pth": lambda: pickle.dumps(make.Runs()),
    "deep.pth": lambda: make.checkpoint(b"\x80\x02" + b"(" * 100_000 + b"."),
    "doubling.pth": lambda: make.checkpoint(b"\x80\x02]" + b"2\x86" * 200 + b"."),
    "long.pth": lambda: make.checkpoint(b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1."),
    "zip64.pth": make.zip64,
    "bomb.pth": lambda: make.zipped({"archive/data.pkl": bytes(300_000_000)}, zipfile.ZIP_DEFLATED),
    "memo.pth": lambda: make.checkpoint(
        b"\x80\x02" + b"".join(b"]r" + struct.pack("<I", 2**31 - i) for i in range(1, 9)) + b"."
    ),
    "evaluated.pt2": make.evaluated,
    "graph.pt2": lambda: make.program(
        **{
            "archive_format": b"pt2",
            "version": b"0",
            "models/model.json": {
                "graph_module": {"graph": {"nodes": [None, 5, {"target": "os.system", "inputs": []}]}}
            },
        }
    ),
    "deep.pt2": lambda: make.program(
        **{"archive_format": b"pt2", "version": b"0", "models/model.json": b"[" * 300_000}
    ),
    "old.pt2": lambda: make.zipped({"serialized_exported_program.json": b'{"a":' * 9, "version": b"1"}),
    "spaces.pt2": lambda: make.zeros("archive/models/model.json", 250 << 20, zipfile.ZIP_DEFLATED, b"{", fill=b" "),
    "lists.pt2": lambda: make.zeros(
        "archive/models/model.json", 250 << 20, zipfile.ZIP_DEFLATED, b'{"a":[', fill=b"[], "
    ),
    "unpacked.pth": lambda: make.zeros("a/data.pkl", 250 << 20, zipfile.ZIP_DEFLATED, b"\x80\x02(", fill=b"]"),
    "shared.pt": make.shared_modules,
    "script.pt": lambda: make.zipped(
        {
            "a/code/__torch__.py": b"import os\nos.system('id')\n",
            "a/data.pkl": pickle.dumps(make.Runs(), 2),
            "a/constants.pkl": b"\x80\x02).",
            "a/version": b"3",
        }
    ),
    **{
        f"{write.__name__[1:]}.caffemodel.h5": lambda write=write: make.hdf5(write)  # type: ignore[misc]
        for write in (make.external_elements, make.external_link, make.virtual, make.pieces, make.words)
    },
    "damaged.caffemodel.h5": lambda: b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 9,
    # Caffe
    "deep.prototxt": lambda: b"layer {" * 100_000,
    "quote.prototxt": lambda: b'name: "' + b"\\" * 100_001,
    "outputs.prototxt": lambda: make.caffe(
        "type: 'Convolution' convolution_param { num_output: 9223372036854775807 kernel_size: 3 }"
    ),
    "stride.prototxt": lambda: make.caffe("type: 'Pooling' pooling_param { stride: 0 kernel_size: 0 pad: -9 }"),
    "kernel.prototxt": lambda: make.caffe(
        "type: 'Convolution' convolution_param { num_output: 4 kernel_size: -3 group: 0 }"
    ),
    "circle.prototxt": lambda: (
        b'layer { name: "a" type: "ReLU" bottom: "b" top: "a" } layer { name: "b" type: "ReLU" bottom: "a" top: "b" }'
    ),
    "solver.prototxt": lambda: b'net: "../../../../etc/passwd"',
    "itself.prototxt": lambda: b'net: "itself.prototxt"',
    "lines.prototxt": lambda: b"a: 1\n" * 100_000,
    "python.prototxt": lambda: make.caffe("type: 'Python' python_param { module: 'os' layer: 'system' }"),
    "number.prototxt": lambda: make.caffe("type: 'Dropout' dropout_param { dropout_ratio: " + "9" * 50_000 + " }"),
    "groups.caffemodel": lambda: b"\x0b" * 200_000,
    "blobs.caffemodel": lambda: b"\xa2\x06\x0e\x0a\x01a\x3a\x09\x3a\x07\x0a\x05\xff\xff\xff\xff\x7f",
    # configurations
    **{
        f"{name}/config.json": lambda values=values: make.configuration(**values)  # type: ignore[misc]
        for name, values in {
            "layers": {"num_hidden_layers": 10**9},
            "layers2": {"num_hidden_layers": 10**5},
            "no_layers": {"num_hidden_layers": 0},
            "negative": {"num_attention_heads": -4, "num_key_value_heads": -1},
            "no_heads": {"num_attention_heads": 0},
            "wide": {"hidden_size": 10**18},
            "vocabulary": {"vocab_size": 2**62},
            "texts": {"hidden_size": "64; import os", "num_hidden_layers": "two"},
            "nothing": {"hidden_size": None, "num_hidden_layers": None},
            "lists": {"hidden_size": [64] * 1000, "layer_types": "x" * 9999},
            "code": {
                "auto_map": {"AutoModelForCausalLM": "owned.Owned", "AutoConfig": "../owned--owned.Owned"},
                "trust_remote_code": True,
                "model_type": "owned",
            },
            "remote": {"auto_map": {"AutoModelForCausalLM": "evil/repo--m.C"}, "trust_remote_code": True},
            "path": {"model_type": "../../etc/passwd", "architectures": ["os.system"]},
            "escapes": {"model_type": make.ESCAPES, "architectures": [make.ESCAPES]},
            "experts": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 10**7},
            "quantized": {"quantization_config": {"quant_method": make.ESCAPES, "bits": 10**9, "group_size": 0}},
            "rope": {
                "rope_scaling": {"rope_type": "yarn", "factor": float("inf")},
                "rope_theta": -1,
                "max_position_embeddings": 10**15,
            },
            "window": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": -5},
            "dtype": {"torch_dtype": "__import__('os')", "dtype": "eval"},
            "number": {"hidden_size": float("nan")},
            "labels": {"num_labels": 10**8},
            "depths": {"model_type": "swin", "depths": [10**9] * 4},
            "attention": {"model_type": "gpt_neo", "attention_types": [[["global", "local"], 10**9]]},
            "heads": {"architectures": 2},
            "any_head": {"architectures": ["PreTrainedModel"]},
            "kernel": {"attn_implementation": "owned/kernel@main:run"},
            "kernels": {
                "model_type": "llava",
                "text_config": {**make.LLAMA, "attn_implementation": {"": "owned/kernel"}},
            },
            "backbone": {"model_type": "upernet", "backbone": "../../../etc", "use_timm_backbone": False},
            "hub": {"model_type": "detr", "backbone": "hf-hub:owned/model", "use_timm_backbone": True},
            "rope_type": {"rope_scaling": {"rope_type": "__import__('os')"}},
            "image": {"model_type": "swin", "image_size": 10**9, "patch_size": 1},
            "pattern": {"quantization_config": make.patterns(r"re:(.|..|...|....)+[!?]")},
            "text": {"text_config": {"text_config": {}}},
            "codebooks": {"model_type": "musicgen_decoder", "num_codebooks": 60_000},
            "sizes": {"model_type": "funnel", "block_sizes": [300, 300, 300]},
            "blocks": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 0]}},
        }.items()
    },
    "array/config.json": lambda: b"[1, 2]",
    "deep/config.json": lambda: b'{"a":' * 100_000,
    # what other options read
    "list.txt": lambda: (
        b"/etc/passwd\n../up.onnx -i x:f32:1\n\0\n-o ../out\n" + make.ESCAPES.encode() + b"\n" + b"a" * 99_999
    ),
    "budget.toml": lambda: b"[total]\nmacs = " + b"9" * 5000 + b"\n",
    "deep.toml": lambda: b"a = " + b"[" * 50_000,
    "keys.toml": lambda: b"a" + b".a" * 50_000 + b" = 1",
    "binary.toml": lambda: bytes(range(256)),
}


#: Files that no command may read, since they would take gigabytes or lead to code and files of others.
REFUSED: frozenset[str] = frozenset(
    {
        *(f"{name}.npz" for name in ("bzip2", "lzma", "columns")),
        *("unpacked.pth", "external_elements.caffemodel.h5", "external_link.caffemodel.h5"),
        *("virtual.caffemodel.h5", "pieces.caffemodel.h5", "words.caffemodel.h5"),
        *(f"{name}/config.json" for name in ("labels", "depths", "attention")),
        *(f"{name}/config.json" for name in ("text", "codebooks", "sizes")),
    }
)


def write(folder: Path) -> list[Path]:
    """All files in a folder, and what their names lead to."""
    paths = []
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(ImportError):  # of a library that writes them
            path.write_bytes(content())
            paths.append(path)
    (folder / "beside").mkdir(exist_ok=True)
    (folder / "megabyte.bin").write_bytes(bytes(1 << 20))
    (folder / "secret.bin").write_bytes(zlib.compress(bytes(4800)).ljust(4800, b"\0"))
    with contextlib.suppress(OSError, NotImplementedError, AttributeError):  # Windows
        (folder / "link.bin").symlink_to("/etc/passwd")
        os.mkfifo(folder / "fifo.bin")
        os.link(folder / "secret.bin", folder / "hard.bin")
        os.mkfifo(folder / "fifo.model.onnx")
        for name in ("pipe", "zero"):
            (folder / name).mkdir(exist_ok=True)
        os.mkfifo(folder / "pipe/config.json")
        (folder / "zero/config.json").symlink_to("/dev/zero")
        (folder / "loop.onnx").symlink_to("loop.onnx")
        (folder / "zero.onnx").symlink_to("/dev/zero")
        (folder / "owned.py").write_text("open('flopwise_owned', 'w')\n")
        paths += [folder / "fifo.model.onnx", folder / "loop.onnx", folder / "zero.onnx", folder]
    return paths


#: Texts that no honest user gives to -i.
INPUTS: tuple[str, ...] = (
    "x",
    "x:",
    "::",
    "x:f32:" + "1x" * 5000 + "1",
    "x:f32:99999999999999999999x3",
    "x:f32:-1x3",
    "x:f32:2x3:@/dev/zero",
    "x:f32:2x3:@/etc/passwd",
    "x:i64:2x3:1,2",
    "x:f32:2x3:" + "1," * 50_000,
    "x:f32:\0",
    make.ESCAPES,
    "x:f32:__import__('os').system('id')",
    "x:f32:2x3|" * 500,
    "x:str:2x3:" + "é" * 999,
)
