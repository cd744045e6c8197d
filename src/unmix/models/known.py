"""What is known of topics before a fit. The first topics have places of their own, K of them known, m × K columns c_k:

    held            f_k = c_k, bit for bit: they add to rates, and half-steps do not visit them
    partly known    −log p(f_k) = −Σ ω c_jk log f_jk + ω Σ f_jk, as if ω counts of the topic had been seen
    seeded          the same with ω N_j at the seeds in place of ω c_jk, N_j the count of the word, and their sum as rate

Further topics are new: of those nothing is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unmix.base.types import Factor, Floats, Names, Record, as_names
from unmix.models.priors import Gamma


@dataclass(frozen=True, eq=False)
class Known:
    """Of topics that have a place: their names, the columns they begin with (of `held` ones, end with, too), and the prior of
    those that are not held: shape − 1, whose sums are the rates. `seeds` are the words of seeded ones."""

    names: tuple[str, ...]
    columns: Floats
    held: NDArray[np.bool_]
    extra: Floats
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def held_of(self, n_topics: int) -> NDArray[np.bool_] | None:
        """Which of this many topics are held; None if none is."""
        if not self.held.any():
            return None
        return np.append(self.held, np.zeros(n_topics - len(self), dtype=bool))

    def placed(self, F: Factor) -> Factor:
        """Factors with the columns of held topics as they are known."""
        held = np.flatnonzero(self.held)
        if held.size:
            F = F.copy()
            F[:, held] = self.columns[:, held]
        return F

    def prior(self, n_topics: int, other: Gamma | None = None) -> Gamma | None:
        """That of this many topics, times another one; held ones have none."""
        if not self.extra.any():
            return other
        extra = np.zeros((len(self.columns), n_topics))
        extra[:, : len(self)] = self.extra
        rate = extra.sum(axis=0)
        if other is not None:
            shape, rates = other.broadcast(*extra.shape)
            extra, rate = extra + shape, rate + rates
        return Gamma(1 + extra, rate)

    def of_part(self, share: float) -> Self:
        """For data that are this share of all: priors are worth as many counts of them."""
        return replace(self, extra=self.extra * share)

    def topic_names(self, n_topics: int) -> Names | None:
        """Of a fit of this many topics, "" for those without."""
        names = [*self.names, *[""] * (n_topics - len(self))]
        return as_names(names) if any(names) else None

    @property
    def facts(self) -> Record:
        """What a fit remembers."""
        digest = hashlib.sha256(repr(self.names).encode())
        for array in (self.columns, self.held, self.extra):
            digest.update(np.ascontiguousarray(array).tobytes())
        seeds = {topic: list(words) for topic, words in self.seeds.items()}
        return {
            "names": list(self.names),
            "held": self.held.tolist(),
            "seeds": seeds,
            "digest": digest.hexdigest()[:16],
        }
