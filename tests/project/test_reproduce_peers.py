"""`reproduce.peers`: the split, the judge and the calls of the libraries, on tiny data."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts
from reproduce import libraries, peers

pytestmark = pytest.mark.reproduce

pytest.importorskip("psutil", reason="memory is measured with psutil")

BY_NAME = {program.name: program for program in peers.PROGRAMS}
# A single pass over forty samples, or a penalty meant for far more counts
HARDLY_A_FIT = {"gensim LdaMulticore", "gensim Nmf", "poismf"}


@pytest.fixture(scope="module")
def X() -> sp.csr_matrix:
    counts = random_counts(40, 30, K=4, mean=6.0)
    counts[7] = 0
    counts[:, 11] = 0
    return sp.csr_matrix(counts.astype(np.int32))


def test_train_and_test_counts_make_up_the_data(X):
    train, test = peers.thinned(X)
    judged = np.ix_(np.asarray(train.sum(axis=1)).ravel() > 0, np.asarray(train.sum(axis=0)).ravel() > 0)
    assert ((train + test).toarray()[judged] == X.toarray()[judged]).all()
    assert test.sum() / X.sum() == pytest.approx(peers.TEST_SHARE, abs=0.02)
    again = peers.thinned(X)
    assert (again[0] != train).nnz == 0
    assert (again[1] != test).nnz == 0


def test_nothing_is_judged_that_no_program_could_know():
    X = sp.csr_matrix(np.eye(300, dtype=np.int32) + np.eye(300, k=1, dtype=np.int32))
    train, test = peers.thinned(X)
    rows, columns = test.nonzero()
    assert len(rows)
    assert test.sum() < X.sum() - train.sum()
    assert (np.asarray(train.sum(axis=1)).ravel()[rows] > 0).all()
    assert (np.asarray(train.sum(axis=0)).ravel()[columns] > 0).all()


def test_the_judge_is_the_multinomial_log_likelihood_of_the_smoothed_prediction(X):
    rng = np.random.default_rng(0)
    L, F = rng.random((40, 3)), rng.random((30, 3))
    F[:10, 1] = 0
    train, test = peers.thinned(X)
    q = peers.overall_frequencies(train)
    rate = L @ F.T
    p = 0.9 * rate / rate.sum(axis=1, keepdims=True) + 0.1 * q
    expected = [sum(x * np.log(p[i, j]) for j, x in enumerate(row) if x) for i, row in enumerate(test.toarray())]
    np.testing.assert_allclose(peers.held_out(test, L, F, q, 0.1), expected, rtol=1e-12)


def test_the_scale_of_factors_does_not_matter(X):
    rng = np.random.default_rng(1)
    L, F = rng.random((40, 3)), rng.random((30, 3))
    train, test = peers.thinned(X)
    q = peers.overall_frequencies(train)
    scaled = peers.held_out(test, rng.random((40, 1)) * L * [1, 2, 3], 7 * F / [1, 2, 3], q, 1e-3)
    np.testing.assert_allclose(scaled, peers.held_out(test, L, F, q, 1e-3), rtol=1e-12)


def test_impossible_predictions_and_empty_samples_are_judged_by_the_frequencies(X):
    train, test = peers.thinned(X)
    q = peers.overall_frequencies(train)
    F = np.zeros((30, 2))
    F[11] = 1  # a feature that never occurs
    L = np.ones((40, 2))
    L[::2] = 0
    found = peers.predictions(test, L, F, q, 1e-3)
    empty = np.repeat(np.arange(40) % 2 == 0, np.diff(test.indptr))
    np.testing.assert_allclose(found, np.where(empty, 1, 1e-3) * q[test.indices], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in BY_NAME if not name.endswith(("passes)", "sweeps)"))])
def test_every_library_gives_proportions_and_topics_of_all_samples_and_features(name, X, tmp_path, monkeypatch):
    program = BY_NAME[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(program.requires, reason=f"{program.library} is not installed")
    monkeypatch.setattr(libraries, "K", 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    train, test = peers.thinned(X)
    for part, counts in {"train": train, "test": test}.items():
        sp.save_npz(tmp_path / f"{part}.npz", counts)
    given = {"program": name, "train": str(tmp_path / "train.npz"), "test": str(tmp_path / "test.npz")}
    if name == "gensim LdaMulticore":  # forks, which a process with other libraries' threads should not
        found = peers.in_fresh_process("reproduce.peers:measure", threads=1, timeout=300, **given)
    else:
        found = peers.measure(**given)
    assert len(found["each"]) == 40
    assert found["each"][7] == 0
    assert found["seconds"] > 0
    assert sum(found["each"]) / test.sum() == pytest.approx(found[peers.HELD_OUT])
    if name not in HARDLY_A_FIT:
        assert found[peers.HELD_OUT] > peers.no_topics(train, test)[peers.HELD_OUT]


def row(program: str, values: list[float] | None, library: str = "other") -> dict:
    if values is None:
        return {"program": program, "library": library, "kind": "LDA", "reason": "No module named 'x'"}
    told = {peers.column(smoothing): sum(values) / 10 for smoothing in (peers.SMOOTHING, *peers.OTHER_SMOOTHINGS)}
    measured = {"seconds": -sum(values), "peak MB": 5.0, "iterations": "3", "each": values}
    return {"program": program, "library": library, "kind": "LDA", "reason": ""} | measured | told


def test_a_better_peer_comes_first_and_is_named(X):
    rows = [
        row("ours", [-30.0, -20.0], "unmix"),
        row("absent", None),
        row("better", [-20.0, -20.0]),
        row("worse", [-50.0, -20.0]),
    ]
    table = peers.ranked(pd.DataFrame(rows), total=10)
    assert table["program"].tolist() == ["better", "ours", "worse", "absent"]
    np.testing.assert_allclose(table["behind the best"], [0, 1, 3, np.nan])
    np.testing.assert_allclose(table["standard error"].iloc[1], np.std([10, 0], ddof=1) * np.sqrt(2) / 10)
    page = peers.together({"nips": table})
    assert page.iloc[:, 1].tolist() == ["best", "1.0000 ± 1.0000", "3.0000 ± 3.0000", "not run"]
    assert page.iloc[:, 2].tolist() == ["40", "50", "70", "–"]
    told = peers.verdict(table)
    assert "absent was not run: No module named 'x'." in told
    assert "other libraries that predict better, better (by 1.0000); that are done sooner, better." in told
    assert "with ε = 0.01, no rank; with ε = 0.0001, no rank." in told
    table.loc[1, peers.column(0.01)] = 0.0
    assert "with ε = 0.01, the rank of better from 1 to 2, ours from 2 to 1;" in peers.verdict(table)


def test_a_library_that_is_not_installed_is_left_out_with_the_reason(tmp_path, monkeypatch, X):
    def fail(*_: object, program: str, **__: object) -> dict:
        if program == "unmix LDA":
            raise peers.TaskError("ModuleNotFoundError: No module named 'unmix'")
        return row(program, [-30.0, -20.0] + [0.0] * 38)

    class Data:
        csr = X

    monkeypatch.setattr(peers, "in_fresh_process", fail)
    monkeypatch.setattr(peers, "counts", lambda name: Data)
    programs = [BY_NAME["unmix LDA"], BY_NAME["scikit-learn LDA"]]
    job = peers.Job("peers", full=True, folder=tmp_path)
    table = peers.compare(job, "nips", programs)
    assert table.iloc[-1]["reason"] == "ModuleNotFoundError: No module named 'unmix'"
    monkeypatch.setattr(peers, "in_fresh_process", lambda *_, **__: fail(program="unmix LDA"))
    with pytest.raises(peers.MissingDataError, match="no program ran"):
        peers.compare(job, "nips", programs)


def test_the_page_has_one_table_of_all_data_sets_and_says_what_is_missing(tmp_path):
    rows = [row(name, [-30.0 - i, -20.0], BY_NAME[name].library) for i, name in enumerate(BY_NAME)]
    rows.append(row(peers.NO_TOPICS, [-60.0, -40.0], "") | {"seconds": np.nan})
    table = peers.ranked(pd.DataFrame(rows), total=10)
    job = peers.Job("peers", full=True, folder=tmp_path)
    every = pd.concat([table.assign(data=name, version="1.2", runs=1) for name in ("nips", "newsgroups")])
    section = peers.page(job, every.drop(columns="each"), list(peers.PROGRAMS), peers.FULL)
    (header,) = [line for line in section.text.splitlines() if line.startswith("| program |")]
    assert (
        header
        == "| program | NeurIPS: behind | NeurIPS: s | NeurIPS: MB | newsgroups: behind | newsgroups: s | newsgroups: MB |"
    )
    assert "Left out, as the data were not at hand: pbmc_facs." in section.text
    assert all(f"- {name}" in section.text for name in BY_NAME)
    assert (tmp_path / "peers.png").stat().st_size < 200_000
