"""Fit: the frozen result of a fit."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix import format
from unmix.deprecation import warn
from unmix.models.topics import poisson_to_topics
from unmix.registry import MODELS
from unmix.types import Factor, Floats, Record, Status
from unmix.words import ENDS, brief, objective, plural, size

if TYPE_CHECKING:
    from anndata import AnnData

    from unmix.analysis.quality import Quality
    from unmix.counts import CountsLike


@dataclass(frozen=True, eq=False)
class Fit:
    """A Poisson NMF X ≈ L Fᵀ, also read as a topic model.

    >>> import unmix as um
    >>> fit = um.TopicModel(3, random_state=0).fit(um.datasets.digits()).result_
    >>> fit
    Fit(1,797 samples × 64 features, 3 topics, converged, about ... left to gain, Poisson log-likelihood -...)
    >>> bool(np.allclose(fit.proportions.sum(axis=1), 1))
    True
    """

    L: Factor
    F: Factor
    trace: pd.DataFrame
    status: Status
    loglik: float
    samples: NDArray[np.str_] | None = None
    features: NDArray[np.str_] | None = None
    metadata: pd.DataFrame | None = field(default=None, repr=False)  # one row per sample
    # a Bayesian model's parameters, topics on the last axis, and the kinds of its priors on "L" and "F"
    posterior: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    priors: dict[str, str] = field(default_factory=dict, repr=False)
    params: Record = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: versions())
    data: Record = field(default_factory=dict, repr=False)  # `Counts.facts`, and where the counts came from
    text: Record | None = field(default=None, repr=False)  # how words were counted, as in `Counts`
    # what is needed to go on exactly where the fit stopped; None once it has converged
    state: Record | None = field(default=None, repr=False)
    # an estimate of what the objective would still gain if the fit went on, in its units; NaN where nobody can tell
    remaining_gain: float = float("nan")
    # what people call the topics, one name each, "" for those without; see `with_names`
    names: NDArray[np.str_] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        left = "" if np.isnan(self.remaining_gain) else f", about {brief(self.remaining_gain)} left to gain"
        reached = f"Poisson log-likelihood {objective(self.loglik)}"
        shape = size(len(self.L), len(self.F), text=bool(self.text))
        return f"Fit({shape}, {plural(self.n_topics, 'topic')}, {ENDS[self.status]}{left}, {reached})"

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
    def exposures(self) -> Floats:
        """s l*: n × K, how many of a sample's counts each topic accounts for; the exposures, or activities, of signatures."""
        return self.sizes[:, None] * self.proportions

    @property
    def labels(self) -> list[str]:
        """What stands over a topic's column in every table: its name, or "topic 3" if it has none."""
        names = [""] * self.n_topics if self.names is None else self.names.tolist()
        return [name or f"topic {k + 1}" for k, name in enumerate(names)]

    @property
    def kkt(self) -> float:
        """The largest KKT residual at the end of the fit."""
        known = self.trace["kkt"].dropna()
        return float(known.iloc[-1]) if len(known) else float("nan")

    @property
    def objective(self) -> str | None:
        """What the model maximises, in words, if it is not the likelihood (with a prior, perhaps)."""
        known = MODELS.get(str(self.params.get("model")))
        return None if known is None else known.objective

    @property
    def starts(self) -> pd.DataFrame:
        """Of a fit that is the best of several (`n_init`): `objective`, `loglik`, `iterations`, `status` of each start, and the
        `difference` of its proportions from those of the best, the mean absolute one over samples and matched topics."""
        columns = ["objective", "loglik", "iterations", "status", "difference"]
        table = pd.DataFrame(dict(self.data.get("starts", {})), columns=columns)
        return table.set_axis(pd.RangeIndex(1, len(table) + 1, name="start"), axis=0)

    @property
    def shares(self) -> Floats:
        """The part of all expected counts that each topic explains."""
        weights = self.sizes @ self.proportions
        return weights / weights.sum() if weights.sum() > 0 else np.full(self.n_topics, 1 / self.n_topics)

    def with_names(self, names: Sequence[str] | Mapping[int, str] | None) -> Fit:
        """The same fit with topics that have names, in tables, pictures and the saved file.

        Parameters
        ----------
        names
            One for each topic, or those of some by their numbers, from 1; None to take all names away.

        >>> import unmix as um
        >>> fit = um.PoissonNMF(3, random_state=0).fit(um.datasets.digits()).result_
        >>> fit.with_names({2: "round"}).labels
        ['topic 1', 'round', 'topic 3']
        """
        if names is None:
            return replace(self, names=None)
        if isinstance(names, Mapping):
            if unknown := [number for number in names if number not in range(1, self.n_topics + 1)]:
                raise ValueError(f"there is no topic {unknown[0]!r}; this fit has topics 1 to {self.n_topics}")
            names = [names.get(k + 1, "") for k in range(self.n_topics)]
        named = replace(self, names=np.array([str(name).strip() for name in names], dtype=str))
        if isinstance(names, str) or len(names) != self.n_topics:
            raise ValueError(f"{len(names)} names for {self.n_topics} topics; give one each, or a mapping for some")
        labels = named.labels
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"two topics would be called {twice[0]!r}; give different names")
        return named

    def top_features(self, n: int = 10) -> pd.DataFrame:
        """The n most distinctive features of each topic: `unmix.analysis.top_features`."""
        import unmix

        return unmix.analysis.top_features(self, n)

    def transform(self, X: Any) -> Floats:
        """Proportions of the topics in new samples, counts or texts, by the model's own inference: `unmix.analysis.transform`."""
        import unmix

        return unmix.analysis.transform(self, X)

    def quality(self, X: CountsLike, top: int = 10, held_out: CountsLike | None = None) -> Quality:
        """How coherent, exclusive, wide and unlike the others each topic is: `unmix.analysis.quality`."""
        import unmix

        return unmix.analysis.quality(self, X, top, held_out=held_out)

    def advice(self) -> list[str]:
        """What a person may want to know or do about this fit: `unmix.analysis.advice`."""
        import unmix

        return unmix.analysis.advice(self)

    def to_anndata(self, key_added: str = "topics") -> AnnData:
        """Deprecated: write `unmix.sc.from_fit(fit)`."""
        import unmix

        warn("Fit.to_anndata", "write unmix.sc.from_fit(fit)")
        return unmix.sc.from_fit(self, key_added)

    def save(self, path: str | os.PathLike[str], *, resumable: bool = False) -> None:
        """Write the fit to one file, atomically. `resumable` adds what is needed to go on with it (nothing, once it has
        converged), so that a warm start from the loaded fit goes on exactly where this one stopped."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        format.write(path, record if resumable else record | {"state": None})


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit written by `Fit.save`."""
    return Fit(**format.read(path))


def versions() -> dict[str, str]:
    import scipy

    from unmix._version import __version__

    return {
        "unmix": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
