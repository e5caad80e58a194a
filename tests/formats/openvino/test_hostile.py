"""Files that OpenVINO never wrote: one line, whatever they say."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from tests.formats.openvino.by_hand import CONVOLUTION

import flopwise

#: What is done to the convolution -> words of the error.
CASES: dict[str, tuple[str, str]] = {
    "entities": (
        '<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        '<net name="&b;" version="11"/>',
        "has a document type (DTD)",
    ),
    "file of the machine": (
        '<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net version="11">&x;</net>',
        "has a document type (DTD)",
    ),
    "other XML": ("<project><modelVersion/></project>", "no OpenVINO model: its root is <project>, not <net>"),
    "old version": ('<net name="m" version="6"/>', "an OpenVINO model of version 6; versions 10 and 11 are read"),
    "cut off": (CONVOLUTION[:900], "truncated or damaged XML"),
    "deep": ('<net version="11">' + "<a>" * 100 + "</a>" * 100 + "</net>", "nest deeper than 40"),
    "bodies in bodies": (
        '<net version="11"><layers><layer>'
        + "<body><layers><layer>" * 20
        + "</layer></layers></body>" * 20
        + "</layer></layers></net>",
        "nest deeper than 40",
    ),
    "layers in ports": (
        '<net version="11"><layers><layer id="0" type="If"><port_map><input><port id="0"/></input></port_map></layer>'
        "</layers></net>",
        "damaged OpenVINO model (its elements lie in one another",
    ),
    "huge": (CONVOLUTION.replace('shape="1,3,8,8"', f'shape="{2**62},3,8,8"'), "more elements than any memory"),
    "endless number": (CONVOLUTION.replace("<dim>8</dim>", f"<dim>{'9' * 60}</dim>", 1), "is no extent"),
    "negative": (CONVOLUTION.replace('shape="4, 3, 3, 3"', 'shape="4, -3, 3, 3"'), "makes no sense"),
    "no such layer": (CONVOLUTION.replace('from-layer="1"', 'from-layer="7"'), "of layer '7', and there is none"),
    "no edge": (
        CONVOLUTION.replace('<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>', ""),
        "feeds input",
    ),
    "cycle": (
        CONVOLUTION.replace('from-layer="0" from-port="0" to-layer="2"', 'from-layer="2" from-port="2" to-layer="2"'),
        "the graph has a cycle",
    ),
    "two of one name": (CONVOLUTION.replace('<layer id="1"', '<layer id="0"'), "two layers have one id"),
    "strides": (
        CONVOLUTION.replace('strides="1, 1"', 'strides="1, many"'),
        "attributes of Convolution 'y' make no sense",
    ),
    "no type": (
        CONVOLUTION.replace('<data element_type="f32" shape="4', '<data element_type="x9" shape="4'),
        "has the element type 'x9'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str, tmp_path: Path) -> None:
    text, words = CASES[case]
    path = tmp_path / "net.xml"
    path.write_text(text)
    with pytest.raises(flopwise.ModelError) as raised:
        flopwise.profile(path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_weights_outside_the_file_are_refused_and_counts_go_on(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    (tmp_path / "net.bin").write_bytes(b"\0" * 100)
    path.write_text(CONVOLUTION.replace('offset="0"', f'offset="{2**63}"'))
    assert flopwise.profile(path).total("macs") == 64 * 4 * 27
    with pytest.raises(flopwise.ModelError, match=r"begin at byte 9223372036854775808 of 'net.bin', which has 100"):
        flopwise.read(path).weights["w"].array()
    path.write_text(CONVOLUTION.replace('size="432"', 'size="431"'))
    with pytest.raises(flopwise.ModelError, match="takes 432 bytes, not 431"):
        flopwise.read(path).weights["w"].array()


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 432)
    (folder / "net.bin").symlink_to(tmp_path / "secret")
    (folder / "net.xml").write_text(CONVOLUTION)
    assert flopwise.profile(folder / "net.xml").total("macs") == 64 * 4 * 27
    with pytest.raises(flopwise.ModelError, match="outside the model's folder; refused"):
        flopwise.read(folder / "net.xml").weights["w"].array()


def test_a_file_of_countless_layers_is_refused_before_it_takes_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.formats.openvino.decode._MOST", 10_000)
    text = f'<net version="11"><layers>{"<layer/>" * 1_000}</layers></net>'
    with pytest.raises(flopwise.ModelError, match="has more layers, ports and edges than any model; refused"):
        flopwise.profile(text.encode())
    with pytest.raises(flopwise.ModelError, match="it takes 8,041 bytes, more than the limit of 100"):
        flopwise.profile(text.encode(), largest_graph=100)


def test_a_few_changes_end_in_a_line_or_a_number() -> None:
    chance, data = random.Random(0), CONVOLUTION.encode()
    tracemalloc.start()
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(changed))
            if chance.random() < 0.5:
                changed[place] = chance.choice(b'<>"/=0123456789-., \xff&')
            else:
                changed[place : place + chance.randint(1, 20)] = b""
        try:
            flopwise.profile(b"<net " + bytes(changed) if chance.random() < 0.02 else bytes(changed)).to_dict()
        except flopwise.FlopwiseError as error:
            assert "\n" not in str(error)  # noqa: PT017
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
