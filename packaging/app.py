"""Build the page that needs no installation: a folder for any server of files, with Python for the browser in it.

    npm pack pyodide@314.0.7 && tar xf pyodide-314.0.7.tgz
    python packaging/app.py package docs/app

The runtime is that of the npm package and is not kept in the repository. click comes from this environment, and so do
sympy and mpmath where they are there; NumPy's build for the browser is given with --numpy, or its tabs are left out.
Where node is installed, the runtime compiles the archives once, here, so that no browser has to.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from flopwise.cli.view.tabs import described
from flopwise.report.html.page import asset
from flopwise.report.html.view import APP, render_view

#: What the runtime is made of.
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")

#: Archive -> the packages of this environment in it: the first is loaded at once, others with the tabs that need them.
ARCHIVES = {"flopwise": ("flopwise", "click"), "sympy": ("sympy", "mpmath")}

#: Compiles archives with the runtime, for node: the folder of the runtime, then the archives, each written anew. An
#: error of the page is one line, so that the columns of each instruction, a third of all bytes, stay out.
COMPILE = """
import fs from "fs";
const [runtime, ...archives] = process.argv.slice(1);
const { loadPyodide } = await import(`file://${runtime}/pyodide.mjs`);
const python = await loadPyodide({ env: { HOME: "/", PYTHONNODEBUGRANGES: "1" } });
for (const archive of archives) {
  python.FS.writeFile("/archive.zip", fs.readFileSync(archive));
  python.runPython(`
import compileall, pathlib, py_compile, shutil, warnings, zipfile
warnings.simplefilter("ignore")
shutil.rmtree("/unpacked", ignore_errors=True)
zipfile.ZipFile("/archive.zip").extractall("/unpacked")
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir("/unpacked", quiet=2, legacy=True, invalidation_mode=unchecked)
with zipfile.ZipFile("/archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(pathlib.Path("/unpacked").rglob("*")):
        if path.is_file() and not path.with_suffix(".pyc").exists() or path.suffix == ".pyc":
            archive.write(path, path.relative_to("/unpacked"))
`);
  fs.writeFileSync(archive, python.FS.readFile("/archive.zip"));
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pyodide", type=Path, help="the folder of the npm package")
    parser.add_argument("folder", type=Path, help="the folder to write, which is made")
    parser.add_argument("--numpy", type=Path, help="NumPy's wheel for this version of the runtime")
    arguments = parser.parse_args()
    build(arguments.pyodide, arguments.folder, arguments.numpy)


def build(pyodide: Path, folder: Path, numpy: Path | None = None) -> None:
    """Write the page and what it loads into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        shutil.copyfile(pyodide / name, folder / name)
    names = [
        *RUNTIME,
        *(f"{name}.zip" for name, packages in ARCHIVES.items() if packed(folder / f"{name}.zip", packages)),
    ]
    if node := shutil.which("node"):
        archives = [str((folder / name).resolve()) for name in names if name not in RUNTIME and name.endswith(".zip")]
        line = [node, "--input-type=module", "-e", COMPILE, str(pyodide.resolve()), *archives]
        subprocess.run(line, check=True)
    if numpy is not None:
        shutil.copyfile(numpy, folder / "numpy.zip")
        names.append("numpy.zip")
    without = [name for name in ("sympy", "numpy") if f"{name}.zip" not in names]
    page = render_view(APP, {"tabs": described(without), "given": []})
    (folder / "index.html").write_text(page, "ascii")
    version = hashlib.sha256(b"".join((folder / name).read_bytes() for name in ("index.html", *names))).hexdigest()
    script = (
        asset("view/offline.js").replace("FILES", json.dumps(["./", *names])).replace("VERSION", json.dumps(version))
    )
    (folder / "offline.js").write_text(script, "ascii")


def packed(path: Path, packages: Sequence[str]) -> bool:
    """Write packages of this environment into an archive; False where one is missing."""
    specs = [importlib.util.find_spec(name) for name in packages]
    if None in specs:
        return False
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for spec in specs:
            add(archive, Path(str(spec and spec.origin)).parent)
    return True


def add(archive: zipfile.ZipFile, package: Path) -> None:
    """Add a package without its tests and what Python has compiled of it."""
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        if path.is_file() and not {"__pycache__", "tests"}.intersection(parts):
            archive.write(path, Path(package.name, *parts))


if __name__ == "__main__":
    main()
