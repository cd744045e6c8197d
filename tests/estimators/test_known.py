"""Known, seeded and allowed topics: held ones stay bit for bit; cases that other optimisers solved are met to their digits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.counts import shards
from unmix.estimators.known import read_seeds
from unmix.registry import ANALYSES
from unmix.solvers import search
from unmix.solvers.search import recombine

X6 = np.array([[9, 1, 0, 2], [8, 2, 1, 0], [1, 6, 7, 1], [0, 7, 9, 2], [4, 5, 4, 8], [2, 3, 5, 12]])
C = np.array([[0.7], [0.2], [0.05], [0.05]])
W5 = um.Counts(
    [[5, 4, 0, 0, 1], [4, 6, 1, 0, 0], [0, 1, 6, 5, 2], [1, 0, 4, 7, 0], [3, 3, 3, 2, 4]], features=list("abcde")
)
TIGHT: dict[str, Any] = {"tol": 1e-12, "max_iter": 5000, "random_state": 0}
SOLVERS = ["newton", "scd", "ccd", "sn", "em"]


def simulated(n: int = 60, m: int = 30, known: int = 3, new: int = 2, seed: int = 0) -> tuple[np.ndarray, pd.DataFrame]:
    """Counts of known topics and others, and the known ones."""
    rng = np.random.default_rng(seed)
    F = rng.dirichlet(np.full(m, 0.3), known + new).T
    L = rng.gamma(0.5, 60, (n, known + new))
    names = [f"g{j}" for j in range(m)]
    table = pd.DataFrame(F[:, :known], index=names, columns=[f"known {k}" for k in range(known)])
    return rng.poisson(L @ F.T), table


def named(X: np.ndarray, table: pd.DataFrame) -> um.Counts:
    return um.Counts(X, features=list(table.index))


def bits(fit: um.Fit, table: pd.DataFrame) -> bool:
    return bool((fit.F[:, : table.shape[1]] == table.to_numpy()).all())


# --- reference cases: SciPy from 40 starts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_new_topic_beside_a_held_one(solver: str) -> None:
    fit = um.PoissonNMF(2, known=C, solver=solver, **TIGHT).fit(X6).result_
    assert fit.loglik == pytest.approx(-45.355396411, abs=1e-7)
    np.testing.assert_allclose(fit.topics[:, 1], [0, 0.289653, 0.368105, 0.342241], atol=2e-5)
    alone = um.PoissonNMF(1, known=C, **TIGHT).fit(X6).result_
    assert alone.loglik == pytest.approx(-129.113065414, abs=1e-8)
    assert um.PoissonNMF(2, **TIGHT).fit(X6).result_.loglik == pytest.approx(-44.080584113, abs=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_topic_that_is_partly_known(solver: str) -> None:
    fit = um.PoissonNMF(2, known=C, known_weight=20, solver=solver, **TIGHT).fit(X6).result_
    assert fit.loglik == pytest.approx(-44.675305, abs=1e-5)
    truth = [[0.727859, 0.156603, 0.038610, 0.076928], [0, 0.296803, 0.374060, 0.329137]]
    np.testing.assert_allclose(fit.topics.T, truth, atol=2e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_samples_that_may_have_one_topic_alone(solver: str) -> None:
    allowed = np.ones((6, 2), dtype=bool)
    allowed[:2, 1] = allowed[2:4, 0] = False
    fit = um.PoissonNMF(2, solver=solver, **TIGHT).fit(X6, allowed=allowed).result_
    assert fit.loglik == pytest.approx(-45.357450615, abs=1e-6)
    np.testing.assert_allclose(fit.topics[:, 0], [0.732892, 0.123429, 0.039600, 0.104078], atol=2e-5)
    assert not fit.L[~allowed].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_seeds_as_a_prior(solver: str) -> None:
    model = um.TopicModel(2, seeds={"one": ["a"], "two": ["c"]}, seed_weight=0.5, solver=solver, **TIGHT).fit(W5)
    fit = model.result_
    assert fit.loglik == pytest.approx(-34.948471281, abs=1e-5)
    truth = [[0.560815, 0.364995, 0, 0, 0.074190], [0, 0.032135, 0.515601, 0.343734, 0.108530]]
    np.testing.assert_allclose(fit.topics.T, truth, atol=2e-5)
    assert fit.labels == ["one", "two"]
    assert model.get_feature_names_out().tolist() == ["one", "two"]


# --- what holds for all -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_held_columns_come_back_bit_for_bit_and_the_loss_never_rises(solver: str, dtype: Any, tmp_path: Path) -> None:
    X, table = simulated()
    counts = named(X, table)
    for extrapolate in (True, False):
        model = um.PoissonNMF(
            5, known=table, solver=solver, extrapolate=extrapolate, dtype=dtype, refine=1, max_iter=60, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = model.fit(counts).result_
        assert bits(fit, table)
        assert fit.labels == [*table, "topic 4", "topic 5"]
        objective = fit.trace.loc[fit.trace["stage"] == "fit", "objective"].to_numpy()
        assert (np.diff(objective) >= -1e-6 * np.abs(objective[1:])).all()
    fit.save(tmp_path / "fit.safetensors")
    again = um.load(tmp_path / "fit.safetensors")
    assert bits(again, table)
    assert again.data["known"]["held"] == [True] * 3
    np.testing.assert_allclose(again.transform(counts), fit.transform(counts))


def test_rows_of_known_are_found_by_name_in_any_order() -> None:
    X, table = simulated()
    fits = [
        um.PoissonNMF(5, known=known, random_state=0).fit(named(X, table)).result_
        for known in (table, table.sample(frac=1, random_state=1), table.reset_index(names="Type"))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.F, fits[0].F)


def test_with_nothing_to_learn_a_fit_is_transform() -> None:
    X, table = simulated(new=0)
    fit = um.PoissonNMF(3, known=table, tol=1e-12, random_state=0).fit(named(X, table)).result_
    loadings = um.PoissonNMF.from_factors(table).transform(named(X, table))
    np.testing.assert_allclose(fit.L, loadings, rtol=1e-5, atol=1e-5)


def test_without_weight_known_topics_are_those_of_a_plain_fit() -> None:
    X, table = simulated()
    plain = um.PoissonNMF(5, random_state=0).fit(named(X, table)).result_
    fit = um.PoissonNMF(5, known=table, known_weight=0, random_state=0).fit(named(X, table)).result_
    np.testing.assert_array_equal(fit.F, plain.F)


def test_more_weight_tends_to_the_known_topics_and_is_never_less_likely_than_they_are_alone() -> None:
    X, table = simulated(seed=3)
    counts, truth = named(X, table), table.to_numpy()
    alone = um.PoissonNMF(3, known=table, random_state=0).fit(counts).result_
    held = um.PoissonNMF(5, known=table, random_state=0).fit(counts).result_
    assert held.loglik >= alone.loglik
    distances = [
        np.abs(
            um.PoissonNMF(5, known=table, known_weight=weight, random_state=0).fit(counts).result_.topics[:, :3] - truth
        ).sum()
        for weight in (10, 1e4, 1e8)
    ]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-3
    some = um.PoissonNMF(5, known=table, known_weight=[np.inf, 10, np.inf], random_state=0).fit(counts).result_
    assert (some.F[:, [0, 2]] == truth[:, [0, 2]]).all()
    assert not np.allclose(some.topics[:, 1], truth[:, 1])


def test_a_search_finds_new_topics_beside_sixty_known_ones() -> None:
    rng = np.random.default_rng(5)
    known, new = rng.dirichlet(np.full(96, 0.3), 60).T, rng.dirichlet(np.full(96, 0.3), 2).T
    L = rng.gamma(0.5, 200, (80, 12))
    X = rng.poisson(L @ np.hstack([known[:, :10], new]).T)
    allowed = np.zeros((80, 62), dtype=bool)
    allowed[:, [*range(10), 60, 61]] = True
    fit = um.PoissonNMF(62, known=known, random_state=0).fit(X, allowed=allowed).result_
    likeness = np.corrcoef(fit.topics[:, 60:].T, new.T)[:2, 2:]
    assert likeness.max(axis=0).min() > 0.9
    assert not fit.L[~allowed].any()


def test_shards_hold_known_topics_and_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, table = simulated(n=200)
    counts = named(X, table)
    allowed = np.random.default_rng(0).random((200, 5)) < 0.8
    allowed[:, 0] = True
    monkeypatch.setattr(shards, "SHARD", 64)
    monkeypatch.setattr(shards, "TILE", 16)
    folder = um.shard(counts, tmp_path / "shards")
    for parameters in ({"known": table}, {"known": table, "known_weight": [np.inf, 500, np.inf]}):
        given: dict[str, Any] = {"n_components": 5, "tol": 1e-9, "random_state": 0} | parameters
        memory = um.PoissonNMF(**given).fit(counts, allowed=allowed).result_
        fit = um.PoissonNMF(**given).fit(folder, allowed=allowed).result_
        assert (fit.F[:, [0, 2]] == table.to_numpy()[:, [0, 2]]).all()
        assert not fit.L[~allowed].any()
        assert fit.loglik == pytest.approx(memory.loglik, rel=2e-3)
        objective = fit.trace["objective"].cummax().to_numpy()
        assert objective[-1] == fit.trace["objective"].max()


def test_a_fit_with_known_topics_is_resumed_where_it_was_left() -> None:
    X, table = simulated()
    counts = named(X, table)
    given: dict[str, Any] = {"known": table, "tol": 0, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        half = um.PoissonNMF(5, max_iter=7, **given).fit(counts).result_
        whole = um.PoissonNMF(5, max_iter=14, **given)
        assert (
            whole.resume(counts, half).result_.loglik
            == um.PoissonNMF(5, max_iter=14, **given).fit(counts).result_.loglik
        )
    other = um.PoissonNMF(5, max_iter=14, **given | {"known": table * 2})
    with pytest.raises(ValueError, match="other known topics"):
        other.resume(counts, half)


def test_labels_are_topics_and_a_sample_without_one_may_have_all() -> None:
    X, table = simulated(n=40)
    labels = ["red", "blue", None, "red"] * 10
    fit = um.TopicModel(3, random_state=0).fit(named(X, table), allowed=labels).result_
    assert fit.labels == ["blue", "red", "topic 3"]
    assert not fit.L[::4, 0].any()
    assert not fit.L[1::4, 1].any()
    assert (fit.L[2::4] > 0).any(axis=0).all()


# --- seeds --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "# words\neconomy: [tax*, 'jobs']\nwar:\n  - army  # soldiers\n  - \"navy\"\n"),
        ("s.csv", "economy,war\ntax*,army\njobs,navy\n"),
        ("s.csv", "topic,word\neconomy,tax*\neconomy,jobs\nwar,army\nwar,navy\n"),
        ("s.gmt", "economy\thttp://a\ttax*\tjobs\nwar\tna\tarmy\tnavy\n"),
    ],
)
def test_seeds_are_read_from_files(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read_seeds(tmp_path / name) == {"economy": ["tax*", "jobs"], "war": ["army", "navy"]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.yaml", "- tax\n", "s.yaml, line 1: a word before the first topic"),
        ("s.yaml", "economy: tax\n", "s.yaml, line 1: words of economy are not a list"),
        ("s.yaml", "economy: [a]\neconomy: [b]\n", "s.yaml, line 2: topic economy is there twice"),
        ("s.yaml", "!!python/object:os.system [x]\n", "s.yaml, line 1: words of !!python/object are not a list"),
        ("s.gmt", "economy\ttax\n", "s.gmt, line 1: a gene set is a name, a description and genes"),
        ("s.csv", "", "holds no seeds"),
        ("s.txt", "", "seeds are read from .yaml, .csv, .tsv or .gmt files"),
    ],
)
def test_files_that_hold_no_seeds_are_refused_by_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message.replace("!!", "!!").replace(".", r"\.")):
        read_seeds(tmp_path / name)


def test_a_star_stands_for_any_letters_and_absent_words_are_told() -> None:
    X = um.Counts([[3, 1, 0, 2], [0, 2, 5, 1]], features=["tax", "taxes", "army", "Sea"])
    with pytest.warns(UserWarning, match="1 seed in no sample: 'xyzzy' of economy"):
        fit = um.TopicModel(2, seeds={"economy": ["tax*", "xyzzy"], "war": ["sea"]}, random_state=0).fit(X).result_
    assert fit.data["known"]["seeds"] == {"economy": ["tax", "taxes"], "war": ["Sea"]}


# --- refusals -----------------------------------------------------------------------------------------------------------------


def refused() -> dict[str, tuple[dict[str, Any], dict[str, Any], str]]:
    _, table = simulated()
    twice = table.set_axis(["a", "a", "b"], axis=1)
    negative = table.copy()
    negative.iloc[2, 1] = -1
    return {
        "too many": ({"n_components": 2, "known": table}, {}, "known has 3 topics and n_components=2; use at least 3"),
        "other names": (
            {"known": table.set_axis([f"h{j}" for j in range(30)])},
            {},
            "no feature of known .* has a name that",
        ),
        "no weight": (
            {"known": table.assign(nothing=0.0)},
            {},
            "known topic nothing has no weight on the features here",
        ),
        "twice": ({"known": twice}, {}, "two topics of known are called 'a'"),
        "negative": ({"known": negative}, {}, "known topic known 1 has -1 at g2; use finite numbers >= 0"),
        "shape": ({"known": np.ones((4, 2))}, {}, "known has 4 features and the counts have 30"),
        "weight": ({"known": table, "known_weight": -1}, {}, "known_weight=-1; use a number >= 0"),
        "file": ({"known": "nowhere.csv"}, {}, "nowhere.csv: no such file"),
        "no topic": ({}, {"allowed": np.eye(60, 5, dtype=bool)}, "sample 6 may have no topic; allow at least one"),
        "sets": ({}, {"allowed": np.ones((60, 4))}, "allowed has shape"),
        "label": (
            {"known": table},
            {"allowed": ["red"] * 60},
            "allowed names 'red', which is no topic of known or seeds",
        ),
        "both": ({"known": table, "seeds": {"known 1": ["g1"]}}, {}, "seeds= and known= both name topic known 1"),
        "all words": ({"seeds": {"economy": ["xyzzy"]}}, {}, "no seed of economy is in any sample"),
        "a word": ({"seeds": {"economy": "g1"}}, {}, "seeds of economy are 'g1'; use a list of words"),
        "joint": ({"known": table, "solver": "joint"}, {}, "does not support known topics; use newton"),
        "plsi": ({"known": table, "solver": "plsi"}, {}, "does not support known topics; use newton"),
        "normalized": ({"known": table, "solver": "normalized"}, {}, "does not support known topics; use newton"),
        "online": ({"known": table, "online": um.Online()}, {}, "does not support known topics"),
        "anew": ({"known": table, "init": "topic-score"}, {}, "finds all topics itself"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_cannot_be_known_is_refused(case: str) -> None:
    parameters, given, message = refused()[case]
    X, table = simulated()
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        um.PoissonNMF(**{"n_components": 5} | parameters).fit(named(X, table), **given)


def test_models_without_known_topics_say_so() -> None:
    with pytest.raises(TypeError, match="has no parameter 'known'"):
        um.SparsePoissonNMF(2, known=C)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="does not support allowed"):
        um.LDA(2).fit(X6, allowed=np.ones((6, 2)))
    with pytest.raises(ValueError, match="partial_fit does not support known or seeds"):
        um.PoissonNMF(2, known=C).partial_fit(X6)


# --- models with a posterior --------------------------------------------------------------------------------------------------


def test_lda_with_seeds_reaches_the_bound_of_a_reference() -> None:
    seeds = {"one": ["a"], "two": ["c"]}
    model = um.LDA(2, alpha=0.5, eta=0.1, seeds=seeds, seed_weight=0.5, **TIGHT).fit(W5)
    assert model.elbo_ == pytest.approx(-49.688235627, abs=1e-6)
    assert model.result_.labels == ["one", "two"]


@pytest.mark.parametrize("eta", [None, 0.1])
@pytest.mark.parametrize("kind", [um.LDA, um.GammaPoisson])
def test_models_with_a_posterior_hold_known_topics(kind: Any, eta: Any, tmp_path: Path, monkeypatch: Any) -> None:
    X, table = simulated(n=150)
    table /= table.sum()
    counts = named(X, table)
    monkeypatch.setattr(shards, "SHARD", 64)
    for data in (counts, um.shard(counts, tmp_path / "shards")):
        model = kind(5, eta=eta, known=table, tol=1e-5, random_state=0).fit(data)
        fit = model.result_
        assert bits(fit, table)
        assert fit.labels[:3] == list(table)
        assert (np.diff(fit.trace["objective"].cummax()) >= 0).all()
        fit.save(tmp_path / "fit.safetensors")
        again = um.load(tmp_path / "fit.safetensors")
        assert bits(again, table)
        np.testing.assert_allclose(kind.from_fit(again).transform(counts), model.transform(counts))
    if eta is not None:
        assert not model.standard_deviations("factors")[:, :3].any()


def test_a_seeded_lda_is_resumed_where_it_was_left() -> None:
    X, table = simulated()
    given: dict[str, Any] = {"seeds": {"one": ["g1", "g2"], "two": ["g5*"]}, "tol": 0, "random_state": 0}
    for more in ({}, {"eta": 0.1}, {"known": table}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            half = um.LDA(6, max_iter=5, **given, **more).fit(named(X, table)).result_
            whole = um.LDA(6, max_iter=9, **given, **more)
            resumed = whole.resume(named(X, table), half).elbo_
            assert resumed == um.LDA(6, max_iter=9, **given, **more).fit(named(X, table)).elbo_


# --- a whole catalogue and new topics -----------------------------------------------------------------------------------------


def test_new_topics_beside_a_whole_catalogue_are_found_in_one_call() -> None:
    rng = np.random.default_rng(1)
    F = rng.dirichlet(np.full(96, 0.15), 22).T
    L = np.zeros((60, 22))
    for row in L:
        row[rng.choice(22, 4, replace=False)] = rng.gamma(1, 400, 4)
    names = [f"g{j}" for j in range(96)]
    table = pd.DataFrame(F[:, :20], index=names, columns=[f"S{k}" for k in range(20)])
    X = um.Counts(rng.poisson(L @ F.T), features=names)
    model = um.PoissonNMF(known=table, new=2, random_state=0).fit(X)
    fit = model.result_
    assert bits(fit, table)
    assert fit.labels == [*table, "new 1", "new 2"]
    assert np.corrcoef(fit.topics[:, 20:].T, F[:, 20:].T)[:2, 2:].max(axis=0).min() > 0.95
    assert (fit.L > 0).sum(axis=1).mean() < 6
    assert model.transform(X).shape == (60, 22)
    with pytest.raises(ValueError, match="new=2 needs known=, a catalogue"):
        um.PoissonNMF(new=2).fit(X)


# --- analyses -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [um.LDA, um.GammaPoisson])
@pytest.mark.parametrize("eta", [None, 0.1])
def test_moves_of_refine_keep_known_topics(kind: Any, eta: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, table = simulated(n=150)
    table /= table.sum()
    problems: list[Any] = []
    monkeypatch.setattr(
        search, "recombine", lambda problem, pairs: problems.append(problem) or recombine(problem, pairs)
    )
    plain = kind(5, eta=eta, known=table, tol=1e-5, random_state=0).fit(named(X, table)).result_
    fit = kind(5, eta=eta, known=table, tol=1e-5, refine=2, random_state=0).fit(named(X, table)).result_
    assert bits(fit, table)
    assert fit.labels[:3] == list(table)
    assert fit.trace["objective"].iloc[-1] >= plain.trace["objective"].iloc[-1]
    assert "refine" in set(fit.trace["stage"])
    assert all(problem.known is not None for problem in problems)  # the other fits know them too


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """Counts, a catalogue, an estimator that knows it, and fits of all that may be told of topics."""
    X, table = simulated(n=80)
    meta = pd.DataFrame({"n": np.arange(80) % 4, "group": np.where(np.arange(80) % 2, "a", "b")})
    counts = um.Counts(X, features=list(table.index), metadata=meta)
    model = um.PoissonNMF(5, known=table, tol=1e-3, random_state=0)
    sets = np.random.default_rng(0).random((80, 5)) < 0.8
    sets[~sets.any(axis=1)] = True
    seeded = um.TopicModel(5, seeds={"one": ["g1", "g2"]}, tol=1e-3, random_state=0)
    return {
        "X": counts,
        "table": table,
        "model": model,
        "held": model.fit(counts).result_,
        "partly": seeded.fit(counts).result_,
        "allowed": um.PoissonNMF(5, tol=1e-3, random_state=0).fit(counts, allowed=sets).result_,
    }


KINDS = {"held": "known topics", "partly": "seeded or partly known topics", "allowed": "allowed topics"}
QUICK: dict[str, Any] = {"random_state": 0}
ASKED: dict[str, tuple[Any, dict[str, str]]] = {  # of every analysis: with a fit, and the fits that it refuses
    "align": (lambda fit, X: um.align([fit, fit]), {}),
    "assign": (lambda fit, X: um.assign(X, fit, **QUICK), {}),
    "choose": (None, {}),  # below: with estimators
    "compare": (lambda fit, X: um.compare(fit, fit), {}),
    "differences": (lambda fit, X: um.differences(fit, X), {}),
    "effects": (lambda fit, X: um.effects(fit, X, "~ n"), {}),
    "freedom": (lambda fit, X: um.freedom(fit, probes=2), {"held": "freedom", "allowed": "freedom"}),
    "intervals": (
        lambda fit, X: um.intervals(fit, X, sweeps=5, burn_in=2, chains=1, **QUICK),
        {"allowed": "intervals"},
    ),
    "prevalence": (lambda fit, X: um.prevalence(fit, by="group"), {}),
    "quality": (lambda fit, X: fit.quality(X), {}),
    "stability": (
        lambda fit, X: um.stability(X, 5, runs=2, reference=fit, **QUICK),
        dict.fromkeys(("held", "partly"), "stability without known or seeds in the estimator")
        | {"allowed": "stability"},
    ),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_carries_what_is_known_or_refuses_it_by_name(name: str, told: dict[str, Any]) -> None:
    """A new analysis has to say here what it does with it."""
    ask, refused_kinds = ASKED[name]
    assert ANALYSES[name].known == (refused_kinds.get("held") != name)
    for kind, words in KINDS.items():
        if ask is not None and kind in refused_kinds:
            with pytest.raises(ValueError, match=f"^{refused_kinds[kind]} does not support fits with {words}; use"):
                ask(told[kind], told["X"])
        elif ask is not None:
            assert len(ask(told[kind], told["X"]).table)


def test_analyses_that_fit_again_refuse_a_fit_that_cannot_say_what_was_known(told: dict[str, Any]) -> None:
    X = told["X"]
    for kind, words in KINDS.items():
        for what, ask in {
            "differences with held_out": lambda fit: um.differences(fit, X, held_out=0.5, **QUICK),
            "intervals with posterior='full'": lambda fit: um.intervals(fit, X, posterior="full"),
        }.items():
            if (kind, what[:9]) != ("allowed", "intervals"):
                with pytest.raises(ValueError, match=f"^{what} does not support fits with {words}"):
                    ask(told[kind])
    assert len(um.differences(told["model"], X, held_out=0.5, **QUICK).table)  # an estimator can
    with pytest.raises(ValueError, match="consensus does not support known or seeds"):
        um.consensus(X, 5, runs=2, estimator=told["model"])


def test_paths_of_fits_keep_known_topics(told: dict[str, Any]) -> None:
    X, table = told["X"], told["table"]
    for kind in (um.PoissonNMF, um.TopicModel, um.LDA):
        columns = table / table.sum()
        fits = um.fit_path(X, [3, 4, 5], kind(known=columns, tol=1e-3, random_state=0))
        for K, fit in fits.items():
            assert fit.n_topics == K
            assert fit.labels[:3] == list(table)
            np.testing.assert_allclose(fit.topics[:, :3], columns, rtol=1e-15)
            assert (fit.F[:, :3] == fits[5].F[:, :3]).all()
        assert fits[3].loglik < fits[4].loglik < fits[5].loglik
    with pytest.raises(ValueError, match="known has 3 topics and n_components=2; use at least 3"):
        um.fit_path(X, [2, 5], um.PoissonNMF(known=table))
    with pytest.raises(ValueError, match="fit_path does not support new"):
        um.fit_path(X, [4, 5], um.PoissonNMF(known=table, new=1))


def test_the_number_of_topics_is_chosen_beside_known_ones(told: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = {"folds": 2, "random_state": 0, "checkpoint": tmp_path / "folds"}
    X, table = told["X"], told["table"]
    found = um.choose_topics(X, [3, 5], um.PoissonNMF(known=table, tol=1e-3), **given)
    assert found.best == 5
    turned = table.iloc[::-1].set_axis(table.index)  # the same names and shape
    with pytest.raises(ValueError, match="holds a checkpoint of other"):
        um.choose_topics(X, [3, 5], um.PoissonNMF(known=turned, tol=1e-3), **given)
    with pytest.raises(ValueError, match="choose_topics does not support new"):
        um.choose_topics(X, [4, 5], um.PoissonNMF(known=table, new=1))


def test_stability_is_that_of_fits_with_the_same_known_topics(told: dict[str, Any]) -> None:
    X, table = told["X"], told["table"]
    for reference in (None, told["held"]):
        found = um.stability(X, 5, runs=4, estimator=told["model"], reference=reference, random_state=0)
        np.testing.assert_allclose(found.similarity[:, :3], 1, atol=1e-3)
        assert (found.similarity[:, 3:] < 0.999).all()
        assert [name.split(": ")[-1] for name in found.table["name"]][:3] == list(table)
    with pytest.raises(ValueError, match="n_components=5; use 4, 3 known topics and 1 new"):
        um.stability(X, 5, runs=2, estimator=um.PoissonNMF(known=table, new=1))
