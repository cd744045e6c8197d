"""What people call topics: given in Python, or in a file that the page or a person wrote."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

LONGEST = 80  # letters of a topic's name, as in the fields of the page


def named_topics(names: Sequence[str] | Mapping[int, str] | None, n_topics: int) -> dict[str, str]:
    """Names by the place of their topic, from 0, without those that are empty."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        if isinstance(names, str) or len(names) != n_topics:
            raise ValueError(f"{len(names)} names for {n_topics} topics; give one each, or a mapping for some")
        names = dict(enumerate(names, start=1))
    if unknown := [number for number in names if number not in range(1, n_topics + 1)]:
        raise ValueError(f"names: there is no topic {unknown[0]!r}; this fit has topics 1 to {n_topics}")
    texts = {str(number - 1): " ".join(str(name).split())[:LONGEST] for number, name in names.items()}
    return {place: name for place, name in texts.items() if name}


def read_names(path: Path) -> Sequence[str] | dict[int, str]:
    """From .json, a list of names or an object of them by number as the page saves it, or .csv, a number and a name a row."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".csv":
            rows = [row for row in csv.reader(text.splitlines()) if row]
            rows = rows if rows[0][0].strip().isdecimal() else rows[1:]  # without its headings
            return {int(row[0]): row[1] for row in rows}
        given = json.loads(text)
        if wrong := [
            name for name in (given if isinstance(given, list) else given.values()) if not isinstance(name, str)
        ]:
            raise ValueError(f"{wrong[0]!r} is no name")
        return given if isinstance(given, list) else {int(number): name for number, name in given.items()}
    except (ValueError, IndexError, AttributeError) as error:
        remedy = 'give .json such as {"1": "economy"}, or .csv with a number and a name a row'
        raise ValueError(f"{path}: holds no names of topics ({error}); {remedy}") from None
