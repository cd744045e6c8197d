"""Fits of shards: one pass an iteration, the same bits wherever the shards lie, and never a worse loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import reference
import scipy.sparse as sp
from conftest import examples, random_counts
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix import kernels
from unmix.counts import shards
from unmix.counts.counts import Counts
from unmix.counts.data import Tree, tree
from unmix.engines import Local
from unmix.models.problem import Problem
from unmix.solvers.extrapolate import Streamed
from unmix.solvers.halfsteps import EM, Newton

pytestmark = pytest.mark.filterwarnings("ignore:not converged:sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 16)
    monkeypatch.setattr(shards, "TILE", 8)


def some_counts(n: int = 53, m: int = 31, seed: int = 0, scale: float = 1.0) -> Counts:
    X = random_counts(n, m, seed=seed) * scale
    X[n // 2] = 0
    X[:, m // 3] = 0
    return Counts(X)


def on_disk_only(folder: Path | None) -> Local:
    """An engine that may keep nothing in memory."""
    engine = Local(folder=folder)
    vars(engine)["_budget"] = 1.0
    return engine


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "TopicModel": lambda: um.TopicModel(3, random_state=0, max_iter=12, tol=0),
    "em": lambda: um.TopicModel(3, solver="em", random_state=0, max_iter=12, tol=0),
    "scd, plain": lambda: um.PoissonNMF(3, solver="scd", extrapolate=False, random_state=0, max_iter=12, tol=0),
    "prior": lambda: um.PoissonNMF(
        3, prior=um.Gamma(1.2, 1), loadings_prior=um.Gamma(1.1), random_state=0, max_iter=12
    ),
    "float32": lambda: um.PoissonNMF(3, dtype="float32", random_state=0, max_iter=12, tol=0),
    "LDA": lambda: um.LDA(3, random_state=0, max_iter=12, tol=0),
    "LDA, eta": lambda: um.LDA(3, alpha=0.3, eta=0.1, random_state=0, max_iter=12, tol=0),
    "LDA, auto": lambda: um.LDA(3, alpha="auto", random_state=0, max_iter=12, tol=0),
    "GammaPoisson": lambda: um.GammaPoisson(3, random_state=0, max_iter=12, tol=0),
    "BayesianPoissonNMF": lambda: um.BayesianPoissonNMF(3, random_state=0, max_iter=12, tol=0),
    "hierarchical": lambda: um.BayesianPoissonNMF(3, rate_shape=0.3, random_state=0, max_iter=12, tol=0),
}


@pytest.fixture(params=ESTIMATORS, ids=str)
def make(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return ESTIMATORS[request.param]


# --- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3, 8, 20, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sums_of_a_pass_and_the_step_they_allow_equal_their_twins(K: int, dtype: type) -> None:
    X, rng = some_counts(), np.random.default_rng(K)
    L, F = rng.gamma(1, 1, (53, K)).astype(dtype), rng.gamma(1, 1, (31, K)).astype(dtype)
    sums = [np.zeros((31, K)), np.zeros((31, kernels.curvature_size(K)), np.float32)]
    twins = [array.copy() for array in sums]
    for _ in range(2):  # they add up
        kernels.add_sums(X.transposed, L, F, *sums)
        reference.add_sums(X.columns, L.astype(float), F.astype(float), *twins)
    np.testing.assert_allclose(sums[0], twins[0], rtol=2e-6)
    np.testing.assert_allclose(sums[1], twins[1], rtol=1e-4, atol=1e-4 * twins[1].max())
    for shape in (None, rng.gamma(1, 1, (31, K))):
        for cost in (L.sum(axis=0, dtype=float), L.sum(axis=0, dtype=float) * rng.gamma(2, 1, (31, 1))):
            given = (cost, 2 * X.feature_totals, shape)
            step = kernels.box_step(F.astype(float), *twins, *given)
            np.testing.assert_allclose(step, reference.box_step(F.astype(float), *twins, *given), rtol=1e-6, atol=1e-12)
            assert (step >= 0.31 * F * (X.feature_totals > 0)[:, None]).all()  # no entry falls by more than 68%


def test_sums_are_the_derivatives_of_the_loss() -> None:
    X, rng = some_counts(), np.random.default_rng(0)
    L, F, e = rng.gamma(1, 1, (53, 3)), rng.gamma(1, 1, (31, 3)), 1e-5
    B, H = np.zeros((31, 3)), np.zeros((31, 6), np.float32)
    kernels.add_sums(X.transposed, L, F, B, H)
    problem, j = Problem(X, 3), 5

    def loss(*moves: tuple[int, float]) -> float:
        moved = F.copy()
        for k, by in moves:
            moved[j, k] += by
        return problem.loss(L, moved)

    for k in range(3):
        slope = (loss((k, e)) - loss((k, -e))) / (2 * e)
        assert slope == pytest.approx(L[:, k].sum() - B[j, k], abs=1e-4)
    second = (loss((2, e * 10), (0, e * 10)) - loss((2, e * 10)) - loss((0, e * 10)) + loss()) / (e * 10) ** 2
    assert second == pytest.approx(H[j, 3] / F[j].max() ** 2, rel=1e-2)


@examples(20)
@given(st.integers(0, 40), st.integers(1, 20), st.integers(0, 99), st.booleans())
def test_the_transpose_equals_its_twin(n: int, m: int, seed: int, narrow: bool) -> None:
    X = np.random.default_rng(seed).poisson(0.5, (n, m))
    rows, columns = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    csr = kernels.CSR(indptr, columns.astype(np.int32), X[rows, columns].astype(np.uint16 if narrow else float))
    for got, want in zip(kernels.transpose(csr, m), reference.transpose(csr, m), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


# --- sums -------------------------------------------------------------------------------------------------------------


@examples(30)
@given(st.integers(1, 200), st.integers(0, 2))
def test_the_tree_of_sums_is_the_same_for_any_grouping(parts: int, level: int) -> None:
    values = np.random.default_rng(parts).normal(size=parts)
    leaves = [{"sum": np.array([value]), "largest_one": np.array([value])} for value in values]
    whole = tree({name: array.copy() for name, array in leaf.items()} for leaf in leaves)
    groups, size = Tree(), 8**level
    for start in range(0, parts, size):
        some = ({name: array.copy() for name, array in leaf.items()} for leaf in leaves[start : start + size])
        groups.add(tree(some), level)
    total = groups.total()
    assert total["sum"] == whole["sum"]
    assert whole["sum"] == pytest.approx(values.sum())
    assert whole["largest_one"] == total["largest_one"] == values.max()


# --- fits -------------------------------------------------------------------------------------------------------------


def test_bits_do_not_depend_on_where_shards_lie(make: Callable[[], Any], tmp_path: Path) -> None:
    X = some_counts()
    fits = [make().fit(um.Shards.of(X)), make().set_params(n_jobs=1).fit(um.Shards.of(X))]
    on_disk = um.shard(X, tmp_path / "shards")
    fits.append(make().fit(on_disk))
    with on_disk_only(tmp_path / "run"):
        fits.append(make().fit(on_disk))
    first = fits[0].result_
    for other in (fit.result_ for fit in fits[1:]):
        np.testing.assert_array_equal(other.L, first.L)
        np.testing.assert_array_equal(other.F, first.F)
        np.testing.assert_array_equal(other.trace["objective"], first.trace["objective"])
        for name, array in first.posterior.items():
            np.testing.assert_array_equal(other.posterior[name], array)


@examples(10)
@given(st.integers(1, 4), st.integers(0, 99), st.booleans(), st.sampled_from(["ml", "map"]))
def test_without_momentum_the_loss_never_rises(K: int, seed: int, fractional: bool, kind: str) -> None:
    X = some_counts(seed=seed, scale=0.37 if fractional else 1.0)
    priors = (um.Gamma(1.3, 0.7), um.Gamma(1.2)) if kind == "map" else (None, None)
    task = Problem(um.Shards.of(X), K, *priors)
    for half in (Newton(), EM()):
        solver = Streamed(half, extrapolate=False)
        state = solver.start(task, np.empty((0, K)), np.random.default_rng(seed).dirichlet(np.ones(31), K).T)
        for _ in range(15):
            new = solver.step(task, state)
            assert new.reference <= state.reference + 1e-9 * abs(state.reference)
            state = new


def test_a_fit_at_its_optimum_has_converged_though_no_pass_is_better_any_more() -> None:
    counts = Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    fit = um.TopicModel(2, tol=1e-3, random_state=0).fit(um.Shards.of(counts)).result_
    assert fit.status == "converged"
    assert fit.remaining_gain <= 1e-3 * counts.total


def test_it_ends_at_the_optimum_of_newton_in_memory_and_says_what_it_reached() -> None:
    X = some_counts(200, 40)
    start = (np.random.default_rng(1).gamma(1, 1, (200, 3)), np.random.default_rng(2).gamma(1, 1, (40, 3)))
    options: dict[str, Any] = {"init": start, "max_iter": 2000, "tol": 1e-11}
    streamed = um.PoissonNMF(3, **options).fit(um.Shards.of(X)).result_
    memory = um.PoissonNMF(3, init=streamed, max_iter=300, tol=1e-11).fit(X).result_
    assert streamed.loglik == pytest.approx(memory.loglik, rel=1e-7)
    assert streamed.loglik == pytest.approx(um.loglik(X, streamed.L, streamed.F), rel=1e-10)
    assert streamed.kkt == pytest.approx(um.kkt(X, streamed.L, streamed.F), abs=1e-6)
    assert streamed.kkt < 1e-2
    assert streamed.samples is None
    assert streamed.data["shards"] == 13


@pytest.mark.parametrize("name", ["LDA", "LDA, eta", "LDA, auto", "GammaPoisson", "BayesianPoissonNMF"])
def test_the_bound_is_that_of_inference_in_memory_and_does_not_fall_without_momentum(name: str) -> None:
    X = some_counts(60)
    model = ESTIMATORS[name]().set_params(extrapolate=False).fit(um.Shards.of(X))
    assert (np.diff(model.result_.trace["objective"]) >= -1e-9 * abs(model.elbo_)).all()
    fit = model.result_
    task_model, left, right = um.models.variational.restore(fit.priors, fit.posterior)
    task = um.models.variational.Inference(X, task_model)
    assert model.elbo_ == pytest.approx(-task.loss(task_model, left, right), rel=1e-10)
    assert fit.loglik == pytest.approx(um.loglik(X, fit.L, fit.F), rel=1e-10)


# --- stopping and going on ----------------------------------------------------------------------------------------------


def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(make: Callable[[], Any], tmp_path: Path) -> None:
    S = um.Shards.of(some_counts())
    whole = make().set_params(tol=0).fit(S).result_
    for engines in (
        (Local(), Local()),
        (on_disk_only(tmp_path / "a"), Local()),
        (on_disk_only(None), on_disk_only(None)),
    ):
        with engines[0]:
            part = make().set_params(tol=0, max_iter=5).fit(S).result_
            part.save(tmp_path / "part.safetensors", resumable=True)
        with engines[1]:
            end = make().set_params(tol=0).resume(S, um.load(tmp_path / "part.safetensors")).result_
        np.testing.assert_array_equal(end.L, whole.L)
        np.testing.assert_array_equal(end.F, whole.F)
        assert list(end.trace["objective"]) == list(whole.trace["objective"])


def test_a_fit_of_other_shards_is_not_gone_on_with() -> None:
    part = um.TopicModel(3, max_iter=5, random_state=0).fit(um.Shards.of(some_counts())).result_
    with pytest.raises(ValueError, match="of other data"):
        um.TopicModel(3, max_iter=5, random_state=0).resume(um.Shards.of(some_counts(seed=1)), part)


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def stop(progress: Any) -> None:
        if len(progress.trace.rows) == 4:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="stopped early"):
        fit = um.TopicModel(3, random_state=0, callbacks=[stop]).fit(um.Shards.of(some_counts())).result_
    assert fit.status == "interrupted"
    assert len(fit.trace) == 4


# --- what is asked of a fitted model ------------------------------------------------------------------------------------


def test_what_a_model_says_of_shards_is_what_it_says_of_counts(make: Callable[[], Any], tmp_path: Path) -> None:
    X = some_counts()
    S, model = um.Shards.of(X), make().fit(um.Shards.of(X))
    want = model.transform(X)
    np.testing.assert_allclose(model.transform(S), want, rtol=1e-10)
    np.testing.assert_allclose(model.transform(S, out=tmp_path / "L.npy"), want, rtol=1e-10)
    np.testing.assert_allclose(np.load(tmp_path / "L.npy"), want, rtol=1e-10)
    assert model.score(S) == pytest.approx(model.score(X), rel=1e-10)


def test_the_perplexity_of_shards_is_over_all_that_was_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    X = some_counts()
    model = um.LDA(3, eta=0.1, random_state=0, max_iter=20).fit(um.Shards.of(X))
    assert model.perplexity(um.Shards.of(X)) == pytest.approx(model.perplexity(X), rel=0.05)  # other draws
    monkeypatch.setattr(shards, "SHARD", 64)  # all in one
    assert model.perplexity(um.Shards.of(X)) == pytest.approx(model.perplexity(X), rel=1e-10)


def test_a_stream_of_shards_is_one_of_batches() -> None:
    S = um.Shards.of(some_counts())
    one, two = (um.LDA(3, eta=0.1, random_state=0) for _ in range(2))
    one.partial_fit(S)
    for i in range(S.n_shards):
        two.partial_fit(S.shard(i))
    np.testing.assert_array_equal(one.components_, two.components_)


def refused() -> Iterator[tuple[str, Callable[[], Any], str]]:
    yield (
        "allocation",
        lambda: um.AllocationModel(3),
        "AllocationModel with FreeBLD does not support shards.*use TopicModel",
    )
    for solver in ("joint", "plsi", "normalized"):
        yield (
            solver,
            lambda solver=solver: um.TopicModel(3, solver=solver),
            f"(?i)TopicModel with {solver} does not support shards; .* newton",
        )
    yield "sparse", lambda: um.SparsePoissonNMF(3), "SparsePoissonNMF with SparseL2 does not support .*PoissonNMF"
    yield "online", lambda: um.LDA(3, online=um.Online()), "LDA with StochasticVI does not support shards.*partial_fit"
    yield (
        "dirichlet",
        lambda: um.TopicModel(3, loadings_prior=um.Dirichlet(1.5)),
        "PLSA does not support shards.* LDA",
    )


@pytest.mark.parametrize(("kind", "make_model", "message"), list(refused()), ids=[kind for kind, _, _ in refused()])
def test_what_cannot_work_on_shards_is_refused_by_name(kind: str, make_model: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model().fit(um.Shards.of(some_counts()))


def test_a_budget_of_memory_is_refused_before_the_fit_starts_with_what_would_be_needed() -> None:
    with (
        pytest.raises(
            ValueError, match=r"3 topics of 31 features need 0.3 GB of memory, 1.0 MB are available; allow more"
        ),
        Local("1MB"),
    ):
        um.TopicModel(3).fit(um.Shards.of(some_counts()))
    with pytest.raises(ValueError, match="memory='much'; use an amount"):
        Local(memory="much")


def test_other_features_are_refused() -> None:
    X = some_counts()
    model = um.TopicModel(3, random_state=0, max_iter=5).fit(
        um.Shards.of(Counts(X, features=[f"a{j}" for j in range(31)]))
    )
    with pytest.raises(ValueError, match="no feature has a name that the model knows"):
        model.transform(um.Shards.of(Counts(X, features=[f"b{j}" for j in range(31)])))


# --- the terminal -------------------------------------------------------------------------------------------------------


def test_the_terminal_fits_shards_and_makes_them_of_what_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unmix.cli import main
    from unmix.io import read

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        said = capsys.readouterr()
        assert exit.value.code == 0, said.err
        return said.out

    monkeypatch.chdir(tmp_path)
    sp.save_npz("counts.npz", some_counts().csr)
    run("shard", "counts.npz", "-o", "a.shards", "-q")
    with pytest.raises(SystemExit):
        main(["fit", "a.shards", "-k", "3", "--layer", "counts"])
    assert "a.shards: --layer does not apply to shards" in capsys.readouterr().err
    fit = ("-k", "3", "--max-iter", "20", "--tol", "0")
    run("fit", "a.shards", *fit, "--memory", "1GB")
    monkeypatch.setattr(read, "BYTES_PER_NONZERO", 10**7)
    assert "making shards of it, counts.shards" in run("fit", "counts.npz", *fit, "--memory", "1GB")
    one, two = (um.load(f"{name}-k3/model.safetensors") for name in ("a", "counts"))
    np.testing.assert_array_equal(one.L, two.L)
    assert two.data["python"] == "um.shard('counts.npz', 'counts.shards')"
    run("transform", "a-k3", "counts.shards", "-o", "p.csv")
    run("transform", "a-k3", "counts.shards", "-o", "p.npy")
    want = um.TopicModel(3, random_state=0, max_iter=20, tol=0).fit(um.Shards("a.shards")).transform(some_counts())
    np.testing.assert_allclose(np.load("p.npy"), want, rtol=1e-6)
    np.testing.assert_allclose(np.loadtxt("p.csv", delimiter=",", skiprows=1, usecols=(1, 2, 3)), want, rtol=1e-6)
    assert not (tmp_path / "a-k3" / ".loadings").exists()


def test_the_terminal_keeps_metadata_and_tells_of_features_that_shards_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unmix.cli import main

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as exit:
            main(list(words))
        said = capsys.readouterr()
        assert exit.value.code == 0, said.err
        return said.out + said.err

    monkeypatch.chdir(tmp_path)
    counts = some_counts()
    n, m = counts.shape
    names = [f"s{i}" for i in range(n)], [f"f{j}" for j in range(m)]
    pd.DataFrame(counts.csr.toarray(), *names).to_csv("a.csv")
    new = np.delete(counts.csr.toarray(), [0, 1], axis=1)
    new[5] = 0  # as one of them is already
    pd.DataFrame(new, names[0], [*names[1][3:], "other"]).to_csv("b.csv")
    pd.DataFrame({"sample": names[0], "sort": ["x", "y"] * (n // 2) + ["x"] * (n % 2)}).to_csv("t.csv", index=False)
    run("shard", "a.csv", "--metadata", "t.csv", "-q")
    assert "metadata" in (told := run("info", "a.shards"))
    assert "sort" in told
    run("fit", "a.shards", "-k", "2", "--max-iter", "5", "--tol", "0")
    fit = um.load("a-k2/model.safetensors")
    assert fit.metadata is not None
    assert fit.metadata["sort"].tolist()[:2] == ["x", "y"]
    assert '"sort"' in Path("a-k2/report.html").read_text()
    run("shard", "b.csv", "-q")
    run("fit", "b.shards", "-k", "2", "--max-iter", "5", "--tol", "0", "--metadata", "t.csv")
    assert um.load("b-k2/model.safetensors").metadata is not None
    from_file = " ".join(run("transform", "a-k2", "b.csv", "-o", "file.csv").split())
    from_shards = " ".join(run("transform", "a-k2", "b.shards", "-o", "shards.csv").split())
    for said in ("3 features of the model are not in b", "1 feature of b", "2 samples without any counts"):
        assert said in from_file
        assert said in from_shards
    assert Path("file.csv").read_text() == Path("shards.csv").read_text()


NEED_MEMORY: dict[str, Callable[[um.Fit, Any], Any]] = {
    "consensus": lambda fit, X: um.consensus(X, 2),
    "fit_path": lambda fit, X: um.fit_path(X, [1, 2]),
    "intervals": lambda fit, X: um.intervals(fit, X),
    "transform of a fit": lambda fit, X: fit.transform(X),
    "loglik": lambda fit, X: um.loglik(X, fit.L, fit.F),
    "deviance": lambda fit, X: um.deviance(X, fit.L, fit.F),
    "kkt": lambda fit, X: um.kkt(X, fit.L, fit.F),
    "Counts": lambda fit, X: um.Counts(X),
}


def test_topics_are_chosen_on_the_sample_of_shards() -> None:
    shards = um.Shards.of(some_counts(), sample=20)
    with pytest.warns(UserWarning, match="choose_topics uses 20 of the"):
        um.choose_topics(shards, [1, 2], folds=2, random_state=0)
    shards = um.Shards.of(shards.sample)
    one, two = (um.choose_topics(X, [1, 2], folds=2, random_state=0).table for X in (shards, shards.sample))
    np.testing.assert_array_equal(one["perplexity"], two["perplexity"])


@pytest.mark.parametrize("name", NEED_MEMORY)
def test_what_needs_counts_in_memory_says_so_of_shards_and_what_to_give(name: str) -> None:
    shards = um.Shards.of(some_counts())
    fit = um.TopicModel(2, random_state=0, max_iter=2, tol=0).fit(shards).result_
    with pytest.raises(ValueError, match=r"shards\.sample"):
        NEED_MEMORY[name](fit, shards)


@pytest.mark.parametrize(
    "command",
    [
        ["intervals", "a-k2", "a.shards", "-o", "other.csv"],
        ["freedom", "a-k2", "--loss", "0.1", "--counts", "a.shards", "-o", "other.csv"],
        ["differences", "a-k2", "a.shards", "--held-out", "0.5", "-o", "other"],
        ["fit", "a.shards", "-k", "2", "-o", "other", "--intervals"],
    ],
    ids=" ".join,
)
def test_the_terminal_refuses_shards_by_name_before_any_work(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from unmix.cli import main

    monkeypatch.chdir(tmp_path)
    shards = um.shard(some_counts(), "a.shards")
    Path("a-k2").mkdir()
    um.TopicModel(2, random_state=0, max_iter=2, tol=0).fit(shards).result_.save("a-k2/model.safetensors")
    with pytest.raises(SystemExit) as exit:
        main(command)
    said = " ".join(capsys.readouterr().err.split())
    assert exit.value.code == 2, said
    assert "shards" in said
    assert not list(tmp_path.glob("other*"))
