"""What freedom gives back: ranges of proportions and topics, a table, advice, and the fits at their ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.results import Finished, Layout, Result
from unmix.analysis.topics import topic_place
from unmix.fit import Fit
from unmix.models.topics import topics_to_poisson
from unmix.types import Floats
from unmix.words import percent

WIDE = 0.05  # a mean width from which on the advice speaks of it


@dataclass(frozen=True, eq=False)
class Freedom(Result):
    """Ranges of proportions and topics at the same rates, made by `freedom`. Arrays are in the order of the columns of the fit.

    Attributes
    ----------
    low, high : array, n × K
        The least and the largest proportion of each topic in each sample.
    topics_low, topics_high : array, m × K
        The same of each feature in each topic.
    proportions : array, n × K
        Those of the fit itself.
    shares : array, K
        The part of all expected counts that each topic explains.
    changes : array, K
        How far each topic can move, in total variation: 0 not at all, 1 to a topic without a feature in common.
    transformations : array, ends × K × K
        The A at which the ends are reached, the fit's own (I) first; `end` makes a fit of one.
    missed : float
        The largest width that was still gained at samples and features that were looked at only to see that; 0 if all were.
    loss : float
        The log-likelihood that ends may cost.
    samples : array of str, or None
        Their names, if they have any.
    status : str
        "interrupted" if Ctrl-C left something out; ranges may be too short then. "finished" otherwise.

    See Also
    --------
    freedom, plot.freedom, intervals

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> found = um.freedom(fit)
    >>> found.low.shape, found.topics_high.shape
    ((4, 2), (3, 2))
    """

    LAYOUT: ClassVar = Layout(
        shapes={
            "low": "nK",
            "high": "nK",
            "proportions": "nK",
            "topics_low": "mK",
            "topics_high": "mK",
            "shares": "K",
            "changes": "K",
            "transformations": "aKK",
            "samples": "n",
        }
    )

    low: Floats
    high: Floats
    topics_low: Floats
    topics_high: Floats
    proportions: Floats
    shares: Floats
    changes: Floats
    transformations: Floats
    missed: float
    loss: float = 0.0
    samples: NDArray[np.str_] | None = None
    status: Finished = "finished"

    def __repr__(self) -> str:
        (n, K), found = self.low.shape, len(self.transformations)
        mean, most = self.width.mean(), self.width.max()
        return f"Freedom({n} samples, {K} topics, mean width {mean:.3f}, widest {most:.3f}, {found} ends)"

    @property
    def width(self) -> Floats:
        """array, n × K: high − low."""
        return self.high - self.low

    @property
    def table(self) -> pd.DataFrame:
        """DataFrame: a row a topic.

        Its `share`, the mean and the largest width of its proportions, the `sample` that has it, and how far the topic itself
        can move.
        """
        places = self.width.argmax(axis=0)
        names = places + 1 if self.samples is None else self.samples[places]
        return pd.DataFrame(
            {
                "topic": np.arange(1, len(self.shares) + 1),
                "share": self.shares,
                "mean_width": self.width.mean(axis=0),
                "widest": self.width.max(axis=0),
                "sample": names,
                "change": self.changes,
            }
        )

    @property
    def by_sample(self) -> pd.DataFrame:
        """DataFrame: a row a sample and topic: the proportion, and its range."""
        n, K = self.low.shape
        names = np.arange(1, n + 1) if self.samples is None else self.samples
        values = {"proportion": self.proportions, "low": self.low, "high": self.high}
        return pd.DataFrame(
            {"sample": np.repeat(names, K), "topic": np.tile(np.arange(1, K + 1), n)}
            | {name: array.ravel() for name, array in values.items()}
        )

    def advice(self) -> list[str]:
        """What the data leave open, and what would decide it.

        Returns
        -------
        list of str
            How far proportions can move, and a sentence for each thing to know about it.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> len(um.freedom(fit).advice()) > 0
        True
        """
        said = []
        if self.status == "interrupted":
            said.append(
                "interrupted: not everything was looked at, and ranges may be too short; the same call with `keep` goes on"
            )
        price = "at the same likelihood" if self.loss == 0 else f"for {self.loss:g} units of log-likelihood"
        if self.width.max() < 1e-6:
            return [*said, f"nothing is left open: no other proportions and topics are to be had {price}"]
        wide = self.table[self.table["mean_width"] >= WIDE].sort_values("mean_width", ascending=False)
        if len(wide):
            worst = wide.iloc[0]
            which = (
                f"topic {worst['topic']}"
                if len(wide) == 1
                else f"{len(wide)} topics, most of all topic {worst['topic']}"
            )
            said.append(
                f"the data do not decide the proportions of {which}: {price} they move by "
                f"{worst['mean_width']:.0%} of a sample on average, by {worst['widest']:.0%} in sample {worst['sample']}; a "
                "sparse penalty, known topics, or samples and features without some of the topics would"
            )
        else:
            said.append(f"little is left open: {price} proportions move by {self.width.mean():.1%} on average")
        if self.missed > 0.01:
            said.append(
                f"ranges may be wider still: others, looked at to check, gained {self.missed:.1%}; raise probes"
            )
        return said

    def end(self, fit: Fit, sample: int, topic: int, end: Literal["low", "high"]) -> Fit:
        """The fit with the same rates at which a proportion is at an end of its range.

        Parameters
        ----------
        fit : Fit
            What `freedom` was asked of.
        sample : int
            A row of `low`, from 0.
        topic : int
            Its number, from 1.
        end : str
            "low" or "high".

        Returns
        -------
        Fit
            As likely as the given one, with other proportions and topics.

        Raises
        ------
        ValueError
            If it is another fit, there is no such topic or end, or ends were allowed to cost something and are not kept.

        Examples
        --------
        >>> import numpy as np, unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> other = um.freedom(fit).end(fit, sample=0, topic=1, end="low")
        >>> bool(np.allclose(other.L @ other.F.T, fit.L @ fit.F.T))
        True
        """
        if fit.L.shape != self.low.shape:
            raise ValueError(
                f"the fit has loadings of shape {fit.L.shape}, these ranges {self.low.shape}; give the fit they are of"
            )
        if self.loss > 0:
            raise ValueError(f"ends at a loss of {self.loss:g} are not kept as fits; ask freedom without a loss")
        if end not in ("low", "high"):
            raise ValueError(f'end={end!r}; choose "low" or "high"')
        values = self.transformations[:, :, topic_place(fit, topic)] @ fit.proportions[sample]
        A = self.transformations[values.argmin() if end == "low" else values.argmax()]
        P, F = np.maximum(fit.proportions @ A, 0), np.maximum(fit.topics @ np.linalg.inv(A).T, 0)
        L, F = topics_to_poisson(P, F, fit.sizes)
        return replace(fit, L=L, F=F, state=None, posterior={}, priors={})


def moves(found: Freedom) -> list[str]:
    """In words, for each topic, how far its proportions and the topic itself can move."""
    return [
        f"proportions move by {percent(row.mean_width)} on average, by {percent(row.widest)} in {row.sample}; "
        f"the topic itself by {percent(row.change)}"
        for row in found.table.itertuples()
    ]
