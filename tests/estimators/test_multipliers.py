"""What is given to `fit` for samples: refusals that name the place, warnings, new samples, files, resumption, routing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from conftest import random_counts
from sklearn.pipeline import make_pipeline

import unmix as um
from unmix.analysis.choose import dispersion, foretold
from unmix.registry import ANALYSES
from unmix.solvers import Extrapolate

X = random_counts(n=40, m=30, seed=3)
LABELS = np.array(["ox", "ant", "emu"])[np.random.default_rng(0).integers(0, 3, 40)]
TABLE = pd.DataFrame(np.random.default_rng(1).choice([0.5, 1, 2], (3, 30)), index=["emu", "ox", "ant"])
OPTIONS: dict[str, Any] = {"tol": 0, "max_iter": 8, "random_state": 0}
COUNTS = um.Counts(
    X,
    samples=[f"AAC-{i}" for i in range(40)],
    features=[f"gene{j}" for j in range(30)],
    metadata=pd.DataFrame({"donor": LABELS, "seq": np.where(LABELS == "ox", "one", "two"), "n": np.arange(40) % 4}),
)
QUIET = "ignore:effects of batches are estimated|seq. every value|not converged|these samples do not fit"
pytestmark = pytest.mark.filterwarnings(QUIET, "ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def model() -> um.TopicModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return um.TopicModel(3, batch_prior=3.0, **OPTIONS).fit(COUNTS, batch="donor")


def missing() -> list[Any]:
    labels = LABELS.astype(object)
    labels[1] = None
    return labels.tolist()


def impossible() -> np.ndarray:
    e = np.ones(X.shape)
    e[tuple(np.argwhere(X == 3)[0])] = 0
    return e


def refusals() -> dict[str, tuple[Any, str]]:
    i, j = np.argwhere(X == 3)[0]
    wrong = np.ones((40, 30))
    wrong[0, 4] = np.nan
    return {
        "one label": ({"batch": ["a"] * 40}, "all samples are of one batch; leave batch out"),
        "n labels": (
            {"batch": np.arange(40)},
            "every sample is a separate batch: that is overdispersion; use labels that samples share",
        ),
        "missing": ({"batch": missing()}, "the batch of sample AAC-1 is missing; use a name such as unknown"),
        "short": ({"batch": ["a", "b"]}, "batch has 2 labels for 40 samples; use one label per sample"),
        "column": ({"batch": "doner"}, r"batch='doner': the metadata has no such column \(it has donor, seq, n\)"),
        "zero": (
            {"opportunities": impossible()},
            f"sample AAC-{i} has 3 counts of feature gene{j}, which was not measured there",
        ),
        "negative": (
            {"opportunities": -np.ones(30)},
            "opportunities of gene0 are -1 in row 1; use finite numbers >= 0",
        ),
        "nan": ({"opportunities": wrong}, "opportunities of gene4 are nan in row 1; use finite numbers >= 0"),
        "shape": ({"opportunities": np.ones(7)}, r"opportunities has shape \(7,\); use 30 numbers, 40 samples × 30"),
        "text": ({"opportunities": ["a"] * 30}, "opportunities are not numbers"),
        "rows": (
            {"opportunities": TABLE},
            "the rows of opportunities .* are neither samples nor batches; name the index",
        ),
        "row": (
            {"opportunities": TABLE.iloc[:2].rename_axis("donor")},
            "opportunities has no row for donor ant; use one row per label",
        ),
        "twice": ({"opportunities": pd.concat([TABLE, TABLE])}, "opportunities has two rows for emu; use one row per"),
        "features": (
            {"opportunities": TABLE.rename_axis("donor").set_axis([f"g{j}" for j in range(30)], axis=1)},
            "feature 1 is 'g0', the model has 'gene0' there: the names differ",
        ),
        "weights": ({"sample_weight": np.arange(40)}, "the weight of sample AAC-0 is 0; use weights > 0"),
        "weight": ({"sample_weight": np.ones(3)}, r"sample_weight has shape \(3,\); use a number per sample \(40\)"),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_means_nothing_is_refused_by_its_place(name: str) -> None:
    given, message = refusals()[name]
    with pytest.raises(ValueError, match=message):
        um.TopicModel(3, **OPTIONS).fit(COUNTS, **given)


def test_other_parameters_are_refused() -> None:
    with pytest.raises(
        TypeError, match="fit has no parameter 'batches'; it takes y, batch, opportunities, sample_weight"
    ):
        um.TopicModel(3).fit(COUNTS, batches="donor")
    with pytest.raises(ValueError, match="batch_prior=-1"):
        um.TopicModel(3, batch_prior=-1).fit(COUNTS)


@pytest.mark.parametrize(
    "estimator",
    [um.LDA(3), um.AllocationModel(3), um.SparsePoissonNMF(3), um.TopicModel(3, online=um.Online(batch_size=10))],
)
def test_models_without_multipliers_refuse_them_by_name(estimator: Any) -> None:
    for name, value in {"batch": "donor", "opportunities": np.full(30, 2.0), "sample_weight": np.full(40, 2.0)}.items():
        with pytest.raises(ValueError, match=f"does not support {name}; use TopicModel"):
            estimator.fit(COUNTS, **{name: value})


@pytest.mark.parametrize("solver", ["joint", "plsa", "plsi", "normalized"])
def test_solvers_without_multipliers_refuse_them_by_name(solver: str) -> None:
    with pytest.raises(ValueError, match="does not support multipliers of rates; use newton, scd, ccd, sn or em"):
        um.TopicModel(3, solver=solver).fit(COUNTS, opportunities=np.arange(1, 31))
    with pytest.raises(ValueError, match="does not support multipliers of rates"):
        um.TopicModel(3, loadings_prior=um.Dirichlet(1.1)).fit(COUNTS, batch="donor")
    published = Extrapolate(um.solvers.SCD(), rule="ang-gillis")
    with pytest.raises(ValueError, match="does not support effects of batches"):
        um.TopicModel(3, solver=published).fit(COUNTS, batch="donor")


def test_analyses_that_would_be_wrong_refuse_such_fits_by_name(model: um.TopicModel) -> None:
    fit = model.result_
    questions = {
        "differences": lambda: um.differences(fit, COUNTS),
        "intervals": lambda: um.intervals(fit, COUNTS),
        "recommend": lambda: fit.recommend(COUNTS),
        "goodness_of_fit": lambda: um.analysis.goodness_of_fit(fit, COUNTS),
        "stability without batch or opportunities": lambda: um.stability(COUNTS, 3, reference=fit),
        "held_out_lift": lambda: fit.quality(COUNTS, held_out=COUNTS),
        "effects": lambda: um.effects(fit, COUNTS, "~ n"),
        "freedom with a loss": lambda: um.freedom(fit, loss=1, X=COUNTS),
    }
    for what, ask in questions.items():
        with pytest.raises(ValueError, match=f"{what} does not support fits with multipliers of rates"):
            ask()
    assert fit.responsibilities(COUNTS).shape == (COUNTS.nnz, 3)


GIVEN: dict[str, Any] = {"batch": "donor"}
ASKED: dict[str, Any] = {  # of every analysis: with a fit whose rates have multipliers, or counts that get some
    "align": lambda fit: um.align([fit, fit]),
    "assign": None,  # which has no topics
    "choose": lambda fit: um.choose_topics(COUNTS, [2, 3], folds=2, random_state=0, **GIVEN),
    "compare": lambda fit: um.compare(fit, fit),
    "differences": lambda fit: um.differences(fit, COUNTS),
    "effects": lambda fit: um.effects(fit, COUNTS, "~ n"),
    "freedom": lambda fit: um.freedom(fit),
    "intervals": lambda fit: um.intervals(fit, COUNTS),
    "prevalence": lambda fit: um.prevalence(fit, by="seq"),
    "quality": lambda fit: fit.quality(COUNTS),
    "stability": lambda fit: um.stability(COUNTS, 3, runs=2, random_state=0, **GIVEN),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_carries_multipliers_or_refuses_them_by_name(name: str, model: um.TopicModel) -> None:
    """A new analysis has to say here what it does with them."""
    row, fit = ANALYSES[name], model.result_
    if ASKED[name] is None:
        return
    if not row.multipliers:
        with pytest.raises(ValueError, match=f"{name} does not support fits with multipliers of rates"):
            ASKED[name](fit)
        return
    found = ASKED[name](fit)
    assert len(found.table)
    if "X" in row.needs and not row.asks_fit:  # fits that it makes have them too
        with pytest.raises(ValueError, match=r"LDA does not support batch; use TopicModel"):
            um.choose_topics(COUNTS, [2], um.LDA(), **GIVEN)


def simulated() -> tuple[np.ndarray, np.ndarray]:
    """Counts of three topics, and strong multipliers of theirs."""
    rng = np.random.default_rng(0)
    e = np.exp(rng.normal(0, 1, (2, 60)))[np.arange(80) % 2]
    return rng.poisson(400 * e * (rng.dirichlet(np.full(3, 0.3), 80) @ rng.dirichlet(np.full(60, 0.3), 3))), e


def test_the_number_of_topics_is_found_where_multipliers_are_known() -> None:
    """Without them batches look like topics. Scores are log probabilities of the same counts."""
    counts, e = simulated()
    options: dict[str, Any] = {"folds": 2, "random_state": 0}
    known = um.choose_topics(counts, [1, 2, 3, 4, 6], opportunities=e, **options)
    plain = um.choose_topics(counts, [1, 2, 3, 4, 6], **options)
    assert known.suggested == 3
    assert plain.suggested > 3
    assert known.table["perplexity"].min() < plain.table["perplexity"].min()


def test_topics_are_stable_where_multipliers_are_known(tmp_path: Path) -> None:
    counts, e = simulated()
    options: dict[str, Any] = {"runs": 4, "random_state": 0, "checkpoint": tmp_path / "runs"}
    found = um.stability(counts, 3, opportunities=e, **options)
    assert (found.table["verdict"] == "stable").all()
    again = um.stability(counts, 3, opportunities=e, **options)
    np.testing.assert_array_equal(again.similarity, found.similarity)
    with pytest.raises(ValueError, match="holds a checkpoint of other data"):
        um.stability(counts, 3, **options)


def test_predictions_of_folds_have_the_probabilities_of_a_multinomial_under_multipliers() -> None:
    counts, e = simulated()
    fit = um.TopicModel(3, random_state=0).fit(counts, opportunities=e).result_
    X = um.Counts(counts)
    found = foretold(fit, X, X, pooled=1.0)
    common = (counts.sum(axis=0) + 0.5) / (counts.sum(axis=0) + 0.5).sum()
    rates = e * (fit.L @ fit.F.T + common)
    shares = rates / rates.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, (counts * np.log(shares)).sum(axis=1), rtol=1e-10)
    rates = e * (fit.L @ fit.F.T)
    spread = dispersion(X, fit.L, fit.F, None, fit.rates)
    np.testing.assert_allclose(spread, [((counts - rates) ** 2).sum(), rates.sum(), (rates**2).sum()], rtol=1e-10)


def test_labels_that_hide_what_they_cannot_tell_bring_a_word() -> None:
    labels = np.where(np.arange(40) == 0, "alone", LABELS)
    with pytest.warns(UserWarning, match="batch alone has one sample"):
        um.TopicModel(2, **OPTIONS).fit(COUNTS, batch=labels)
    with pytest.warns(UserWarning, match="effects of batches are estimated from 30 features"):
        um.TopicModel(2, **OPTIONS).fit(COUNTS, batch="donor")
    design = COUNTS.metadata["donor"].map({"ox": "well", "ant": "ill", "emu": "old"})
    tissue = um.Counts(COUNTS, metadata=pd.DataFrame({"donor": COUNTS.metadata["donor"], "tissue": design}))
    with pytest.warns(UserWarning, match="tissue: every value is found in one batch alone; its differences count as"):
        um.TopicModel(2, **OPTIONS).fit(tissue, batch="donor")


def test_opportunities_of_every_form_are_the_same() -> None:
    rows = TABLE.loc[LABELS].to_numpy()
    forms = {
        "array": rows,
        "by metadata": TABLE.rename_axis("donor"),
        "by sample": pd.DataFrame(rows, index=COUNTS.samples, columns=COUNTS.features).iloc[::-1, ::-1],
        "sparse": sp.csr_array(rows),
    }
    fits = {name: um.PoissonNMF(3, **OPTIONS).fit(COUNTS, opportunities=given).result_ for name, given in forms.items()}
    for fit in fits.values():
        np.testing.assert_allclose(fit.multipliers[fit.rates["groups"]], rows)
        assert fit.loglik == pytest.approx(fits["array"].loglik, rel=1e-9)
    assert fits["by metadata"].batch_labels.tolist() == ["ant", "emu", "ox"]
    held = um.PoissonNMF(3, batch_prior=np.inf, **OPTIONS).fit(COUNTS, batch="donor", opportunities=TABLE).result_
    assert held.loglik == pytest.approx(fits["array"].loglik, rel=1e-9)
    assert "batches" not in held.rates


def test_entries_that_are_missing_are_left_out() -> None:
    missing = np.random.default_rng(5).random(X.shape) < 0.2
    counts = np.where(missing, 0, X)
    mask = sp.coo_array((np.zeros(missing.sum()), np.nonzero(missing)), X.shape)
    start = (np.random.default_rng(0).random((40, 3)), np.random.default_rng(1).random((30, 3)))
    model = um.PoissonNMF(3, init=start, tol=0, max_iter=30)
    one, two = (model.fit(counts, opportunities=given).result_ for given in (mask, (~missing).astype(float)))
    np.testing.assert_array_equal(one.L, two.L)
    plain = model.fit(counts).result_
    error = [np.abs((fit.L @ fit.F.T - X)[missing]).mean() for fit in (one, plain)]
    assert error[0] < error[1]


def test_tables_of_opportunities_that_no_samples_share_are_refused() -> None:
    n, m = 4_000, 3_000
    counts = um.Counts(sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) % m)), (n, m)))
    rows = sp.csr_array((np.arange(2.0, n + 2), (np.arange(n), np.zeros(n, int))), (n, m))
    with pytest.raises(
        ValueError, match="opportunities of 4,000 different rows × 3,000 features are 12,000,000 numbers"
    ):
        um.TopicModel(2).fit(counts, opportunities=rows)


def test_new_samples_have_the_effects_of_their_batches_and_one_where_those_are_unknown(model: um.TopicModel) -> None:
    fit = model.result_
    again = model.transform(COUNTS, batch="donor")
    L = um.PoissonNMF.from_fit(fit).transform(COUNTS, batch=LABELS)
    groups = fit.rates["groups"]
    expected = (fit.multipliers @ fit.F)[groups] * L
    np.testing.assert_allclose(expected.sum(axis=1), X.sum(axis=1), rtol=1e-6)
    with pytest.warns(UserWarning, match="the fit does not know batch yak: multipliers there are taken as one"):
        new = model.transform(COUNTS, batch=["yak"] * 40)
    with pytest.warns(UserWarning, match="the fit has effects of batches, and no batch is given"):
        np.testing.assert_allclose(model.transform(COUNTS), new)
    assert np.abs(new - again).max() > 1e-3
    np.testing.assert_array_equal(fit.transform(COUNTS, batch="donor"), again)
    turned = COUNTS.take(features=np.arange(30)[::-1])  # features are found by name
    np.testing.assert_allclose(model.transform(turned, batch=LABELS), again, atol=1e-6)
    shards = um.Shards.of(COUNTS)
    np.testing.assert_allclose(model.transform(shards, batch="donor"), again, atol=1e-9)


def test_predictions_carry_multipliers(model: um.TopicModel) -> None:
    rng = np.random.default_rng(0)
    e = np.exp(rng.normal(0, 1, (2, 30)))[np.arange(120) % 2]
    counts = rng.poisson(300 * e * (rng.dirichlet(np.ones(3), 120) @ rng.dirichlet(np.full(30, 0.3), 3)))
    known = um.TopicModel(3, tol=1e-5, random_state=0).fit(counts, opportunities=e)
    assert known.score(counts, opportunities=e) > known.score(counts) + 0.05
    assert known.perplexity(counts, opportunities=e) < known.perplexity(counts)
    assert model.score(COUNTS, batch="donor") < 0


def test_a_saved_fit_is_the_fit(model: um.TopicModel, tmp_path: Path) -> None:
    fit = model.result_
    fit.save(tmp_path / "fit.safetensors")
    loaded = um.load(tmp_path / "fit.safetensors")
    assert loaded.rates.keys() == fit.rates.keys()
    for name, array in fit.rates.items():
        np.testing.assert_array_equal(loaded.rates[name], array)
    pd.testing.assert_frame_equal(loaded.batch_effects, fit.batch_effects)
    np.testing.assert_array_equal(loaded.exposures, fit.exposures)
    np.testing.assert_array_equal(loaded.transform(COUNTS, batch="donor"), fit.transform(COUNTS, batch="donor"))
    broken = dict(fit.rates) | {"groups": fit.rates["groups"] + 1}
    with pytest.raises(ValueError, match=r"rates\.groups has entries that are not numbers in their range"):
        um.Fit(**fit.__getstate__() | {"rates": broken}).save(tmp_path / "broken.safetensors")


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("given", [{"batch": "donor"}, {"opportunities": TABLE.rename_axis("donor")}])
def test_a_resumed_fit_is_the_whole(given: Any, shards: bool, tmp_path: Path) -> None:
    data = um.Shards.of(COUNTS) if shards else COUNTS
    options = {"tol": 0, "random_state": 0}
    whole = um.TopicModel(3, max_iter=25, **options).fit(data, **given).result_
    stop = [
        lambda progress: (
            "interrupted" if progress.row["stage"] == "fit" and progress.session.counters.done == 20 else None
        )
    ]
    half = um.TopicModel(3, max_iter=25, callbacks=stop, **options).fit(data, **given).result_
    half.save(tmp_path / "half.safetensors", resumable=True)
    again = (
        um.TopicModel(3, max_iter=25, **options).resume(data, um.load(tmp_path / "half.safetensors"), **given).result_
    )
    np.testing.assert_array_equal(again.L, whole.L)
    np.testing.assert_array_equal(again.F, whole.F)
    with pytest.raises(ValueError, match="the interrupted fit had other multipliers of rates"):
        um.TopicModel(3, max_iter=25, **options).resume(data, half)


def test_weights_are_checked_by_the_counts_that_they_make() -> None:
    weights = np.random.default_rng(2).integers(1, 4, 40)
    half = um.TopicModel(3, **OPTIONS).fit(COUNTS, sample_weight=weights).result_
    with pytest.raises(ValueError, match="is of other data"):
        um.TopicModel(3, **OPTIONS | {"max_iter": 20}).resume(COUNTS, half)
    with pytest.raises(ValueError, match="sample_weight is for counts in memory; repeat samples"):
        um.TopicModel(3).fit(um.Shards.of(COUNTS), sample_weight=weights)
    assert half.data["total"] == COUNTS.total


def test_the_best_of_several_starts_has_its_multipliers() -> None:
    fit = um.TopicModel(3, n_init=2, **OPTIONS).fit(COUNTS, batch="donor").result_
    assert len(fit.starts) == 2
    assert len(fit.batch_effects) == 90
    refined = um.TopicModel(3, refine=1, **OPTIONS).fit(COUNTS, batch="donor").result_
    assert "refine" in set(refined.trace["stage"])


def test_batches_and_opportunities_are_routed_as_metadata() -> None:
    assert set(um.TopicModel().get_metadata_routing().fit.requests) == {"batch", "opportunities", "sample_weight"}
    expected = um.TopicModel(3, **OPTIONS).fit(X, batch=LABELS).result_
    with sklearn.config_context(enable_metadata_routing=True):
        asking = um.TopicModel(3, **OPTIONS).set_fit_request(batch=True).set_transform_request(batch=True)
        pipeline = make_pipeline(asking).fit(X, batch=LABELS)
        np.testing.assert_array_equal(pipeline[0].result_.F, expected.F)
    found = um.TopicModel(3, **OPTIONS).fit_transform(X, batch=LABELS)
    model = um.TopicModel.from_fit(expected)
    np.testing.assert_allclose(found, model.transform(X, batch=LABELS), atol=1e-12)
