"""What the data leave open: ranges of proportions and topics at the same rates."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import unmix as um
from unmix.analysis.freedom import paid, room
from unmix.analysis.transformations import SIDES, Point, Region, Target, explored, spread_rows
from unmix.base.progress import Step, watching
from unmix.cli import main
from unmix.fit import Fit
from unmix.models.problem import Problem


def fit_of(L: np.ndarray, F: np.ndarray, **more: Any) -> Fit:
    """Factors as a fit; of no data, as freedom needs none."""
    trace = pd.DataFrame({"iteration": [0], "kkt": [0.0]})
    return Fit(L=L, F=F, trace=trace, status="converged", loglik=0.0, **more)


def open_fit(K: int, seed: int = 0, n: int = 10, m: int = 12) -> Fit:
    """Neither pure samples nor zeros: something is left open."""
    rng = np.random.default_rng(seed)
    return fit_of(100 * (rng.dirichlet(np.ones(K), n) + 0.1 / K), rng.dirichlet(np.full(m, 0.5), K).T + 0.1 / m)


def line(fit: Fit) -> dict[str, np.ndarray]:
    """Two topics lie on a line, at 1 and at 0; samples at p between them. The first may be anywhere from the furthest sample to
    where a feature would become negative, the second likewise on the other side, one regardless of the other."""
    p, (f, g) = fit.proportions[:, 0], fit.topics.T
    ends_1 = p.max(), (g[g > f] / (g - f)[g > f]).min()
    ends_0 = -(g[f > g] / (f - g)[f > g]).min(), p.min()
    corners = [((p - b) / (a - b), a * f + (1 - a) * g, b * f + (1 - b) * g) for a, b in product(ends_1, ends_0)]
    shares = np.array([[share, 1 - share] for share, _, _ in corners]).swapaxes(1, 2)
    topics = np.array([[one, two] for _, one, two in corners]).swapaxes(1, 2)
    return {
        "low": shares.min(axis=0),
        "high": shares.max(axis=0),
        "topics_low": topics.min(axis=0),
        "topics_high": topics.max(axis=0),
    }


@given(seed=st.integers(0, 2**32 - 1), zeros=st.booleans())
@examples(12)
def test_of_two_topics_the_ranges_are_those_of_the_closed_form(seed: int, zeros: bool) -> None:
    fit = open_fit(2, seed, n=9, m=12)
    if zeros:
        F = fit.F.copy()
        F[np.random.default_rng(seed).integers(len(F)), 0] = 0
        fit = replace(fit, F=F)
    found = um.freedom(fit)
    for name, expected in line(fit).items():
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_with_a_pure_sample_and_an_own_feature_for_every_topic_nothing_is_left_open(K: int) -> None:
    fit = open_fit(K)
    L, F = np.vstack([10 * np.eye(K), fit.L]), np.vstack([0.1 * np.eye(K), fit.F])
    found = um.freedom(fit_of(L, F))
    assert len(found.transformations) == 1
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.topics_low, found.topics_high)
    assert "the solution is identified" in found.advice()[0]


def test_pure_samples_alone_do_not_decide() -> None:
    fit = open_fit(3)
    found = um.freedom(fit_of(np.vstack([10 * np.eye(3), fit.L]), fit.F))
    assert found.width[3:].max() > 0.05


@pytest.mark.parametrize(("K", "seed"), [(3, 0), (3, 1), (4, 2)])
def test_every_end_is_a_fit_with_the_same_rates_and_factors_that_are_not_negative(K: int, seed: int) -> None:
    fit = open_fit(K, seed)
    found = um.freedom(fit, probes=3)
    rates = fit.L @ fit.F.T
    assert len(found.transformations) > K
    for A in found.transformations:
        P, F = fit.proportions @ A, fit.topics @ np.linalg.inv(A).T
        assert min(P.min(), F.min()) > -1e-11
        np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-10)
    for sample, topic, end in product((0, 7), range(1, K + 1), ("low", "high")):
        other = found.end(fit, sample, topic, end)
        assert min(other.L.min(), other.F.min()) >= 0
        np.testing.assert_allclose(other.L @ other.F.T, rates, rtol=0, atol=1e-9 * rates.max())
        assert other.proportions[sample, topic - 1] == pytest.approx(getattr(found, end)[sample, topic - 1], abs=1e-9)


def allowed_at_random(fit: Fit, rng: np.random.Generator, most: int) -> list[np.ndarray]:
    """Transformations found by wandering: a random row or column of A is changed, and kept where nothing becomes negative."""
    A, kept = np.eye(fit.n_topics), []
    for _ in range(most):
        step = np.zeros_like(A)
        step[rng.integers(len(A))] = rng.standard_normal(len(A)) * 10 ** rng.uniform(-3, -0.5)
        step = step if rng.uniform() < 0.5 else step.T
        new = A @ (np.eye(len(A)) + step - np.diag(step.sum(axis=1)))
        if abs(np.linalg.det(new)) > 1e-3:
            P, F = fit.proportions @ new, fit.topics @ np.linalg.inv(new).T
            if min(P.min(), F.min()) >= 0:
                A = new
                kept.append(P)
    return kept


@pytest.mark.parametrize("seed", [0, 1])
def test_no_wandering_among_allowed_transformations_leaves_the_ranges(seed: int) -> None:
    fit = open_fit(3, seed)
    found = um.freedom(fit)
    seen = np.array(allowed_at_random(fit, np.random.default_rng(seed), 6000))
    assert len(seen) > 500
    assert (seen.min(axis=0) >= found.low - 1e-9).all()
    assert (seen.max(axis=0) <= found.high + 1e-9).all()
    assert np.ptp(seen, axis=0).mean() > 0.4 * found.width.mean()  # or the test would be easy


def test_ranges_hold_the_fits_of_other_starts_with_the_same_likelihood() -> None:
    truth = open_fit(3, 5, n=12, m=30)
    X = np.random.default_rng(0).poisson(40 * truth.L @ truth.F.T)
    fits = [um.PoissonNMF(3, init="random", random_state=s, tol=1e-11, max_iter=5000).fit(X).result_ for s in range(4)]
    found = um.freedom(fits[0])
    near = [fit for fit in fits[1:] if abs(fit.loglik - fits[0].loglik) < 1e-5]
    assert near
    for fit in near:
        places = um.analysis.match_topics(fits[0], fit)
        shares = fit.proportions[:, [places[k] for k in range(3)]]
        assert (shares >= found.low - 1e-3).all()
        assert (shares <= found.high + 1e-3).all()
    assert np.abs(near[0].proportions - fits[0].proportions).max() > 1e-3


def test_a_topic_renamed_is_a_range_renamed() -> None:
    fit, order = open_fit(3), [2, 0, 1]
    one, two = um.freedom(fit), um.freedom(fit_of(fit.L[:, order], fit.F[:, order]))
    np.testing.assert_allclose(two.low, one.low[:, order], atol=2e-3)  # local optima, sought in another order
    np.testing.assert_allclose(two.high, one.high[:, order], atol=2e-3)


def test_scales_of_topics_do_not_matter() -> None:
    fit, scale = open_fit(3), np.array([0.1, 3.0, 40.0])
    one, two = um.freedom(fit, probes=3), um.freedom(fit_of(fit.L * scale, fit.F / scale), probes=3)
    np.testing.assert_allclose(two.low, one.low, atol=1e-7)


def test_a_local_optimum_is_known_by_the_constraints_that_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = open_fit(3, 4)
    region = Region(fit.proportions, fit.topics / fit.topics.sum(axis=1, keepdims=True))
    target = Target(0, 2, 1, 1)
    end = region.furthest(region.identity, target)
    assert not region.is_furthest(region.identity, target)
    assert region.is_furthest(end, target)
    monkeypatch.delattr("unmix.analysis.transformations.linprog")  # so no further program is solved
    assert explored(region, [target], [region.identity, end])[1] is end


def test_constraints_are_taken_up_when_they_are_broken_and_few_are() -> None:
    fit = open_fit(3, 1, n=400, m=600)
    region = Region(fit.proportions, fit.topics / fit.topics.sum(axis=1, keepdims=True))
    end = region.furthest(region.identity, Target(0, 5, 0, 1))
    shares = fit.proportions @ end.A, fit.topics @ end.V.T
    assert min(part.min() for part in shares) > -1e-11
    assert sum(len(region.working[side]) for side in SIDES) < 100


def test_others_than_the_probed_get_ends_too_and_what_they_miss_is_told() -> None:
    fit = open_fit(3, 2, n=30, m=30)
    few, all_of_them = um.freedom(fit, probes=8), um.freedom(fit, probes=30)
    assert all_of_them.missed == 0
    assert (few.low >= all_of_them.low - 5e-3).all()
    assert few.width.mean() > 0.95 * all_of_them.width.mean()
    assert 0 <= few.missed < 0.1


def test_spread_rows_begins_with_the_purest_and_never_repeats() -> None:
    shares = np.array([[0.5, 0.5], [1, 0], [0, 1], [1, 0], [0.9, 0.1]])
    assert spread_rows(shares, 10).tolist() == [1, 2, 0, 4]
    assert spread_rows(shares, 2).tolist() == [1, 2]


def test_empty_samples_unused_features_and_dead_topics_stay_as_they_are() -> None:
    fit = open_fit(3)
    L = np.column_stack([np.vstack([fit.L, np.zeros(3)]), np.zeros(len(fit.L) + 1)])
    F = np.column_stack([np.vstack([fit.F, np.zeros(3)]), np.full(len(fit.F) + 1, 0.1)])
    whole, without = um.freedom(fit_of(L, F), probes=3), um.freedom(fit, probes=3)
    np.testing.assert_allclose(whole.low[:-1, :3], without.low, atol=1e-9)
    np.testing.assert_array_equal(whole.low[-1], whole.high[-1])
    assert (whole.topics_high[-1, :3] == 0).all()
    assert whole.table["widest"].iloc[3] == 0


def test_one_topic_has_no_freedom() -> None:
    assert um.freedom(open_fit(1)).width.max() == 0


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    found = um.freedom(open_fit(2, n=5, m=6, seed=3))
    found.save(tmp_path / "ranges")
    loaded = um.Freedom.load(tmp_path / "ranges")
    for name in ("low", "high", "topics_low", "topics_high", "transformations", "changes"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(found, name))
    assert loaded.advice() == found.advice()


def test_ctrl_c_keeps_finished_topics_and_the_same_call_goes_on(tmp_path: Path) -> None:
    fit, told = open_fit(3), []

    def stop(step: Step) -> None:
        told.append((step.done, step.of))
        if len(told) == 2:
            raise KeyboardInterrupt

    with watching(stop):
        first = um.freedom(fit, probes=3, checkpoint=tmp_path / "parts", verbose=True)
    assert first.status == "interrupted"
    assert "interrupted" in first.advice()[0]
    assert first.width.mean() > 0
    with watching(stop):
        second = um.freedom(fit, probes=3, checkpoint=tmp_path / "parts", verbose=True)
    assert told[2] == (2, 3)
    np.testing.assert_array_equal(second.low, um.freedom(fit, probes=3).low)
    with pytest.raises(ValueError, match="other data"):
        um.freedom(open_fit(3, 9), probes=3, checkpoint=tmp_path / "parts")


def test_ctrl_c_in_the_second_round_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = open_fit(2)
    whole, calls = um.freedom(fit, probes=2), []

    def once(region: Region, targets: list[Target], found: list[Point]) -> list[Point]:
        calls.append(len(targets))
        if len(calls) > 2:
            raise KeyboardInterrupt
        return explored(region, targets, found)

    monkeypatch.setattr(import_module("unmix.analysis.freedom"), "explored", once)
    found = um.freedom(fit, probes=2)
    assert found.status == "interrupted"
    np.testing.assert_allclose(found.high, whole.high, atol=1e-6)


def test_the_table_names_the_widest_sample_and_advice_names_the_topic() -> None:
    fit = replace(open_fit(3), samples=np.array([f"s{i}" for i in range(10)]))
    found = um.freedom(fit, probes=3)
    widest = found.table.loc[found.table["mean_width"].idxmax()]
    assert widest["sample"] == f"s{found.width[:, int(widest['topic']) - 1].argmax()}"
    assert f"topic {widest['topic']}" in found.advice()[0]
    assert repr(found).startswith("Freedom(10 samples, 3 topics, mean width 0.")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit, found: um.freedom(fit, probes=0), "probes=0"),
        (lambda fit, found: found.end(open_fit(3, n=4), 0, 1, "low"), "use the fit they are of"),
        (lambda fit, found: found.end(fit, 0, 4, "low"), "there is no topic 4"),
        (lambda fit, found: replace(found, loss=2.0).end(fit, 0, 1, "low"), "not kept as fits"),
        (lambda fit, found: um.freedom(fit, loss=-1), "loss=-1"),
        (lambda fit, found: um.freedom(fit, loss=2), "use X"),
        (lambda fit, found: um.freedom(fit, np.ones((2, 2)), loss=2), "X has 2 samples and the model has 10"),
        (lambda fit, found: found.end(fit, 0, 1, "lowest"), "end='lowest'"),
        (lambda fit, found: um.freedom(fit_of(0 * fit.L, fit.F)), "no counts to explain"),
    ],
)
def test_bad_input_is_refused_in_words(call: Any, message: str) -> None:
    fit = open_fit(2)
    with pytest.raises(ValueError, match=message):
        call(fit, um.freedom(fit))


def test_a_point_is_its_inverse_too() -> None:
    point = Point.of(np.array([[0.5, 0.5], [0.25, 0.75]]))
    np.testing.assert_allclose(point.A @ point.V, np.eye(2), atol=1e-14)


@pytest.fixture(scope="module")
def counted() -> tuple[np.ndarray, Fit]:
    """Counts and their fit, which leaves a little open."""
    truth = open_fit(2, 3, n=8, m=12)
    X = np.random.default_rng(1).poisson(4 * truth.L @ truth.F.T)
    return X, um.PoissonNMF(2, random_state=0, tol=1e-10, max_iter=2000).fit(X).result_


def test_a_higher_price_leaves_more_open(counted: tuple[np.ndarray, Fit]) -> None:
    X, fit = counted
    widths = [um.freedom(fit, X, loss=loss, probes=3).width.mean() for loss in (0, 0.5, 5)]
    assert widths[0] + 1e-3 < widths[1] < widths[2] - 1e-3


def test_what_is_paid_for_costs_no_more_than_the_loss_and_is_not_negative(counted: tuple[np.ndarray, Fit]) -> None:
    X, fit = counted
    problem = Problem(um.Counts(X), 2)
    samples, features = room(um.Counts(X), fit.proportions, fit.topics, fit.sizes, 2.0)
    G = fit.topics / fit.topics.sum(axis=1, keepdims=True)
    region = Region(fit.proportions, G, (samples, features))
    end = region.furthest(region.identity, Target(0, 0, 0, 1))
    assert min((fit.proportions @ end.A).min(), (G @ end.V.T).min()) < -1e-3  # something is to be paid
    pair = paid(problem, fit, end, problem.loss(fit.L, fit.F) + 2.0)
    assert pair is not None
    P, F = pair
    assert min(P.min(), F.min()) >= 0
    best = um.loglik(X, *um.topics_to_poisson(P, F, X.sum(axis=1)))
    assert best >= fit.loglik - 2.0 - 1e-6


def test_the_room_of_a_proportion_is_what_the_likelihood_says_of_it(counted: tuple[np.ndarray, Fit]) -> None:
    X, fit = counted
    i = int((fit.proportions**2).sum(axis=1).argmin())  # the most mixed sample
    far = room(um.Counts(X), fit.proportions, fit.topics, fit.sizes, 0.01)[0][i, 0]

    def loss(p: np.ndarray) -> float:
        rates = fit.sizes[i] * fit.topics @ p
        return float(rates.sum() - X[i] @ np.log(rates))

    moved = fit.proportions[i] - [far, 0]
    cheapest = minimize_scalar(
        lambda t: loss(moved + np.array([0, t])), bounds=(-0.2, 0.2), method="bounded", options={"xatol": 1e-9}
    )
    assert cheapest.fun - loss(fit.proportions[i]) == pytest.approx(0.01, rel=0.1)


def test_the_command_writes_every_range_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = replace(open_fit(2), samples=np.array([f"s{i}" for i in range(10)]))
    fit.save(tmp_path / "model.safetensors")
    table, picture = tmp_path / "ranges.csv", tmp_path / "ranges.png"
    with pytest.raises(SystemExit) as exit:
        main(["freedom", str(tmp_path), "-o", str(table), "-o", str(picture)])
    assert exit.value.code == 0
    written, found = pd.read_csv(table), um.freedom(fit)
    assert written.columns.to_list() == ["sample", "topic", "proportion", "low", "high"]
    np.testing.assert_allclose(written["high"].to_numpy().reshape(10, 2), found.high, atol=1e-9)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "mean width" in capsys.readouterr().out


def test_the_command_takes_a_price_with_the_counts(
    tmp_path: Path, counted: tuple[np.ndarray, Fit], capsys: pytest.CaptureFixture[str]
) -> None:
    X, fit = counted
    names = {"samples": np.array([f"s{i}" for i in range(8)]), "features": np.array([f"f{j}" for j in range(12)])}
    replace(fit, **names).save(tmp_path / "model.safetensors")
    pd.DataFrame(X, index=names["samples"], columns=names["features"]).to_csv(tmp_path / "counts.csv")
    command = ["freedom", str(tmp_path), "-o", str(tmp_path / "ranges.csv"), "--loss", "2", "--probes", "1"]
    with pytest.raises(SystemExit) as exit:
        main([*command, "--counts", str(tmp_path / "counts.csv")])
    assert exit.value.code == 0
    assert "for 2 units of log-likelihood" in capsys.readouterr().err
    pd.DataFrame(X.T, index=names["features"], columns=names["samples"]).to_csv(tmp_path / "turned.csv")
    with pytest.raises(SystemExit) as exit:  # INPUT of --counts has the options of every INPUT
        main([*command, "--counts", str(tmp_path / "turned.csv"), "--transpose"])
    assert exit.value.code == 0
    with pytest.raises(SystemExit) as exit:
        main([*command, "--counts", str(tmp_path / "counts.csv"), "--layer", "raw"])
    assert "--layer raw does not apply to a .csv file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit:
        main(command)
    assert exit.value.code == 2
    assert "--counts" in capsys.readouterr().err


def test_the_command_refuses_what_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_fit(2).save(tmp_path / "model.safetensors")
    with pytest.raises(SystemExit) as exit:
        main(["freedom", str(tmp_path), "-o", str(tmp_path / "ranges.txt")])
    assert exit.value.code == 2
    assert ".csv" in capsys.readouterr().err


def test_a_picture_has_a_lane_a_topic_with_a_pale_part_from_low_to_high() -> None:
    fit = open_fit(3)
    found = um.freedom(fit, probes=2)
    panels = um.plot.freedom(found, fit, order=np.arange(10))
    assert len(panels) == 3
    heaviest = int(um.plot.topic_order(fit)[0])
    _, pale = panels[0].collections
    corners = pale.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(found.high[:, heaviest].max())
    assert len(um.plot.freedom(found, fit, topics=2)) == 1
    with pytest.raises(ValueError, match="use the fit they are of"):
        um.plot.freedom(found, open_fit(3, n=4))
    with pytest.raises(ValueError, match="order"):
        um.plot.freedom(found, fit, order=["a"] * 10)


def test_a_fit_of_small_data_says_itself_that_much_is_open_unless_a_prior_decides() -> None:
    truth = open_fit(3, 5, n=12, m=30)
    X = np.random.default_rng(0).poisson(40 * truth.L @ truth.F.T)
    fit = um.PoissonNMF(3, random_state=0, tol=1e-8).fit(X).result_
    said = [sentence for sentence in fit.advice() if "unmix.freedom(fit)" in sentence]
    assert len(said) == 1
    topic = int(said[0].split("topic ")[1].split(" ")[0])
    assert um.freedom(fit, probes=4).table["widest"][topic - 1] >= 0.05
    prior = um.Gamma(1.5, 1.0)
    assert not any("freedom" in text for text in um.PoissonNMF(3, random_state=0, prior=prior).fit(X).result_.advice())
    assert not any("freedom" in text for text in um.LDA(3, random_state=0).fit(X).result_.advice())
