"""Topics among known ones: the entries of a catalogue that each is most like, by cosine, as the field of signatures compares."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.compare import cosine_similarities
from unmix.analysis.results import Layout, Result
from unmix.analysis.topics import topic_order
from unmix.data.catalogue import read_catalogue
from unmix.fit import Fit
from unmix.types import Floats

LIKE = 0.85  # cosines below leave it open which signature it is


@dataclass(frozen=True, eq=False)
class CatalogueMatch(Result):
    """What `match_catalogue` found.

    Attributes
    ----------
    table : DataFrame
        A row a topic, the heaviest first: `topic`, `label`, `share`, the entry that is `best`, its `cosine`, and the `second`
        best with its `second_cosine`.
    cosines : array, K × entries
        All of them, topics in the order of the fit.
    names : array of str
        Of the entries.

    Examples
    --------
    >>> import pandas as pd, unmix as um
    >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
    >>> fit = um.PoissonNMF.from_factors(known).result_
    >>> um.match_catalogue(fit, known).cosines.round(2)
    array([[1.  , 0.17],
           [0.17, 1.  ]])
    """

    LAYOUT: ClassVar = Layout(
        shapes={"cosines": "Ks", "names": "s"},
    )

    table: pd.DataFrame
    cosines: Floats
    names: NDArray[np.str_]

    def advice(self) -> list[str]:
        """Which topics are like nothing in the catalogue, and which are like the same entry.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import pandas as pd, unmix as um
        >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
        >>> um.match_catalogue(um.PoissonNMF.from_factors(known).result_, known).advice()
        []
        """
        said = []
        if len(unlike := self.table.loc[self.table["cosine"] < LIKE, "topic"]):
            said.append(
                f"not clearly like anything in the catalogue (cosine below {LIKE}): topic {', '.join(map(str, unlike))}"
            )
        for name, rows in self.table[self.table["cosine"] >= LIKE].groupby("best", sort=False):
            if len(rows) > 1:
                said.append(f"topics {' and '.join(map(str, rows['topic']))} are both most like {name}")
        return said


def match_catalogue(fit: Fit, catalogue: pd.DataFrame | str | os.PathLike[str]) -> CatalogueMatch:
    """The entries of a catalogue that each topic is most like, by cosine.

    Parameters
    ----------
    fit : Fit
        With names of features.
    catalogue : DataFrame, str or PathLike
        Features × known factors, such as COSMIC's signatures: a DataFrame, or a .csv or tab-separated file. Features are found
        by name, in any order; what only one side has counts as 0 on the other.

    Returns
    -------
    CatalogueMatch
        Its `table` has the best and the second best entry for each topic.

    Raises
    ------
    ValueError
        If the features of the fit have no names, or no name is in both.

    See Also
    --------
    PoissonNMF.from_factors : Loadings of the entries of a catalogue in samples.
    plot.signature : The picture.

    Examples
    --------
    >>> import pandas as pd, unmix as um
    >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
    >>> fit = um.PoissonNMF.from_factors([[0.1, 1], [1, 0.2], [0.9, 0]], features=["a", "b", "c"]).result_
    >>> um.match_catalogue(fit, known).table[["topic", "best"]].values.tolist()
    [[1, 'two'], [2, 'one']]
    """
    if fit.features is None:
        raise ValueError(
            "the features of this fit have no names, by which a catalogue is matched; give counts with names"
        )
    table = read_catalogue(catalogue)
    features = [str(name) for name in fit.features]
    missing = len(set(features) - set(table.index))
    if missing == len(features):
        raise ValueError(
            f"no feature of the catalogue ({table.index[0]} …) has a name that the fit knows ({features[0]} …); "
            "give features × factors, and compare the spelling"
        )
    if missing:
        warnings.warn(
            f"{missing:,} of {len(features):,} features of the fit are not in the catalogue: taken as 0 there",
            UserWarning,
            stacklevel=2,
        )
    names = list(dict.fromkeys([*features, *table.index]))
    topics = np.zeros((len(names), fit.n_topics))
    topics[: len(features)] = fit.topics
    cosines = cosine_similarities(topics, table.reindex(names, fill_value=0.0).to_numpy())
    return CatalogueMatch(_table(fit, cosines, list(table)), cosines, np.array(list(table)))


def _table(fit: Fit, cosines: Floats, names: list[str]) -> pd.DataFrame:
    ranked = np.argsort(-cosines, axis=1, kind="stable")
    rows = []
    for k in topic_order(fit).tolist():
        best = ranked[k, 0]
        second = ranked[k, 1] if len(names) > 1 else None
        next_best = (None, np.nan) if second is None else (names[second], cosines[k, second])
        rows.append((k + 1, fit.labels[k], fit.shares[k], names[best], cosines[k, best], *next_best))
    columns = ["topic", "label", "share", "best", "cosine", "second", "second_cosine"]
    return pd.DataFrame(rows, columns=columns)
