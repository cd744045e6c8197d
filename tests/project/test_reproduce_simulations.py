"""The pieces behind figure 1 of Carbonetto et al., on one small draw and without the authors' data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from reproduce import simulations as s
from reproduce.common import Job

import unmix as um

pytestmark = pytest.mark.reproduce


@pytest.fixture(scope="module")
def case() -> s.Case:
    short = pytest.MonkeyPatch()
    short.setattr(s, "ITERATIONS", {"A": 30, "B": 30})
    short.setattr(s, "LDA_ITERATIONS", 5)
    X = um.datasets.correlated_topics("A", seed=1)
    model = um.PoissonNMF(
        6, solver="em", extrapolate=False, init="random", prefit=0, max_iter=20, tol=0, random_state=1
    )
    made = s.compare("A", "random", X, X.truth, model.fit(X).result_)
    short.undo()
    return made


def test_the_best_is_the_best_of_the_methods(case: s.Case) -> None:
    gaps = [case.below(method) for method in s.METHODS]
    assert min(gaps) == 0
    assert max(gaps) > 0
    assert case.below("scd") < case.below("em")


def test_first_iteration_close_to_the_best_is_the_first(case: s.Case) -> None:
    method = min(s.METHODS, key=case.below)
    trace = case.fits[method].trace.set_index("iteration")["loglik"]
    first = case.close(method)
    assert trace[first] >= case.best - s.FLOOR
    assert (trace[trace.index < first] < case.best - s.FLOOR).all()
    assert np.isnan(case.close("em")) == (case.below("em") > s.FLOOR)


def test_a_step_of_squarem_counts_as_three_iterations(case: s.Case) -> None:
    assert case.fits["squarem"].trace["iteration"].iloc[-1] == 30
    assert len(case.fits["squarem"].trace) < len(case.fits["em"].trace) / 2


def test_lda_starts_where_each_fit_ended(case: s.Case) -> None:
    assert set(case.lda) == {"50 EM", "EM", "CD"}
    assert s.lda_gain(case, "EM") == pytest.approx(s.elbo(case.lda["CD"]) - s.elbo(case.lda["EM"]))


def test_excess_of_em_over_cd_sums_to_nothing(case: s.Case) -> None:
    assert s.overestimates(case).sum() == pytest.approx(0, abs=1e-9)
    assert s.largest_difference(case) > 0


def test_runs_of_em_behind_cd_are_counted() -> None:
    rows = pd.DataFrame(
        [
            {"data": "B", "seed": seed, "start": "random", "method": method, "loglik": loglik}
            for seed, em in enumerate((-10.0, -11.5, -9.0))
            for method, loglik in (("em", em), ("scd", -10.0))
        ]
    )
    assert s.hard(rows, "B") == (1, 3)


def test_without_the_authors_data_fresh_draws_are_still_made(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("reproduce.common.DATA", tmp_path)
    monkeypatch.setattr(s, "ITERATIONS", {"A": 4, "B": 4})
    monkeypatch.setattr(s, "LDA_ITERATIONS", 2)
    every = s.fresh_draws
    monkeypatch.setattr(s, "fresh_draws", lambda job, draws: every(job, 2))
    section = s.main(Job("simulations", folder=tmp_path / "out"))
    assert "was not at hand" in section.text
    assert "2 fresh draws" in section.text
    table = pd.read_csv(tmp_path / "out" / "simulations-fresh.csv")
    assert len(table) == 2 * 2 * 2 * len(s.METHODS)
    assert (table.groupby(["data", "seed", "start"])["below_best"].min() == 0).all()
    assert (tmp_path / "out" / "simulations-fresh.png").stat().st_size > 0
