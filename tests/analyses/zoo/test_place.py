"""A build touches its own files in its own folder, and nothing else, whatever lies there."""

from __future__ import annotations

import os
import random
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
from tests.analyses.zoo.made import made_zoo

from flopwise import InputError, zoo
from flopwise.analyses.zoo import place
from flopwise.analyses.zoo import place as place_module
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.place import MARKER, Place, alone
from flopwise.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
MODEL = str(EXAMPLES / "tiny_resnet.onnx")
KEY = "0123456789abcdef" * 2

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


def tree(folder: Path) -> dict[str, Any]:
    """All that is in a folder, with what it holds."""
    return {
        str(path.relative_to(folder)): (stat.S_IFMT(path.lstat().st_mode), path.read_bytes() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
    }


def behind_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of this machine are remote ones when they are named by URLs."""
    from fsspec.implementations.local import LocalFileSystem

    monkeypatch.setattr(
        place_module, "_open_system", lambda url: (LocalFileSystem(), url.removeprefix("file://"), False)
    )


@pytest.mark.parametrize(
    "names",
    [
        ["parts/notes.txt", "fresh/draft.txt", "layers/mine.parquet"],
        ["models/00000.parquet"],
        [f"parts/{KEY}.models.parquet", "fresh/COMPLETE"],
        [".git/config"],
        ["main.py"],
        ["models/"],
    ],
)
def test_a_folder_with_something_else_is_refused(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("mine")
    monkeypatch.chdir(tmp_path)
    behind_urls(monkeypatch)
    before = tree(tmp_path)
    for folder in (".", str(tmp_path), f"file://{tmp_path}"):
        assert main(["zoo", "build", MODEL, "-o", folder]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is not empty, and no data set that zoo build has made; give a new folder" in line
    assert tree(tmp_path) == before


def test_a_folder_that_is_empty_or_new_becomes_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for folder in (".", "~", "deep/er"):
        zoo.build(MODEL, output=folder)
        assert sorted(os.listdir(folder))[0] == MARKER
        (tmp_path / "empty" / MARKER).rename(tmp_path / "kept") if folder == "." else None
        for name in ("layers", "models", "unique") if folder == "." else ():
            shutil.rmtree(name)
    assert sorted(os.listdir()) == ["deep", "~"]


@pytest.mark.parametrize("folder", ["", "a\0b"])
def test_what_is_no_path(folder: str) -> None:
    with pytest.raises(InputError, match="expected a path, not"):
        zoo.open(folder)


def test_what_builds_have_not_made_stays(tmp_path: Path) -> None:
    folder, models = tmp_path / "zoo", tmp_path / "models"
    models.mkdir()
    shutil.copy(MODEL, models / "a.onnx")
    zoo.build(str(models), output=folder)
    strange = ["parts/notes.txt", "parts/x.models.parquet", f"parts/{KEY}.models.parquet.bak", "fresh/draft.txt"]
    strange += ["fresh/models/mine.parquet", "layers/mine.parquet", "models/0.parquet", "unique/.hidden", "other/a"]
    for name in strange:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    (folder / "parts" / "folder").mkdir()
    (folder / "models" / ".flopwise-0123456789abcdef.tmp").write_text("of a build that was ended")
    shutil.copy(EXAMPLES / "custom_op.onnx", models / "a.onnx")
    assert zoo.build(str(models), output=folder).layers == 3
    assert zoo.query(folder, "SELECT count(*), sum(layers) FROM models")[1] == [(1, 3)]
    for name in strange:
        assert (folder / name).read_text() == "mine"
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {*strange, MARKER, *(f"{table}/00000.parquet" for table in ("layers", "models", "unique"))}


#: Names in a data set that may be another thing than what a build makes; those of folders end in a slash.
NAMES = ["models/", "layers/", "unique/", "parts/", "fresh/", "fresh/models/", MARKER, "models/00000.parquet"]
NAMES += ["layers/00000.parquet", "unique/00007.parquet", f"parts/{KEY}.models.parquet", f"parts/{KEY}.layers.parquet"]
NAMES += ["fresh/COMPLETE", "fresh/layers/00000.parquet"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of three models."""
    folder = tmp_path_factory.mktemp("small") / "zoo"
    made_zoo(folder, random.Random(1), models=3)
    return folder


@posix
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "other"])
@pytest.mark.parametrize("name", NAMES)
def test_another_thing_in_the_place_of_a_file_is_one_line(small: Path, name: str, kind: str, tmp_path: Path) -> None:
    """Neither followed, nor emptied, nor waited for; what it leads to stays as it is."""
    folder, victim = tmp_path / "zoo", tmp_path / "victim"
    shutil.copytree(small, folder)
    victim.mkdir()
    (victim / "00000.parquet").write_text("mine")
    (victim / "COMPLETE").write_text("mine")
    path, is_folder = folder / name, name.endswith("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(tmp_path / "aside")
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(victim if is_folder else victim / "COMPLETE")
    elif kind == "dangling":
        path.symlink_to(victim / "nothing")
    elif kind == "pipe":
        os.mkfifo(path)
    elif is_folder:
        path.write_text("mine")
    else:
        path.mkdir()
    before, there = tree(victim), path.lstat()
    with pytest.raises(InputError, match=r"no build has made that: move it away") as error:
        zoo.build(MODEL, output=folder)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    if name != MARKER and not (name == "fresh/models/" or name.startswith("fresh/layers")):  # a query looks at no more
        with pytest.raises(InputError, match="move it away"):
            zoo.query(folder, "FROM models")
    assert tree(victim) == before
    assert (path.lstat().st_ino, path.lstat().st_mode) == (there.st_ino, there.st_mode)


@pytest.mark.parametrize("complete", ["../victim.txt", "/etc/hostname\nparts/../../victim.txt", "\udcff\0", ""])
def test_a_list_of_files_is_no_list_of_paths(complete: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "zoo", tmp_path / "victim.txt"
    victim.write_text("mine")
    made_zoo(folder, random.Random(1), models=3)
    data = Dataset(folder)
    (folder / "fresh").mkdir()
    (folder / "fresh" / "COMPLETE").write_bytes(complete.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="no build has written that, as files are missing; delete it"):
        data.settle()
    assert len(list(folder.rglob("*.parquet"))) == 3
    for table in ("models", "layers", "unique"):
        shutil.copytree(folder / table, folder / "fresh" / table)
    zoo.build(MODEL, output=folder)
    assert victim.read_text() == "mine"
    assert zoo.query(folder, "SELECT count(*) FROM models")[1] == [(4,)]


@posix
@pytest.mark.parametrize("swapped", ["models", "parts"])
def test_a_link_that_comes_between_two_calls_leads_nowhere(
    swapped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, victim = tmp_path / "zoo", tmp_path / "victim"
    victim.mkdir()
    place = Place(folder)
    name = {"models": "models/00000.parquet", "parts": f"parts/{KEY}.models.parquet"}[swapped]
    real: Any = os.open

    def swap(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        number: int = real(path, flags, *args, **kwargs)
        if path == swapped and not (folder / swapped).is_symlink():  # the folder is open: now another takes its name
            (folder / swapped).rename(folder / "moved")
            (folder / swapped).symlink_to(victim)
        return number

    with alone(place):
        monkeypatch.setattr(os, "open", swap)
        place.write(name, b"rows")
        monkeypatch.setattr(os, "open", real)
    assert list(victim.iterdir()) == []
    assert [path.read_bytes() for path in (folder / "moved").iterdir()] == [b"rows"]


def test_without_names_in_open_folders_a_build_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.setattr(place, "_RELATIVE", False)
    made_zoo(tmp_path / "zoo", random.Random(1), models=3)
    made_zoo(tmp_path / "zoo", random.Random(2), models=4)
    assert zoo.query(tmp_path / "zoo", "SELECT count(*) FROM models")[1] == [(4,)]
    assert sorted(os.listdir(tmp_path / "zoo")) == [MARKER, "layers", "models", "unique"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").touch()
    with pytest.raises(InputError, match="is not empty"):
        zoo.build(MODEL, output=tmp_path / "other")


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="for others than root")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    zoo.build(MODEL, output=tmp_path / "zoo")
    for path in ("zoo/parts", "zoo/models", "zoo"):
        if (tmp_path / path).exists():
            (tmp_path / path).chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        zoo.build(str(EXAMPLES / "custom_op.onnx"), output=tmp_path / "zoo")
    assert zoo.query(tmp_path / "zoo", "SELECT count(*) FROM models")[1] == [(1,)]


def test_a_worker_that_does_not_see_the_data_set_says_so(tmp_path: Path) -> None:
    """It makes no other folder of that name."""
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"is no data set here|cannot be written"):
            Place(folder).write(f"parts/{KEY}.models.parquet", b"")
    assert list(tmp_path.iterdir()) == []


def test_only_own_names_can_be_written_or_removed(tmp_path: Path) -> None:
    place = Place(tmp_path / "zoo")
    with alone(place):
        for name in ("parts/../x", f"parts/{KEY}.models.parquet\n", "models/x", "x/00000.parquet", "/etc/passwd"):
            with pytest.raises((AssertionError, KeyError)):
                place.write(name, b"")
            with pytest.raises((AssertionError, KeyError)):
                place.remove(name)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set that was built behind a URL."""
    folder = tmp_path_factory.mktemp("remote") / "zoo"
    with pytest.MonkeyPatch.context() as patch:
        behind_urls(patch)
        zoo.build(MODEL, output=f"file://{folder}")
    return folder


@pytest.mark.parametrize("name", ["parts/", "models/", "fresh/", "models/00000.parquet", MARKER])
def test_behind_a_url_it_is_the_same(remote: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a file system of fsspec that knows links; others have none."""
    behind_urls(monkeypatch)
    folder, path, victim = f"file://{tmp_path}/zoo", tmp_path / "zoo" / name, tmp_path / "victim"
    assert not isinstance(Place(folder).files, place.LocalFiles)
    shutil.copytree(remote, tmp_path / "zoo")
    victim.mkdir()
    (victim / "file").write_text("mine")
    if path.exists():
        path.rename(tmp_path / "aside")
    path.symlink_to(victim if name.endswith("/") else victim / "file")
    with pytest.raises(InputError, match="is a link"):
        zoo.build(str(EXAMPLES / "custom_op.onnx"), output=folder)
    assert tree(victim) == {"file": (stat.S_IFREG, b"mine")}
    path.unlink()
    if (tmp_path / "aside").exists():
        (tmp_path / "aside").rename(path)
    assert zoo.build(str(EXAMPLES / "custom_op.onnx"), output=folder).layers == 57


def test_a_file_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        place.LocalFiles(str(tmp_path)).write("parts/file", "text, not bytes")  # type: ignore[arg-type]
    assert [*(tmp_path / "parts").iterdir()] == []
