"""The types of the public face, as mypy sees them (`make lint`) and as they are: each `assert_type` is checked by both.

A user's editor knows what `fit` returns, what is in a result, and which of two forms an option chooses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, assert_type

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

import unmix as um

Floats = NDArray[np.float64]
Factor = NDArray[np.floating[Any]]
Names = NDArray[np.str_]

X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 3, features=["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def fit() -> um.Fit:
    return um.TopicModel(2, random_state=0).fit(X).result_


def is_floats(array: Floats) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == np.float64


def test_a_fit_returns_the_estimator_itself() -> None:
    assert isinstance(assert_type(um.TopicModel(2, random_state=0).fit(X), um.TopicModel), um.TopicModel)
    assert isinstance(assert_type(um.LDA(2, eta=0.1, random_state=0).partial_fit(X), um.LDA), um.LDA)
    assert isinstance(assert_type(um.PoissonNMF.from_factors([[1.0], [2.0]]), um.PoissonNMF), um.PoissonNMF)

    class Own(um.TopicModel):
        def again(self, counts: um.Counts) -> Self:
            return assert_type(self.fit(counts), Self)

    assert isinstance(assert_type(Own(2, random_state=0).again(X), Own), Own)


def test_an_estimator_gives_arrays_of_numbers() -> None:
    model = um.TopicModel(2, random_state=0).fit(X)
    assert is_floats(assert_type(model.transform(X), Floats))
    assert is_floats(assert_type(model.fit_transform(X), Floats))
    assert is_floats(assert_type(model.components_, Floats))
    assert isinstance(assert_type(model.score(X), float), float)
    assert isinstance(assert_type(model.perplexity(X), float), float)
    assert isinstance(assert_type(model.n_iter_, int), int)
    lda = um.LDA(2, eta=0.1, random_state=0).fit(X)
    assert is_floats(assert_type(lda.gamma_, Floats))
    assert isinstance(assert_type(lda.elbo_, float), float)
    low, high = assert_type(lda.credible_intervals(), tuple[Floats, Floats])
    assert is_floats(low)
    assert is_floats(high)


def test_a_fit_knows_what_is_in_it(fit: um.Fit) -> None:
    assert isinstance(assert_type(fit.L, Factor), np.ndarray)
    assert is_floats(assert_type(fit.proportions, Floats))
    assert is_floats(assert_type(fit.topics, Floats))
    assert isinstance(assert_type(fit.trace, pd.DataFrame), pd.DataFrame)
    assert isinstance(assert_type(fit.features, Names | None), np.ndarray)
    assert isinstance(assert_type(fit.labels, list[str]), list)
    assert isinstance(assert_type(fit.loglik, float), float)
    assert isinstance(assert_type(fit.top_features(), pd.DataFrame), pd.DataFrame)
    assert is_floats(assert_type(fit.transform(X), Floats))
    assert isinstance(assert_type(fit.with_names({1: "one"}), um.Fit), um.Fit)


def test_files_give_counts_and_fits(fit: um.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.safetensors")
    assert isinstance(assert_type(um.load(tmp_path / "fit.safetensors"), um.Fit), um.Fit)
    (tmp_path / "counts.csv").write_text("sample,ant,bee\na,3,0\nb,1,2\n")
    assert isinstance(assert_type(um.read(tmp_path / "counts.csv"), um.Counts | um.Shards), um.Counts)
    assert isinstance(assert_type(um.read_texts(["red wine", "white wine"]), um.Counts), um.Counts)
    assert isinstance(assert_type(um.shard(X, tmp_path / "shards"), um.Shards), um.Shards)
    assert isinstance(assert_type(um.datasets.digits(), um.Counts), um.Counts)
    assert isinstance(assert_type(X.take([0, 1]), um.Counts), um.Counts)


def test_questions_have_answers_of_their_own_kind(fit: um.Fit, tmp_path: Path) -> None:
    choice = assert_type(um.choose_topics(X, range(1, 3), folds=2, random_state=0), um.Choice)
    assert isinstance(assert_type(choice.suggested, int), int)
    assert isinstance(assert_type(choice.advice(), list[str]), list)
    assert isinstance(assert_type(um.stability(X, 2, runs=2, random_state=0), um.Stability), um.Stability)
    assert isinstance(assert_type(um.freedom(fit), um.Freedom), um.Freedom)
    assert isinstance(assert_type(um.compare(fit, fit), um.Comparison), um.Comparison)
    fits = assert_type(um.fit_path(X, range(1, 3), random_state=0), dict[int, um.Fit])
    alignment = assert_type(um.align(fits), um.Alignment)
    alignment.save(tmp_path / "alignment.safetensors")
    assert isinstance(assert_type(um.Alignment.load(tmp_path / "alignment.safetensors"), um.Alignment), um.Alignment)


def test_an_option_that_chooses_the_form_of_an_answer_chooses_its_type(fit: um.Fit) -> None:
    assert isinstance(assert_type(um.differences(fit, X), um.Differences), um.Differences)
    assert isinstance(assert_type(um.differences(fit, X, against=1), um.Differences), um.Differences)
    assert isinstance(assert_type(um.loglik(X, fit.L, fit.F), float), float)
    assert is_floats(assert_type(um.loglik(X, fit.L, fit.F, per_sample=True), Floats))


def test_pictures_are_axes(fit: um.Fit) -> None:
    assert isinstance(assert_type(um.plot.structure(fit), Axes), Axes)
    assert isinstance(assert_type(um.plot.palette(3), list[str]), list)
