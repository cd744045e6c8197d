"""The options that commands share, each with its help: what to read and how, and how much to say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

READING, TEXT, FITTING, OUTPUT = "How to read INPUT", "If INPUT is text", "How to fit", "Results"

InputPath = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="Counts or text: .npz .npy .mtx .h5ad .h5 .csv .tsv .parquet .txt .jsonl, a 10x folder, a folder of .txt.",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A fit's folder, or its model.safetensors.")]

Layer = Annotated[
    str | None,
    typer.Option(help="Layer of an .h5ad file.", rich_help_panel=READING, show_default="X"),
]
Raw = Annotated[bool, typer.Option("--raw", help="Take .raw of an .h5ad file.", rich_help_panel=READING)]
Transpose = Annotated[
    bool | None,
    typer.Option(
        "--transpose/--no-transpose",
        help="Whether the rows of a table are features.",
        rich_help_panel=READING,
        show_default="by its labels",
    ),
]
Metadata = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A .csv or .tsv with a row a sample, found by name.", rich_help_panel=READING),
]
TextColumn = Annotated[
    str | None,
    typer.Option(help="Column or field that holds the text.", rich_help_panel=TEXT, show_default="by its name"),
]
MinDf = Annotated[
    str | None,
    typer.Option(
        metavar="N|PART",
        help="Words in fewer documents are left out.",
        rich_help_panel=TEXT,
        show_default="1, 2 or 5 by the number of documents",
    ),
]
MaxDf = Annotated[
    str | None,
    typer.Option(metavar="N|PART", help="Words in more documents are left out.", rich_help_panel=TEXT),
]
StopWords = Annotated[
    str,
    typer.Option(metavar="english|none|FILE", help="Words to leave out; a file has one a line.", rich_help_panel=TEXT),
]
Ngrams = Annotated[int, typer.Option(min=1, max=5, help="Count runs of up to so many words too.", rich_help_panel=TEXT)]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of words.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but notes and errors.", rich_help_panel=OUTPUT)
]


def text_options(
    column: str | None, min_df: str | None, max_df: str | None, stop_words: str, ngrams: int
) -> dict[str, Any]:
    """What `unmix.read` wants to know about text."""
    return {
        "text_column": column,
        "min_df": _documents("--min-df", min_df),
        "max_df": _documents("--max-df", max_df),
        "stop_words": None if stop_words == "none" else stop_words,
        "ngrams": ngrams,
    }


def _documents(option: str, given: str | None) -> int | float | None:
    """A number of documents (2), or a part of all (0.5, 1.0), as scikit-learn tells them apart."""
    if given is None:
        return None
    try:
        value = float(given) if "." in given else int(given)
    except ValueError:
        raise ValueError(
            f"{option} {given}: give a number of documents such as 5, or a part of all such as 0.5"
        ) from None
    if value < 0 or (isinstance(value, float) and value > 1):
        raise ValueError(f"{option} {given}: a part of all documents is between 0.0 and 1.0")
    return value
