"""Spoiled files are read or refused, whatever they hold: a quick, fixed form of what `make fuzz` searches for."""

from __future__ import annotations

import gzip
import os
import random
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.corpus import subjects, terminal
from fuzz.guard import Case, attempt, peak_of
from fuzz.hostile import HOSTILE
from fuzz.mutate import ways

import unmix as um

SUBJECTS = subjects()
QUICK = [
    name
    for name in SUBJECTS
    if not name.startswith("model-") or name in ("model-TopicModel", "model-LDA", "model-gibbs")
]
EACH = 6  # cases a subject


@pytest.mark.parametrize("name", QUICK)
def test_spoiled_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    sound.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SUBJECTS[name].make(sound)
    rng = random.Random(name)
    choices = [(file, way) for file in SUBJECTS[name].files(sound) for way in ways(file)]
    for i in range(EACH):
        case = Case(name, *rng.choice(choices), seed=rng.randrange(2**32))
        (tmp_path / str(i)).mkdir()
        assert attempt(case, SUBJECTS[name], sound, tmp_path / str(i)) is None, f"python -m fuzz --case '{case}'"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_or_do_no_harm(name: str, tmp_path: Path) -> None:
    case = Case(f"hostile-{name}", "-", "-", 100)
    (tmp_path / "100").mkdir()
    assert attempt(case, HOSTILE[name], tmp_path, tmp_path / "100") is None, f"python -m fuzz --case '{case}'"


def _gz(path: Path, first: bytes, block: bytes, times: int) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(first)
        for _ in range(times):
            file.write(block)


def _market(path: Path) -> None:
    _gz(path, b"%%MatrixMarket matrix coordinate integer general\n3 3 1\n", b"1 1 1\n" * 100_000, 80)


def _zip(path: Path) -> None:
    sp.save_npz(path, sp.csr_array(np.eye(3)))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("samples.npy", "w") as file:
        header = np.lib.format.header_data_from_array_1_0(np.zeros(1, np.uint8)) | {"shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(file, header)


BOMBS: dict[str, Callable[[Path], None]] = {"promise.mtx.gz": _market, "huge.npz": _zip}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="watches its children")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_costs_no_more_than_it_says(name: str, tmp_path: Path) -> None:
    BOMBS[name](tmp_path / name)

    def read() -> None:
        with pytest.raises(ValueError, match=name):
            um.read(tmp_path / name)

    assert peak_of(read) < 300 << 20


def test_control_characters_in_names_never_reach_the_terminal(tmp_path: Path) -> None:
    names = ["\x1b]0;title\x07", "\x9b2J", "a\x7fb", "‮evil"]
    X = um.Counts(np.random.default_rng(0).poisson(3, (4, 4)) + 1, names, names)
    fit = um.PoissonNMF(2, random_state=0, max_iter=3, tol=0).fit(X).result_.with_names(["\x1b[31m", "b"])
    fit.save(tmp_path / "model.safetensors")
    for more in ((), ("--json",)):
        terminal("info", str(tmp_path / "model.safetensors"), *more)  # raises if one does
