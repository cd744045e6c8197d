"""PoissonNMF and TopicModel keep scikit-learn's conventions, give one answer for one question, and explain what is wrong."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import ARRAY_TYPES, random_counts, random_start
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import unmix as um
from unmix.solvers import EM, SCD, Alternate, Extrapolate

ESTIMATORS = [um.PoissonNMF, um.TopicModel]
X0 = random_counts(30, 25, K=3, seed=4)
START = L0, F0 = random_start(30, 25, 3)


@pytest.fixture(params=ESTIMATORS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[um.PoissonNMF]:
    return request.param


# --- scikit-learn ----------------------------------------------------------------------------------------------------


WHOLE = [
    um.PoissonNMF(2),
    um.TopicModel(2),
    um.SparsePoissonNMF(2),
    um.LDA(2),
    um.GammaPoisson(2),
    um.BayesianPoissonNMF(2),
    um.AllocationModel(2, max_iter=20),
]
VARIANTS = [
    um.TopicModel(2, solver="em", extrapolate=False),
    um.TopicModel(2, loadings_prior=um.Dirichlet(1.1)),
    um.PoissonNMF(2, loadings_prior=um.Gamma(1.1)),
    um.SparsePoissonNMF(2, norm="l1"),
    um.LDA(2, alpha="auto", eta=0.5, max_iter=50),
    um.AllocationModel(2, method="gibbs", sweeps=6, burn_in=2, thin=2),
    um.AllocationModel(2, method="icm", max_iter=20),
]
CHOSEN = {  # which concern what a variant computes
    "check_dict_unchanged",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_fit2d_1sample",
    "check_methods_sample_order_invariance",
    "check_transformer_general",
}
QUIET = [
    pytest.mark.filterwarnings("ignore:with norm=.l1. the penalty only divides:UserWarning"),
    pytest.mark.filterwarnings("ignore:not converged after:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_components=2 is more than:UserWarning"),
]


def checks(models: list[Any], chosen: set[str] | None = None) -> list[Any]:
    pairs = [pair for model in models for pair in estimator_checks_generator(model)]
    named = [(model, check, check.func.__name__) for model, check in pairs]
    wanted = [row for row in named if chosen is None or (row[2] in chosen and not row[1].keywords)]
    return [pytest.param(model, check, marks=QUIET, id=f"{model}-{name}") for model, check, name in wanted]


@pytest.mark.parametrize(("estimator", "check"), [*checks(WHOLE), *checks(VARIANTS, CHOSEN)])
def test_scikit_learns_own_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default start of the allocation model is the same search, of two short candidates: it made two thirds of the time."""
    monkeypatch.setattr("unmix.estimators.allocation.CANDIDATES", 2)
    monkeypatch.setattr("unmix.estimators.allocation.JUDGED", 5)
    check(estimator)


def test_every_variant_is_held_to_the_chosen_checks() -> None:
    assert len(checks(VARIANTS, CHOSEN)) == len(VARIANTS) * len(CHOSEN)


def test_clone_keeps_all_parameters(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, solver=SCD(sweeps=2), init=START, prior=um.Gamma(np.full((25, 1), 2.0)), tol=1e-3)
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert copy.solver == SCD(sweeps=2)
    assert not hasattr(clone(model.fit(X0)), "result_")


def test_fitting_changes_no_parameter(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0)
    before = model.get_params()
    model.fit(X0)
    assert model.get_params() == before


def test_features_out_are_named_as_topics_are_in_every_table(kind: type[um.PoissonNMF]) -> None:
    names = kind(3, random_state=0).fit(X0).get_feature_names_out()
    assert names.tolist() == ["topic 1", "topic 2", "topic 3"]


def test_output_can_be_a_frame(kind: type[um.PoissonNMF]) -> None:
    frame = pd.DataFrame(X0, index=[f"s{i}" for i in range(30)], columns=[f"f{j}" for j in range(25)])
    model = kind(3, random_state=0).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert out.index.tolist() == frame.index.tolist()
    assert out.columns.tolist() == model.get_feature_names_out().tolist()
    plain = kind(3, random_state=0).fit(frame).transform(frame)
    np.testing.assert_array_equal(out.to_numpy(), plain)


def test_feature_names_are_remembered_and_checked(kind: type[um.PoissonNMF]) -> None:
    frame = pd.DataFrame(X0, columns=[f"f{j}" for j in range(25)])
    model = kind(3, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.result_.features.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"f3": "other"}))


def test_a_pickled_model_works_as_before(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(X0)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X0), model.transform(X0))
    assert again.result_.loglik == model.result_.loglik


def test_a_model_is_a_step_of_a_pipeline(kind: type[um.PoissonNMF]) -> None:
    pipeline = make_pipeline(FunctionTransformer(lambda X: 2 * X), kind(3, random_state=0))
    assert pipeline.fit(X0).transform(X0).shape == (30, 3)
    assert np.isfinite(pipeline.score(X0))


def test_unfitted_models_say_so(kind: type[um.PoissonNMF]) -> None:
    model = kind(3)
    for use in (model.transform, model.score, model.inverse_transform):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            use(X0)
    with pytest.raises(NotFittedError):
        _ = model.components_


def test_parameters_are_those_promised(kind: type[um.PoissonNMF]) -> None:
    promised = (
        "n_components solver extrapolate init n_init prefit max_iter tol refine prior loadings_prior known known_weight seeds "
        "seed_weight new batch_prior online n_jobs dtype random_state verbose callbacks"
    )
    signature = inspect.signature(kind)
    assert list(signature.parameters) == promised.split()
    by_name = [name for name, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert by_name == promised.split()[1:]
    defaults = {name: p.default for name, p in signature.parameters.items()}
    assert defaults["solver"] in ("scd", "newton")
    want = {
        "n_components": 10,
        "extrapolate": True,
        "init": "auto",
        "refine": 0,
        "prior": None,
        "online": None,
        "n_jobs": None,
        "dtype": "float64",
        "random_state": None,
        "verbose": False,
        "callbacks": (),
    }
    assert {name: defaults[name] for name in want} == want


# --- results ---------------------------------------------------------------------------------------------------------


def test_components_and_loadings_are_the_fit_read_both_ways() -> None:
    nmf = um.PoissonNMF(3, init=START, prefit=5, tol=0, max_iter=50).fit(X0)
    topics = um.TopicModel(3, init=START, prefit=5, tol=0, max_iter=50).fit(X0)
    np.testing.assert_array_equal(nmf.result_.L, topics.result_.L)
    np.testing.assert_array_equal(nmf.components_, nmf.result_.F.T)
    np.testing.assert_allclose(topics.components_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(topics.components_, topics.result_.topics.T)
    proportions = topics.transform(X0)
    np.testing.assert_allclose(proportions.sum(axis=1), 1, rtol=1e-12)
    want = um.poisson_to_topics(nmf.transform(X0), nmf.result_.F)[0]
    np.testing.assert_allclose(proportions, want, rtol=1e-12)


def test_fit_transform_is_fit_then_transform(kind: type[um.PoissonNMF]) -> None:
    options = {"n_components": 3, "random_state": 0}
    np.testing.assert_array_equal(kind(**options).fit_transform(X0), kind(**options).fit(X0).transform(X0))


def test_transform_of_the_fitted_samples_is_close_to_the_fit() -> None:
    model = um.TopicModel(3, random_state=0, tol=0, max_iter=2000).fit(X0)
    np.testing.assert_allclose(model.transform(X0), model.result_.proportions, atol=1e-3)


def test_transform_treats_every_sample_alone(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(X0)
    together = model.transform(X0)
    np.testing.assert_allclose(np.vstack([model.transform(X0[[i]]) for i in range(30)]), together, rtol=1e-12)


def test_score_is_the_mean_loglik_of_held_out_counts(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(X0)
    hidden, shown = um.Counts(X0).thinned((0.5, 0.5), np.random.default_rng(0))
    rates = model.inverse_transform(model.transform(shown))
    chances = rates / rates.sum(axis=1, keepdims=True)
    hidden = hidden.csr.toarray()
    totals = hidden.sum()
    everywhere = model.result_.F @ model.result_.L.sum(axis=0) + 0.5
    mixed = 0.9 * chances + 0.1 * everywhere / everywhere.sum()
    assert model.score(X0, smoothing=0.1) == pytest.approx(xlogy(hidden, mixed).sum() / totals, rel=1e-9)
    assert model.score(X0, smoothing=0) == pytest.approx(xlogy(hidden, chances).sum() / totals, rel=1e-9)
    assert model.score(X0) == -np.log(model.perplexity(X0)) == model.score(X0)
    assert model.score(X0 + 1e-12) == model.score(X0)  # fractions are rounded


def test_score_prefers_the_model_of_the_data(kind: type[um.PoissonNMF]) -> None:
    other = random_counts(30, 25, K=3, seed=5)
    assert kind(3, random_state=0).fit(X0).score(X0) > kind(3, random_state=0).fit(other).score(X0)


def test_inverse_transform_gives_expected_counts_or_chances() -> None:
    nmf = um.PoissonNMF(3, init=START, tol=0, max_iter=500).fit(X0)
    expected = nmf.inverse_transform(nmf.transform(X0))
    np.testing.assert_allclose(expected.sum(axis=1), X0.sum(axis=1), rtol=1e-6)
    chances = um.TopicModel(3, init=START, tol=0, max_iter=500).fit(X0)
    np.testing.assert_allclose(chances.inverse_transform(chances.transform(X0)).sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_every_array_type_gives_the_same_result(name: str, kind: type[um.PoissonNMF]) -> None:
    options = {"n_components": 3, "max_iter": 15, "tol": 0, "random_state": 0}
    want = kind(**options).fit(X0)
    data = ARRAY_TYPES[name](X0)
    got = kind(**options).fit(data)
    assert got.result_.L.tobytes() == want.result_.L.tobytes()
    assert got.result_.F.tobytes() == want.result_.F.tobytes()
    np.testing.assert_array_equal(got.transform(data), want.transform(X0))
    assert got.score(data) == want.score(X0)


@pytest.mark.parametrize("solver", ["newton", "scd", "em", "joint", "plsi"])
def test_any_number_of_threads_gives_the_same_bytes(solver: str) -> None:
    X = um.datasets.correlated_topics("A", seed=0)
    dtype = "float32" if solver == "scd" else "float64"
    options: dict[str, Any] = {"max_iter": 15, "tol": 0, "refine": 1, "random_state": 0, "dtype": dtype}
    one, three = (um.PoissonNMF(6, solver=solver, n_jobs=threads, **options).fit(X).result_ for threads in (1, 3))
    assert one.L.tobytes() == three.L.tobytes()
    assert one.F.tobytes() == three.F.tobytes()
    assert one.loglik == three.loglik


@pytest.mark.parametrize("init", ["auto", "random", "topic-score"])
def test_a_seed_decides_everything(init: str) -> None:
    fits = [um.PoissonNMF(4, init=init, max_iter=10, tol=0, random_state=seed).fit(X0).result_ for seed in (7, 7)]
    assert fits[0].L.tobytes() == fits[1].L.tobytes()
    other = um.PoissonNMF(4, init="random", max_iter=10, tol=0, random_state=8).fit(X0).result_
    assert fits[0].L.tobytes() != other.L.tobytes()


@pytest.mark.parametrize("random_state", [np.random.default_rng(0), np.random.RandomState(0), np.int64(3), None])
def test_every_kind_of_random_state_works(random_state: Any) -> None:
    assert um.PoissonNMF(3, random_state=random_state).fit(X0).result_.status == "converged"


@pytest.mark.parametrize("solver", ["em", "scd", "ccd", "sn", "newton", "joint", "plsi", "normalized"])
def test_every_solver_has_its_name(solver: str) -> None:
    fit = um.PoissonNMF(3, solver=solver, init=START, max_iter=5, tol=0).fit(X0).result_
    assert fit.loglik > um.loglik(X0, *START)
    assert fit.params["solver"] == solver


@pytest.mark.parametrize("solver", [SCD(sweeps=2), EM(steps=3), Extrapolate(SCD()), Alternate(EM())], ids=repr)
def test_solver_objects_work(solver: Any) -> None:
    fit = um.PoissonNMF(3, solver=solver, init=START, max_iter=5, tol=0).fit(X0).result_
    assert fit.loglik > um.loglik(X0, *START)


def test_single_precision_is_stored_and_nearly_as_good() -> None:
    double = um.PoissonNMF(3, init=START, max_iter=100, tol=0).fit(X0).result_
    single = um.PoissonNMF(3, init=START, max_iter=100, tol=0, dtype="float32").fit(X0)
    fit = single.result_
    assert (fit.L.dtype, fit.F.dtype) == (np.float32, np.float32)
    assert fit.loglik == pytest.approx(double.loglik, rel=1e-5)
    assert um.loglik(X0, fit.L, fit.F) == pytest.approx(fit.loglik, rel=1e-6)
    np.testing.assert_allclose(single.transform(X0) @ single.components_, fit.L @ fit.F.T, rtol=1e-2, atol=1e-2)


def test_a_prior_pulls_topics_together() -> None:
    def spread(prior: um.Gamma | None) -> float:
        topics = um.TopicModel(3, init=START, prior=prior, max_iter=2000).fit(X0).result_.topics
        return float(np.std(np.log(np.maximum(topics, 1e-9))))

    assert spread(None) > spread(um.Gamma(1.5)) > spread(um.Gamma(10.0))


def test_the_rate_of_the_prior_moves_only_the_scale() -> None:
    fits = [
        um.TopicModel(3, init=START, prior=um.Gamma(2.0, rate), tol=0, max_iter=300).fit(X0).result_
        for rate in (1.0, 50.0)
    ]
    np.testing.assert_allclose(fits[0].topics, fits[1].topics, rtol=1e-5)
    np.testing.assert_allclose(fits[0].proportions, fits[1].proportions, rtol=1e-5, atol=1e-9)


def test_topics_come_heaviest_first_unless_the_start_was_given() -> None:
    shares = um.TopicModel(4, random_state=0).fit(X0).result_.shares
    assert (np.diff(shares) <= 1e-12).all()
    options = {"solver": "em", "extrapolate": False, "tol": 0, "max_iter": 20}
    topics = um.PoissonNMF(3, init=START, **options).fit(X0).result_.topics
    for order in ([2, 0, 1], [1, 2, 0]):
        moved = um.PoissonNMF(3, init=(L0[:, order], F0[:, order]), **options).fit(X0).result_
        np.testing.assert_allclose(moved.topics, topics[:, order], rtol=1e-9)


def test_verbose_shows_a_bar_and_leaves_the_result_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)  # else nothing is drawn, for want of a terminal
    monkeypatch.setattr("unmix.base.progress.is_live", lambda: True)
    quiet = um.PoissonNMF(3, init=START, max_iter=5, tol=0).fit(X0).result_
    assert capsys.readouterr() == ("", "")
    shown = um.PoissonNMF(3, init=START, max_iter=5, tol=0, verbose=True).fit(X0).result_
    told = capsys.readouterr()
    assert shown.L.tobytes() == quiet.L.tobytes()
    assert shown.F.tobytes() == quiet.F.tobytes()
    assert f"{len(quiet.trace) - 1} it · {quiet.trace['objective'].iloc[-1]:,.2f}" in told.err
    assert told.out == ""  # so that results can be piped


# --- gaps ------------------------------------------------------------------------------------------------------------

GAPS = X0.copy()
GAPS[[3, 8]] = 0
GAPS[:, [0, 20]] = 0


@pytest.mark.parametrize("init", ["auto", "random", "topic-score", "pair"])
@pytest.mark.parametrize("solver", ["newton", "scd", "em", "joint", "plsi", "normalized"])
def test_empty_samples_and_features_get_nothing_and_keep_their_place(solver: str, init: str) -> None:
    start: Any = START if init == "pair" else init
    nmf = um.PoissonNMF(3, solver=solver, init=start, max_iter=20, tol=0, random_state=0).fit(GAPS)
    fit = nmf.result_
    assert (fit.L.shape, fit.F.shape) == ((30, 3), (25, 3))
    assert not fit.L[[3, 8]].any()
    assert not fit.F[[0, 20]].any()
    np.testing.assert_array_equal(fit.proportions[[3, 8]], np.full((2, 3), 1 / 3))
    assert not nmf.transform(GAPS)[[3, 8]].any()
    assert np.isfinite(fit.loglik)
    assert np.isfinite(fit.kkt)


def test_empty_samples_have_uniform_proportions() -> None:
    model = um.TopicModel(3, random_state=0).fit(GAPS)
    np.testing.assert_array_equal(model.transform(GAPS)[[3, 8]], np.full((2, 3), 1 / 3))
    assert model.components_.shape == (3, 25)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-12)
    assert not model.components_[:, [0, 20]].any()


@pytest.mark.parametrize("solver", ["em", "scd", "newton"])
def test_gaps_do_not_change_the_rest(solver: str) -> None:
    rows, columns = GAPS.any(axis=1), GAPS.any(axis=0)
    options = {"solver": solver, "extrapolate": False, "max_iter": 20, "tol": 0}
    whole = um.PoissonNMF(3, init=(L0 * rows[:, None], F0 * columns[:, None]), **options).fit(GAPS).result_
    part = um.PoissonNMF(3, init=(L0[rows], F0[columns]), **options).fit(GAPS[np.ix_(rows, columns)]).result_
    assert whole.loglik == pytest.approx(part.loglik, rel=1e-9)
    np.testing.assert_allclose(whole.proportions[rows], part.proportions, rtol=1e-5, atol=1e-9)


def test_new_features_are_left_aside_with_a_warning(kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(GAPS)
    without = X0.copy()
    without[:, [0, 20]] = 0
    with pytest.warns(UserWarning, match="2 features with counts have no weight in any topic.*ignored"):
        got = model.transform(X0)
    np.testing.assert_array_equal(got, model.transform(without))
    assert np.isfinite(model.score(X0))  # which foresees a little of everything, and so has nothing to warn of


def test_a_matrix_without_counts_is_refused(kind: type[um.PoissonNMF]) -> None:
    with pytest.raises(ValueError, match="no counts at all"):
        kind(2).fit(np.zeros((4, 5)))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_a_single_sample_or_feature_can_be_fitted(shape: tuple[int, int], kind: type[um.PoissonNMF]) -> None:
    X = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    fit = kind(1, random_state=0).fit(X).result_
    np.testing.assert_allclose(fit.L @ fit.F.T, X, rtol=1e-9)


# --- bad parameters --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:n_components=")
def test_more_topics_than_make_sense_are_warned_about(kind: type[um.PoissonNMF]) -> None:
    with pytest.warns(UserWarning, match="n_components=26 is more than the 30 samples or 25 features"):
        model = kind(26, random_state=0, max_iter=5, tol=0).fit(X0)
    assert model.transform(X0).shape == (30, 26)
    kind(25, random_state=0, max_iter=5, tol=0).fit(X0)


IMPOSSIBLE = L0.copy()
IMPOSSIBLE[4] = 0
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no topics": ({"n_components": 0}, "n_components=0; use a whole number of topics >= 1"),
    "negative topics": ({"n_components": -3}, "n_components=-3"),
    "half a topic": ({"n_components": 2.5}, "n_components=2.5; use a whole number"),
    "topics as text": ({"n_components": "three"}, "n_components='three'"),
    "true topics": ({"n_components": True}, "n_components=True"),
    "unknown solver": (
        {"solver": "adam"},
        "solver='adam'; choose one of newton, scd, ccd, sn, em, joint, plsa, plsi, normalized",
    ),
    "a number as solver": ({"solver": 3}, "solver=3; choose one of newton, scd"),
    "a class as solver": ({"solver": SCD}, r"solver=.*SCD.*; choose one of newton, scd|solver=.*SCD.*\(\)"),
    "unknown init": (
        {"init": "nndsvd"},
        r"init='nndsvd'; choose one of auto, topic-score, random, a pair \(L0, F0\), or a Fit",
    ),
    "no init": ({"init": None}, "init=None; choose one of"),
    "half a pair": ({"init": (L0,)}, "choose one of auto, topic-score, random, a pair"),
    "L0 too short": ({"init": (L0[:-1], F0)}, r"L.* has shape \(29, 3\); 30 samples need shape \(30, 3\)"),
    "F0 too short": ({"init": (L0, F0[:-1])}, r"F.* has shape \(24, 3\); 25 features need shape \(25, 3\)"),
    "pair with other topics": ({"init": (L0[:, :2], F0[:, :2])}, r"shape \(30, 2\); 30 samples need shape \(30, 3\)"),
    "negative L0": ({"init": (-L0, F0)}, r"L.*\[0, 0\] is -.*finite and >= 0"),
    "NaN in F0": ({"init": (L0, F0 * np.nan)}, r"F.*\[0, 0\] is nan"),
    "dead topic in L0": ({"init": (L0 * [1, 0, 1], F0)}, "column 1 of L0 in init is all zero"),
    "dead topic in F0": ({"init": (L0, F0 * [1, 1, 0])}, "column 2 of F0 in init is all zero"),
    "impossible start": ({"init": (IMPOSSIBLE, F0)}, "init gives the count at row 4, column .* a rate of zero"),
    "prefit": ({"prefit": -1}, "prefit=-1; use a whole number >= 0"),
    "max_iter": ({"max_iter": 0}, "max_iter=0; use a whole number >= 1"),
    "fractional max_iter": ({"max_iter": 1.5}, "max_iter=1.5"),
    "refine": ({"refine": -1}, "refine=-1; use a whole number >= 0"),
    "tol": ({"tol": -1e-3}, "tol=-0.001; use a number >= 0"),
    "NaN tol": ({"tol": float("nan")}, "tol=nan"),
    "dtype": ({"dtype": "float16"}, "dtype='float16'; choose one of float64, float32"),
    "prior": ({"prior": 2.0}, r"prior=2.0; use None, unmix.Gamma\(shape, rate\) or unmix.Dirichlet"),
    "prior of another shape": ({"prior": um.Gamma([2.0, 2.0])}, "does not fit 25 rows × 3 topics"),
    "no threads": ({"n_jobs": 0}, "n_jobs=0; use a number of threads >= 1"),
    "n_jobs": ({"n_jobs": -2}, "n_jobs=-2"),
    "random_state": ({"random_state": "seed"}, "'seed' cannot be used to seed"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_parameter_is_explained(what: str, kind: type[um.PoissonNMF]) -> None:
    parameters, message = BAD[what]
    model = kind(**({"n_components": 3, "random_state": 0} | parameters))
    with pytest.raises(ValueError, match=message):
        model.fit(X0)
    assert not hasattr(model, "result_")


def test_zeros_in_a_start_are_no_problem_under_a_prior() -> None:
    start = (L0, np.where(F0 < 0.3, 0, F0))
    fit = um.PoissonNMF(3, init=start, prior=um.Gamma(1.5), tol=0, max_iter=30).fit(X0).result_
    assert np.isfinite(fit.loglik)
    assert (fit.F > 0).all()


@pytest.mark.parametrize("use", ["transform", "score"])
def test_another_number_of_features_is_refused(use: str, kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(X0)
    for wrong in (X0[:, :-1], np.hstack([X0, X0]), sp.csr_array(X0[:, :3]), um.Counts(X0[:, :3])):
        with pytest.raises(ValueError, match=rf"X has {wrong.shape[1]} features, but .* is expecting 25 features"):
            getattr(model, use)(wrong)


@pytest.mark.parametrize("use", ["fit", "transform", "score"])
def test_bad_counts_are_refused_everywhere(use: str, kind: type[um.PoissonNMF]) -> None:
    model = kind(3, random_state=0).fit(X0)
    before = model.result_
    bad = X0.copy()
    bad[2, 1] = -1
    with pytest.raises(ValueError, match="-1 at row 2, column 1"):
        getattr(model, use)(bad)
    assert model.result_ is before


def test_too_few_iterations_warn_unless_asked_for() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        um.TopicModel(3, init=START, max_iter=2).fit(X0)
    um.TopicModel(3, init=START, max_iter=2, tol=0).fit(X0)


# --- the public face -------------------------------------------------------------------------------------------------


def test_public_names_are_exactly_these() -> None:
    assert sorted(um.__all__) == [
        "Alignment",
        "AllocationModel",
        "Assignment",
        "BayesianPoissonNMF",
        "CatalogueMatch",
        "Choice",
        "Comparison",
        "Counts",
        "Differences",
        "Dirichlet",
        "Effects",
        "Fit",
        "Freedom",
        "Gamma",
        "GammaPoisson",
        "Intervals",
        "LDA",
        "Online",
        "PoissonNMF",
        "Prevalence",
        "Quality",
        "ReadOptions",
        "Shards",
        "SparsePoissonNMF",
        "Stability",
        "TopicModel",
        "__version__",
        "align",
        "analysis",
        "assign",
        "choose_topics",
        "coherence",
        "compare",
        "consensus",
        "datasets",
        "deviance",
        "differences",
        "diversity",
        "effects",
        "engines",
        "fit_path",
        "freedom",
        "intervals",
        "kkt",
        "load",
        "loglik",
        "maps",
        "match_catalogue",
        "plot",
        "poisson_regression",
        "poisson_to_topics",
        "prevalence",
        "read",
        "read_texts",
        "shard",
        "shrink",
        "solvers",
        "stability",
        "topics_to_poisson",
        "write_report",
    ]
    for name in um.__all__:
        assert hasattr(um, name)


def test_names_promised_inside_the_public_objects_exist() -> None:
    X = um.Counts(X0)
    for name in ("shape", "nnz", "total", "csr", "samples", "features"):
        assert hasattr(X, name)
    for name in ("sotu", "swimmer", "digits", "correlated_topics"):
        assert callable(getattr(um.datasets, name))
    for name in ("SCD", "EM", "CCD", "SN", "Newton", "Joint", "PLSI", "Normalized", "Extrapolate"):
        assert callable(getattr(um.solvers, name))
    for name in um.solvers.__all__:
        assert hasattr(um.solvers, name)
    fit = um.TopicModel(2, random_state=0).fit(X).result_
    for name in ("L", "F", "proportions", "topics", "sizes", "trace", "status", "loglik", "save"):
        assert hasattr(fit, name)
    assert {"iteration", "seconds", "loglik", "kkt"} <= set(fit.trace.columns)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        ("loglik", "X L F model per_sample n_jobs"),
        ("deviance", "X L F n_jobs"),
        ("kkt", "X L F n_jobs"),
        ("poisson_to_topics", "L F"),
        ("topics_to_poisson", "Lstar Fstar sizes scales"),
        ("Gamma", "shape rate"),
        ("Online", "batch_size offset decay total_samples"),
        (
            "LDA",
            "n_components alpha eta collapsed init n_init inner extrapolate max_iter tol refine known known_weight "
            "seeds seed_weight online n_jobs random_state "
            "verbose callbacks",
        ),
        (
            "GammaPoisson",
            "n_components shape rate eta collapsed prevalence init n_init inner extrapolate max_iter tol refine "
            "batch_prior known known_weight "
            "seeds seed_weight online n_jobs "
            "random_state verbose callbacks",
        ),
        (
            "BayesianPoissonNMF",
            "n_components a b c d rate_shape init n_init inner extrapolate max_iter tol refine batch_prior online n_jobs "
            "random_state verbose callbacks",
        ),
        ("load", "path"),
    ],
)
def test_signatures_are_those_promised(function: str, signature: str) -> None:
    assert list(inspect.signature(getattr(um, function)).parameters) == signature.split()


def test_counts_take_the_promised_arguments() -> None:
    assert list(inspect.signature(um.Counts).parameters)[:3] == ["matrix", "samples", "features"]


def test_every_public_class_and_function_has_a_docstring() -> None:
    for name in um.__all__:
        if name != "__version__":
            assert (getattr(um, name).__doc__ or "").strip()


FAMILY = {
    "PoissonNMF": lambda **o: um.PoissonNMF(3, **o),
    "TopicModel": lambda **o: um.TopicModel(3, **o),
    "MAP": lambda **o: um.TopicModel(3, loadings_prior=um.Dirichlet(1.2), **o),
    "sparse": lambda **o: um.SparsePoissonNMF(3, **o),
    "LDA": lambda **o: um.LDA(3, **o),
    "smoothed LDA": lambda **o: um.LDA(3, eta=0.2, **o),
    "GammaPoisson": lambda **o: um.GammaPoisson(3, **o),
    "Bayes": lambda **o: um.BayesianPoissonNMF(3, **o),
    "BLD": lambda **o: um.AllocationModel(3, **o),
    "Gibbs": lambda **o: um.AllocationModel(3, method="gibbs", sweeps=5, thin=1, burn_in=0, **o),
}


@pytest.mark.parametrize("second", FAMILY)
def test_any_fit_starts_any_model(second: str) -> None:
    for first, make in FAMILY.items():
        fit = make(random_state=0, max_iter=5, tol=0).fit(X0).result_
        started = FAMILY[second](init=fit, max_iter=3, tol=0, random_state=0).fit(X0).result_
        same = first == second or {first, second} == {
            "PoissonNMF",
            "TopicModel",
        }  # which differ only in how they are read
        assert started.trace["note"][0] == ("resumed" if same else "given"), first
        assert np.isfinite(started.loglik)
