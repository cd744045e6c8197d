"""Data sets that come with unmix, or are made on the spot."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.counts.counts import Counts
from unmix.io.options import ReadOptions
from unmix.io.read.words import settings_of
from unmix.io.simulate import Cells, correlated_topics, simulate, swimmer

__all__ = ["Cells", "correlated_topics", "digits", "simulate", "sotu", "swimmer"]


def sotu() -> Counts:
    """Words in the State of the Union addresses, 1790–2021: 233 addresses × 10,065 words.

    Words of three letters or more in at least five addresses, lower-cased, English stop words removed.
    The addresses are works of the US government, in the public domain; the collection is stdlib's `datasets-sotu` (PDDL/CC0).

    Returns
    -------
    Counts
        `metadata` has year, president and party (d democratic, r republican, w whig, f federalist, dr democratic-republican,
        nu national union, wd whig and democratic, n none); `text` says how words are counted, so that a fit takes new texts.

    Examples
    --------
    >>> import unmix as um
    >>> um.datasets.sotu()
    Counts(233 documents × 10,065 words, 323,413 nonzeros, total 762,860)
    """
    folder = files("unmix.io") / "sotu"
    with as_file(folder / "counts.npz") as path:
        matrix = sp.load_npz(path)
    with folder.joinpath("samples.csv").open(encoding="utf-8") as table:
        metadata = pd.read_csv(table, keep_default_na=False)
    names = [f"{year} {president}" for year, president in zip(metadata["year"], metadata["president"], strict=True)]
    words = folder.joinpath("features.txt").read_text(encoding="utf-8").split()
    text = settings_of(ReadOptions(), len(names), None, None)  # by which new texts are counted
    return Counts(matrix, samples=names, features=words, metadata=metadata, text=text)


def digits() -> Counts:
    """Images of handwritten digits, 8 × 8 pixels of ink 0–16, from scikit-learn.

    Returns
    -------
    Counts
        1,797 images × 64 pixels; `metadata` has the digit.

    Examples
    --------
    >>> import unmix as um
    >>> um.datasets.digits().shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = [f"row {r} column {c}" for r in range(8) for c in range(8)]
    return Counts(bunch.data, features=pixels, metadata=pd.DataFrame({"digit": np.asarray(bunch.target)}))


def __dir__() -> list[str]:
    return __all__
