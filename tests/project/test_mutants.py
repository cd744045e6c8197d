"""The list of mutants stays true: each old text occurs once, and the tests that must kill it exist. `make mutants` runs them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT
from mutants.listed import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.claim)
def test_a_mutant_changes_one_place_of_a_file_that_still_compiles(mutant: Mutant) -> None:
    assert mutant.applied() != mutant.path.read_text(encoding="utf-8")
    compile(mutant.applied(), mutant.file, "exec")
    file, *words = mutant.tests
    text = (ROOT / file).read_text(encoding="utf-8")
    assert any(
        all(word in line for word in words[-1].split(" and ")) for line in text.splitlines() if "def test_" in line
    )


def test_claims_are_told_apart() -> None:
    assert len({mutant.claim for mutant in MUTANTS}) == len(MUTANTS) >= 40


def test_a_mutant_is_what_tests_import() -> None:
    number = next(i for i, mutant in enumerate(MUTANTS) if "weights of topics have their scales" in mutant.claim)
    code = "import mutants.plugin, unmix as um; print(um.poisson_to_topics([[1.0, 3.0]], [[2.0, 0.0], [0.0, 6.0]])[2])"
    sizes = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"UNMIX_MUTANT": mutant},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for mutant in ("", str(number))
    ]
    assert sizes == ["[20.]\n", "[4.]\n"]
