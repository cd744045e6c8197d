"""Everything that takes a fit and counts goes by names: another order gives the same answers, other names are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um

N, M = 14, 11
RNG = np.random.default_rng(0)
SAMPLES, FEATURES = [f"s{i}" for i in range(N)], [f"f{j}" for j in range(M)]
X0 = um.Counts(random_counts(N, M, 3, mean=20), SAMPLES, FEATURES)
ROWS, COLUMNS = RNG.permutation(N), RNG.permutation(M)


@pytest.fixture(scope="module")
def fit() -> um.Fit:
    return um.TopicModel(3, random_state=0, tol=1e-6).fit(X0).result_


def _resumed(fit: um.Fit, X: Any) -> Any:
    half = um.TopicModel(3, max_iter=3, tol=0, random_state=0).fit(X0).result_
    return um.TopicModel(3, max_iter=6, tol=0, random_state=0).resume(X, half).result_.proportions


# What takes a fit and counts, and gives numbers in the order of the fit. "samples": X must be of the fit's samples.
ASKED: dict[str, tuple[Callable[[um.Fit, Any], Any], bool]] = {
    "intervals": (lambda fit, X: um.intervals(fit, X, sweeps=10, burn_in=5, random_state=0).low, True),
    "freedom": (lambda fit, X: um.freedom(fit, X, loss=2.0, probes=2).low, True),
    "held_out_lift": (lambda fit, X: um.analysis.held_out_lift(fit, X).lift, True),
    "quality, held out": (lambda fit, X: fit.quality(X0, held_out=X).table["lift"].to_numpy(), True),
    "differences": (lambda fit, X: um.differences(fit, X, random_state=0).lfc, True),
    "resume": (_resumed, True),
    "quality": (lambda fit, X: fit.quality(X).table["npmi"].to_numpy(), False),
    "coherence": (lambda fit, X: um.coherence(fit, X)["npmi"].to_numpy(), False),
    "stability": (lambda fit, X: um.stability(X, 3, 2, reference=fit, random_state=0).similarity, False),
    "transform": (lambda fit, X: np.sort(fit.transform(X), axis=0), False),
    "score": (lambda fit, X: um.TopicModel.from_fit(fit).score(X), False),
    "perplexity": (lambda fit, X: um.TopicModel.from_fit(fit).perplexity(X, random_state=0), False),
    "TopicModel.transform": (lambda fit, X: np.sort(um.TopicModel.from_fit(fit).transform(X), axis=0), False),
}
PERMUTED = {
    "rows": X0.take(ROWS),
    "columns": X0.take(features=COLUMNS),
    "both": X0.take(ROWS, COLUMNS),
}


def _quietly(ask: Callable[[um.Fit, Any], Any], fit: um.Fit, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ask(fit, X)


@pytest.mark.parametrize("order", PERMUTED)
@pytest.mark.parametrize("name", ASKED)
def test_counts_in_another_order_give_the_same_answer_or_are_refused(fit: um.Fit, name: str, order: str) -> None:
    ask, of_samples = ASKED[name]
    if not of_samples and order != "columns" and name not in ("coherence", "quality"):
        pytest.skip("other samples in any order are new samples")
    expected = _quietly(ask, fit, X0)
    try:
        found = _quietly(ask, fit, PERMUTED[order])
    except ValueError as refused:
        assert "reorder" in str(refused) or "of other data" in str(refused)  # noqa: PT017 - the other promise is below
        return
    if name.startswith("differences"):  # of the features of X, in their order
        found = found[np.argsort(COLUMNS)] if order == "columns" else found
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("name", [name for name in ASKED if ASKED[name][1]])
def test_counts_of_samples_of_other_names_are_refused(fit: um.Fit, name: str) -> None:
    other = um.Counts(X0, samples=[*SAMPLES[:-1], "new"])
    with pytest.raises(ValueError, match="sample 14 is 'new', the model has 's13' there: the names differ"):
        _quietly(ASKED[name][0], fit, other)


@pytest.mark.parametrize("name", ["intervals", "freedom", "held_out_lift", "stability", "resume"])
def test_counts_of_features_of_other_names_are_refused(fit: um.Fit, name: str) -> None:
    other = um.Counts(X0, features=["new", *FEATURES[1:]])
    with pytest.raises(ValueError, match="feature 1 is 'new', the model has 'f0' there: the names differ"):
        _quietly(ASKED[name][0], fit, other)


@pytest.mark.parametrize("name", ["intervals", "freedom", "held_out_lift"])
@pytest.mark.parametrize("axis", ["samples", "features"])
def test_names_that_several_share_do_not_say_which_is_which(fit: um.Fit, name: str, axis: str) -> None:
    ask = ASKED[name][0]
    names = {"samples": SAMPLES, "features": FEATURES}[axis]
    shared = [names[0], names[0], *names[2:]]
    known = replace(fit, **{axis: np.array(shared)})
    same, moved = (um.Counts(X0, **{axis: given}) for given in (shared, shared[::-1]))
    _quietly(ask, known, same)  # place by place
    with pytest.raises(ValueError, match="in a different order, and some occur twice; reorder them"):
        _quietly(ask, known, moved)
    with pytest.raises(ValueError, match="the names differ"):
        _quietly(ask, known, um.Counts(X0, **{axis: names}))


@pytest.mark.parametrize("kind", ["DataFrame", "AnnData"])
def test_names_are_found_in_tables_of_any_kind(fit: um.Fit, kind: str) -> None:
    moved = PERMUTED["both"]
    table: Any = pd.DataFrame(moved.csr.toarray(), index=moved.samples, columns=moved.features)
    if kind == "AnnData":
        table = pytest.importorskip("anndata").AnnData(table)
    ask = ASKED["held_out_lift"][0]
    np.testing.assert_allclose(ask(fit, table), ask(fit, X0))


def test_fits_of_samples_that_share_names_are_compared_place_by_place_or_by_other_names(fit: um.Fit) -> None:
    shared = np.array(["a", "a", *SAMPLES[2:]])
    one = replace(fit, samples=shared)
    assert um.compare(one, one).samples == N
    two = replace(fit, samples=shared[::-1], L=fit.L[::-1])
    found = um.compare(one, two)
    assert found.samples == N - 2  # which "a" is which is not known
    assert found.table["difference"].max() < 1e-12


def test_a_fit_that_is_resumed_keeps_the_names_of_its_samples(tmp_path: Path) -> None:
    done = um.TopicModel(3, random_state=0).fit(X0).result_
    with pytest.raises(ValueError, match="the names are in a different order; reorder them"):
        um.TopicModel(3, random_state=0).resume(um.Counts(X0, samples=SAMPLES[::-1]), done)
