"""Topics for AnnData: the same numbers as the estimators', kept where scanpy looks for them, and got back from files."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts, shared_data
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import unmix as um
from unmix.estimators import from_fit
from unmix.models.poisson import poisson_to_topics
from unmix.registry import WORDS, estimator_class

anndata = pytest.importorskip("anndata", reason="anndata is not installed")
h5py = pytest.importorskip("h5py", reason="h5py is not installed")

AnnData = anndata.AnnData
MODELS = {word: estimator_class(name) for word, name in WORDS.items()}
N, M, K = 40, 30, 3
X0 = random_counts(N, M, seed=5)
QUICK = {"max_iter": 6, "tol": 0}


def cells(X: Any = X0, **more: Any) -> AnnData:
    n, m = X.shape
    obs = pd.DataFrame({"kind": pd.Categorical(["b", "t"] * (n // 2) + ["b"] * (n % 2)), "age": np.arange(n)})
    obs.index = [f"cell {i}" for i in range(n)]
    var = pd.DataFrame({"chosen": np.arange(m) % 3 != 0}, index=[f"gene {j}" for j in range(m)])
    return AnnData(X, obs=obs, var=var, **more)


def fitted(**options: Any) -> AnnData:
    adata = cells()
    um.sc.tl.topics(adata, K, **QUICK | options)
    return adata


def same_fits(one: um.Fit, two: um.Fit, *, same_run: bool = True) -> None:
    """All but the solver's state and the metadata, to the bit; of two runs, all but the clock."""
    for name in ("L", "F"):
        assert getattr(one, name).dtype == getattr(two, name).dtype
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    for name in ("samples", "features"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert set(one.posterior) == set(two.posterior)
    assert one.priors == two.priors
    for name, array in one.posterior.items():
        assert array.tobytes() == two.posterior[name].tobytes(), name
        assert array.shape == two.posterior[name].shape, name
    assert {name: array.tolist() for name, array in one.rates.items()} == {
        name: array.tolist() for name, array in two.rates.items()
    }
    assert repr(one.remaining_gain) == repr(two.remaining_gain)
    assert one.labels == two.labels
    for name in ("status", "loglik", "params", "versions", "data", "text"):
        assert getattr(one, name) == getattr(two, name), name
    traces = [fit.trace if same_run else fit.trace.drop(columns="seconds") for fit in (one, two)]
    pd.testing.assert_frame_equal(*traces, check_exact=True)
    assert {field.name for field in fields(um.Fit)} == {
        "allocation",  # nonzeros × topics, for which an AnnData has no place
        *(
            "L",
            "F",
            "trace",
            "status",
            "loglik",
            "samples",
            "features",
            "metadata",
            "posterior",
            "priors",
            "params",
            "versions",
        ),
        *("data", "text", "state", "remaining_gain", "names", "rates"),
    }  # a new field needs its line above


# --- fitting ---------------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_estimator_in_the_places_scanpy_looks_at() -> None:
    adata = cells()
    assert um.sc.tl.topics(adata, K, **QUICK) is None
    fit = um.TopicModel(K, random_state=0, **QUICK).fit(X0).result_
    assert adata.obsm["X_topics"].tobytes() == fit.proportions.tobytes()
    assert adata.varm["topics"].tobytes() == fit.topics.tobytes()
    assert adata.obsm["topics_loadings"].tobytes() == fit.L.tobytes()
    assert adata.varm["topics_factors"].tobytes() == fit.F.tobytes()
    assert isinstance(adata.obs["topics"].dtype, pd.CategoricalDtype)
    assert adata.obs["topics"].astype(int).tolist() == (fit.proportions.argmax(axis=1) + 1).tolist()
    assert adata.obs["topics"].cat.categories.tolist() == ["1", "2", "3"]
    assert list(adata.uns["topics_colors"]) == um.plot.topic_colors(fit)
    record = adata.uns["topics"]
    assert record["params"]["model"] == "TopicModel"
    assert record["params"]["n_components"] == K
    assert record["params"]["max_iter"] == 6
    assert (record["loglik"], record["kkt"], record["status"]) == (fit.loglik, fit.kkt, "max_iter")
    assert record["trace"]["loglik"].tolist() == fit.trace["loglik"].tolist()
    assert record["shares"].tolist() == fit.shares.tolist()
    assert record["data"]["total"] == X0.sum()
    assert record["versions"]["unmix"] == um.__version__
    assert set(adata.obsm) == {"X_topics", "topics_loadings"}
    assert set(adata.varm) == {"topics", "topics_factors"}
    assert set(adata.uns) == {"topics", "topics_colors"}


MODEL_WORDS = {"TopicModel": "topics", "GammaPoisson": "gamma-poisson", "BayesianPoissonNMF": "bayes"}


@pytest.mark.filterwarnings("ignore:effects of batches are estimated from")
@pytest.mark.parametrize("kind", MODEL_WORDS)
def test_effects_of_batches_are_kept_and_the_same_after_a_file(kind: str, tmp_path: Path) -> None:
    donors = np.where(np.arange(len(X0)) % 3 == 0, "one", "two")
    adata = anndata.AnnData(
        X0.astype(float), obs=pd.DataFrame({"donor": donors}, index=[f"c{i}" for i in range(len(X0))])
    )
    um.sc.tl.topics(adata, K, batch_key="donor", model=MODEL_WORDS[kind], random_state=3, max_iter=8, tol=0)
    model = getattr(um, kind)(K, random_state=3, max_iter=8, tol=0)
    want = model.fit(um.Counts(X0, samples=adata.obs_names, features=adata.var_names), batch=donors).result_
    same_fits(um.sc.to_fit(adata), want, same_run=False)
    effects = adata.varm["topics_batch_effects"]
    np.testing.assert_array_equal(effects.T.ravel(), want.batch_effects["effect"])
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    same_fits(um.sc.to_fit(again), um.sc.to_fit(adata))
    um.sc.tl.project(again, adata, batch_key="donor", key_added="again")
    np.testing.assert_allclose(again.obsm["X_again"], want.transform(X0, batch=donors), atol=1e-9)
    with pytest.raises(ValueError, match=r"batch_key='doner': adata\.obs has no such column; it has donor"):
        um.sc.tl.topics(adata, K, batch_key="doner")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_the_estimator_of_that_name(name: str) -> None:
    options = {"max_iter": 4, "tol": 0} | ({"alpha": 0.5} if name == "lda" else {})
    adata = cells()
    um.sc.tl.topics(adata, K, model=name, random_state=3, key_added="x", **options)
    model = MODELS[name](K, random_state=3, **options).fit(X0)
    assert adata.obsm["X_x"].tobytes() == model.result_.proportions.tobytes()
    assert adata.varm["x"].tobytes() == model.result_.topics.tobytes()


def test_an_estimator_brings_its_own_options_and_is_fitted() -> None:
    adata, model = cells(), um.LDA(4, alpha=0.3, random_state=1, **QUICK)
    um.sc.tl.topics(adata, model=model)
    assert adata.obsm["X_topics"].tobytes() == model.result_.proportions.tobytes()
    assert adata.obsm["topics_posterior_L"].tobytes() == model.gamma_.tobytes()
    with pytest.raises(ValueError, match="n_topics=5, but the estimator has n_components=4"):
        um.sc.tl.topics(adata, 5, model=model)
    with pytest.raises(ValueError, match="tol: pass options to the estimator itself"):
        um.sc.tl.topics(adata, model=model, tol=1e-3)


KINDS: dict[str, Any] = {
    "dense": np.array,
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int32),
    "unsigned": lambda X: X.astype(np.uint16),
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "csr_array": sp.csr_array,
    "csc_array of integers": lambda X: sp.csc_array(X.astype(np.int64)),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    [*((kind, place) for kind in KINDS for place in ("X", "view")), *((kind, "backed") for kind in list(KINDS)[-3:])]
    + [(kind, place) for kind in ("dense", "csr_matrix") for place in ("layer", "raw", "backed")],
)
def test_the_kind_and_the_place_of_the_matrix_do_not_matter(kind: str, place: str, tmp_path: Path) -> None:
    want = fitted().obsm["X_topics"]
    X = KINDS[kind](X0)
    options: dict[str, Any] = {}
    if place == "layer":
        adata, options = cells(np.ones_like(X0), layers={"counts": X}), {"layer": "counts"}
    elif place == "raw":
        adata = cells(X)
        adata.raw = adata
        adata.X, options = np.full_like(X0, 0.5), {"use_raw": True}
    elif place == "view":
        adata, options = cells(X)[:], {"copy": True}
    else:
        adata = cells(X)
    if place == "backed":
        adata.write_h5ad(tmp_path / "a.h5ad")
        adata = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    result = um.sc.tl.topics(adata, K, **QUICK, **options) or adata
    np.testing.assert_array_equal(result.obsm["X_topics"], want)
    if adata.isbacked:
        adata.file.close()


def test_some_genes_only() -> None:
    adata, other = cells(), cells()
    mask = adata.var["chosen"].to_numpy()
    um.sc.tl.topics(adata, K, mask_var="chosen", **QUICK)
    other.var["maybe"] = pd.array([True if yes else None for yes in mask], dtype="boolean")
    um.sc.tl.topics(other, K, mask_var=mask, **QUICK)
    um.sc.tl.topics(other, K, mask_var="maybe", key_added="maybe_topics", **QUICK)
    assert other.var["maybe_topics_mask"].tolist() == mask.tolist()
    fit = um.TopicModel(K, random_state=0, **QUICK).fit(X0[:, mask]).result_
    assert adata.obsm["X_topics"].tobytes() == fit.proportions.tobytes()
    assert adata.varm["topics"][mask].tobytes() == fit.topics.tobytes()
    assert not adata.varm["topics"][~mask].any()
    np.testing.assert_allclose(adata.varm["topics"].sum(axis=0), 1)
    assert adata.var["topics_mask"].tolist() == mask.tolist() == other.var["topics_mask"].tolist()
    assert adata.uns["topics"]["params"]["mask_var"] == "chosen"
    assert um.sc.to_fit(adata).features.tolist() == adata.var_names[mask].tolist()
    assert um.sc.to_fit(adata).F.tobytes() == fit.F.tobytes()


def test_raw_may_have_more_genes_in_another_order() -> None:
    adata = cells()
    adata.raw = adata
    few = adata[:, [20, 3, 4, 11, 7]].copy()
    few.X = np.log1p(few.X)
    um.sc.tl.topics(few, 2, use_raw=True, **QUICK)
    want = um.TopicModel(2, random_state=0, **QUICK).fit(X0[:, [20, 3, 4, 11, 7]]).result_
    assert few.obsm["X_topics"].tobytes() == want.proportions.tobytes()


def test_copies_leave_the_original_alone() -> None:
    adata = cells()
    result = um.sc.tl.topics(adata, K, copy=True, **QUICK)
    assert "X_topics" in result.obsm
    assert not adata.obsm
    assert not adata.uns
    assert "topics" not in adata.obs
    again = um.sc.tl.project(adata, result, copy=True)
    assert "X_topics" in again.obsm
    assert not adata.obsm


def test_a_view_gets_results_of_its_own_and_says_so() -> None:
    whole = cells()
    part = whole[whole.obs["kind"] == "b"]
    with pytest.warns(anndata.ImplicitModificationWarning, match="view"):
        um.sc.tl.topics(part, K, **QUICK)
    assert not part.is_view
    want = um.TopicModel(K, random_state=0, **QUICK).fit(X0[::2]).result_
    assert part.obsm["X_topics"].tobytes() == want.proportions.tobytes()
    assert not whole.obsm
    assert "topics" not in whole.obs


def test_a_later_fit_leaves_nothing_of_an_earlier_one() -> None:
    adata = cells()
    um.sc.tl.topics(adata, 4, model="lda", mask_var="chosen", eta=0.1, **QUICK)
    assert {"topics_posterior_L"} < set(adata.obsm)
    assert {"topics_posterior_F", "topics_posterior_F_prior"} < set(adata.varm)
    um.sc.tl.topics(adata, K, **QUICK)
    assert set(adata.obsm) == {"X_topics", "topics_loadings"}
    assert set(adata.varm) == {"topics", "topics_factors"}
    assert "topics_mask" not in adata.var
    same_fits(um.sc.to_fit(adata), um.sc.to_fit(fitted()), same_run=False)


def test_a_view_of_an_earlier_fit_can_be_fitted_again() -> None:
    adata = fitted(model="lda", mask_var="chosen")
    part = adata[10:]
    with pytest.warns(anndata.ImplicitModificationWarning, match="view"):
        um.sc.tl.topics(part, K, **QUICK)
    assert set(part.obsm) == {"X_topics", "topics_loadings"}
    assert set(part.varm) == {"topics", "topics_factors"}
    assert "topics_mask" not in part.var
    assert "topics_posterior_L" in adata.obsm
    assert "topics_mask" in adata.var


def test_several_fits_live_side_by_side() -> None:
    adata = fitted()
    um.sc.tl.topics(adata, 5, key_added="five", **QUICK)
    assert um.sc.to_fit(adata).n_topics == K
    assert um.sc.to_fit(adata, "five").n_topics == 5
    assert len(adata.uns["five_colors"]) == 5


def test_what_is_kept_is_not_the_memory_of_the_fit() -> None:
    model = um.TopicModel(K, random_state=0, **QUICK)
    adata = cells()
    um.sc.tl.topics(adata, model=model)
    before = model.result_.proportions.copy(), model.result_.L.copy()
    adata.obsm["X_topics"][:] = 0
    adata.obsm["topics_loadings"][:] = 0
    np.testing.assert_array_equal(model.result_.proportions, before[0])
    np.testing.assert_array_equal(model.result_.L, before[1])


# --- open files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of all data in HDF5 files that are read from now on."""
    names: set[str] = set()
    for way in ("__getitem__", "__array__", "read_direct"):
        original = getattr(h5py.Dataset, way)

        def recording(self: Any, *args: Any, _original: Any = original, **options: Any) -> Any:
            names.add(self.name)
            return _original(self, *args, **options)

        monkeypatch.setattr(h5py.Dataset, way, recording)
    return names


@pytest.fixture
def open_file(tmp_path: Path) -> Any:
    layers = {"counts": sp.csr_matrix(X0), "other": sp.csr_matrix(X0 + 1)}
    cells(sp.csr_matrix(np.log1p(X0)), layers=layers).write_h5ad(tmp_path / "cells.h5ad")
    with h5py.File(tmp_path / "cells.h5ad") as file:
        yield file


def test_of_an_open_file_only_the_chosen_layer_is_read(open_file: Any, read_names: set[str]) -> None:
    on_disk = {name: anndata.io.sparse_dataset(open_file[f"layers/{name}"]) for name in ("counts", "other")}
    adata = cells(anndata.io.sparse_dataset(open_file["X"]), layers=on_disk)
    read_names.clear()
    um.sc.tl.topics(adata, K, layer="counts", **QUICK)
    assert read_names == {f"/layers/counts/{part}" for part in ("data", "indices", "indptr")}
    assert adata.obsm["X_topics"].tobytes() == fitted().obsm["X_topics"].tobytes()


def test_in_backed_mode_x_is_read_only_if_it_is_chosen(tmp_path: Path, read_names: set[str]) -> None:
    path = tmp_path / "cells.h5ad"
    cells(X0, layers={"more": X0 + 1}).write_h5ad(path)
    adata = anndata.read_h5ad(path, backed="r")
    before = path.read_bytes()
    read_names.clear()
    um.sc.tl.topics(adata, K, layer="more", **QUICK)
    assert read_names == set()  # anndata itself reads all layers when it opens the file
    um.sc.tl.topics(adata, K, **QUICK)
    assert read_names == {"/X"}
    assert adata.isbacked
    assert adata.obsm["X_topics"].tobytes() == fitted().obsm["X_topics"].tobytes()
    copied = um.sc.tl.topics(adata, 2, copy=True, **QUICK)
    assert not copied.isbacked
    assert copied.obsm["X_topics"].shape == (N, 2)
    part = adata[:10]
    with pytest.raises(ValueError, match="a view of a file that is open cannot keep results; use copy=True"):
        um.sc.tl.topics(part, 2, **QUICK)
    assert um.sc.tl.topics(part, 2, copy=True, **QUICK).n_obs == 10
    adata.file.close()
    assert path.read_bytes() == before


# --- there and back --------------------------------------------------------------------------------------------------


def through_h5ad(adata: AnnData, folder: Path) -> AnnData:
    adata.write_h5ad(folder / "a.h5ad")
    return anndata.read_h5ad(folder / "a.h5ad")


def through_zarr(adata: AnnData, folder: Path) -> AnnData:
    pytest.importorskip("zarr", reason="zarr is not installed")
    adata.write_zarr(folder / "a.zarr")
    return anndata.read_zarr(folder / "a.zarr")


ROUND_TRIPS: dict[str, dict[str, Any]] = {
    **{name: {"model": name} for name in MODELS},
    "float32": {"dtype": "float32"},
    "lda with a prior of topics": {"model": "lda", "eta": 0.1},
    "some genes": {"mask_var": "chosen", "model": "lda", "eta": 0.2},
    "Gibbs sampling": {"model": "allocation", "method": "gibbs", "sweeps": 10, "burn_in": 5},
    "learned by the way": {"refine": 1},
}


@pytest.mark.parametrize("what", ROUND_TRIPS)
def test_a_fit_is_the_same_after_a_file(what: str, tmp_path: Path) -> None:
    options = {"max_iter": 4, "tol": 0, "random_state": 0} | ROUND_TRIPS[what]
    adata = cells(sp.csr_matrix(X0))
    um.sc.tl.topics(adata, K, **options)
    mask = options.pop("mask_var", None)
    X = um.Counts(X0, samples=adata.obs_names, features=adata.var_names)
    if mask:
        keep = adata.var[mask].to_numpy()
        X = um.Counts(X0[:, keep], samples=adata.obs_names, features=adata.var_names[keep])
    want = MODELS[options.pop("model", "topics")](K, **options).fit(X).result_
    same_fits(um.sc.to_fit(adata), want, same_run=False)
    again = through_h5ad(adata, tmp_path)
    same_fits(um.sc.to_fit(again), um.sc.to_fit(adata))
    assert again.obs["topics"].tolist() == adata.obs["topics"].tolist()
    assert list(again.uns["topics_colors"]) == list(adata.uns["topics_colors"])


@pytest.mark.filterwarnings("ignore::UserWarning:zarr", "ignore::FutureWarning", "ignore:.*zarr.*:UserWarning")
def test_zarr_keeps_it_too(tmp_path: Path) -> None:
    adata = fitted(model="lda", eta=0.1)
    same_fits(um.sc.to_fit(through_zarr(adata, tmp_path)), um.sc.to_fit(adata))


def test_a_fit_becomes_an_anndata_and_comes_back(tmp_path: Path) -> None:
    counts = um.Counts(
        X0,
        samples=[f"text {i}" for i in range(N)],
        features=[f"wörd {j}" for j in range(M)],
        metadata=pd.DataFrame({"year": range(1990, 1990 + N), 7: ["x", "y"] * (N // 2)}),
        text={"rules": 1, "stop_words": None, "ngrams": [1, 2], "min_df": 1, "max_df": 1.0},
    )
    fit = um.TopicModel(K, random_state=0, **QUICK).fit(counts).result_
    adata = um.sc.from_fit(fit)
    assert adata.shape == (N, M)
    assert adata.X is None
    assert adata.obs["year"].tolist() == list(range(1990, 1990 + N))
    assert adata.obsm["X_topics"].tobytes() == fit.proportions.tobytes()
    same_fits(um.sc.to_fit(through_h5ad(adata, tmp_path)), fit)
    nameless = um.sc.from_fit(um.TopicModel(K, random_state=0, **QUICK).fit(X0).result_, "x")
    assert nameless.var_names.tolist() == [f"feature {j}" for j in range(1, M + 1)]
    assert nameless.obsm["X_x"].tobytes() == fit.proportions.tobytes()


def test_the_fit_of_some_cells_has_their_proportions_and_all_topics() -> None:
    adata = fitted(model="gamma-poisson")
    part = adata[adata.obs["kind"] == "t"]
    fit = um.sc.to_fit(part)
    assert part.is_view  # asking does not change it
    np.testing.assert_array_equal(fit.proportions, adata.obsm["X_topics"][1::2])
    np.testing.assert_array_equal(fit.topics, adata.varm["topics"])
    assert fit.samples.tolist() == adata.obs_names[1::2].tolist()
    assert fit.posterior["L"].shape == (N // 2, K)


@pytest.mark.parametrize("model", ["topics", "lda"])
def test_genes_that_are_dropped_later_do_not_change_proportions(model: str) -> None:
    adata = fitted(model=model)
    few = adata[:, 5:20].copy()
    fit = um.sc.to_fit(few)
    np.testing.assert_allclose(fit.proportions, adata.obsm["X_topics"], rtol=1e-12)
    topics = adata.varm["topics"][5:20]
    np.testing.assert_allclose(fit.topics, topics / topics.sum(axis=0), rtol=1e-12)
    if model == "lda":
        np.testing.assert_allclose(fit.posterior["F"].sum(axis=0), 1)


def test_topics_without_any_of_their_genes_are_none() -> None:
    adata = fitted(mask_var="chosen")
    with pytest.raises(ValueError, match="none of the genes of the topics under 'topics' are left"):
        um.sc.to_fit(adata[:, ~adata.var["chosen"]])


# --- projecting ------------------------------------------------------------------------------------------------------

NEW = np.random.default_rng(8).permutation(X0)[:17]


@pytest.mark.parametrize("name", MODELS)
def test_projecting_is_transforming(name: str, tmp_path: Path) -> None:
    adata = fitted(model=name, max_iter=4)
    reference = through_h5ad(adata, tmp_path)
    model = MODELS[name](K, random_state=0, max_iter=4, tol=0).fit(X0)
    L, F = model.transform(NEW), model.components_.T
    query = cells(NEW)
    assert um.sc.tl.project(query, reference) is None
    np.testing.assert_allclose(query.obsm["X_topics"], poisson_to_topics(L, F)[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(query.varm["topics"], adata.varm["topics"])
    assert query.obs["topics"].astype(int).tolist() == (query.obsm["X_topics"].argmax(axis=1) + 1).tolist()
    assert list(query.uns["topics_colors"]) == list(adata.uns["topics_colors"])
    np.testing.assert_allclose(um.sc.to_fit(query).sizes, NEW.sum(axis=1))


def test_a_model_may_come_as_anything_that_holds_one(tmp_path: Path) -> None:
    reference = fitted(key_added="mine")
    fit = um.sc.to_fit(reference, "mine")
    fit.save(tmp_path / "model.safetensors")
    want = um.sc.tl.project(cells(NEW), reference, key="mine", copy=True)
    assert want.obsm["X_topics"].std() > 0.1
    for model in (fit, tmp_path, tmp_path / "model.safetensors", str(tmp_path / "model.safetensors"), from_fit(fit)):
        query = cells(NEW)
        um.sc.tl.project(query, model, key_added="theirs")
        np.testing.assert_array_equal(query.obsm["X_theirs"], want.obsm["X_topics"])
    for wrong in (3, None, reference.obs):
        with pytest.raises(TypeError, match="use an AnnData with topics, a Fit, a fitted estimator, or a path"):
            um.sc.tl.project(cells(NEW), wrong)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors: no such file"):
        um.sc.tl.project(cells(NEW), tmp_path / "nowhere.safetensors")


def test_genes_are_matched_by_name_whatever_their_order() -> None:
    reference, query = fitted(), cells(NEW)
    mixed = query[:, np.random.default_rng(0).permutation(M)].copy()
    for adata in (query, mixed):
        um.sc.tl.project(adata, reference)
    np.testing.assert_allclose(mixed.obsm["X_topics"], query.obsm["X_topics"], rtol=1e-9, atol=1e-12)
    back = [mixed.var_names.get_loc(name) for name in query.var_names]
    np.testing.assert_array_equal(mixed.varm["topics"][back], query.varm["topics"])


def test_unknown_genes_are_left_out_and_counted() -> None:
    reference, query = fitted(), cells(NEW)
    more = cells(np.hstack([NEW, 9 * NEW[:, :4]]))
    um.sc.tl.project(query, reference)
    with pytest.warns(UserWarning, match=r"^4 genes of adata are unknown to the model: ignored$"):
        um.sc.tl.project(more, reference)
    np.testing.assert_array_equal(more.obsm["X_topics"], query.obsm["X_topics"])
    assert more.var["topics_mask"].tolist() == [True] * M + [False] * 4
    assert not more.varm["topics"][M:].any()
    assert more.uns["topics"]["params"]["unknown_genes"] == 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", ["topics", "poisson-nmf", "lda", "gamma-poisson", "bayes", "allocation"])
def test_missing_genes_are_not_zeros(model: str) -> None:
    """Cells with many counts show the same proportions by part of the genes as by all; filled with zeros they do not."""
    reference = cells(random_counts(60, M, seed=2, mean=20))
    um.sc.tl.topics(reference, K, model=model, tol=1e-3, random_state=0)
    truth = np.random.default_rng(1).dirichlet(np.ones(K), 12)
    query = cells(np.round(1e5 * truth @ reference.varm["topics"].T))
    kept = np.argsort(-reference.varm["topics"][:, 0])[M // 3 :]  # without the main genes of the first topic
    assert reference.varm["topics"][kept].sum(axis=0)[0] < 0.5
    few = query[:, kept].copy()
    with pytest.warns(
        UserWarning, match=r"^10 genes of the model are not in adata: taken as not measured, topics are found"
    ):
        um.sc.tl.project(few, reference)
    np.testing.assert_allclose(few.obsm["X_topics"], truth, atol=0.01)
    assert few.uns["topics"]["params"]["missing"] == "unmeasured"
    filled = query.copy()
    filled.X[:, np.setdiff1d(np.arange(M), kept)] = 0
    um.sc.tl.project(filled, reference)
    assert np.abs(filled.obsm["X_topics"] - truth).max() > 0.1
    with pytest.warns(UserWarning, match=r"taken as 0 in every sample \(missing='unmeasured' changes that\)"):
        zeros = um.sc.tl.project(few, reference, missing="zero", copy=True)
    np.testing.assert_allclose(zeros.obsm["X_topics"], filled.obsm["X_topics"], rtol=1e-9, atol=1e-12)
    with warnings.catch_warnings(action="ignore"):
        np.testing.assert_allclose(um.sc.to_fit(reference).transform(query[:, kept]), few.obsm["X_topics"], atol=1e-9)
    np.testing.assert_array_equal(few.varm["topics"], reference.varm["topics"][kept])
    np.testing.assert_allclose(um.sc.to_fit(few).proportions, few.obsm["X_topics"], rtol=1e-9, atol=1e-15)


def test_obs_says_how_well_cells_are_explained_and_cells_of_another_kind_bring_a_warning() -> None:
    both = random_counts(240, 120, seed=3)
    reference, query = cells(both[:200]), cells(both[200:])
    um.sc.tl.topics(reference, K, tol=1e-3, random_state=0)
    um.sc.tl.project(query, reference)
    table = um.analysis.goodness_of_fit(um.sc.to_fit(reference), both[200:])
    for name in ("known", "misfit", "rank"):
        np.testing.assert_allclose(query.obs[f"topics_{name}"], table[name])
    assert query.obs["topics_rank"].median() > 0.2
    strangers = cells(random_counts(40, 120, seed=4))
    with pytest.warns(UserWarning, match="these samples do not fit the model: 9.% of them|: 100% of them"):
        um.sc.tl.project(strangers, reference)
    um.sc.tl.topics(strangers, K, **QUICK)  # its own topics leave nothing of those of another
    assert not [name for name in strangers.obs if name.startswith("topics_")]


def test_missing_and_unknown_genes_are_told_at_once() -> None:
    query = cells(NEW)
    query.var_names = [*query.var_names[:-2], "new", "newer"]
    with pytest.warns(
        UserWarning, match=r"^2 genes of the model .* the others .*; 2 genes of adata are unknown .* ignored$"
    ):
        um.sc.tl.project(query, fitted())
    params = query.uns["topics"]["params"]
    assert (params["missing_genes"], params["unknown_genes"]) == (2, 2)


def test_other_genes_altogether_are_refused() -> None:
    query = cells(NEW)
    query.var_names = [f"ENSG{j}" for j in range(M)]
    with pytest.raises(ValueError, match=r"no feature has a name that the model knows \(such as gene 0\)"):
        um.sc.tl.project(query, fitted())
    assert not query.obsm


def test_what_was_projected_is_no_model() -> None:
    query = cells(NEW)
    um.sc.tl.project(query, fitted())
    with pytest.raises(ValueError, match="'topics' were projected themselves; use the model they came from"):
        um.sc.tl.project(cells(NEW), query)


def test_the_layer_of_the_query_is_its_own() -> None:
    reference, query, want = fitted(), cells(np.log1p(NEW), layers={"raw counts": NEW}), cells(NEW)
    um.sc.tl.project(query, reference, layer="raw counts")
    um.sc.tl.project(want, reference)
    np.testing.assert_array_equal(query.obsm["X_topics"], want.obsm["X_topics"])
    assert query.uns["topics"]["params"]["layer"] == "raw counts"


def test_a_projection_survives_its_file(tmp_path: Path) -> None:
    query = cells(NEW)
    um.sc.tl.project(query, fitted(model="lda"))
    same_fits_but_loglik = [um.sc.to_fit(adata) for adata in (query, through_h5ad(query, tmp_path))]
    assert all(np.isnan(fit.loglik) for fit in same_fits_but_loglik)
    same_fits(*(replace(fit, loglik=0.0) for fit in same_fits_but_loglik))


# --- what is wrong with the data or the question ---------------------------------------------------------------------


def test_empty_cells_have_no_largest_topic() -> None:
    X = X0.copy()
    X[[3, 8]] = 0
    adata, query = cells(X), cells(X)
    with pytest.warns(UserWarning, match="2 cells have no counts in these genes, and so no topics; filter"):
        um.sc.tl.topics(adata, K, **QUICK)
    assert np.flatnonzero(adata.obs["topics"].isna()).tolist() == [3, 8]
    np.testing.assert_allclose(adata.obsm["X_topics"][[3, 8]], 1 / K)
    X[8, 0] = 1
    query = cells(X)
    with pytest.warns(UserWarning, match="1 cell has no counts"):
        um.sc.tl.project(query, adata)
    assert np.flatnonzero(query.obs["topics"].isna()).tolist() == [3]
    np.testing.assert_allclose(query.obsm["X_topics"][3], 1 / K)


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_genes_that_share_a_name_are_refused() -> None:
    adata = cells()
    adata.var_names = ["twin", "twin", *adata.var_names[2:]]
    with pytest.raises(ValueError, match=r"var_names are not unique; call adata\.var_names_make_unique\(\) first"):
        um.sc.tl.topics(adata, K)
    adata.var_names_make_unique()
    um.sc.tl.topics(adata, K, **QUICK)


def test_fractions_bring_a_warning_that_says_where_counts_are() -> None:
    normal = np.log1p(X0 / X0.sum(axis=1, keepdims=True) * 1e3)
    adata = cells(normal, layers={"scaled": normal - normal.mean(axis=0), "counts": X0})
    with pytest.warns(
        UserWarning, match=r"adata\.X: 100% of .* layer 'counts' holds whole numbers: use layer='counts'"
    ):
        um.sc.tl.topics(adata, K, **QUICK)
    with pytest.raises(ValueError, match=r"adata\.layers\['scaled'\]: Negative .*use layer='counts'"):
        um.sc.tl.topics(adata, K, layer="scaled")
    adata = cells(normal)
    with pytest.warns(UserWarning, match=r"adata\.X: 100% of the values .* topics are models of counts$"):
        um.sc.tl.topics(adata, K, **QUICK)
    adata.raw = cells(X0)
    with pytest.warns(UserWarning, match="; raw holds whole numbers: use use_raw=True"):
        um.sc.tl.topics(adata, K, **QUICK)
    adata = cells(layers={"log": normal})
    with pytest.warns(UserWarning, match=r"adata\.layers\['log'\]: .* X holds .* leave layer and use_raw out"):
        um.sc.tl.topics(adata, K, layer="log", **QUICK)


def test_a_few_fractions_are_no_reason_to_warn() -> None:
    um.sc.tl.topics(
        cells(np.where(X0 == 1, 1.25, X0)), K, **QUICK
    )  # corrected or shared counts; warnings are errors here


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no topics": ({"n_topics": 0}, "n_topics=0; use a whole number of topics >= 1"),
    "half a topic": ({"n_topics": 2.5}, "n_topics=2.5; use a whole number"),
    "no such model": ({"model": "nmf"}, "model='nmf'; choose one of topics, poisson-nmf, "),
    "no such option": ({"alpha": 1.0}, "model 'topics' has no option 'alpha'; it has batch_prior, callbacks, "),
    "a wrong option": ({"tol": -1}, "tol=-1; use a number >= 0"),
    "no such layer": ({"layer": "counts"}, "there is no layer 'counts' in it; it has X"),
    "no raw": ({"use_raw": True}, "there is no raw in it; it has X"),
    "layer and raw": ({"use_raw": True, "layer": "x"}, "use layer or use_raw=True, not both"),
    "no such mask": ({"mask_var": "best"}, r"mask_var: there is no column 'best' in adata\.var; there are: 'chosen'"),
    "a mask of numbers": ({"mask_var": np.arange(M)}, r"mask_var is int64 of shape \(30,\); use True or False"),
    "a short mask": ({"mask_var": [True]}, r"mask_var is bool of shape \(1,\); use True or False for each of the 30"),
    "an empty mask": ({"mask_var": np.zeros(M, dtype=bool)}, "mask_var is False for every gene"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_questions_get_clear_answers_and_change_nothing(what: str) -> None:
    options, message = WRONG[what]
    adata = cells()
    with pytest.raises(ValueError, match=message):
        um.sc.tl.topics(adata, **options)
    assert not adata.obsm
    assert not adata.uns


def test_no_counts_at_all() -> None:
    with pytest.raises(ValueError, match="there is no X in it; it has no matrix at all"):
        um.sc.tl.topics(cells()[:, :].to_df().pipe(lambda table: AnnData(obs=table[[]], var=table.T[[]])), K)
    with pytest.raises(ValueError, match="there is no X in it; it has layer 'counts'"):
        um.sc.tl.topics(AnnData(shape=X0.shape, layers={"counts": X0}), K)
    with (
        pytest.warns(UserWarning, match="40 cells have no counts"),
        pytest.raises(ValueError, match="no counts at all"),
    ):
        um.sc.tl.topics(cells(np.zeros_like(X0)), K)


def test_pictures_and_models_need_topics() -> None:
    for use in (um.sc.to_fit, um.sc.pl.structure, lambda adata: um.sc.tl.project(cells(), adata)):
        with pytest.raises(ValueError, match="there are no topics under 'topics' in this AnnData; run"):
            use(cells())
    with pytest.raises(ValueError, match="there are no topics under 'mine' in this AnnData; run"):
        um.sc.pl.convergence(fitted(), key="mine")


def test_without_anndata_the_reason_is_told() -> None:
    program = """
import sys
sys.modules["anndata"] = None
import numpy as np, unmix as um
fit = um.TopicModel(2, random_state=0).fit(np.eye(4) + 1).result_
for use in (lambda: um.sc, lambda: um.sc.from_fit(fit)):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == 2 * ["unmix.sc needs anndata; install it with: pip install anndata"]


# --- pictures --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_windows() -> Any:
    yield
    plt.close("all")


def new_ax() -> Any:
    return Figure(figsize=(12, 4), layout="constrained").subplots()


def colours_drawn(ax: Any) -> list[str]:
    """Of the stack, from the top topic down."""
    return [to_hex(area.get_facecolor()[0]).upper() for area in ax.collections]


def test_the_structure_plot_groups_by_columns_of_obs() -> None:
    ax = new_ax()
    assert um.sc.pl.structure(fitted(), groupby="kind", order="age", ax=ax) is ax
    above = ax.child_axes[0]  # below are the names of so few cells
    assert [label.get_text() for label in above.get_xticklabels()] == ["b", "t"]
    assert ax.get_xlabel() == "kind, each by age"
    with pytest.raises(ValueError, match="there is no column 'sort'; choose one of kind, age, topics"):
        um.sc.pl.structure(fitted(), groupby="sort")


def test_topics_keep_their_colours_in_parts_and_projections() -> None:
    adata = fitted()
    color = dict(zip("123", adata.uns["topics_colors"], strict=True))
    part = adata[adata.obs["topics"] == "3"].copy()  # anndata drops the categories without cells, and their colours
    assert list(part.uns["topics_colors"]) == [color["3"]]
    query = cells(X0[adata.obs["topics"] == "2"])
    um.sc.tl.project(query, adata)
    for some in (adata, part, adata[adata.obs["topics"] == "2"], query):
        ax = um.sc.pl.structure(some, ax=new_ax())
        heaviest_first = np.argsort(-um.sc.to_fit(some).shares)
        assert colours_drawn(ax)[::-1] == [color[str(k + 1)] for k in heaviest_first]


def test_colours_chosen_for_scanpy_are_taken_up() -> None:
    adata = fitted()
    adata.uns["topics_colors"] = ["#111111", "#222222", "#333333"]
    assert sorted(colours_drawn(um.sc.pl.structure(adata, ax=new_ax()))) == ["#111111", "#222222", "#333333"]
    adata.obs["topics"] = adata.obs["topics"].cat.rename_categories({"1": "T cells"})  # whose topic is not known then
    first = fitted().uns["topics_colors"][0]
    assert sorted(colours_drawn(um.sc.pl.structure(adata, ax=new_ax()))) == [first, "#222222", "#333333"]


def test_top_features_have_the_colours_of_the_structure_plot() -> None:
    adata = fitted()
    adata.uns["topics_colors"] = ["#111111", "#222222", "#333333"]
    panels = um.sc.pl.top_features(adata, n_genes=3, topics=[1, 2, 3])
    drawn = [{to_hex(bar.get_facecolor()) for bar in panel.patches} for panel in panels]
    assert all(color in bars for color, bars in zip(["#111111", "#222222", "#333333"], drawn, strict=True))


def test_pyplot_has_new_pictures_and_shows_them_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bool] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(True))
    adata = fitted()
    ax = um.sc.pl.structure(adata)
    assert plt.gcf() is ax.figure
    plt.close("all")
    um.sc.pl.structure(adata, ax=new_ax())
    assert plt.get_fignums() == []
    assert not shown
    um.sc.pl.structure(adata, show=True)
    assert shown == [True]


def test_a_new_picture_can_be_saved_by_pyplot(tmp_path: Path) -> None:
    um.sc.pl.structure(fitted(), groupby="kind")
    plt.savefig(tmp_path / "structure.png")
    image = plt.imread(tmp_path / "structure.png")
    assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > K


def test_convergence_is_that_of_the_fit() -> None:
    adata = fitted()
    axes = um.sc.pl.convergence(adata)
    assert np.ravel(axes)[0].lines
    query = cells(NEW)
    um.sc.tl.project(query, adata)
    with pytest.raises(ValueError, match="were projected, not fitted; draw the model they came from"):
        um.sc.pl.convergence(query)


def test_top_genes_are_drawn() -> None:
    assert len(np.ravel(um.sc.pl.top_features(fitted(), n_genes=4))) == K
    assert len(np.ravel(um.sc.pl.top_features(fitted(), topics=[2]))) == 1


def test_blood_cells_separate_by_kind() -> None:
    folder = shared_data("pbmc_facs")
    X = sp.load_npz(folder / "counts.npz")[::6]
    obs = pd.read_csv(folder / "samples.csv").iloc[::6]
    X = X[:, np.asarray(X.sum(axis=0)).ravel() > 20]
    adata = AnnData(X, obs=obs.set_axis(obs.index.astype(str), axis=0))
    um.sc.tl.topics(adata, 6, tol=1e-6)
    table = pd.crosstab(adata.obs["subpop"], adata.obs["topics"], normalize="index")
    table = table.loc[["B cell", "CD14+", "NK cell"]]
    assert (table.max(axis=1) > 0.9).all()
    assert table.idxmax(axis=1).is_unique


def test_usage_is_drawn_where_cells_lie() -> None:
    adata = anndata.AnnData(np.random.default_rng(0).poisson(3.0, (40, 6)).astype(float))
    um.sc.tl.topics(adata, n_topics=3)
    with pytest.raises(
        ValueError, match=r"no coordinates of an embedding in adata.obsm; choose one of X_topics, topics_loadings"
    ):
        um.sc.pl.usage(adata)
    adata.obsm["X_umap"] = np.random.default_rng(1).random((40, 2))
    adata.obsm["spatial"] = np.random.default_rng(2).random((40, 2))
    panels = um.sc.pl.usage(adata)
    assert len(panels) == 3
    assert panels[0].yaxis_inverted()  # rows of an image
    ax = um.sc.pl.usage(adata, "umap", topics=2, ax=panels[0])
    assert ax is panels[0]
    points = um.sc.pl.usage(adata, "umap", topics=[2])[0].collections[0]
    shown = np.asarray(points.get_array())
    np.testing.assert_allclose(shown, np.sort(adata.obsm["X_topics"][:, 1]))
    order = np.argsort(adata.obsm["X_topics"][:, 1], kind="stable")
    np.testing.assert_allclose(points.get_offsets(), adata.obsm["X_umap"][order])
    with pytest.raises(ValueError, match="no coordinates tsne in"):
        um.sc.pl.usage(adata, "tsne")
    panels = um.sc.pl.prevalence(adata, ["a", "b"] * 20)
    assert len(panels) == 3


def test_a_key_that_files_of_anndata_cannot_hold_is_refused() -> None:
    adata = cells(NEW)
    with pytest.raises(ValueError, match="key_added='a/b'; use a name without /"):
        um.sc.tl.topics(adata, 2, key_added="a/b")
    um.sc.tl.topics(adata, 2)
    for tool, options in (
        (um.sc.tl.differences, {}),
        (um.sc.tl.prevalence, {}),
        (um.sc.tl.effects, {"formula": "~ a"}),
    ):
        with pytest.raises(ValueError, match="key_added='a/b'; use a name without /"):
            tool(adata, key_added="a/b", **options)


def test_seeds_and_known_topics_name_programs_of_genes() -> None:
    seeds = {"one": ["gene 1", "gene 2"], "two": ["GENE 5"]}
    adata = fitted(seeds=seeds)
    fit = um.sc.to_fit(adata)
    assert fit.labels[:2] == ["one", "two"]
    assert fit.data["known"]["seeds"] == {"one": ["gene 1", "gene 2"], "two": ["gene 5"]}
    same_fits(fit, um.TopicModel(K, seeds=seeds, random_state=0, **QUICK).fit(adata).result_, same_run=False)
    table = pd.DataFrame(fit.topics[:, :2], index=adata.var_names, columns=["one", "two"])
    again = fitted(known=table, model="lda")
    np.testing.assert_allclose(again.varm["topics"][:, :2], table, atol=1e-9)
