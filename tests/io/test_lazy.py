"""Counts that are not in memory yet: read if they fit, and fitted from shards if not."""

from pathlib import Path

import anndata
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import unmix as um
from unmix.base import memory
from unmix.cli import main
from unmix.counts.counts import memory_of


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.3, 1, (60, 3)) @ rng.gamma(0.3, 1, (3, 25)) * 9 + 0.3).astype(float)


@pytest.fixture
def backed(X, tmp_path):
    adata = anndata.AnnData(sp.csr_matrix(X))
    adata.var_names = [f"gene{j}" for j in range(X.shape[1])]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    return anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")


@pytest.fixture
def little(monkeypatch):
    """Fits of more than 1,000 bytes go over shards."""
    monkeypatch.setattr("unmix.counts.counts.IN_MEMORY", 1000)


def fitted(X, **options):
    return um.TopicModel(3, random_state=0, **options).fit(X).result_


def test_an_anndata_is_fitted_by_its_counts_and_names_wherever_they_are(X, backed):
    known = fitted(um.Counts(X, features=backed.var_names))
    for adata in (backed, backed.to_memory()):
        fit = fitted(adata)
        np.testing.assert_array_equal(fit.L, known.L)
        assert fit.features.tolist() == backed.var_names.tolist()
        assert um.TopicModel(3, random_state=0).fit(adata).transform(adata).shape == (60, 3)


@pytest.mark.parametrize("kind", ["backed", "dask"])
def test_what_does_not_fit_is_fitted_from_shards_that_go_in_the_end(kind, X, backed, little):
    source = backed if kind == "backed" else da.from_array(X, chunks=(20, 10))
    with pytest.warns(UserWarning, match="written as shards to a temporary folder, (.*), and") as said:
        fit = fitted(source)
    np.testing.assert_array_equal(fit.L, fitted(um.Shards.of(um.Counts(X))).L)
    folder = str(said[0].message).split("folder, ")[1].split(",")[0]
    assert not Path(folder).exists()


@pytest.mark.parametrize("kind", ["backed", "dask"])
def test_free_memory_never_decides_which_algorithm_fits(kind, X, backed, monkeypatch):
    source = backed if kind == "backed" else da.from_array(X, chunks=(20, 10))
    known = fitted(um.Counts(X))
    np.testing.assert_array_equal(fitted(source).L, known.L)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    for fit in (fitted, lambda data: um.sc.tl.topics(anndata.AnnData(data) if kind == "dask" else data, 3, copy=True)):
        with pytest.raises(ValueError, match=r"would need .* of memory, .* are free; write them with unmix\.shard"):
            fit(source)
    monkeypatch.setattr(memory, "available", lambda: 1 << 60)
    monkeypatch.setattr("unmix.counts.counts.IN_MEMORY", 1000)
    with pytest.warns(UserWarning, match="written as shards"):
        assert fitted(source).data["shards"] == 1


def test_free_memory_never_decides_how_a_file_is_fitted(X, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sp.save_npz("x.npz", sp.csr_array(X))
    command = ["fit", "x.npz", "-k", "2", "--max-iter", "3", "--tol", "0", "--json", "-o"]

    def run(*more):
        with pytest.raises(SystemExit) as end:
            main([*command, *more])
        return end.value.code or 0, capsys.readouterr()

    assert run("plain")[0] == 0
    monkeypatch.setattr("unmix.io.read.BYTES_PER_NONZERO", 10**7)
    needed = 10**7 * np.count_nonzero(X)
    assert run("memory", "--memory", str(needed))[0] == 0
    assert run("shards", "--memory", str(needed - 1))[0] == 0
    plain, memory_, shards = (um.load(f"{name}/model.safetensors") for name in ("plain", "memory", "shards"))
    np.testing.assert_array_equal(plain.L, memory_.L)
    assert "shards" not in plain.data
    assert shards.data["shards"] == 1
    assert shards.data["python"] == "um.shard('x.npz', 'x.shards')"
    monkeypatch.setattr(memory, "available", lambda: 1000)
    code, said = run("little")
    assert code == 2
    assert "would need" in said.err
    assert "--memory" in said.err


def test_topics_of_a_backed_anndata_that_does_not_fit_are_those_of_its_shards(X, backed, little):
    genes = np.arange(X.shape[1]) % 2 == 0
    with pytest.warns(UserWarning, match="written as shards"):
        found = um.sc.tl.topics(backed, 3, mask_var=genes, copy=True)
    known = um.TopicModel(3, random_state=0).fit(um.Shards.of(um.Counts(X[:, genes]))).result_
    np.testing.assert_array_equal(found.obsm["X_topics"], known.proportions)
    assert (found.varm["topics"][~genes] == 0).all()


def test_an_error_in_a_backed_matrix_names_it(X, tmp_path, little):
    X[17, 3] = -1
    anndata.AnnData(sp.csr_matrix(X)).write_h5ad(tmp_path / "bad.h5ad")
    with (
        pytest.warns(UserWarning, match="written as shards"),
        pytest.raises(ValueError, match=r"adata.X: .*row 18 .*column 4"),
    ):
        um.sc.tl.topics(anndata.read_h5ad(tmp_path / "bad.h5ad", backed="r"), 3, copy=True)


def test_an_anndata_without_x_says_what_to_give():
    with pytest.raises(ValueError, match="has no X; use one of its layers"):
        fitted(anndata.AnnData(shape=(3, 4)))


def test_memory_is_asked_for_only_where_counts_are_not_in_it(X, backed):
    assert memory_of(X) == memory_of(sp.csr_array(X)) == memory_of(backed.to_memory()) == 0
    assert memory_of(backed) == 48 * np.count_nonzero(X)
    assert memory_of(da.from_array(X)) == 48 * X.size


@pytest.mark.parametrize("model", [um.TopicModel, um.PoissonNMF, um.LDA, um.GammaPoisson])
def test_large_loadings_lie_in_a_file_and_are_the_same(model, X, tmp_path, monkeypatch):
    shards = um.Shards.of(um.Counts(X))
    known = model(3, random_state=0).fit(shards).result_
    monkeypatch.setattr(memory, "LARGE", 100)
    monkeypatch.setattr("unmix.storage.tensors.LARGE", 100)
    fit = model(3, random_state=0).fit(shards).result_
    assert isinstance(fit.L, np.memmap)
    np.testing.assert_array_equal(fit.L, known.L)
    np.testing.assert_array_equal(fit.F, known.F)
    for name, array in known.posterior.items():
        np.testing.assert_array_equal(fit.posterior[name], array)
    with pytest.raises(ValueError, match="read-only"):
        fit.L[0] = 1
    fit.save(tmp_path / "large.safetensors")
    again = um.load(tmp_path / "large.safetensors")
    assert isinstance(again.L, np.memmap)
    np.testing.assert_array_equal(again.L[10:20], known.L[10:20])
    np.testing.assert_array_equal(again.proportions, known.proportions)
