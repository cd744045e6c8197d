"""The best of several starts: never worse than one, the same for any number of threads, with the spread told."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.cli import main
from unmix.estimators.plans import generators, objective_of

X = um.Counts(random_counts(40, 30, 5, seed=2))
KINDS = [um.PoissonNMF, um.TopicModel, um.LDA, um.GammaPoisson, um.BayesianPoissonNMF]


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_start_is_kept_and_no_worse_than_the_only_one(kind: Any) -> None:
    options: dict[str, Any] = {"init": "random", "random_state": 3}
    one = kind(4, **options).fit(X).result_
    model = kind(4, n_init=3, **options).fit(X)
    starts = model.result_.starts
    assert len(starts) == 3
    assert starts["objective"][1] == objective_of(one)
    assert objective_of(model.result_) == starts["objective"].max()
    assert starts["objective"].min() < starts["objective"].max(), "they are different starts"
    best = starts["objective"].idxmax()
    assert starts["difference"][best] == 0
    assert (starts["difference"].drop(best) > 0).all()
    assert model.result_.params["n_init"] == 3
    assert model.random_state == 3
    np.testing.assert_array_equal(model.components_.shape, (4, 30))
    if kind is um.LDA:
        assert model.elbo_ == starts["objective"].max()


def test_more_starts_begin_with_the_same_ones() -> None:
    few, many = (um.TopicModel(4, init="random", n_init=n, random_state=0).fit(X).result_.starts for n in (2, 4))
    pd.testing.assert_frame_equal(many[["objective", "iterations"]].head(2), few[["objective", "iterations"]])
    draws = [rng.integers(2**31) for rng in generators(np.random.default_rng(5), 50)]
    assert len(set(draws)) == 50
    assert draws[0] == np.random.default_rng(5).integers(2**31)


def test_results_do_not_depend_on_the_number_of_threads_or_the_kind_of_seed() -> None:
    fits = [
        um.PoissonNMF(4, n_init=3, n_jobs=n_jobs, random_state=seed).fit(X).result_
        for n_jobs, seed in ((1, 7), (2, 7), (2, np.random.default_rng(7)))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.F, fits[0].F)
        pd.testing.assert_frame_equal(other.starts, fits[0].starts)


def test_the_difference_is_that_of_matched_proportions() -> None:
    model = um.TopicModel(3, init="random", n_init=2, random_state=1, tol=0, max_iter=5).fit(X)
    first, second = (
        um.TopicModel(3, init="random", random_state=rng, tol=0, max_iter=5).fit(X).result_
        for rng in generators(np.random.default_rng(1), 2)
    )
    assert model.result_.starts["difference"].max() == pytest.approx(um.compare(first, second).mean_difference)


class Stop:
    """Ctrl-C in the start of a number, from 1."""

    def __init__(self, start: int) -> None:
        self.start, self.begun = start, 0

    def __call__(self, progress: Any) -> None:
        self.begun += progress.row["iteration"] == 1
        if self.begun == self.start and progress.row["iteration"] == 5:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_the_best_so_far_which_is_not_resumed() -> None:
    options: dict[str, Any] = {"init": "random", "random_state": 0, "prefit": 0}
    model = um.TopicModel(4, n_init=4, callbacks=[Stop(3)], **options)
    with pytest.warns(ConvergenceWarning, match="kept the best so far"):
        fit = model.fit(X).result_
    assert fit.status == "interrupted"
    assert len(fit.starts) == 3
    expected = um.TopicModel(4, n_init=2, **options).fit(X).result_
    np.testing.assert_array_equal(fit.F, expected.F)
    with pytest.raises(ValueError, match=r"best of 3 of n_init=4 starts.*n_init=1 and init=fit"):
        um.TopicModel(4, n_init=4, **options).resume(X, fit)


def test_shards_are_fitted_from_several_starts_too() -> None:
    fit = um.TopicModel(3, init="random", n_init=2, random_state=0, tol=1e-4).fit(um.Shards.of(X)).result_
    assert len(fit.starts) == 2
    assert objective_of(fit) == fit.starts["objective"].max()


def test_residuals_are_measured_in_every_start() -> None:
    from unmix.solvers import MeasureKKT

    fits: list[um.Fit] = []
    measure = MeasureKKT()
    for seed in (0, 1):
        fits.append(um.TopicModel(3, callbacks=[measure], random_state=seed).fit(X).result_)
    assert all(fit.trace["kkt"].iloc[1:3].notna().all() for fit in fits)


def test_a_given_start_is_fitted_once() -> None:
    given = um.TopicModel(3, random_state=0).fit(X).result_
    for model in (um.TopicModel(3, init=(given.L, given.F), n_init=5), um.TopicModel(1, n_init=5)):
        assert len(model.fit(X).result_.starts) == 0


def test_the_spread_survives_the_file_and_is_advice(tmp_path: Path) -> None:
    fit = um.LDA(3, n_init=2, random_state=0).fit(X).result_
    fit.save(tmp_path / "fit.safetensors")
    again = um.load(tmp_path / "fit.safetensors")
    pd.testing.assert_frame_equal(again.starts, fit.starts)
    pytest.importorskip("anndata")
    um.sc.from_fit(fit).write_h5ad(tmp_path / "fit.h5ad")
    import anndata

    kept = um.sc.to_fit(anndata.read_h5ad(tmp_path / "fit.h5ad")).starts
    pd.testing.assert_frame_equal(kept, fit.starts, check_dtype=False)
    assert any(text.startswith("the best of 2 starts: the others end ") for text in again.advice())
    assert not any("starts" in text for text in um.LDA(3, random_state=0).fit(X).result_.advice())


@pytest.mark.parametrize("n_init", [0, 1.5, "two"])
def test_a_wrong_number_of_starts_is_refused(n_init: Any) -> None:
    with pytest.raises(ValueError, match=r"n_init=.*use a whole number >= 1"):
        um.LDA(2, n_init=n_init).fit(X)


def test_the_terminal_takes_starts_and_tells_the_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame(random_counts(40, 30, 5, seed=2)).to_csv(tmp_path / "counts.csv")
    arguments = ["fit", str(tmp_path / "counts.csv"), "-k", "3", "--init", "random", "-o", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="0"), warnings.catch_warnings():
        main([*arguments, "--n-init", "3"])
    said = capsys.readouterr()
    assert "the best of 3 starts" in said.err
    assert len(um.load(tmp_path / "out" / "model.safetensors").starts) == 3
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--n-init", "3", "--model", "sparse"])
    assert "--model sparse; it has no parameter --n-init" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["info", str(tmp_path / "out"), "--json"])
    assert len(json.loads(capsys.readouterr().out)["data"]["starts"]["objective"]) == 3
