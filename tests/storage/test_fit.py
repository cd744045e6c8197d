"""A Fit survives its file, half a file survives nothing, and nothing in a file is ever executed."""

from __future__ import annotations

import ast
import errno
import io
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from conftest import ROOT, random_counts, random_start
from safetensors import safe_open

import unmix as um
from unmix.solvers import StopAtKKT

X0 = random_counts(20, 25, seed=9)
START = random_start(20, 25, 3)


def a_fit(**options: Any) -> um.Fit:
    X = um.Counts(
        X0,
        samples=[f"sample „{i}“" for i in range(20)],
        features=[f"word\t{j}" for j in range(25)],
        metadata=pd.DataFrame({"year": np.arange(1990, 2010), "party": ["a", "b"] * 10, "share": np.arange(20) / 7}),
    )
    model = um.TopicModel(
        3, init=START, tol=0, max_iter=23, random_state=0, callbacks=[StopAtKKT(0, every=5)], **options
    )
    return model.fit(X).result_


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    a_fit().save(path)
    return path


def edited(path: Path, change: Callable[[dict[str, np.ndarray], dict[str, Any]], None]) -> Path:
    """The file with its tensors and metadata changed by hand."""
    with safe_open(path, framework="numpy") as opened:
        meta = json.loads(opened.metadata()["unmix"])
        tensors = {key: opened.get_tensor(key).copy() for key in opened.keys()}  # noqa: SIM118 - not a mapping
    change(tensors, meta)
    safetensors.numpy.save_file(tensors, path, metadata={"unmix": json.dumps(meta)})
    return path


# --- round trip ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_field_survives_the_file(tmp_path: Path, dtype: Any) -> None:
    S = np.arange(15.0).reshape(5, 3)
    fit = replace(a_fit(dtype=dtype), posterior={"gamma": np.arange(6.0).reshape(2, 3)}, allocation=S)
    fit = fit.with_names({2: "„zwei“"})
    fit.save(tmp_path / "model.safetensors", resumable=True)
    again = um.load(tmp_path / "model.safetensors")
    for name in ("L", "F"):
        one, two = getattr(fit, name), getattr(again, name)
        assert one.dtype == two.dtype == dtype
        assert one.tobytes() == two.tobytes()
    assert again.posterior["gamma"].tolist() == fit.posterior["gamma"].tolist()
    assert again.allocation.tolist() == S.tolist()
    assert again.status == fit.status
    assert again.loglik == fit.loglik
    assert again.remaining_gain == fit.remaining_gain > 0
    assert again.samples.tolist() == fit.samples.tolist()
    assert again.features.tolist() == fit.features.tolist()
    assert again.names.tolist() == fit.names.tolist() == ["", "„zwei“", ""]
    assert again.params == fit.params
    assert again.versions == fit.versions
    assert again.data == fit.data
    assert again.text == fit.text
    pd.testing.assert_frame_equal(again.trace, fit.trace, check_exact=True)
    pd.testing.assert_frame_equal(again.metadata, fit.metadata, check_exact=True, check_dtype=False)
    rated = um.PoissonNMF(2, max_iter=2, tol=0, random_state=0).fit(X0, opportunities=np.arange(1.0, 26)).result_
    rated.save(tmp_path / "rated.safetensors")
    loaded = um.load(tmp_path / "rated.safetensors").rates
    assert {name: array.tolist() for name, array in loaded.items()} == {
        name: array.tolist() for name, array in rated.rates.items()
    }
    assert loaded["multipliers"].shape == (1, 25)
    assert fit.state is not None
    assert again.state is not None
    assert set(again.state) == set(fit.state)
    for key, value in fit.state.items():
        if isinstance(value, np.ndarray):
            assert again.state[key].tobytes() == value.tobytes()
        else:
            assert again.state[key] == value
    assert {field.name for field in fields(um.Fit)} == {
        "L",
        "F",
        "trace",
        "status",
        "loglik",
        "data",
        "text",
        "posterior",
        "priors",
        "allocation",
        "names",
        "samples",
        "features",
        "metadata",
        "params",
        "versions",
        "state",
        "remaining_gain",
        "rates",
    }  # a new field needs its line above


def test_the_trace_keeps_full_precision_and_its_gaps(file: Path) -> None:
    trace = um.load(file).trace
    want = a_fit().trace
    assert trace["loglik"].tolist() == want["loglik"].tolist()
    assert trace["kkt"].isna().tolist() == want["kkt"].isna().tolist()
    assert 0 < trace["kkt"].isna().sum() < len(trace)
    assert trace["note"].tolist() == want["note"].tolist()
    assert trace["iteration"].dtype == want["iteration"].dtype


def test_a_fit_without_names_metadata_or_state_survives(tmp_path: Path) -> None:
    fit = um.PoissonNMF(2, random_state=0, max_iter=3, tol=0).fit(X0).result_
    fit.save(tmp_path / "m.safetensors")
    again = um.load(tmp_path / "m.safetensors")
    assert (again.samples, again.features, again.metadata, again.state) == (None, None, None, None)


def test_missing_values_in_metadata_survive(tmp_path: Path) -> None:
    metadata = pd.DataFrame({"party": ["a", None] * 10, "share": [np.nan, 0.5] * 10})
    fit = um.PoissonNMF(2, random_state=0, max_iter=3, tol=0).fit(um.Counts(X0, metadata=metadata)).result_
    fit.save(tmp_path / "m.safetensors")
    again = um.load(tmp_path / "m.safetensors").metadata
    assert again is not None
    assert again["party"].isna().tolist() == metadata["party"].isna().tolist()
    assert again["share"].isna().tolist() == metadata["share"].isna().tolist()


def test_an_infinite_trace_survives(tmp_path: Path) -> None:
    fit = a_fit()
    trace = fit.trace.copy()
    trace.loc[1, "kkt"] = np.inf
    replace(fit, trace=trace).save(tmp_path / "m.safetensors")
    assert um.load(tmp_path / "m.safetensors").trace.loc[1, "kkt"] == np.inf


def test_params_say_how_the_fit_was_made(file: Path) -> None:
    fit = um.load(file)
    assert fit.params["model"] == "TopicModel"
    assert fit.params["n_components"] == 3
    assert fit.params["max_iter"] == 23
    assert fit.versions["unmix"] == um.__version__
    assert {"python", "numpy", "scipy"} <= set(fit.versions)


def test_a_loaded_fit_is_a_topic_model(file: Path) -> None:
    fit, want = um.load(file), a_fit()
    np.testing.assert_array_equal(fit.proportions, want.proportions)
    np.testing.assert_array_equal(fit.topics, want.topics)
    np.testing.assert_array_equal(fit.sizes, want.sizes)
    pd.testing.assert_frame_equal(fit.top_features(4), want.top_features(4))
    assert fit.kkt == want.kkt


# --- what a Fit is ---------------------------------------------------------------------------------------------------


def test_a_fit_is_frozen() -> None:
    fit = a_fit()
    with pytest.raises(FrozenInstanceError):
        fit.loglik = 0.0  # type: ignore[misc]


def test_a_fit_reports_its_own_loglik_and_kkt() -> None:
    fit = a_fit()
    assert um.loglik(X0, fit.L, fit.F) == pytest.approx(fit.loglik, rel=1e-10)
    assert um.kkt(X0, fit.L, fit.F) == pytest.approx(fit.kkt, rel=1e-3, abs=1e-9)
    assert fit.trace["loglik"].iloc[-1] == fit.loglik
    assert fit.n_topics == 3
    assert repr(fit).startswith("Fit(20 samples × 25 features, 3 topics, not converged, remaining gain about 0.")


def test_shares_are_parts_of_all_expected_counts() -> None:
    fit = a_fit()
    rates = fit.L[:, None, :] * fit.F[None]
    np.testing.assert_allclose(fit.shares, rates.sum(axis=(0, 1)) / rates.sum(), rtol=1e-10)


# --- files that are no models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(file: Path, part: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=r"model\.safetensors: not a readable safetensors file.*truncated"):
        um.load(file)


@pytest.mark.parametrize("content", [b"hello", b"\x80\x04K\x01.", b"PK\x03\x04" + bytes(100), bytes(1000), b"{}" * 50])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors: "):
        um.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors: no such file"):
        um.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(FileNotFoundError, match="no such file"):
        um.load(tmp_path)


def test_safetensors_of_somebody_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    for metadata in (None, {"format": "pt"}):
        safetensors.numpy.save_file({"L": np.ones((2, 2))}, path, metadata=metadata)
        with pytest.raises(ValueError, match="a safetensors file, but not a model of unmix"):
            um.load(path)


@pytest.mark.parametrize("header", ["[]", "3", "null", "{}", "not json", '{"format": 1}'])
def test_a_foreign_header_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file({"L": np.ones((2, 2)), "F": np.ones((2, 2))}, path, metadata={"unmix": header})
    with pytest.raises(ValueError, match=r"weights\.safetensors: damaged or foreign model file"):
        um.load(path)


def test_a_file_of_another_version_is_refused(file: Path) -> None:
    def newer(tensors: Any, meta: Any) -> None:
        meta["format"] = 99

    with pytest.raises(ValueError, match="format 99, this version of unmix reads up to 3; upgrade unmix"):
        um.load(edited(file, newer))


def set_tensor(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda tensors, meta: tensors.__setitem__(name, value)


def set_meta(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda tensors, meta: meta.__setitem__(name, value)


def without(name: str) -> Callable[[Any, Any], None]:
    def change(tensors: Any, meta: Any) -> None:
        (tensors if name in tensors else meta).pop(name)

    return change


NONSENSE: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "topics differ": (set_tensor("L", np.ones((20, 2))), r"L of shape \(20, 2\) does not go with F of shape \(25, 3\)"),
    "one dimension": (set_tensor("L", np.ones(20)), r"L of shape \(20,\)"),
    "no topics": (lambda t, m: t.update(L=np.ones((20, 0)), F=np.ones((25, 0))), r"L of shape \(20, 0\)"),
    "L with NaN": (set_tensor("L", np.full((20, 3), np.nan)), "L has entries that are not finite numbers >= 0"),
    "L negative": (set_tensor("L", np.full((20, 3), -1.0)), "L has entries that are not finite numbers >= 0"),
    "F infinite": (set_tensor("F", np.full((25, 3), np.inf)), "F has entries that are not finite numbers >= 0"),
    "integers": (set_tensor("L", np.ones((20, 3), dtype=np.int64)), "L has entries that are not finite numbers"),
    "fewer samples than names": (set_tensor("L", np.ones((19, 3))), "20 names for 19 samples"),
    "fewer features than names": (set_tensor("F", np.ones((24, 3))), "25 names for 24 features"),
    "no L": (without("L"), "damaged or foreign model file .*'L'"),
    "no F": (without("F"), "damaged or foreign model file .*'F'"),
    "no trace": (without("trace"), "damaged or foreign model file .*trace"),
    "no status": (without("status"), "damaged or foreign model file .*status"),
    "no priors": (without("priors"), "damaged or foreign model file .*priors"),
    "unknown status": (set_meta("status", "happy"), "status is 'happy', not converged or max_iter or"),
    "loglik is text": (set_meta("loglik", "high"), "damaged or foreign model file"),
    "trace is a list": (set_meta("trace", [1, 2]), "damaged or foreign model file"),
    "trace of words": (
        set_meta("trace", {"columns": ["iteration", "loglik"], "data": [[0, "high"]]}),
        "damaged or foreign model file",
    ),
    "params is a list": (set_meta("params", [1]), "damaged or foreign model file"),
    "metadata too short": (
        set_tensor("metadata", np.frombuffer(b'{"columns": ["a"], "data": [[1]]}', dtype=np.uint8)),
        "1 rows of metadata for 20 samples",
    ),
    "names are no list": (
        set_tensor("samples", np.frombuffer(b'"abc"', dtype=np.uint8)),
        "damaged or foreign model file",
    ),
    "names are broken": (
        set_tensor("samples", np.frombuffer(b"[1, 2", dtype=np.uint8)),
        "damaged or foreign model file",
    ),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_in_a_file_is_refused(file: Path, what: str) -> None:
    change, message = NONSENSE[what]
    with pytest.raises(ValueError, match=message) as refused:
        um.load(edited(file, change))
    assert "model.safetensors" in str(refused.value)


HALF_STATES: dict[str, Callable[[Any, Any], None]] = {
    "an array is missing": without("state.Ly"),
    "L has another shape": lambda tensors, meta: tensors.update({"state.L": tensors["state.L"][:, :2].copy()}),
    "Ly has another shape": lambda tensors, meta: tensors.update({"state.Ly": tensors["state.Ly"][:5].copy()}),
    "a number is missing": lambda tensors, meta: meta["state"].pop("reference"),
    "the loss is text": lambda tensors, meta: meta["state"].update(loss="low"),
}


@pytest.mark.parametrize("what", HALF_STATES)
def test_half_a_state_in_a_file_is_not_resumed_into_nonsense(tmp_path: Path, what: str) -> None:
    fit = a_fit()
    path = tmp_path / "model.safetensors"
    fit.save(path, resumable=True)
    try:
        start = um.load(edited(path, HALF_STATES[what]))
    except ValueError as refused:
        assert "model.safetensors" in str(refused)  # noqa: PT017 - refusing is fine, and so is starting from L and F
        return
    trace = um.TopicModel(3, init=start, tol=0, max_iter=3).fit(X0).result_.trace
    assert trace["loglik"].iloc[0] == pytest.approx(fit.loglik, rel=1e-9)
    assert np.isfinite(trace["loglik"]).all()


# --- writing ---------------------------------------------------------------------------------------------------------


def break_writes(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """Of every file that is written, the beginning comes to be there, and no more."""
    opened = Path.open

    class Half(io.BufferedWriter):
        def write(self, data: Any) -> int:
            super().write(bytes(data)[:4])
            raise problem

    def half(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        return Half(io.FileIO(path, mode)) if "r" not in mode else opened(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", half)


def test_a_failing_write_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()
    break_writes(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"):
        a_fit().save(file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_interrupted_write_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_writes(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        a_fit().save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_an_older_file(file: Path) -> None:
    other = um.PoissonNMF(2, random_state=0, max_iter=3, tol=0).fit(X0).result_
    other.save(file)
    assert um.load(file).n_topics == 2
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_path_may_be_text(tmp_path: Path) -> None:
    a_fit().save(str(tmp_path / "m.safetensors"))
    assert um.load(str(tmp_path / "m.safetensors")).n_topics == 3


def test_saving_into_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        a_fit().save(tmp_path / "nowhere" / "m.safetensors")


# --- nothing is executed ---------------------------------------------------------------------------------------------

EXECUTING = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def test_no_source_file_unpickles_anything() -> None:
    sources = sorted((ROOT / "src" / "unmix").rglob("*.py"))
    assert len(sources) > 20
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                modules = []
            assert not EXECUTING & {module.split(".")[0] for module in modules}, source
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("eval", "exec", "pd.read_pickle", "pandas.read_pickle"), f"{source}: {name}"
                for keyword in node.keywords:
                    if keyword.arg == "allow_pickle":
                        assert ast.unparse(keyword.value) == "False", f"{source}: line {node.lineno}"


@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf])
def test_a_posterior_that_is_none_is_refused(tmp_path: Path, value: float) -> None:
    path = tmp_path / "model.safetensors"
    a_fit().save(path)
    edited(path, set_tensor("posterior.L", np.array([[1.0, value]])))
    with pytest.raises(ValueError, match=r"damaged or foreign model file .posterior L has entries"):
        um.load(path)
