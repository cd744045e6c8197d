"""A fit that was interrupted, saved, loaded and resumed ends where it would have ended: the same bits."""

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.solvers import Checkpoint, search

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = random_counts(n=40, m=30, seed=3)
MODELS: dict[str, Any] = {
    "newton": um.TopicModel(4, random_state=0, max_iter=60),
    "em, float32": um.PoissonNMF(4, solver="em", dtype="float32", random_state=0, max_iter=30),
    "scd, plain": um.PoissonNMF(4, solver="scd", extrapolate=False, random_state=0, max_iter=30),
    "plsi": um.PoissonNMF(4, solver="plsi", random_state=0, max_iter=30),
    "MAP": um.TopicModel(4, prior=um.Gamma(1.2, 1.0), random_state=0, max_iter=30),
    "MAP of proportions": um.TopicModel(4, loadings_prior=um.Dirichlet(1.1), random_state=0, max_iter=30),
    "refine": um.TopicModel(5, refine=6, random_state=1, max_iter=40, init="random"),
    "sparse": um.SparsePoissonNMF(4, random_state=0, max_iter=30),
    "online EM": um.TopicModel(4, online=um.Online(batch_size=8), random_state=0, max_iter=6, tol=0, prefit=2),
    "LDA": um.LDA(4, alpha="auto", eta=0.1, random_state=0, max_iter=30),
    "LDA, inner": um.LDA(4, inner=5, random_state=0, max_iter=20),
    "online LDA": um.LDA(4, eta=0.1, online=um.Online(batch_size=8), random_state=0, max_iter=6, tol=0),
    "Gamma-Poisson": um.GammaPoisson(4, random_state=0, max_iter=30),
    "Gamma-Gamma": um.BayesianPoissonNMF(4, random_state=0, max_iter=30),
    "hierarchical": um.BayesianPoissonNMF(4, rate_shape=0.3, random_state=0, max_iter=30),
    "online hierarchical": um.BayesianPoissonNMF(
        4, rate_shape=0.3, online=um.Online(batch_size=8), random_state=0, max_iter=6, tol=0
    ),
    "online Gamma-Gamma": um.BayesianPoissonNMF(4, online=um.Online(batch_size=8), random_state=0, max_iter=6, tol=0),
    "BLD": um.AllocationModel(4, random_state=0, max_iter=20),
    "BLD, factored": um.AllocationModel(4, method="factored-bld", random_state=0, max_iter=20),
    "ICM": um.AllocationModel(4, method="icm", random_state=0, max_iter=20),
    "Gibbs": um.AllocationModel(4, method="gibbs", sweeps=12, burn_in=6, thin=3, random_state=0),
}


class Stop:
    """A callback that ends the fit after an iteration: politely, or as Ctrl-C would in the midst of another callback."""

    def __init__(self, at: int, rudely: bool) -> None:
        self.at, self.rudely = at, rudely

    def __call__(self, progress: Any) -> str | None:
        if progress.row["iteration"] != self.at:
            return None
        if self.rudely:
            raise KeyboardInterrupt
        return "interrupted"


@pytest.fixture(scope="module")
def whole() -> Any:
    fits: dict[str, um.Fit] = {}

    def fit(name: str) -> um.Fit:
        if name not in fits:
            fits[name] = MODELS[name].fit(X).result_
        return fits[name]

    return fit


def assert_same(one: um.Fit, two: um.Fit) -> None:
    """Bits, and all of the trace but the seconds; NaN equals NaN."""
    assert one.L.tobytes() == two.L.tobytes()
    assert one.F.tobytes() == two.F.tobytes()
    assert (one.loglik, one.status, one.priors) == (two.loglik, two.status, two.priors)
    assert repr(one.remaining_gain) == repr(two.remaining_gain)
    assert one.posterior.keys() == two.posterior.keys()
    for key, value in one.posterior.items():
        assert value.tobytes() == two.posterior[key].tobytes()
    assert list(one.trace) == list(two.trace)
    traces = [fit.trace.drop(columns="seconds") for fit in (one, two)]
    pd.testing.assert_frame_equal(*traces, check_exact=True)
    assert two.trace["seconds"].is_monotonic_increasing


@pytest.mark.parametrize(("part", "rudely"), [(0.05, True), (0.5, False), (0.95, True)])
@pytest.mark.parametrize("name", MODELS)
def test_a_resumed_fit_ends_with_the_same_bits(
    name: str, part: float, rudely: bool, whole: Any, tmp_path: Path
) -> None:
    expected = whole(name)
    at = max(1, round(part * (len(expected.trace) - 1)))
    model = MODELS[name]
    interrupted = type(model)(**model.get_params() | {"callbacks": [Stop(at, rudely)]}).fit(X).result_
    assert interrupted.status == "interrupted"
    assert len(interrupted.trace) == at + 1
    interrupted.save(tmp_path / "left.safetensors", resumable=True)
    resumed = type(model)(**model.get_params()).resume(X, um.load(tmp_path / "left.safetensors")).result_
    assert_same(expected, resumed)


def test_the_stages_of_a_refined_fit_are_all_interrupted_above(whole: Any) -> None:
    assert list(dict.fromkeys(whole("refine").trace["stage"])) == ["start", "prefit", "fit", "refine", "refit"]
    assert whole("refine").trace["note"].str.contains("kept").any()


def test_interruptions_within_a_step_cost_that_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while topics are put together, so in the midst of a move: each such fit, resumed, ends at the same fit."""
    model, recombine = MODELS["refine"], search.recombine
    calls, at = 0, -1

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        if sys._getframe(1).f_code.co_qualname != "Refine.step":  # the search recombines, too
            return recombine(*args, **kwargs)
        calls += 1
        if calls - 1 == at:
            raise KeyboardInterrupt
        return recombine(*args, **kwargs)

    monkeypatch.setattr(search, "recombine", interrupted)
    expected = type(model)(**model.get_params()).fit(X).result_
    moves = int((expected.trace["stage"] == "refine").sum())
    complete = []  # moves before each interruption
    for at in range(calls):  # which `interrupted` reads
        calls = 0
        left = type(model)(**model.get_params()).fit(X).result_
        assert (left.status, calls) == ("interrupted", at + 1)
        complete.append(int((left.trace["stage"] == "refine").sum()))
        assert_same(expected, type(model)(**model.get_params()).resume(X, left).result_)
    assert complete == list(range(moves))


def test_a_checkpoint_on_the_way_changes_nothing_and_goes_on(tmp_path: Path, whole: Any) -> None:
    model, path = MODELS["newton"], tmp_path / "checkpoint.safetensors"
    early = tmp_path / "early.safetensors"

    def copy(progress: Any) -> None:
        if progress.row["iteration"] == 5:
            shutil.copy(path, early)

    saved = type(model)(**model.get_params() | {"callbacks": [Checkpoint(path, seconds=0), copy]}).fit(X).result_
    assert_same(whole("newton"), saved)
    left = um.load(early)
    assert left.status == "interrupted"
    assert left.params == saved.params
    assert_same(whole("newton"), type(model)(**model.get_params()).resume(X, left).result_)


def test_more_iterations_than_before_may_be_asked_for() -> None:
    short = um.TopicModel(4, random_state=0, max_iter=5, tol=0).fit(X).result_
    long = um.TopicModel(4, random_state=0, max_iter=15, tol=0)
    assert_same(long.fit(X).result_, um.TopicModel(4, random_state=0, max_iter=15, tol=0).resume(X, short).result_)


@pytest.mark.parametrize(
    "name", [name for name in MODELS if name not in ("Gibbs", "online EM", "online LDA", "online Gamma-Gamma")]
)
def test_a_converged_fit_is_as_large_as_its_result(name: str, tmp_path: Path) -> None:
    """Working arrays (six factors for extrapolation, nonzeros × K for BLD) go with convergence; nothing is saved of them."""
    model = MODELS[name]
    fit = type(model)(**model.get_params() | {"max_iter": 5000, "tol": 1e-3}).fit(X).result_
    assert (fit.status, fit.state) == ("converged", None)
    fit.save(tmp_path / "plain.safetensors")
    fit.save(tmp_path / "resumable.safetensors", resumable=True)
    assert (tmp_path / "plain.safetensors").read_bytes() == (tmp_path / "resumable.safetensors").read_bytes()


def test_a_finished_fit_is_the_result_as_it_is(whole: Any) -> None:
    model = um.TopicModel(4, random_state=0, tol=1e-4).fit(X)
    assert model.result_.status == "converged"
    again = um.TopicModel(4, random_state=0, tol=1e-4).resume(X, model.result_)
    assert again.result_ is model.result_
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("model", "data", "problem"),
    [
        (um.TopicModel(4, random_state=1), X, "had random_state=0, this one has random_state=1"),
        (um.TopicModel(3, random_state=0), X, "had n_components=4, this one has n_components=3"),
        (um.PoissonNMF(4, random_state=0), X, "had model='TopicModel', this one has model='PoissonNMF'"),
        (um.TopicModel(4, random_state=0), random_counts(n=40, m=30, seed=4), "of other data"),
    ],
)
def test_another_model_or_other_data_are_refused(model: Any, data: Any, problem: str) -> None:
    left = um.TopicModel(4, random_state=0, callbacks=[Stop(3, False)]).fit(X).result_
    with pytest.raises(ValueError, match=problem):
        model.resume(data, left)


def test_a_fit_saved_without_its_state_cannot_go_on(tmp_path: Path) -> None:
    left = um.TopicModel(4, random_state=0, callbacks=[Stop(3, False)]).fit(X).result_
    left.save(tmp_path / "left.safetensors")
    with pytest.raises(ValueError, match="saved without its solver's state"):
        um.TopicModel(4, random_state=0).resume(X, um.load(tmp_path / "left.safetensors"))


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    left = um.TopicModel(4, random_state=0, callbacks=[Stop(14, False)]).fit(X).result_
    assert left.state is not None
    left.state["L"] = left.state["L"][:-1]
    with pytest.raises(ValueError, match="or is damaged"):
        um.TopicModel(4, random_state=0).resume(X, left)


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(self: um.Fit, path: Any, **_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(um.Fit, "save", full)
    with pytest.warns(UserWarning, match=r"could not be written \(No space left on device\); the fit continues"):
        um.TopicModel(3, random_state=0, callbacks=[Checkpoint(tmp_path / "c.safetensors", seconds=0)]).fit(X)


def test_the_warning_of_an_early_end_is_still_given() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        um.TopicModel(4, random_state=0, callbacks=[Stop(3, True)]).fit(X)
