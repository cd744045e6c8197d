"""Names of topics from the command line, and into all of a fit's folder."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmix.report.names import read_names

if TYPE_CHECKING:
    from unmix.fit import Fit


def names_of(text: str, known: Fit) -> list[str]:
    """ "clock,sun,smoke" for all topics, "2=sun,3=smoke" for some, or a .json or .csv file of such names."""
    given: Any
    if text.lower().endswith((".json", ".csv")):
        given = read_names(Path(text))
    else:
        parts = [part.strip() for part in text.split(",")]
        pairs = [part.partition("=") for part in parts]
        numbered = all(equals and number.strip().isdigit() for number, equals, _ in pairs)
        given = {number: name for number, _, name in pairs} if numbered else parts
    if isinstance(given, list):
        return given
    names = [""] * known.n_topics if known.names is None else known.names.tolist()
    for number, name in given.items():
        if not str(number).strip().isdigit() or not 1 <= int(number) <= known.n_topics:
            raise ValueError(f"--names: there is no topic {number}; this fit has topics 1 to {known.n_topics}")
        names[int(number) - 1] = name
    return names


def keep_names(known: Fit, path: Path) -> None:
    """A fit whose topics have new names, in place of the old one: its file, or all tables and pictures of its folder. Answers to
    further questions stay: they are about the same topics."""
    from unmix.cli.fitting import draw_structure
    from unmix.data.write import ANSWER_FILES, write_fit

    if not path.is_dir():
        known.save(path, resumable=True)
        return
    kept: dict[str, Any] = {
        name: partial(shutil.copy2, path / name) for name in ANSWER_FILES.values() if (path / name).is_file()
    }
    write_fit(known, path, pictures={"structure.png": partial(draw_structure, known), **kept})
