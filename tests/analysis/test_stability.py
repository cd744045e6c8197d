"""Which topics hold: stability, consensus, alignment, and the quality of topics."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import examples, random_counts
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import NotFittedError

import unmix as um
from unmix.analysis.align import transport
from unmix.analysis.quality import held_out_lift, normalised_information
from unmix.analysis.stability import agreed, barycentres, distances_between, in_order, likeness, recalls, silhouettes
from unmix.cli import main

X = random_counts(40, 30, K=3, seed=1, mean=6.0)


def drawn(K: int, seed: int = 0, n: int = 150, m: int = 150, counts: float = 60) -> np.ndarray:
    """Poisson counts of K sparse topics in samples that have few of them."""
    rng = np.random.default_rng(seed)
    topics, proportions = rng.dirichlet(np.full(m, 0.1), K), rng.dirichlet(np.full(K, 0.3), n)
    return rng.poisson(counts * proportions @ topics).astype(float)


def fit_of(F: Any, shares: Any, features: Any = None) -> um.Fit:
    """A fit of one sample with these topics and these shares."""
    F = np.asarray(F, dtype=float)
    return um.Fit(
        np.atleast_2d(shares).astype(float),
        F / F.sum(axis=0),
        pd.DataFrame({"kkt": []}),
        "converged",
        0.0,
        features=None if features is None else np.array(features),
    )


def random_topics(m: int, K: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(m, 0.3), K).T


# --- stability --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_topic_too_many_is_exposed_and_the_true_ones_hold(seed: int) -> None:
    right = um.stability(drawn(4, seed), 4, runs=4, random_state=0)
    assert right.table["verdict"].tolist() == ["stable"] * 4
    assert right.table["recall"].min() == 1
    more = um.stability(drawn(4, seed), 5, runs=20, random_state=0)
    assert sorted(more.table["verdict"]) == ["stable"] * 4 + ["unstable"]
    assert any("is unstable: " in text for text in more.advice())


def test_two_topics_too_many_are_exposed() -> None:
    found = um.stability(drawn(4), 6, runs=8, random_state=0)
    assert (found.table["verdict"] == "unstable").sum() == 2
    assert found.table["verdict"].tolist()[-2:] == ["unstable"] * 2  # the lightest


def test_topics_made_of_noise_are_not_found_again_in_other_noise_but_may_be_by_other_starts() -> None:
    noise = np.random.default_rng(0).poisson(3.0, (80, 40)).astype(float)
    halves = um.stability(noise, 3, runs=8, random_state=0)
    assert "stable" not in halves.table["verdict"].tolist()
    assert halves.advice()[0] == "0 of 3 topics are recovered from halves of the counts"
    starts = um.stability(noise, 3, runs=8, noise="none", random_state=0)
    assert starts.table["stability"].mean() > halves.table["stability"].mean() + 0.05
    assert any("noise='halves'" in text for text in starts.advice())


def test_permuted_topics_are_matched_and_as_stable_as_can_be() -> None:
    topics = random_topics(20, 4, 0)
    orders = [np.random.default_rng(seed).permutation(4) for seed in range(3)]
    found = [in_order(topics[:, order], topics) for order in orders]
    for one in found:
        np.testing.assert_array_equal(one, topics)
    similarity, nearest = likeness(topics, found)
    np.testing.assert_array_equal(similarity, 1)
    assert nearest.all()
    np.testing.assert_allclose(silhouettes(distances_between(found), 4), 1, atol=1e-6)


def test_margins_are_the_silhouettes_of_scikit_learn() -> None:
    from sklearn.metrics import silhouette_samples

    found = [random_topics(15, 3, seed) for seed in range(5)]
    distances = distances_between(found)
    labels = np.tile(np.arange(3), 5)
    theirs = silhouette_samples(distances, labels, metric="precomputed").reshape(5, 3).mean(axis=0)
    np.testing.assert_allclose(silhouettes(distances, 3), theirs, atol=1e-12)
    wide = np.sqrt(np.hstack(found))
    np.testing.assert_allclose(distances**2, 1 - wide.T @ wide, atol=1e-12)


def test_recall_is_the_share_of_pairs_of_runs_that_find_the_same() -> None:
    one, two = random_topics(12, 3, 0), random_topics(12, 3, 1)
    np.testing.assert_array_equal(recalls(distances_between([one, one, one]), 3), 1)
    found = [one, two, random_topics(12, 3, 2)]
    pairs = [(a, b) for a in found for b in found if a is not b]
    by_hand = [np.mean([np.argmax(np.sqrt(a[:, k]) @ np.sqrt(b)) == k for a, b in pairs]) for k in range(3)]
    np.testing.assert_allclose(recalls(distances_between(found), 3), by_hand)


def test_the_reference_is_the_default_fit_and_runs_are_fits_of_their_seeds() -> None:
    found = um.stability(X, 3, runs=3, noise="none", random_state=5)
    fit = um.TopicModel(3, random_state=5).fit(X).result_
    given = um.stability(X, 3, runs=3, noise="none", reference=fit, random_state=5)
    pd.testing.assert_frame_equal(found.table, given.table)
    runs = [um.TopicModel(3, random_state=5 + run).fit(X).result_.topics for run in (1, 2, 3)]
    expected = likeness(fit.topics, [in_order(topics, fit.topics) for topics in runs])[0]
    np.testing.assert_allclose(found.similarity, expected, atol=1e-6)


def test_the_same_bits_for_any_number_of_threads_and_with_a_file() -> None:
    tables = [um.stability(X, 3, runs=4, random_state=0, n_jobs=jobs).similarity.tobytes() for jobs in (1, 2)]
    assert tables[0] == tables[1]
    fits = [um.consensus(X, 3, runs=4, random_state=0, n_jobs=jobs).F.tobytes() for jobs in (1, 2)]
    assert fits[0] == fits[1]


class Stops:
    """A callback that presses Ctrl-C in the so-manieth fit."""

    def __init__(self, fit: int) -> None:
        self.left = fit

    def __call__(self, progress: Any) -> None:
        self.left -= progress.row["iteration"] == 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __deepcopy__(self, memo: Any) -> Stops:  # clones of the estimator count together
        return self


def test_interrupted_runs_are_kept_and_the_same_call_goes_on(tmp_path: Path) -> None:
    keep = tmp_path / "runs.safetensors"
    whole = um.stability(X, 3, runs=6, random_state=0)
    stopped = um.TopicModel(callbacks=[Stops(4)])
    part = um.stability(X, 3, runs=6, estimator=stopped, random_state=0, checkpoint=keep)
    assert part.status == "interrupted"
    assert len(part.similarity) == 2  # the reference, two runs, and Ctrl-C in the third
    assert any("interrupted after 2 of 6 runs" in text for text in part.advice())
    np.testing.assert_array_equal(part.similarity, whole.similarity[:2])
    again = um.stability(X, 3, runs=6, random_state=0, checkpoint=keep)
    assert again.status == "finished"
    np.testing.assert_array_equal(again.similarity, whole.similarity)
    written = keep.read_bytes()
    um.consensus(X, 3, runs=6, random_state=0, checkpoint=keep)  # of the same runs
    assert keep.read_bytes() == written
    fewer = um.stability(X, 3, runs=3, random_state=0, checkpoint=keep)
    assert fewer.status == "finished"
    np.testing.assert_array_equal(fewer.similarity, whole.similarity[:3])
    more = um.stability(X, 3, runs=7, random_state=0, checkpoint=keep, estimator=um.TopicModel(callbacks=[Stops(2)]))
    assert more.status == "finished"  # with one fit more
    np.testing.assert_array_equal(more.similarity[:6], whole.similarity)
    with pytest.raises(ValueError, match="checkpoint of other data or other parameters"):
        um.stability(X + 1, 3, runs=6, random_state=0, checkpoint=keep)
    with pytest.raises(ValueError, match="checkpoint of other data or other parameters"):
        um.stability(X, 3, runs=6, random_state=0, checkpoint=keep, estimator=um.TopicModel(tol=1e-3))


@pytest.mark.parametrize("K", [1, 2])
def test_of_a_single_run_nothing_is_said_but_how_like_it_is(K: int) -> None:
    found = um.stability(X, K, runs=4, estimator=um.TopicModel(callbacks=[Stops(3)]), random_state=0)
    assert found.similarity.shape == (1, K)
    assert found.table["verdict"].tolist() == ["unsure"] * K
    um.plot.stability(found)[0].figure.canvas.draw()  # type: ignore[index]


def test_an_interrupt_before_the_first_run_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        um.stability(X, 3, runs=4, estimator=um.TopicModel(callbacks=[Stops(2)]), random_state=0)


def test_stability_is_the_same_after_saving_and_loading(tmp_path: Path) -> None:
    found = um.stability(X, 3, runs=3, random_state=0)
    found.save(tmp_path / "found.safetensors")
    again = um.Stability.load(tmp_path / "found.safetensors")
    pd.testing.assert_frame_equal(again.table, found.table)
    np.testing.assert_array_equal(again.density, found.density)
    assert again.advice() == found.advice()


def test_one_topic_has_no_margin_and_is_stable() -> None:
    found = um.stability(X, 1, runs=2, random_state=0)
    assert found.table["verdict"].tolist() == ["stable"]
    assert np.isnan(found.table["margin"][0])
    assert um.consensus(X, 1, runs=2, random_state=0).n_topics == 1


@pytest.mark.filterwarnings("ignore:n_components")
def test_topics_without_weight_are_listed_as_empty() -> None:
    few = np.zeros((6, 5))
    few[:3, 0], few[3:, 1] = 9, 9
    found = um.stability(few, 4, runs=4, random_state=0)
    assert "stable" in found.table["verdict"].tolist()
    assert found.table["share"].sum() == pytest.approx(1)
    assert np.isfinite(found.table[["stability", "margin", "recall", "floor"]]).all(axis=None)
    dead = fit_of(np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1.0]]), [0.5, 0.5, 0])
    asked = um.stability(few, 3, runs=4, reference=dead, random_state=0)
    assert asked.table["verdict"].tolist()[2] == "empty"
    assert "topic 3 is empty" in asked.advice()


def test_any_model_can_be_asked_and_fits_that_did_not_converge_are_told() -> None:
    found = um.stability(X, 2, runs=2, estimator=um.LDA(alpha=0.3, eta=0.1, tol=1e-3), random_state=0)
    assert found.table["recall"].min() == 1
    with pytest.warns(UserWarning, match="3 of the fits did not converge; raise max_iter"):
        short = um.stability(X, 2, runs=2, estimator=um.TopicModel(max_iter=2), random_state=0)
    assert any("3 of the fits did not converge" in text for text in short.advice())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"runs": 1}, "runs=1; use a whole number >= 2"),
        ({"runs": 2.5}, "runs=2.5; use a whole number >= 2"),
        ({"n_components": 0}, "n_components=0; use a whole number of topics >= 1"),
        ({"noise": "thirds"}, "noise='thirds'; choose one of halves, bootstrap, none"),
        ({"X": X[:1]}, "there is one sample only"),
        ({"X": X + 0.5}, 'noise="halves" needs whole numbers.*or give noise="bootstrap" or "none"'),
        ({"checkpoint": "runs.safetensors"}, "random_state=None; use a number, which checkpoint needs"),
        ({"estimator": um.TopicModel(init=(X, X))}, "the estimator has a start in init"),
        ({"reference": fit_of(np.ones((30, 3)), [1, 1, 1])}, "n_components=2; use 3, as the reference has"),
        ({"reference": fit_of(np.ones((29, 2)), [1, 1])}, "X has 30 features and the model has 29"),
    ],
)
def test_bad_input_gets_one_clear_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        um.stability(**({"X": X, "n_components": 2, "runs": 2} | given))


def test_a_reference_of_other_features_and_a_consensus_of_shards_are_refused() -> None:
    names = [f"f{j}" for j in range(30)]
    other = fit_of(np.ones((30, 2)), [1, 1], [*names[1:], "new"])
    with pytest.raises(ValueError, match="feature 1 is 'f0', the model has 'f1' there: the names differ"):
        um.stability(um.Counts(X, features=names), 2, reference=other)
    with pytest.raises(ValueError, match="stability takes counts in memory, and these are shards; use"):
        um.consensus(um.Shards.of(um.Counts(X)), 2)


def test_of_shards_a_sample_is_asked_and_a_warning_says_so() -> None:
    shards, n = um.Shards.of(um.Counts(X), sample=20), len(X)
    with pytest.warns(UserWarning, match=f"stability uses 20 of the {n} samples of these shards"):
        found = um.stability(shards, 2, runs=2, random_state=0)
    pd.testing.assert_frame_equal(found.table, um.stability(shards.sample, 2, runs=2, random_state=0).table)


def test_fractions_can_be_drawn_anew_or_left_as_they_are() -> None:
    for noise in ("bootstrap", "none"):
        assert len(um.stability(X + 0.5, 2, runs=2, noise=noise, random_state=0).table) == 2


# --- consensus --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "g", "middle"),
    [((1, 0), (0, 1), (0.5, 0.5)), ((0.64, 0.36), (0.36, 0.64), (0.5, 0.5)), ((1, 0), (0.36, 0.64), (0.8, 0.2))],
)
def test_the_middle_of_two_topics(f: Any, g: Any, middle: Any) -> None:
    found = [np.array(one, dtype=float)[:, None] for one in (f, g)]
    centre = barycentres(found, np.ones((2, 1), dtype=bool), np.ones((2, 1)))
    np.testing.assert_allclose(centre[:, 0], middle, atol=1e-12)


@examples(20)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 6))
def test_neither_step_of_the_consensus_raises_the_squared_distances(seed: int, K: int, runs: int) -> None:
    found = [random_topics(8, K, seed + run) for run in range(runs)]
    centres, everyone = random_topics(8, K, seed + runs), np.ones((runs, K), dtype=bool)

    def squares(members: list[np.ndarray]) -> float:
        return sum(float((1 - (np.sqrt(centres) * np.sqrt(topics)).sum(axis=0)).sum()) for topics in members)

    before = squares(found)
    for _ in range(4):
        found = [in_order(topics, centres) for topics in found]
        matched = squares(found)
        assert matched <= before + 1e-12
        centres = barycentres(found, everyone, centres)
        before = squares(found)
        assert before <= matched + 1e-12


def test_the_consensus_is_the_best_middle_there_is() -> None:
    found = [random_topics(6, 1, seed) for seed in range(4)]
    centre = barycentres(found, np.ones((4, 1), dtype=bool), found[0])

    def squares(topic: np.ndarray) -> float:
        return sum(float(1 - (np.sqrt(topic) * np.sqrt(other)).sum()) for other in found)

    for seed in range(50):
        moved = centre * np.random.default_rng(seed).gamma(50, 1 / 50, centre.shape)
        assert squares(moved / moved.sum()) >= squares(centre)


def test_a_topic_that_no_run_has_stays_and_is_no_error() -> None:
    reference = np.array([[0.9, 0.05, 0.0], [0.1, 0.05, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 1.0]])
    run = np.array([[0.9, 0.0, 0.8], [0.1, 0.1, 0.2], [0.0, 0.9, 0.0], [0.0, 0.0, 0.0]])  # has the first twice
    centres, kept = agreed(reference, [run, run])
    assert kept[:, 2].sum() == 0
    np.testing.assert_array_equal(centres[:, 2], reference[:, 2])
    noise = np.random.default_rng(0).poisson(2.0, (30, 20)).astype(float)
    fit = um.consensus(noise, 4, runs=4, random_state=0)
    assert fit.n_topics == 4
    assert np.isfinite(fit.loglik)


def test_the_consensus_is_the_topics_of_runs_and_polishing_it_makes_it_likelier(tmp_path: Path) -> None:
    data = um.Counts(drawn(4, 1), features=[f"f{j}" for j in range(150)])
    fit = um.consensus(data, 4, runs=6, random_state=0)
    plain = um.consensus(data, 4, runs=6, polish=False, random_state=0)
    about = fit.data["consensus"]
    assert about["kept"] == [6] * 4
    assert about["loglik"]["polished"] == fit.loglik > about["loglik"]["consensus"] == plain.loglik
    assert fit.loglik == pytest.approx(
        about["loglik"]["of all counts"], abs=1
    )  # the same optimum: all topics are stable
    assert um.loglik(data, plain.L, plain.F) == pytest.approx(plain.loglik, rel=1e-12)
    assert min(about["stability"]) > 0.8
    assert fit.features is not None
    fit.save(tmp_path / "model.safetensors")
    assert um.load(tmp_path / "model.safetensors").data["consensus"] == about


# --- alignment --------------------------------------------------------------------------------------------------------


def test_a_topic_divided_flows_into_its_parts() -> None:
    whole, parts = np.array([0.5, 0.5, 0, 0, 0]), np.array([0, 0, 0.2, 0.4, 0.4])
    one = fit_of(np.column_stack([whole, parts]), [0.5, 0.5])
    two = fit_of(np.column_stack([whole, parts, parts]), [0.5, 0.2, 0.3])
    found = um.align([one, two])
    flows = found.flows.set_index(["topic", "to"])
    assert flows["flow"].to_dict() == pytest.approx({(1, 1): 0.5, (2, 2): 0.2, (2, 3): 0.3}, abs=1e-9)
    np.testing.assert_allclose(flows["backward"], 1, atol=1e-9)
    first = found.table[found.table["fit"] == "1"]
    np.testing.assert_allclose(first["refinement"], 2, atol=1e-9)
    assert first["path"].tolist() == [1, 3]  # the larger part


def test_a_fit_flows_into_itself_and_into_its_topics_in_another_order_unchanged() -> None:
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    fit = fit_of(random_topics(20, 4, 0), shares)
    order = np.array([2, 0, 3, 1])
    permuted = fit_of(fit.F[:, order], shares[order])
    for other, expected in ((fit, np.arange(4)), (permuted, np.argsort(order))):
        found = um.align({"one": fit, "two": other})
        assert found.flows["to"].tolist() == (expected + 1).tolist()
        np.testing.assert_allclose(found.flows["flow"], shares, atol=1e-12)
        np.testing.assert_allclose(found.table["persistence"], 1, atol=1e-9)


@examples(15)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_transport_has_its_marginals_few_flows_and_the_least_cost(seed: int, K: int, L: int) -> None:
    rng = np.random.default_rng(seed)
    masses, others, costs = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(L)), rng.random((K, L))
    flow = transport(masses, others, costs)
    np.testing.assert_allclose(flow.sum(axis=1), masses, atol=1e-9)
    np.testing.assert_allclose(flow.sum(axis=0), others, atol=1e-9)
    assert (flow > 1e-12).sum() <= K + L - 1
    assert (flow * costs).sum() <= (np.outer(masses, others) * costs).sum() + 1e-9


def test_transport_between_equal_masses_is_the_best_assignment() -> None:
    costs = np.random.default_rng(0).random((7, 7))
    flow = transport(np.full(7, 1 / 7), np.full(7, 1 / 7), costs)
    rows, columns = linear_sum_assignment(costs)
    np.testing.assert_allclose(flow[rows, columns], 1 / 7, atol=1e-12)


def test_paths_of_a_path_of_fits_lead_to_the_last_fit() -> None:
    found = um.align(um.fit_path(drawn(4), range(1, 6), random_state=0))
    assert found.fits.tolist() == ["1", "2", "3", "4", "5"]
    assert set(found.table["path"]) == {1, 2, 3, 4, 5}
    for _, topics in found.table.groupby("fit"):
        assert sorted(topics["place"]) == list(range(len(topics)))
    assert found.table["persistence"].between(0, 1 + 1e-9).all()
    assert found.table.set_index("fit").loc["5", "refinement"].isna().all()
    four = found.table[found.table["fit"] == "4"]
    assert four["path"].is_unique  # nested: each true topic goes on as itself
    assert "lasts most" in found.advice()[0]


def test_fits_of_other_data_are_aligned_by_the_names_of_features(tmp_path: Path) -> None:
    names = list("abcdef")
    F = random_topics(6, 2, 0)
    one, two = (
        fit_of(F, [0.5, 0.5], names),
        fit_of(np.vstack([F[::-1], [[0.1, 0.1]]]), [0.5, 0.5], [*names[::-1], "new"]),
    )
    found = um.align({"one": one, "two": two})
    assert found.flows["to"].tolist() == [1, 2]
    assert found.left_out == [0, 1]
    assert any("1 features of fit two" in text for text in found.advice())
    found.save(tmp_path / "aligned.safetensors")
    again = um.Alignment.load(tmp_path / "aligned.safetensors")
    pd.testing.assert_frame_equal(again.flows, found.flows)
    assert again.fits.tolist() == ["one", "two"]


def test_what_cannot_be_aligned_is_refused_by_name() -> None:
    one = fit_of(np.eye(3), [1, 1, 1])
    with pytest.raises(ValueError, match="1 fit given; use at least 2"):
        um.align([one])
    with pytest.raises(NotFittedError, match="TopicModel instance is not fitted yet"):
        um.align([one, um.TopicModel()])
    with pytest.raises(TypeError, match="dict is not a fit; pass a Fit, a fitted estimator, or the path of one"):
        um.align([one, {}])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="fit 2 has 4 features and fit 1 has 3; use the same features"):
        um.align([one, fit_of(np.eye(4), [1] * 4)])
    named = [fit_of(np.eye(2), [1, 1], names) for names in (["a", "b"], ["c", "d"])]
    with pytest.raises(ValueError, match="no feature has the same name in all fits"):
        um.align(named)
    with pytest.raises(ValueError, match="two fits have the same name"):
        um.align({1: one, "1": one})


def test_a_topic_without_weight_takes_no_part() -> None:
    dead = fit_of(np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1.0]]), [0.5, 0.5, 0])
    found = um.align([dead, fit_of(np.eye(3), [0.5, 0.5, 0])])
    assert np.isfinite(found.table["persistence"]).all()
    assert found.flows["flow"].sum() == pytest.approx(1)


# --- quality ----------------------------------------------------------------------------------------------------------


def presence(*samples: str) -> um.Counts:
    return um.Counts([[float(letter in sample) for letter in "abcd"] for sample in samples], features=list("abcd"))


def test_coherence_of_a_case_done_by_hand() -> None:
    fit = fit_of(np.array([[0.5], [0.3], [0.2], [0]]), [1], list("abcd"))
    row = um.coherence(fit, presence("abc", "ab", "ad", "bc", "d", "abc"), top=3).iloc[0]
    assert row["u_mass"] == pytest.approx(np.log(3 / 4), abs=1e-6)
    assert row["npmi"] == pytest.approx((0.169925 + 0 + 0.584963) / 3, abs=1e-6)
    assert row["cv_documents"] == pytest.approx(0.778522, abs=1e-6)
    assert row["pairs"] == 3


def test_the_limits_of_coherence() -> None:
    assert normalised_information(np.ones((2, 2)))[0, 1] == 0  # both in every sample
    assert normalised_information(np.diag([0.5, 0.5]))[0, 1] == -1  # never together
    assert normalised_information(np.full((2, 2), 0.5))[0, 1] == pytest.approx(1)  # always together, in some
    fit = fit_of(np.array([[0.5, 0], [0.3, 0], [0.2, 0.1], [0, 0.9]]), [1, 1], list("abcd"))
    table = um.coherence(fit, presence("ab", "ab", "a"), top=3)
    assert table["unseen"].tolist() == [1, 2]
    assert np.isfinite(table["npmi"][0])
    assert np.isnan(table["npmi"][1])  # and only there
    by_name = um.coherence(fit, um.Counts([[1.0, 1.0], [0, 1.0]], features=["b", "a"]), top=2)
    assert by_name["unseen"].tolist() == [0, 2]


def test_equal_topics_are_not_diverse_and_disjoint_ones_are() -> None:
    same = um.diversity(fit_of(np.tile(np.arange(1.0, 9)[:, None], 4), [1] * 4), top=5)
    assert same["distinct"] == 1 / 4
    assert [same[name] for name in ("inverted_rbo", "mean_distance", "least_distance")] == pytest.approx(
        [0, 0, 0], abs=1e-7
    )
    apart = um.diversity(fit_of(np.kron(np.eye(3), np.ones((5, 1))), [1] * 3), top=5)
    assert list(apart.values()) == pytest.approx([1, 1, 1, 1], abs=1e-12)
    assert np.isnan(um.diversity(fit_of(np.ones((5, 1)), [1]), top=3)["inverted_rbo"])


def test_exclusive_features_make_a_topic_exclusive() -> None:
    m, K = 40, 3
    common = np.ones((m, K))
    common[:10] = 20  # the same frequent features in all topics
    own = np.ones((m, K))
    for k in range(K):
        own[10 * k : 10 * (k + 1), k] = 20
    shared, exclusive = (um.analysis.exclusivity(fit_of(F, [1] * K)) for F in (common, own))
    assert (exclusive > shared + 0.1).all()
    assert (exclusive <= 1).all()


def test_held_back_counts_lift_true_topics_and_not_noise() -> None:
    rng = np.random.default_rng(0)
    fitted, held_out = um.Counts(drawn(3, 2)).thinned(2, rng)
    true = held_out_lift(um.TopicModel(3, random_state=0).fit(fitted).result_, held_out)
    assert (true.lift > 5 * true.error).all()
    lifts = []
    for seed in range(4):
        noise = um.Counts(np.random.default_rng(seed).poisson(1.0, (200, 50)).astype(float))
        fitted, held_out = noise.thinned(2, rng)
        fit = um.TopicModel(3, random_state=0).fit(fitted).result_
        found = held_out_lift(fit, held_out)
        lifts += (found.lift / found.error).tolist()
        assert fit.quality(fitted, held_out=held_out).table["lift"].tolist() == found.lift.tolist()
    assert np.abs(lifts).mean() < 2  # of twelve standard normals it is 0.8
    with pytest.raises(ValueError, match="held_out has 3 samples and the model has 200"):
        held_out_lift(fit, np.ones((3, 50)))


def test_the_quality_of_a_fit_is_one_table_with_a_file(tmp_path: Path) -> None:
    data = um.Counts(drawn(3))
    fit = um.TopicModel(3, random_state=0).fit(data).result_
    found = fit.quality(data)
    assert len(found.table) == 3
    assert np.isfinite(found.table.drop(columns="name")).all(axis=None)
    pd.testing.assert_frame_equal(found.table[["topic", "npmi"]], um.coherence(fit, data)[["topic", "npmi"]])
    entropy = -(fit.topics * np.log(np.where(fit.topics > 0, fit.topics, 1))).sum(axis=0)
    np.testing.assert_allclose(found.table["effective_features"], np.exp(entropy))
    found.save(tmp_path / "quality.safetensors")
    pd.testing.assert_frame_equal(um.Quality.load(tmp_path / "quality.safetensors").table, found.table)


def test_where_every_sample_has_every_feature_coherence_says_that_it_says_little() -> None:
    dense = np.random.default_rng(0).poisson(20.0, (30, 12)) + 1.0
    fit = um.TopicModel(2, random_state=0, max_iter=20, tol=0).fit(dense).result_
    found = fit.quality(dense, top=5)
    assert found.table["npmi"].tolist() == [0, 0]
    assert any("coherence is not informative" in text for text in found.advice())


@pytest.mark.parametrize("top", [1, 0, 2.5, True])
def test_too_few_top_features_are_refused(top: Any) -> None:
    fit = fit_of(np.eye(3), [1, 1, 1])
    for function in (
        lambda: um.coherence(fit, np.eye(3), top),
        lambda: um.diversity(fit, top),
        lambda: fit.quality(np.eye(3), top),
    ):
        with pytest.raises(ValueError, match=f"top={top}; use a whole number of features >= 2"):
            function()


def test_more_top_features_than_there_are_is_said() -> None:
    fit = fit_of(np.ones((3, 2)), [1, 1])
    with pytest.warns(UserWarning, match="top=10 is more than the 3 features; all of them are taken"):
        assert um.coherence(fit, np.ones((4, 3)))["pairs"].tolist() == [3, 3]
    with pytest.raises(ValueError, match="by='weight'; choose"):
        um.coherence(fit, np.ones((4, 3)), top=2, by="weight")  # type: ignore[arg-type]


# --- pictures and the terminal ----------------------------------------------------------------------------------------


def test_pictures_show_every_topic_every_flow_and_the_floor() -> None:
    found = um.stability(X, 3, runs=3, random_state=0)
    topics, runs, density = um.plot.stability(found)
    assert [bar.get_width() for bar in topics.patches] == pytest.approx(found.table["stability"].tolist())
    assert [line.get_xdata()[0] for line in topics.lines] == pytest.approx(found.table["floor"].tolist())
    assert runs.images[0].get_array().shape == (9, 9)
    assert sum(bar.get_height() for bar in density.patches) == 9
    for what in ("topics", "runs", "density"):
        um.plot.stability(found, what).figure.canvas.draw()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="what='bars'; choose one of topics, runs, density"):
        um.plot.stability(found, "bars")  # type: ignore[arg-type]
    aligned = um.align(um.fit_path(X, range(1, 4), random_state=0))
    drawn_flows = um.plot.alignment(aligned)
    assert len(drawn_flows.patches) == 6  # boxes
    assert len(drawn_flows.collections) == len(aligned.flows)
    assert drawn_flows.get_xlabel() == "number of topics"
    quality = um.TopicModel(3, random_state=0).fit(X).result_.quality(X, top=5)
    points = um.plot.quality(quality).collections[0]
    np.testing.assert_allclose(np.sort(points.get_offsets()[:, 0]), np.sort(quality.table["npmi"]))


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return int(left.value.code or 0)


def test_the_terminal_writes_tables_pictures_and_a_consensus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", X)
    folder = tmp_path / "found"
    common = ("stability", tmp_path / "x.npy", "-k", 2, "--runs", 3, "--set", "tol=1e-4", "-o", folder)
    assert run(*common, "--consensus") == 0
    table = pd.read_csv(folder / "stability.csv")
    expected = um.stability(X, 2, runs=3, estimator=um.TopicModel(tol=1e-4), random_state=0)
    np.testing.assert_allclose(table["stability"], expected.table["stability"], rtol=1e-9)
    assert {path.name for path in folder.iterdir()} == {
        "stability.csv",
        "stability.html",
        "stability.png",
        "stability.safetensors",
        "consensus.safetensors",
    }
    assert um.load(folder / "consensus.safetensors").data["consensus"]["runs"] == 3
    out = capsys.readouterr().out
    assert "topics are recovered from halves of the counts" in out
    assert run(*common, "--noise", "none", "--quiet", "--resume") == 0
    assert "nothing to resume" in capsys.readouterr().err
    models = []
    for K in (2, 3):
        models.append(tmp_path / f"k{K}.safetensors")
        um.TopicModel(K, random_state=0).fit(X).result_.save(models[-1])
    assert run("align", *models, "-o", tmp_path / "aligned", "--json") == 0
    assert pd.read_csv(tmp_path / "aligned" / "alignment.csv")["fit"].tolist() == ["k2", "k2", "k3", "k3", "k3"]
    assert '"analysis": "align"' in capsys.readouterr().out


def test_the_terminal_keeps_interrupted_runs_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stability = import_module("unmix.analysis.stability")  # whose name a function of the package has, too
    np.save(tmp_path / "x.npy", X)
    folder, fitted, fits = tmp_path / "found", stability._fitted, []

    def interrupted(*given: Any) -> Any:
        fits.append(1)
        if len(fits) == 4:
            raise KeyboardInterrupt
        return fitted(*given)

    monkeypatch.setattr(stability, "_fitted", interrupted)
    assert run("stability", tmp_path / "x.npy", "-k", 2, "--runs", 4, "-o", folder) == 130
    assert (folder / "stability-checkpoint.safetensors").is_file()
    assert "--resume" in capsys.readouterr().err
    assert run("stability", tmp_path / "x.npy", "-k", 2, "--runs", 4, "-o", folder, "--resume") == 0
    assert len(fits) == 4 + 2
    assert not (folder / "stability-checkpoint.safetensors").exists()
    whole = um.stability(X, 2, runs=4, random_state=0)
    np.testing.assert_array_equal(um.Stability.load(folder / "stability.safetensors").similarity, whole.similarity)


def test_the_terminal_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X + 0.5)
    assert run("stability", tmp_path / "x.npy", "-k", 2, "-o", tmp_path / "found") == 2
    assert "needs whole numbers" in capsys.readouterr().err
    assert run("stability", tmp_path / "x.npy", "-k", 2, "-o", tmp_path / "x.npy") == 2
    assert "use a folder, or a file that ends in" in capsys.readouterr().err
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    assert run("stability", tmp_path / "x.npy", "-k", 2, "-o", tmp_path / "thesis") == 2
    assert "thesis: holds files that are not such results; use a different folder" in capsys.readouterr().err
    assert run("align", tmp_path / "nowhere", tmp_path, "-o", tmp_path / "out") == 2
    assert "nowhere: no such file" in capsys.readouterr().err


# c_v, and many fits in one table


def running_texts() -> list[list[str]]:
    rng = np.random.default_rng(0)
    words = [f"w{i:02d}" for i in range(60)]

    def word(topic: int) -> str:
        return words[15 * topic + int(rng.integers(15)) if rng.random() < 0.8 else int(rng.integers(60))]

    return [
        [word(int(k)) for k in rng.choice(4, size, p=rng.dirichlet(np.full(4, 0.2)))]
        for size in rng.integers(5, 400, 60)
    ]


@pytest.fixture(scope="module")
def read() -> tuple[um.Counts, um.Fit, list[list[str]]]:
    texts = running_texts()
    X = um.read_texts(texts, min_df=1, max_df=1.0)
    return X, um.TopicModel(4, random_state=0, tol=1e-3).fit(X).result_, texts


@pytest.mark.parametrize("window", [110, 10])
def test_c_v_is_that_of_gensim(read, window) -> None:
    models = pytest.importorskip("gensim.models.coherencemodel")
    X, fit, texts = read
    names = [[X.features[j] for j in np.argsort(-fit.topics[:, k], kind="stable")[:8]] for k in range(4)]
    from gensim.corpora import Dictionary

    about = {"dictionary": Dictionary(texts), "coherence": "c_v", "processes": 1, "window_size": window}
    theirs = models.CoherenceModel(topics=names, texts=texts, **about).get_coherence_per_topic()
    ours = um.coherence(fit, X, top=8, texts=texts, window=window)["c_v"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_c_v_of_given_words_is_what_gensim_4_4_computed(read) -> None:
    X, _, texts = read
    F = np.full((60, 2), 1e-6)
    for k, features in enumerate((range(6), range(12, 18))):
        F[list(features), k] = np.arange(6, 0, -1)
    fit = um.TopicModel.from_factors(F, features=X.features).result_
    table = um.coherence(fit, X, top=6, texts=texts)
    assert [X.features[j] for j in (0, 5, 12, 17)] == ["w00", "w05", "w12", "w17"]
    np.testing.assert_allclose(table["c_v"], FROM_GENSIM, rtol=1e-9)
    joined = [" ".join(text) for text in texts]
    np.testing.assert_allclose(um.coherence(fit, X, top=6, texts=joined)["c_v"], FROM_GENSIM, rtol=1e-9)
    assert "c_v" not in um.coherence(fit, X, top=6)
    assert um.coherence(fit, X, top=6, texts=[["other"]])["c_v"].isna().all()


FROM_GENSIM = [0.5192961803695891, 0.40828069761495206]


@pytest.mark.filterwarnings("ignore:.*had none of these topics")
def test_many_fits_in_one_table(tmp_path) -> None:
    X = um.datasets.correlated_topics("A")
    one = um.TopicModel(4, tol=1e-3, random_state=0).fit(X)
    two = um.LDA(4, init=one.result_, max_iter=5, tol=0).fit(X).result_
    one.result_.save(tmp_path / "one.safetensors")
    table = um.analysis.fit_table(
        {"ml": tmp_path / "one.safetensors", "lda": two, "three": one.result_.select([3, 1, 2])}, X
    )
    assert table["fit"].tolist() == ["ml", "lda", "three"]
    assert table["model"].tolist() == ["TopicModel", "LDA", "TopicModel"]
    assert table["topics"].tolist() == [4, 4, 3]
    np.testing.assert_allclose(table["likeness"].iloc[[0, 2]], [1, 1 - one.result_.shares[3]], rtol=1e-9)
    assert table["npmi"].iloc[0] == pytest.approx(um.coherence(one, X)["npmi"].mean())
    with pytest.raises(ValueError, match="0 fits given; use at least 1"):
        um.analysis.fit_table([])
