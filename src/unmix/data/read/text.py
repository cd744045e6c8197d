"""Texts -> counts of words: a folder of `.txt` files, one `.txt` with one document per line, `.jsonl`, columns of tables.

A word begins with a letter, goes on with letters and digits, may have an apostrophe inside, and has two characters or
more; it is lower-cased, and a possessive 's is dropped. So "America's p53 genes don't" has america, p53, genes, don't.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.data.read.files import lines_of, opened_text
from unmix.data.read.raw_counts import RawCounts, ReadOptions, StopWords, listed

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

    from unmix.fit import Fit

TEXT_FIELD = "text"
NAME_FIELDS = ("id", "name", "title")
RULES = 1  # of what a word is; a model remembers it
WORD = re.compile(r"(?<![^\W_])[^\W\d_][^\W_]*(?:'(?!s(?![^\W_]))[^\W_]+)*")
# Stop words with an apostrophe, which the list of scikit-learn has not.
NEGATIONS = "are ca could did does do had has have is must need sha should was were wo would ai"
PRONOUNS, VERBS = "i you he she it we they that there who what this", "ll ve re d m"
SHORT_FORMS = frozenset(
    [f"{verb}n't" for verb in NEGATIONS.split()]
    + [f"{who}'{verb}" for who in PRONOUNS.split() for verb in VERBS.split()]
)


def read_txt(path: Path, options: ReadOptions) -> RawCounts:
    """One document per line; or, if the lines are numbers between tabs, a table."""
    if is_table(path):
        from unmix.data.read.tables import read_tsv

        raw = read_tsv(path, options)
        raw.notes.insert(0, "its lines are numbers separated by tabs: read as a table")
        return raw
    if options.streamed:
        from unmix.data.read.text_blocks import stream_lines

        return stream_lines(path, options)
    lines = lines_of(path)
    return counted(lines, options, samples=[f"line {i}" for i in range(1, len(lines) + 1)])


def is_table(path: Path) -> bool:
    """Whether the second line of a file is made of numbers between tabs, after a name."""
    with opened_text(path) as file:
        file.readline()
        cells = file.readline().rstrip("\r\n").split("\t")
    return len(cells) > 1 and all(re.fullmatch(r"\d+(\.\d*)?([eE][+-]?\d+)?", cell) for cell in cells[1:])


def text_files(folder: Path) -> list[Path]:
    """The .txt files in a folder and in the folders in it, 2 before 10; hidden ones are not looked at."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    entries += [file for entry in entries if entry.is_dir() for file in entry.iterdir()]
    files = [entry for entry in entries if _is_text(entry.name) and entry.is_file()]
    return sorted(files, key=lambda file: _natural_order(file.relative_to(folder).as_posix()))


def _is_text(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".txt", ".txt.gz"))


def _natural_order(name: str) -> tuple[list[Any], str]:
    parts = re.split(r"(\d+)", name)  # every second one is a number
    return [int(part) if i % 2 else part.lower() for i, part in enumerate(parts)], name


def read_text_folder(folder: Path, files: list[Path], options: ReadOptions) -> RawCounts:
    """Every file is a document; if they lie in several folders, the metadata say in which."""
    if options.streamed:
        from unmix.data.read.text_blocks import stream_folder

        return stream_folder(folder, files, options)
    texts = [read_document(folder, file) for file in files]
    samples = [sample_name(folder, file) for file in files]
    folders = [file.parent.relative_to(folder).as_posix() for file in files]
    metadata = pd.DataFrame({"folder": folders}) if len(set(folders)) > 1 else None
    return counted(texts, options, samples=samples, metadata=metadata)


def read_document(folder: Path, file: Path) -> str:
    try:
        with opened_text(file) as text:
            return text.read()
    except (OSError, EOFError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{file.relative_to(folder).as_posix()}: {reason}") from error


def sample_name(folder: Path, file: Path) -> str:
    return re.sub(r"\.txt(\.gz)?$", "", file.relative_to(folder).as_posix(), flags=re.IGNORECASE)


def read_jsonl(path: Path, options: ReadOptions) -> RawCounts:
    """One JSON object per line: its text, perhaps a name, and what else describes it."""
    if options.streamed:
        from unmix.data.read.text_blocks import stream_jsonl

        return stream_jsonl(path, options)
    numbered = list(records(path))
    if not numbered:
        raise ValueError("there is nothing in it; unmix needs a JSON object a line")
    objects = [record for _, record in numbered]
    field = field_of(objects, options)
    texts = [text_of(number, record, field) for number, record in numbered]
    columns = list(dict.fromkeys(key for record in objects for key in record if key != field))
    nested = [key for key in columns if any(isinstance(record.get(key), dict | list) for record in objects)]
    known = {key: [clean(record.get(key)) for record in objects] for key in columns if key not in nested}
    complete = {key: [str(value) for value in values] for key, values in known.items() if None not in values}
    name = name_field(complete)
    metadata = pd.DataFrame({clean(key): values for key, values in known.items() if key != name})
    samples = None if name is None else complete[name]
    raw = counted(texts, options, samples=samples, metadata=metadata, column=field)
    if nested:
        raw.notes.append(f"left out, being lists or records: {listed(nested)}")
    return raw


def field_of(objects: Iterable[dict[str, Any]], options: ReadOptions) -> str:
    """The field that holds the texts: as asked for, as for the model `like` if there is one, or the usual one."""
    earlier = options.earlier_text_column
    if options.text_column is None and earlier is not None and any(earlier in record for record in objects):
        return earlier
    return options.text_column or TEXT_FIELD


def text_of(number: int, record: dict[str, Any], field: str) -> str:
    if not isinstance(record.get(field), str):
        others = [key for key in record if key != field]
        problem = "is not text" if field in record else f"is not there; it has {listed(others) or 'nothing'}"
        raise ValueError(f"line {number}: the field {field!r} {problem}; name the field with text_column")
    return str(clean(record[field]))


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each after the number of its line; empty lines are skipped."""
    with opened_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} is not JSON ({error})") from error
            if not isinstance(record, dict):
                raise ValueError(f'line {number} is not a JSON object in braces, such as {{"text": "…"}}')
            yield number, record


def clean(value: Any) -> Any:
    """JSON may hold half characters, which no file in UTF-8 can: they become question marks."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def name_field(columns: dict[str, list[str]]) -> str | None:
    """Which column names the texts: `id`, or a `name` or `title` of which no two are equal."""
    for wanted in NAME_FIELDS:
        for key, values in columns.items():
            if key.strip().lower() == wanted and (wanted == "id" or len(set(values)) == len(values)):
                return key
    return None


def counted(
    texts: list[str],
    options: ReadOptions,
    *,
    samples: list[str] | None = None,
    metadata: pd.DataFrame | None = None,
    column: str | None = None,
) -> RawCounts:
    """The words in each text, counted as asked for, or as for the model `like`."""
    if not texts:
        raise ValueError("there are no texts in it")
    if options.like is None:
        settings, vocabulary = settings_of(options, len(texts), column), None
    else:
        settings, vocabulary = as_before(options.like)
    vectorizer = vectorizer_of(settings, vocabulary)
    matrix = _fitted(vectorizer, texts, settings) if vocabulary is None else vectorizer.transform(texts)
    raw = RawCounts(matrix, samples, list(vectorizer.get_feature_names_out()), metadata, settings)
    if empty := int((np.diff(matrix.indptr) == 0).sum()):
        raw.notes.append(about_empty(empty, len(texts)))
    return raw


def about_empty(empty: int, n: int) -> str:
    return f"{empty:,} of {n:,} documents have no word that is counted: kept, without counts"


def vectorizer_of(settings: dict[str, Any], vocabulary: list[str] | None) -> CountVectorizer:
    """What counts words as the settings say, all of them or those of a vocabulary."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(
        preprocessor=plain,
        tokenizer=words,
        token_pattern=None,
        stop_words=_stop_words(settings["stop_words"]),
        ngram_range=tuple(settings["ngrams"]),
        min_df=settings["min_df"],
        max_df=settings["max_df"],
        vocabulary=vocabulary,
        dtype=np.float64,
    )


def plain(text: str) -> str:
    """Lower case, accents as one character with their letter, typographic apostrophes as plain ones."""
    return unicodedata.normalize("NFC", text).lower().replace("’", "'")


def words(text: str) -> list[str]:
    """The words of a text in lower case.

    >>> words(plain("America’s 2nd p53 genes don't, in 1999 as now; a x"))
    ['america', 'p53', 'genes', "don't", 'in', 'as', 'now']
    """
    return [word for word in WORD.findall(text) if len(word) > 1]


def _fitted(vectorizer: CountVectorizer, texts: list[str], settings: dict[str, Any]) -> sp.csr_matrix:
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:
        if "empty vocabulary" not in str(error) and "min_df" not in str(error):
            raise
        raise without_words(len(texts), settings, any_word="empty vocabulary" not in str(error)) from error


def without_words(n: int, settings: dict[str, Any], *, any_word: bool) -> ValueError:
    if not any_word:
        return ValueError(f"no words in {n:,} texts, stop words and single letters aside")
    between = f"at least {settings['min_df']} and at most {settings['max_df']}"
    return ValueError(f"no word is in {between} of {n:,} texts; lower min_df or raise max_df")


def settings_of(options: ReadOptions, n: int, text_column: str | None) -> dict[str, Any]:
    """All that is needed to count the words of other texts alike; numbers, words and lists only."""
    min_df = _document_frequency("min_df", options.min_df, default=1 if n < 10 else 2 if n < 100 else 5)
    max_df = _document_frequency("max_df", options.max_df, default=1.0)
    return {
        "rules": RULES,
        "stop_words": _listed_stop_words(options.stop_words),
        "ngrams": _ngrams(options.ngrams),
        "min_df": min_df,
        "max_df": max_df,
        "text_column": text_column,
    }


def _document_frequency(name: str, value: int | float | None, default: int | float) -> int | float:
    if value is None:
        return default
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if number or (isinstance(value, float) and 0 <= value <= 1):
        return value
    raise ValueError(f"{name}={value!r}; give a number of documents (1, 2, …) or a share of them (0.0 to 1.0)")


def _ngrams(ngrams: int | tuple[int, int]) -> list[int]:
    first, last = (1, ngrams) if isinstance(ngrams, int) else ngrams
    if not (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last):
        raise ValueError(f"ngrams={ngrams!r}; give 1 for words, 2 for pairs as well, or (2, 2) for pairs alone")
    return [first, last]


def _listed_stop_words(wanted: StopWords) -> str | list[str] | None:
    """'english', None, or a list of words, from a list or a file."""
    if wanted is None or wanted == "english":
        return wanted
    if isinstance(wanted, str | os.PathLike):
        file = Path(wanted)
        if not file.is_file():
            raise ValueError(f"stop_words={str(wanted)!r}; give 'english', None, or a file with a word a line")
        try:
            wanted = lines_of(file)
        except ValueError as error:
            raise ValueError(f"stop words in {file}: {error}") from error
    entries = [words(plain(str(entry))) for entry in wanted]
    return sorted({entry[0] for entry in entries if len(entry) == 1})


def _stop_words(wanted: Any) -> list[str] | None:
    if wanted == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return sorted(ENGLISH_STOP_WORDS | SHORT_FORMS)
    return wanted or None


def as_before(like: Fit) -> tuple[dict[str, Any], list[str]]:
    """The settings and the words of a model that was made from texts."""
    if like.text is None or like.features is None:
        raise ValueError("the model was not made from text; give counts with the names of its features")
    if like.text.get("rules") != RULES:
        raise ValueError("the model counts words in a way this version of unmix does not know; upgrade unmix")
    return dict(like.text), [str(word) for word in like.features]
