"""Tries what `make wheel` has built where people will use it: in an empty environment and an empty folder, without this checkout.

    python release/check.py wheel FOLDER    # the wheel in FOLDER: what is in it, `unmix demo`, and the tests of the kernels
    python release/check.py sdist FOLDER    # the sources in FOLDER: what is in them, and that a wheel can be built from them

Only the standard library: it runs with the Python that is being tried.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Every kernel beside its NumPy twin, the bits of every estimator, saved fits, reading and writing.
TESTS = [
    "kernels/test_kernels.py",
    "project/test_golden.py",
    "storage/test_fit.py",
    "io/test_read_write.py",
    "cli/test_cli.py",
]
INSTRUCTION_SETS = ["baseline", "avx2", "avx512"] if platform.machine() in ("x86_64", "AMD64") else ["baseline"]


def the_only(files: Iterable[Path], what: str) -> Path:
    found = list(files)
    if len(found) != 1:
        sys.exit(f"there should be one {what}, not {[path.name for path in found]}")
    return found[0].resolve()


def environment(folder: Path) -> Path:
    """A new virtual environment; its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(*command: object, cwd: Path, **variables: str) -> None:
    print("$", *(Path(part).name if isinstance(part, Path) else part for part in command), flush=True)
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNMIX"))}
    subprocess.run([str(part) for part in command], cwd=cwd, env=settings | variables, check=True)


def pip_install(python: Path, *what: object, cwd: Path) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", *what, cwd=cwd)


def check_contents(names: list[str], wanted: Iterable[str], unwanted: Iterable[str]) -> None:
    missing = [part for part in wanted if not any(part in name for name in names)]
    surplus = [name for name in names if any(part in name for part in unwanted)]
    if missing or surplus:
        sys.exit(f"missing: {missing}; should not be there: {surplus[:10]}")


def check_wheel(wheel: Path, empty: Path) -> None:
    kernels = [f"unmix/kernels/_{isa}." for isa in INSTRUCTION_SETS]
    resources = ["unmix/py.typed", "licenses/LICENSE", "unmix/report/static/", "unmix/io/sotu", "entry_points.txt"]
    with zipfile.ZipFile(wheel) as archive:
        check_contents(archive.namelist(), [*kernels, *resources], ["native/", "tests/", ".cpp", ".hpp", "__pycache__"])

    python = environment(empty / "env")
    pip_install(python, wheel, cwd=empty)
    work = empty / "work"
    work.mkdir()
    no_compiler = {"PATH": str(python.parent)}
    run(python.parent / "unmix", "demo", "-o", "demo", cwd=work, **no_compiler)
    if "<html" not in (work / "demo" / "report.html").read_text(encoding="utf-8"):
        sys.exit("demo/report.html is no page")

    pip_install(python, f"{wheel}[test]", cwd=empty)
    shutil.copytree(ROOT / "tests", work / "tests")
    shutil.copy(ROOT / "pyproject.toml", work)
    run(python, "-m", "pytest", *(f"tests/{name}" for name in TESTS), cwd=work)
    for isa in INSTRUCTION_SETS[:-1]:  # the last one that the CPU has was tried above
        run(python, "-m", "pytest", "tests/kernels/test_kernels.py", cwd=work, UNMIX_ISA=isa)


def check_sdist(sdist: Path, empty: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    wanted = [
        "LICENSE",
        "README.md",
        "PKG-INFO",
        "CMakeLists.txt",
        "native/module.cpp",
        "unmix/py.typed",
        "tests/conftest.py",
    ]
    check_contents(names, wanted, [".so", ".git", "__pycache__", "docs/", "wheel-"])
    python = environment(empty / "env")
    # One instruction set shows as much as three, in a third of the time.
    build = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--config-settings=cmake.define.UNMIX_ISAS=baseline"]
    run(*build, "--wheel-dir", "built", sdist, cwd=empty)
    print("built", the_only((empty / "built").glob("*.whl"), "wheel").name)


def main(kind: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as empty:
        if kind == "wheel":
            check_wheel(the_only(Path(folder).glob("*.whl"), "wheel"), Path(empty))
        else:
            check_sdist(the_only(Path(folder).glob("*.tar.gz"), "archive"), Path(empty))
    print(f"{folder}: the {kind} works")


if __name__ == "__main__":
    main(*sys.argv[1:])
