"""Every analysis answers in one form, and takes fits and counts in every form that they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.analysis.results import SHOWN, Result
from unmix.io.write import write_counts
from unmix.registry import ANALYSES

X = um.Counts(
    random_counts(20, 15, K=3, seed=1, mean=6.0),
    samples=[f"s{i}" for i in range(20)],
    features=[f"f{j}" for j in range(15)],
)
MODEL = um.TopicModel(3, random_state=0).fit(X)
FIT = MODEL.result_
OTHER = um.TopicModel(2, random_state=0).fit(X).result_
QUICK: dict[str, dict[str, Any]] = {
    "choose": {"topics": [1, 2], "folds": 2, "random_state": 0},
    "stability": {"n_components": 3, "runs": 2, "random_state": 0},
    "intervals": {"sweeps": 10, "burn_in": 5, "random_state": 0},
    "freedom": {"probes": 2},
    "quality": {"top": 3},
    "prevalence": {"by": list("ab") * 10},
    "assign": {"catalogue": FIT, "random_state": 0},
    "effects": {"formula": "~ kind", "metadata": pd.DataFrame({"kind": list("ab") * 10})},
}


def answer(name: str, **given: Any) -> Any:
    row = ANALYSES[name]
    pool = {"X": X, "fit": FIT, "other": OTHER, "fits": [FIT, OTHER]}
    return row.here(row.function)(
        **{need: pool[need] for need in row.needs if need in pool} | QUICK.get(name, {}) | given
    )


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {name: answer(name) for name in ANALYSES}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_result_has_a_table_a_summary_advice_and_one_screen_of_repr(name: str, results: dict[str, Any]) -> None:
    found, row = results[name], ANALYSES[name]
    assert isinstance(found, Result)
    assert type(found) is row.here(row.result)
    assert isinstance(found.table, pd.DataFrame)
    assert isinstance(found.summary, pd.DataFrame)
    assert all(isinstance(sentence, str) for sentence in found.advice())
    lines = repr(found).splitlines()
    assert lines[0].startswith(type(found).__name__)
    assert len(lines) <= 24
    assert found.summary.to_html(**SHOWN, border=0) in found._repr_html_()


@pytest.mark.parametrize("name", ANALYSES)
def test_every_result_is_loaded_as_it_was_saved(name: str, results: dict[str, Any], tmp_path: Path) -> None:
    found = results[name]
    found.save(tmp_path / "result.safetensors")
    loaded = type(found).load(tmp_path / "result.safetensors")
    assert repr(loaded) == repr(found)
    assert loaded.facts == found.facts


@pytest.mark.parametrize("name", ANALYSES)
def test_every_result_draws_itself_without_the_fit(name: str, results: dict[str, Any], tmp_path: Path) -> None:
    assert np.ravel(results[name].plot())[0].figure is not None
    results[name].save(tmp_path / "result.safetensors")
    assert np.ravel(type(results[name]).load(tmp_path / "result.safetensors").plot())[0].figure is not None


OF_FITS = {
    "freedom": lambda fit: um.freedom(fit, probes=2).table,
    "intervals": lambda fit: um.intervals(fit, X, sweeps=10, burn_in=5, random_state=0).table,
    "differences": lambda fit: um.differences(fit, X).table,
    "stability": lambda fit: um.stability(X, 3, runs=2, reference=fit, random_state=0).table,
    "compare": lambda fit: um.compare(fit, OTHER).table,
    "align": lambda fit: um.align({"a": fit, "b": OTHER}).table,
    "quality": lambda fit: um.analysis.quality(fit, X, top=3).table,
    "top_features": lambda fit: um.analysis.top_features(fit),
    "transform": lambda fit: pd.DataFrame(um.analysis.transform(fit, X)),
}


@pytest.mark.parametrize("name", OF_FITS)
def test_an_estimator_and_the_path_of_a_model_mean_their_fit(name: str, tmp_path: Path) -> None:
    FIT.save(tmp_path / "model.safetensors")
    ask: Callable[[Any], pd.DataFrame] = OF_FITS[name]
    expected = ask(FIT)
    for fit in (MODEL, tmp_path / "model.safetensors", str(tmp_path)):
        pd.testing.assert_frame_equal(ask(fit), expected)


PICTURES: dict[str, Callable[[Any], Any]] = {
    "structure": lambda fit: um.plot.structure(fit),
    "embedding": lambda fit: um.plot.embedding(fit),
    "loadings_scatter": lambda fit: um.plot.loadings_scatter(fit, fit),
    "top_features": lambda fit: um.plot.top_features(fit),
    "topic_features": lambda fit: um.plot.topic_features(fit, 1),
    "similarity": lambda fit: um.plot.similarity(fit, fit),
    "convergence": lambda fit: um.plot.convergence(fit),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_take_an_estimator(name: str) -> None:
    assert PICTURES[name](MODEL) is not None


OF_COUNTS: dict[str, Callable[[Any], pd.DataFrame]] = {
    "choose": lambda X: um.choose_topics(X, [1, 2], folds=2, random_state=0).table.drop(columns="seconds"),
    "stability": lambda X: um.stability(X, 3, runs=2, random_state=0).table,
    "differences": lambda X: um.differences(FIT, X).table,
    "intervals": lambda X: um.intervals(FIT, X, sweeps=10, burn_in=5, random_state=0).table,
    "quality": lambda X: um.analysis.quality(FIT, X, top=3).table,
    "effects": lambda X: um.effects(FIT, X, **QUICK["effects"]).table,
    "assign": lambda X: um.assign(X, FIT, random_state=0).table,
    "coherence": lambda X: um.coherence(FIT, X, top=3),
    "freedom": lambda X: um.freedom(FIT, X=X, loss=1.0, probes=1).table,
    "recommend": lambda X: um.analysis.recommend(FIT, X, 2),
    "unmix.analysis.transform": lambda X: pd.DataFrame(um.analysis.transform(FIT, X)),
    "unmix.analysis.goodness_of_fit": lambda X: um.analysis.goodness_of_fit(FIT, X),
    "unmix.analysis.responsibilities": lambda X: pd.DataFrame(um.analysis.responsibilities(FIT, X)),
    "entropies": lambda X: um.analysis.entropies(FIT, X),
    "perplexity": lambda X: pd.DataFrame(
        [um.analysis.perplexity(MODEL, X, held_out=0.5, smoothing=0.01, rng=np.random.default_rng(0))]
    ),
}
TAKE_SHARDS = (
    *("choose", "stability", "differences", "quality", "effects", "assign", "coherence"),
    *("unmix.analysis.goodness_of_fit", "entropies", "perplexity"),
)


@pytest.mark.parametrize("name", OF_COUNTS)
def test_counts_may_be_an_anndata_or_a_path_and_shards_are_taken_or_refused_by_name(name: str, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    ask = OF_COUNTS[name]
    expected = ask(X)
    adata = anndata.AnnData(X.csr.astype(np.float32))
    adata.obs_names, adata.var_names = list(X.samples), list(X.features)  # type: ignore[arg-type]
    write_counts(X, tmp_path / "counts.npz")
    for counts in (adata, tmp_path / "counts.npz", str(tmp_path / "counts.npz")):
        pd.testing.assert_frame_equal(ask(counts), expected)
    shards = um.shard(X, tmp_path / "shards")
    if name in TAKE_SHARDS:
        pd.testing.assert_frame_equal(ask(shards), expected)
        pd.testing.assert_frame_equal(ask(tmp_path / "shards"), expected)
        return
    for counts in (shards, tmp_path / "shards"):
        with pytest.raises(ValueError, match=rf"^{name} takes counts in memory, .*; use shards\.sample"):
            ask(counts)


def test_the_path_of_texts_is_read_as_the_texts_of_the_fit(tmp_path: Path) -> None:
    texts = ["red roses and red wine", "red wine with wine", "white snow", "white snow and snow roses"] * 3
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    fit = um.TopicModel(2, random_state=0).fit(um.read_texts(texts, min_df=4, stop_words=["and"])).result_
    expected = um.analysis.transform(fit, texts)
    np.testing.assert_array_equal(um.analysis.transform(fit, tmp_path / "texts.txt"), expected)
    np.testing.assert_array_equal(um.analysis.transform(fit, str(tmp_path / "texts.txt")), expected)
    table = um.analysis.quality(fit, tmp_path / "texts.txt", top=2).table
    pd.testing.assert_frame_equal(table, um.analysis.quality(fit, um.read_texts(texts, like=fit), top=2).table)
