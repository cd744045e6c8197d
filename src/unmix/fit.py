"""Fit: the frozen result of a fit, and its file.

A fit is saved as safetensors (L, F, and names as UTF-8 JSON) with JSON metadata (status, trace, parameters, versions).
The file holds numbers and text only; nothing in it is ever executed.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from unmix.files import replacing
from unmix.models.topics import poisson_to_topics

if TYPE_CHECKING:
    from anndata import AnnData

Floats = NDArray[np.float64]

FORMAT = 2
OBJECTIVES = {
    "LDA": "lower bound of log p(X)",
    "GammaPoisson": "lower bound of log p(X)",
    "BayesianPoissonNMF": "lower bound of log p(X)",
    "AllocationModel": "log p(S)",
}
STATUSES = ("converged", "max_iter", "interrupted")


@dataclass(frozen=True, eq=False)
class Fit:
    """A Poisson NMF X ≈ L Fᵀ, also read as a topic model.

    >>> import unmix as um
    >>> fit = um.TopicModel(3, random_state=0).fit(um.datasets.digits()).result_
    >>> fit
    Fit(1797 samples × 64 features, 3 topics, converged, log-likelihood -...)
    >>> bool(np.allclose(fit.proportions.sum(axis=1), 1))
    True
    """

    L: NDArray[Any]
    F: NDArray[Any]
    trace: pd.DataFrame
    status: str
    loglik: float
    samples: NDArray[np.str_] | None = None
    features: NDArray[np.str_] | None = None
    metadata: pd.DataFrame | None = field(default=None, repr=False)  # one row a sample
    posterior: dict[str, NDArray[Any]] = field(
        default_factory=dict, repr=False
    )  # a Bayesian model's parameters, topics on the last axis
    params: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: versions())
    data: dict[str, Any] = field(default_factory=dict, repr=False)  # `Counts.facts`, and where the counts came from
    text: dict[str, Any] | None = field(default=None, repr=False)  # how words were counted, as in `Counts`
    state: dict[str, Any] | None = field(
        default=None, repr=False
    )  # what the solver needs to go on exactly where it stopped

    def __repr__(self) -> str:
        (n, k), m = self.L.shape, len(self.F)
        return f"Fit({n} samples × {m} features, {k} topics, {self.status}, log-likelihood {self.loglik:,.2f})"

    @property
    def n_topics(self) -> int:
        return int(self.L.shape[1])

    @cached_property
    def _topics(self) -> tuple[Floats, Floats, Floats, Floats]:
        return poisson_to_topics(self.L, self.F)

    @property
    def proportions(self) -> Floats:
        """L*: n × K, rows sum to one."""
        return self._topics[0]

    @property
    def topics(self) -> Floats:
        """F*: m × K, columns sum to one."""
        return self._topics[1]

    @property
    def sizes(self) -> Floats:
        """s: the expected total of each sample."""
        return self._topics[2]

    @property
    def kkt(self) -> float:
        """The largest KKT residual at the end of the fit."""
        known = self.trace["kkt"].dropna()
        return float(known.iloc[-1]) if len(known) else float("nan")

    @property
    def objective(self) -> str | None:
        """What the model maximises, in words, if it is not the likelihood (with a prior, perhaps)."""
        return OBJECTIVES.get(str(self.params.get("model")))

    @property
    def shares(self) -> Floats:
        """The part of all expected counts that each topic explains."""
        weights = self.sizes @ self.proportions
        return weights / weights.sum() if weights.sum() > 0 else np.full(self.n_topics, 1 / self.n_topics)

    def top_features(self, n: int = 10) -> pd.DataFrame:
        """The n most distinctive features of each topic: `unmix.analysis.top_features`."""
        import unmix

        return unmix.analysis.top_features(self, n)

    def advice(self) -> list[str]:
        """What a person may want to know or do about this fit: `unmix.analysis.advice`."""
        import unmix

        return unmix.analysis.advice(self)

    def to_anndata(self, key_added: str = "topics") -> AnnData:
        """An AnnData without X, with this fit where `unmix.sc.tl.topics` would keep it and the metadata in `obs`."""
        from unmix.sc.slots import from_fit

        return from_fit(self, key_added)

    def save(self, path: str | os.PathLike[str], *, resumable: bool = False) -> None:
        """Write the fit to one file, atomically. `resumable` adds the solver's own state, so that a warm start from the
        loaded fit goes on exactly where this one stopped."""
        tensors = {"L": self.L, "F": self.F}
        for key in ("samples", "features"):
            if (names := getattr(self, key)) is not None:
                tensors[key] = _as_bytes(names.tolist())
        if self.metadata is not None:
            tensors["metadata"] = _as_bytes(_table_to_json(self.metadata))
        meta: dict[str, Any] = {
            "format": FORMAT,
            "status": self.status,
            "loglik": self.loglik,
            "params": self.params,
            "versions": self.versions,
            "data": self.data,
            "text": self.text,
            "trace": _table_to_json(self.trace),
        }
        tensors |= {f"posterior.{key}": value for key, value in self.posterior.items()}
        if resumable and self.state is not None:
            meta["state"] = _without_arrays(self.state, tensors, "state")
        tensors = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
        with replacing(path) as temporary:
            try:
                safetensors.numpy.save_file(tensors, temporary, metadata={"unmix": json.dumps(meta, default=str)})
            except safetensors.SafetensorError as error:  # which hides what the system said
                code = re.search(r"os error (\d+)", str(error))
                number = int(code.group(1)) if code else errno.EIO
                raise OSError(number, os.strerror(number), str(path)) from error


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit written by `Fit.save`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give a model written by Fit.save or `unmix fit`")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get("unmix")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path}: not a readable safetensors file ({error}); it may be truncated or of another kind"
        ) from None
    if header is None:
        raise ValueError(f"{path}: a safetensors file, but not a model of unmix")
    try:
        return _from_file(json.loads(header), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: damaged or foreign model file ({error})") from None


def _from_file(meta: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Fit:
    if meta["format"] != FORMAT:
        raise ValueError(f"format {meta['format']}, this version of unmix reads {FORMAT}; upgrade unmix")
    L, F = tensors["L"], tensors["F"]
    if L.ndim != 2 or F.ndim != 2 or L.shape[1] != F.shape[1] or L.shape[1] < 1:
        raise ValueError(f"L of shape {L.shape} does not go with F of shape {F.shape}")
    for name, factor in (("L", L), ("F", F)):
        if factor.dtype.kind != "f" or not np.isfinite(factor).all() or (factor < 0).any():
            raise ValueError(f"{name} has entries that are not finite numbers >= 0")
    names = {}
    for key, rows in (("samples", len(L)), ("features", len(F))):
        if key in tensors:
            names[key] = np.array(json.loads(tensors[key].tobytes()), dtype=str)
            if len(names[key]) != rows:
                raise ValueError(f"{len(names[key])} names for {rows} {key}")
    posterior = _within(tensors, "posterior.")
    for name, array in posterior.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"posterior {name} has entries that are not finite numbers >= 0")
    if meta["status"] not in STATUSES:
        raise ValueError(f"unknown status {meta['status']!r}")
    trace = _table_from_json(meta["trace"])
    trace = trace.astype({column: float for column in trace.columns if column not in ("iteration", "stage", "note")})
    metadata = _table_from_json(json.loads(tensors["metadata"].tobytes())) if "metadata" in tensors else None
    if metadata is not None and len(metadata) != len(L):
        raise ValueError(f"{len(metadata)} rows of metadata for {len(L)} samples")
    state = meta.get("state")
    for key, array in _within(tensors, "state.").items() if state is not None else ():
        *path, name = key.split(".")
        reduce(lambda inner, part: inner.setdefault(part, {}), path, state)[name] = array
    return Fit(
        L=L,
        F=F,
        trace=trace,
        status=meta["status"],
        loglik=float(meta["loglik"]),
        params=dict(meta["params"]),
        versions=dict(meta["versions"]),
        data=dict(meta["data"]),
        text=None if meta["text"] is None else dict(meta["text"]),
        posterior=posterior,
        state=state,
        metadata=metadata,
        **names,
    )


def _within(tensors: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _without_arrays(tree: dict[str, Any], tensors: dict[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
    """A dictionary of dictionaries without its arrays, which go to `tensors` under names like "state.way.parts"."""
    rest = {}
    for key, value in tree.items():
        if isinstance(value, np.ndarray):
            tensors[f"{prefix}.{key}"] = value
        else:
            rest[key] = _without_arrays(value, tensors, f"{prefix}.{key}") if isinstance(value, dict) else value
    return rest


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    """JSON as an array of bytes; names and tables may be larger than the header of a file may be."""
    return np.frombuffer(json.dumps(value, default=str).encode(), dtype=np.uint8)


def _table_to_json(table: pd.DataFrame) -> dict[str, Any]:
    values = table.astype(object).where(table.notna(), None).to_numpy()
    return {"columns": [str(column) for column in table.columns], "data": values.tolist()}


def _table_from_json(table: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(table["data"], columns=table["columns"])


def versions() -> dict[str, str]:
    import scipy

    from unmix._version import __version__

    return {
        "unmix": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
