"""Names of topics from the command line, and into all of a fit's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmix.fit import Fit


def names_of(text: str, known: Fit) -> list[str]:
    """ "clock,sun,smoke" for all topics, "2=sun,3=smoke" for some, or a .json file with a list or an object of such names."""
    if text.lower().endswith(".json"):
        try:
            given = json.loads(Path(text).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{text}: not a readable .json file ({error})") from None
        if not isinstance(given, list | dict) or not all(isinstance(name, str) for name in list(_values(given))):
            raise ValueError(f'{text}: give a list of names, or an object such as {{"2": "sun"}}')
    else:
        parts = [part.strip() for part in text.split(",")]
        pairs = [part.partition("=") for part in parts]
        numbered = all(equals and number.strip().isdigit() for number, equals, _ in pairs)
        given = {number: name for number, _, name in pairs} if numbered else parts
    if isinstance(given, list):
        return given
    names = [""] * known.n_topics if known.names is None else known.names.tolist()
    for number, name in given.items():
        if not number.strip().isdigit() or not 1 <= int(number) <= known.n_topics:
            raise ValueError(f"--names: there is no topic {number}; this fit has topics 1 to {known.n_topics}")
        names[int(number) - 1] = name
    return names


def _values(given: list[object] | dict[str, object]) -> list[object]:
    return list(given.values()) if isinstance(given, dict) else given


def keep_names(known: Fit, path: Path) -> None:
    """A fit whose topics have new names, in place of the old one: its file, or all tables and pictures of its folder."""
    from unmix.cli.fitting import draw_structure
    from unmix.data.write import write_fit

    if path.is_dir():
        write_fit(known, path, pictures={"structure.png": lambda place: draw_structure(known, place)})
    else:
        known.save(path, resumable=True)
