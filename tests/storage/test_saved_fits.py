"""Whatever can be fitted can be saved, loaded and resumed; what could not be read again is not written."""

from __future__ import annotations

import copy
import decimal
import fractions
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import examples, random_counts
from hypothesis import given
from hypothesis import strategies as st

import unmix as um
from unmix.counts import counts as counts_module
from unmix.storage import fit_file, tensors

N, M = 6, 5
X0 = random_counts(N, M, 2)
MODELS: dict[str, Callable[..., Any]] = {
    "TopicModel": um.TopicModel,
    "PoissonNMF": lambda **given: um.PoissonNMF(prior=um.Gamma(1.5, 0.1), **given),
    "float32": lambda **given: um.PoissonNMF(dtype="float32", **given),
    "online": lambda **given: um.TopicModel(online=um.Online(batch_size=3), **given),
    "SparsePoissonNMF": um.SparsePoissonNMF,
    "LDA": lambda **given: um.LDA(alpha=[0.5, 2], eta=0.1, **given),
    "GammaPoisson": um.GammaPoisson,
    "BayesianPoissonNMF": um.BayesianPoissonNMF,
    "hierarchical": partial(um.BayesianPoissonNMF, rate_shape=0.3),
    "bld": um.AllocationModel,
    "gibbs": lambda **given: um.AllocationModel(method="gibbs", sweeps=3, burn_in=1, thin=1, **given),
}
SEEDS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "0": lambda: 0,
    "2^63": lambda: 2**63,
    "largest": lambda: 2**128 - 1,
    "entropy": lambda: np.random.SeedSequence(0).spawn(1)[0].entropy + 2**127,
    "uint64": lambda: np.uint64(2**64 - 1),
    "int8": lambda: np.int8(3),
    "PCG64": lambda: np.random.default_rng(5),
    "MT19937": lambda: np.random.Generator(np.random.MT19937(5)),
    "Philox": lambda: np.random.Generator(np.random.Philox(5)),
    "SFC64": lambda: np.random.Generator(np.random.SFC64(5)),
    "RandomState": lambda: np.random.RandomState(5),
}
TOLERANCES = [0, 0.0, 1e-320, math.inf, 10**30, np.float32(0.1), np.longdouble("0.1"), np.int16(1), True]
TOLERANCES += [fractions.Fraction(1, 3), np.inf]
COLUMNS: dict[str, Any] = {
    "uint64": np.arange(N, dtype="u8") + np.uint64(2**64 - 10),
    "uint64 with gaps": pd.array([2**64 - 1, None, 2, 3, 4, 5], dtype="UInt64"),
    "int64": np.arange(N) + np.iinfo("i8").min,
    "wide": [2**127, -(2**127), 2**64, 0, 2**63, None],
    "wider": [2**128, -(2**500), 10**5000, 1, 2, 3],
    "float": [0.1, np.nan, np.inf, -np.inf, 1e-320, -0.0],
    "float32": np.array([0.1, 1, 2, 3, 4, 5], dtype="f4"),
    "longdouble": np.array([0.1, 1, 2, 3, 4, 5], dtype="g"),
    "all missing": [None] * N,
    "truth": [True, False] * 3,
    "boolean": pd.array([True, None] * 3, dtype="boolean"),
    "Int64": pd.array([1, None] * 3, dtype="Int64"),
    "Float64": pd.array([1.5, None] * 3, dtype="Float64"),
    "string": pd.array(["a", None] * 3, dtype="string"),
    "dates": pd.date_range("2020-01-01", periods=N),
    "dates of a zone": pd.date_range("2020-01-01", periods=N, tz="Europe/Zurich"),
    "dates with gaps": pd.to_datetime(["2020-01-01", None] * 3),
    "times": pd.to_timedelta(np.arange(N), unit="h"),
    "periods": pd.period_range("2020-01", periods=N, freq="M"),
    "intervals": pd.interval_range(0, N),
    "categories": pd.Categorical(["a", "b", None] * 2),
    "categories of numbers": pd.Categorical([1, 2, None] * 2),
    "categories of dates": pd.Categorical(pd.date_range("2020-01-01", periods=N)),
    "complex": np.arange(N) * 1j,
    "Decimal": [decimal.Decimal("0.1"), decimal.Decimal("NaN"), decimal.Decimal("Infinity")] * 2,
    "bytes": [b"caf\xe9"] * N,
    "lists": [[1, [2, None]], [], ["a", np.int64(3)], [np.nan, np.inf], (1, 2), {"a": [np.uint64(2**63)]}],
    "tables": [{(1, 2): 3}, {"a": {"b": {}}}, {None: None}, {1: 2}, {}, {"x": object}],
    "arrays": [np.arange(3), np.zeros((2, 2)), np.array("a"), np.datetime64("NaT"), np.float16(1), np.bool_(True)],
    "mixture": ["a", 1, 2.5, None, np.nan, pd.NA],
    "missing of all kinds": [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), decimal.Decimal("NaN")],
    "sets": [{1}, frozenset(), range(3), object, slice(1), Ellipsis],
    "sparse": pd.arrays.SparseArray([0, 0, 1, 0, 0, 2]),
    "odd text": ["\ud800", "caf\udce9", "\x00", "\n\r\t", "\u2028", "'\"\\"],
}
NAME = st.text(st.characters(exclude_characters="\x00", exclude_categories=()), max_size=5)
NAMES = st.none() | st.lists(NAME, min_size=N, max_size=N)


def table(columns: list[str], names: str) -> pd.DataFrame | None:
    if not columns:
        return None
    made = pd.concat([pd.Series(COLUMNS[name], name=name) for name in columns], axis=1)
    if names == "twice":
        made.columns = ["one"] * len(columns)
    elif names == "levels":
        made.columns = pd.MultiIndex.from_tuples([("a", place) for place in range(len(columns))])
    elif names == "numbers":
        made.columns = range(len(columns))
    return made


def fitted(model: str, seed: str, tol: Any, X: um.Counts, max_iter: Any) -> Any:
    estimator = MODELS[model](n_components=2, random_state=SEEDS[seed](), tol=tol, max_iter=max_iter, n_jobs=1)
    return estimator.fit(X)


def check_saved(fit: um.Fit, path: Path) -> um.Fit:
    """The loaded fit says what the saved one says, in the words that the file has."""
    fit.save(path, resumable=True)
    again = um.load(path)
    for name in ("L", "F"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fit, name))
    assert (again.status, again.params, again.versions) == (fit.status, fit.params, fit.versions)
    np.testing.assert_equal(again.data, fit.data)
    assert again.loglik == fit.loglik
    pd.testing.assert_frame_equal(again.trace, fit.trace, check_dtype=False)
    for name in ("samples", "features"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fit, name))
    assert (again.metadata is None) == (fit.metadata is None)
    if fit.metadata is not None:
        np.testing.assert_equal(fit_file.table_to_json(again.metadata), fit_file.table_to_json(fit.metadata))
    again.save(path, resumable=True)
    return um.load(path)


@pytest.mark.parametrize("model", MODELS)
@examples(12)
@given(
    seed=st.sampled_from(list(SEEDS)),
    tol=st.sampled_from(TOLERANCES),
    max_iter=st.sampled_from([2, np.int8(3), np.uint64(2)]),
    samples=NAMES,
    features=NAMES,
    columns=st.lists(st.sampled_from(list(COLUMNS)), max_size=4),
    names=st.sampled_from(["own", "twice", "levels", "numbers"]),
)
def test_whatever_can_be_fitted_can_be_saved_loaded_and_resumed(
    tmp_path_factory: pytest.TempPathFactory,
    model: str,
    seed: str,
    tol: Any,
    max_iter: Any,
    samples: list[str] | None,
    features: list[str] | None,
    columns: list[str],
    names: str,
) -> None:
    X = um.Counts(X0, samples, None if features is None else features[:M], table(columns, names))
    path = tmp_path_factory.mktemp("fits") / "model.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = fitted(model, seed, tol, X, max_iter)
        loaded = check_saved(estimator.result_, path)
        more = estimator.set_params(max_iter=6, random_state=SEEDS[seed]()).resume(X, loaded).result_
        check_saved(more, path)


@pytest.mark.parametrize("name", COLUMNS)
def test_metadata_of_every_type_is_saved_and_loaded(tmp_path: Path, name: str) -> None:
    X = um.Counts(X0, metadata=pd.DataFrame({name: COLUMNS[name]}))
    fit = um.PoissonNMF(1, max_iter=1, tol=0).fit(X).result_
    again = check_saved(fit, tmp_path / "model.safetensors")
    saved, loaded = X.metadata[name], again.metadata[name]
    assert (loaded.isna() == saved.isna()).all()
    if saved.dtype in ("i8", "u8", "f8", "f4", "bool"):
        np.testing.assert_array_equal(loaded.to_numpy(saved.dtype), saved.to_numpy())


@pytest.mark.parametrize("name", ["max_iter", "random_state", "tol", "n_init"])
def test_a_parameter_that_no_file_can_hold_is_refused_before_the_fit(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has more than 128 bits"):
        um.TopicModel(2, **{name: 2**128}).fit(X0)


def test_settings_of_texts_that_no_file_can_hold_are_refused_before_the_fit() -> None:
    with pytest.raises(ValueError, match=r"text .how words were counted. has no 'rules'"):
        um.TopicModel(2).fit(um.Counts(X0, text={"stop_words": "english"}))


def test_metadata_that_are_no_table_are_refused() -> None:
    with pytest.raises(ValueError, match="metadata is a dict; use a DataFrame with one row per sample"):
        um.Counts(X0, metadata={"a": range(N)})  # type: ignore[arg-type]


UNREADABLE: dict[str, dict[str, Any]] = {
    "L is not finite": {"L": np.full((N, 2), np.nan)},
    "F is negative": {"F": np.full((M, 2), -1.0)},
    "L has other topics": {"L": np.ones((N, 3))},
    "other status": {"status": "happy"},
    "other names": {"samples": np.array(["a"])},
    "other metadata": {"metadata": pd.DataFrame({"a": [1]})},
    "other text": {"text": {"rules": -1}},
    "other priors": {"priors": {"L": "Gammas", "F": "Gammas"}},
    "complex": {"state": {"solver": "none", "z": np.ones(2) * 1j}},
    "infinite state": {"state": {"solver": "none", "z": np.full(2, np.inf)}},
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, what: str) -> None:
    path = tmp_path / "model.safetensors"
    fit = um.PoissonNMF(2, max_iter=2, tol=0, random_state=0).fit(X0).result_
    fit.save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"model.safetensors: not written, as "):
        replace(fit, **UNREADABLE[what]).save(path, resumable=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_fit_of_more_iterations_than_a_header_can_hold_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "LARGEST_HEADER", 100)
    fit = um.PoissonNMF(2, max_iter=5, tol=0, random_state=0).fit(X0).result_
    again = check_saved(fit, tmp_path / "model.safetensors")
    assert again.loglik == fit.loglik
    um.compare(fit, fit).save(tmp_path / "comparison.safetensors")
    assert len(um.Comparison.load(tmp_path / "comparison.safetensors").table) == 2


def test_a_name_of_a_topic_with_a_nul_character_is_refused() -> None:
    fit = um.PoissonNMF(2, max_iter=1, tol=0).fit(X0).result_
    with pytest.raises(ValueError, match="among the topics has a NUL character"):
        fit.with_names(["a\0", "b"])


def test_a_fit_whose_state_has_no_session_is_a_start_like_any_other() -> None:
    half = um.PoissonNMF(2, max_iter=3, tol=0, random_state=0).fit(X0).result_
    assert half.state is not None
    start = replace(half, state={name: value for name, value in half.state.items() if name != "session"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = um.PoissonNMF(2, init=start, max_iter=3, tol=0).fit(X0).result_
    assert fit.loglik >= half.loglik


def test_a_checksum_is_taken_when_it_is_needed_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []

    def counted(shape: tuple[int, int], rows: Any) -> str:
        taken.append(shape)
        return real(shape, rows)

    real = counts_module.checksum
    monkeypatch.setattr(counts_module, "checksum", counted)
    X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    several = um.TopicModel(2, n_init=2, max_iter=3, tol=0, random_state=0).fit(X)
    model = um.TopicModel(2, max_iter=3, tol=0, random_state=0).fit(X)
    model.transform(X), model.score(X), model.result_.advice()
    assert taken == []
    model.result_.save(tmp_path / "fit.safetensors", resumable=True)
    model.result_.save(tmp_path / "again.safetensors")
    assert taken == [X.shape]
    again = um.load(tmp_path / "fit.safetensors")
    assert again.data == model.result_.data == copy.deepcopy(model.result_.data)
    assert several.result_.data["checksum"] == again.data["checksum"]
    um.TopicModel(2, max_iter=5, tol=0, random_state=0).resume(X, again)
    assert taken == [X.shape]
    with pytest.raises(ValueError, match="other data"):
        um.TopicModel(2, max_iter=5, tol=0, random_state=0).resume(um.Counts(X.csr * 2), again)
    assert len(taken) == 2
