"""`assign`: which topics of a catalogue samples have, in memory, on shards and on Dask, and every catalogue that is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import shared_data

import unmix as um
from unmix.analysis.results import Result
from unmix.base.threads import use_threads

CASE = pd.DataFrame(
    [[0.6, 0.05, 0.1, 0.2], [0.2, 0.05, 0.1, 0.2], [0.1, 0.1, 0.5, 0.2], [0.05, 0.6, 0.1, 0.2], [0.05, 0.2, 0.2, 0.2]],
    columns=["one", "two", "three", "four"],
    index=list("abcde"),
)
X5 = um.Counts([[12, 5, 9, 20, 10]], features=list("abcde"))


def cohort(n: int = 60, K: int = 12, total: int = 400, seed: int = 0) -> tuple[um.Counts, pd.DataFrame, np.ndarray]:
    """Samples of two tissues with two topics each of their own and one that all have, a catalogue, and true shares."""
    rng = np.random.default_rng(seed)
    known = pd.DataFrame(rng.dirichlet(np.full(48, 0.4), K).T, columns=[f"S{k + 1}" for k in range(K)])
    known.index = [f"type {j}" for j in range(48)]
    truth = np.zeros((n, K))
    for i in range(n):
        truth[i, [0, 1 + 2 * (i % 2), 2 + 2 * (i % 2)]] = rng.dirichlet([1, 1, 1])
    counts = np.array([rng.multinomial(total, known.to_numpy() @ w) for w in truth])
    samples = [f"tumour {i}" for i in range(n)]
    metadata = pd.DataFrame({"tissue": np.where(np.arange(n) % 2, "skin", "lung")}, index=samples)
    return um.Counts(counts, samples=samples, features=list(known.index), metadata=metadata), known, truth


def error(found: um.Assignment, truth: np.ndarray) -> float:
    shares = found.exposures / found.exposures.sum(axis=1, keepdims=True)
    return float(np.abs(shares - truth).sum(axis=1).mean() / 2)


# What is found


def test_reference_cases_of_prices() -> None:
    """Maxima by SciPy from 40 starts."""
    full = um.assign(X5, CASE, rule="price", price=0)
    assert full.table["topic"].tolist() == ["one", "two", "three"]
    np.testing.assert_allclose(full.table["exposure"], [15.256364, 31.568988, 9.174648], atol=5e-7)
    fewer = um.assign(X5, CASE, rule="price", price=2.5)
    assert fewer.table["topic"].tolist() == ["one", "two"]
    np.testing.assert_allclose(fewer.table["exposure"], [18.387833, 37.612167], atol=5e-7)
    assert um.assign(X5, CASE, rule="price", price=1).table["topic"].tolist() == ["one", "two", "three"]


def test_the_reference_case_of_leaving_a_topic_out() -> None:
    F = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).T
    found = um.assign([[4, 2, 6]], F, dispersion=1.0, rule="test", level=0.05)
    assert found.table["p"].tolist()[1] == pytest.approx(0.010736, abs=5e-7)
    assert len(um.assign([[4, 2, 6]], F, dispersion=1.0, rule="test", level=0.0107).table) == 1


def test_a_price_of_zero_is_transform() -> None:
    X, known, _ = cohort(10)
    found = um.assign(X, known, rule="price", price=0)
    loadings = um.PoissonNMF.from_factors(known, tol=1e-12, max_iter=5_000).transform(X)
    np.testing.assert_allclose(found.exposures, loadings * known.sum(axis=0).to_numpy(), atol=0.02)


def test_samples_have_few_topics_and_the_right_ones() -> None:
    X, known, truth = cohort()
    found = um.assign(X, known, random_state=0)
    refit = um.assign(X, known, rule="price", price=0)
    alone = um.assign(X, known, cohort=False)
    assert error(found, truth) < error(alone, truth) < error(refit, truth)
    assert (found.exposures[truth == 0] > 0).sum() < 10
    assert found.prevalence.loc["all samples", "S1"] == 0.5  # the largest there is
    assert found.prevalence.loc["all samples", "S12"] < 0.03


def test_groups_learn_by_themselves() -> None:
    X, known, truth = cohort(total=60)
    found = um.assign(X, known, group="tissue")
    assert found.prevalence.index.tolist() == ["lung", "skin"]
    assert found.prevalence.loc["lung", "S2"] > 0.3 > 0.1 > found.prevalence.loc["skin", "S2"]
    assert error(found, truth) < error(um.assign(X, known, cohort=False), truth)
    assert found.samples["group"].tolist() == X.metadata["tissue"].tolist()


def test_a_topic_that_is_missing_from_the_catalogue_is_noticed_and_said() -> None:
    X, known, _ = cohort(total=4_000)
    found = um.assign(X, known.drop(columns="S1"), random_state=0)
    assert (found.samples["p"] <= 0.01).mean() > 0.8
    assert "does not explain" in found.advice()[0]
    used = found.reported.n_topics
    assert f"PoissonNMF({used + 1}, known=assignment.reported).fit(X)" in found.advice()[0]
    new = um.PoissonNMF(used + 1, known=found.reported, max_iter=60, random_state=0).fit(X).result_
    one, other = new.topics[:, -1], known["S1"].to_numpy()
    assert one @ other > 0.9 * np.linalg.norm(one) * np.linalg.norm(other)
    assert um.assign(X, known, random_state=0).advice() == []


def test_topics_that_stand_in_for_each_other_are_named() -> None:
    X, known, _ = cohort(total=2_000)
    twice = known.assign(like=known["S1"] * 0.98 + known["S7"] * 0.02)
    said = um.assign(X, twice, random_state=0).advice()
    assert any("S1 and like replace each other" in text for text in said)


def test_the_summary_counts_samples_and_shares() -> None:
    X, known, _ = cohort()
    found = um.assign(X, known, random_state=0)
    assert found.summary["samples"].is_monotonic_decreasing
    assert found.summary["share"].sum() == pytest.approx(1)
    assert found.summary["samples"].sum() == len(found.table) == found.samples["topics"].sum()


@pytest.mark.parametrize(("total", "together", "alone"), [(100, 0.22, 0.31), (2_000, 0.045, 0.055)])
def test_signatures_of_tumours_of_cosmic_are_found(total: int, together: float, alone: float) -> None:
    """Drawn as SigFitTest does: real sizes, no signature of fewer than ten mutations, which do not count as found either."""
    with np.load(shared_data("signatures") / "cosmic_sbs.npz") as data:
        known = pd.DataFrame(data["signatures"].T, columns=data["names"].astype(str))
    known, rng = known / known.sum(), np.random.default_rng(0)
    shares = np.zeros((100, known.shape[1]))
    sizes = {
        "SBS1": 800,
        "SBS5": 2_500,
        "SBS40": 4_000,
        "SBS2": 900,
        "SBS13": 1_000,
        "SBS3": 4_000,
        "SBS18": 1_500,
        "SBS4": 9_000,
    }
    often = {
        "SBS1": 0.98,
        "SBS5": 0.98,
        "SBS40": 0.4,
        "SBS2": 0.8,
        "SBS13": 0.8,
        "SBS3": 0.15,
        "SBS18": 0.3,
        "SBS4": 0.2,
    }
    for name, size in sizes.items():
        has = rng.random(100) < often[name]
        shares[has, known.columns.get_loc(name)] = (size * rng.lognormal(0, 0.6, 100))[has]
    shares *= total / shares.sum(axis=1, keepdims=True)
    shares[shares < 10] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    X = np.array([rng.multinomial(total, known.to_numpy() @ w) for w in shares])
    for cohort, most in ((True, together), (False, alone)):
        found = um.assign(X, known, cohort=cohort, random_state=0).exposures
        found = np.where(found < 10, 0, found) / total
        assert np.abs(found - shares).sum(axis=1).mean() / 2 < most, cohort


# Invariants


def test_permuted_samples_and_topics_give_the_permuted_answer() -> None:
    X, known, _ = cohort(30)
    rng = np.random.default_rng(1)
    rows, topics = rng.permutation(30), rng.permutation(12)
    one, other = um.assign(X, known, random_state=0), um.assign(X.take(rows), known.iloc[:, topics], random_state=0)
    np.testing.assert_array_equal(one.allowed[rows][:, topics], other.allowed)
    np.testing.assert_allclose(one.exposures[rows][:, topics], other.exposures, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(one.probabilities[rows][:, topics], other.probabilities, atol=1e-6)


def test_one_sample_is_that_row_of_the_cohort_with_its_prevalence() -> None:
    X, known, _ = cohort(20)
    whole = um.assign(X, known, group="tissue", random_state=0)
    for i in (0, 7):
        alone = um.assign(X.take([i]), known, group="tissue", prevalence=whole.prevalence, random_state=0)
        np.testing.assert_array_equal(alone.exposures[0], whole.exposures[i])
        np.testing.assert_array_equal(alone.probabilities[0], whole.probabilities[i])
        assert alone.samples["p"].tolist() == [whole.samples["p"][i]]


def test_the_answer_is_the_same_for_any_number_of_threads() -> None:
    X, known, _ = cohort(400, total=100)
    answers = []
    for threads in (1, 3):
        with use_threads(threads):
            answers.append(um.assign(X, known, random_state=0))
    for name in ("exposures", "probabilities", "p", "prevalences"):
        np.testing.assert_array_equal(getattr(answers[0], name), getattr(answers[1], name))
    pd.testing.assert_frame_equal(answers[0].samples, answers[1].samples)


def test_shards_give_the_answer_of_memory(tmp_path: Path) -> None:
    X, known, _ = cohort(50)
    um.shard(X, tmp_path / "shards")
    shards = um.Shards(tmp_path / "shards")
    one, other = um.assign(X, known, random_state=0), um.assign(shards, known, random_state=0)
    np.testing.assert_array_equal(one.exposures, other.exposures)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    pd.testing.assert_frame_equal(one.samples, other.samples)
    assert one.loglik == pytest.approx(other.loglik)


def test_the_fit_has_the_exposures_and_the_catalogue() -> None:
    X, known, _ = cohort(20)
    found = um.assign(X, known)
    assert found.fit.labels == list(known)
    np.testing.assert_allclose(found.fit.L @ found.fit.F.T, found.exposures @ found.topics.T)
    assert found.loglik == pytest.approx(um.loglik(X, found.fit.L, found.fit.F))
    assert found.fit.samples.tolist() == X.samples.tolist()


def test_a_saved_answer_is_the_same(tmp_path: Path) -> None:
    X, known, _ = cohort(12)
    found = um.assign(X, known, group="tissue")
    found.save(tmp_path / "assigned.safetensors")
    again = um.Assignment.load(tmp_path / "assigned.safetensors")
    pd.testing.assert_frame_equal(again.table, found.table)
    pd.testing.assert_frame_equal(again.samples, found.samples)
    pd.testing.assert_frame_equal(again.prevalence, found.prevalence)
    assert again.advice() == found.advice()
    assert isinstance(again, Result)


def test_a_sample_without_counts_has_no_exposures_and_may_have_all_topics() -> None:
    found = um.assign(um.Counts([[12, 5, 9, 20, 10], [0] * 5], features=list("abcde")), CASE)
    assert found.exposures[1].tolist() == [0] * 4
    assert found.allowed[1].all()
    assert found.table["sample"].unique().tolist() == ["sample 1"]
    np.testing.assert_array_equal(found.probabilities[1], found.prevalences[0])
    assert np.isnan(found.samples["p"][1])


# Catalogues


def test_rows_of_a_catalogue_are_found_by_name_and_spelling(tmp_path: Path) -> None:
    from unmix.plot.signature import layouts

    types = list(layouts()[0].features)
    rng = np.random.default_rng(0)
    known = pd.DataFrame(rng.dirichlet(np.full(96, 0.3), 4).T, index=types, columns=["SBS1", "SBS2", "SBS3", "SBS5"])
    counts = rng.poisson(500 * known[["SBS1", "SBS5"]].to_numpy() @ rng.dirichlet([2, 2], 6).T).T
    X = um.Counts(counts, features=types)
    want = um.assign(X, known, random_state=0)
    shuffled = known.sample(frac=1, random_state=0)
    cosmic, older, csv = tmp_path / "COSMIC_v3.4_SBS.txt", tmp_path / "sigProfiler_SBS.csv", tmp_path / "mine.csv"
    shuffled.rename_axis("Type").to_csv(cosmic, sep="\t")
    parts = {"Type": [t[2:5] for t in shuffled.index], "SubType": [t[0] + t[2] + t[6] for t in shuffled.index]}
    pd.concat([pd.DataFrame(parts, index=shuffled.index), shuffled], axis=1).to_csv(older, index=False)
    shuffled.set_axis([f"{t[0]}{t[2]}{t[6]}>{t[0]}{t[4]}{t[6]}" for t in shuffled.index]).to_csv(csv)
    for catalogue in (shuffled, cosmic, str(older), csv, shuffled.rename_axis("Type").reset_index(), known * 7.5):
        found = um.assign(X, catalogue, random_state=0)
        np.testing.assert_allclose(found.exposures, want.exposures, rtol=1e-7)
        assert found.names.tolist() == want.names.tolist()
    np.testing.assert_allclose(um.assign(counts, known.to_numpy()).exposures, want.exposures)
    fit = um.PoissonNMF.from_factors(known).result_
    np.testing.assert_allclose(um.assign(X, fit).exposures, want.exposures)


REFUSED = {
    "other features": (CASE.set_axis(list("vwxyz")), "no feature of the catalogue .v …. has a name that X knows .a …."),
    "turned round": (CASE.T, "its columns are: transpose it"),
    "missing types": (CASE.drop(index=["b", "d"]), r"has no row for 2 features of X \(b, d\)"),
    "no weight": (CASE.assign(two=0.0), "topic two has no weight on the features of X; remove it"),
    "negative": (CASE.assign(two=-0.1), "'two' has entries that are not numbers >= 0"),
    "missing": (CASE.assign(two=np.nan), "'two' has entries that are not numbers >= 0"),
    "infinite": (CASE.assign(two=np.inf), "topic two has entries that are not numbers >= 0"),
    "two of one name": (CASE.set_axis(["one", "two", "two", "four"], axis=1), "two topics are called 'two'"),
    "two rows of one name": (CASE.set_axis(list("abcda")), "two rows are called 'a'"),
    "another number": (
        CASE.to_numpy()[:4],
        "the catalogue has 4 features and X has 5|catalogue has 4 features and X has 5",
    ),
    "no file": ("nowhere.csv", "nowhere.csv: no such file"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_catalogue_that_does_not_fit_is_refused(what: str) -> None:
    catalogue, said = REFUSED[what]
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        um.assign(X5, catalogue)


def test_features_of_the_catalogue_alone_are_said() -> None:
    with pytest.warns(UserWarning, match="1 feature of the catalogue is not in X: taken as not measured"):
        found = um.assign(X5.take(None, list("abcd")), CASE)
    np.testing.assert_allclose(found.topics.sum(axis=0), 1)


def test_counts_that_no_topic_has_are_said() -> None:
    X = um.Counts([[12, 5, 9, 20, 10, 14]], features=list("abcdef"))
    with pytest.warns(UserWarning, match=r"20.0% of the counts are of features that no topic of the catalogue has"):
        found = um.assign(X, pd.concat([CASE, pd.DataFrame(0.0, index=["f"], columns=CASE.columns)]))
    np.testing.assert_allclose(found.exposures.sum(), 56)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rule": "best"}, "rule='best'; choose one of evidence, price, test"),
        ({"rule": "price"}, "rule='price'; use it with price"),
        ({"rule": "price", "price": -1}, "price=-1; use a number >= 0, or 'held-out'"),
        ({"price": 2}, "price=2; use it with rule='price'"),
        ({"level": 0.1}, "level=0.1; use it with rule='test'"),
        ({"rule": "test", "level": 1.5}, "level=1.5; use a probability between 0 and 1"),
        ({"dispersion": 0.5}, "dispersion=0.5; use a number >= 1"),
        ({"expected": 0}, "expected=0; use a positive number"),
        ({"group": "tissue"}, "there is no column 'tissue'"),
        ({"group": ["a", "b"]}, "2 values for 1 samples"),
        ({"prevalence": [0.5, 0.5]}, "prevalence has shape"),
        ({"prevalence": [0.5, 0.5, 2, 0.1]}, "shares between 0 and 1"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        um.assign(X5, CASE, **options)


def test_multipliers_are_refused_by_name() -> None:
    X = um.Counts([[12, 5, 9, 20, 10], [3, 4, 5, 6, 7]], features=list("abcde"))
    from unmix.counts.multipliers import with_multipliers

    with pytest.raises(ValueError, match="assign does not support multipliers of rates"):
        um.assign(with_multipliers(X, None, np.full(5, 2.0) + np.arange(5)), CASE)


def test_held_out_counts_choose_a_price_between_the_extremes() -> None:
    X, known, truth = cohort(total=300)
    found = um.assign(X, known, rule="price", price="held-out", random_state=0)
    assert 0 < found.price < 12
    assert error(found, truth) < error(um.assign(X, known, rule="price", price=0), truth)
