"""Tables are read by their cells: as texts, one row per count, or one column per feature. Where two readings are plausible, the
table is refused with the option that chooses."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import unmix as um

WORDS = [
    "bee",
    "hums",
    "over",
    "the",
    "hive",
    "while",
    "small",
    "ants",
    "dig",
    "below",
    "and",
    "wasps",
    "sting",
    "whoever",
    "comes",
    "near",
    "it",
]
N = 24


def sentences(n: int = N, length: int = 9) -> list[str]:
    return [
        " ".join(WORDS[(5 * i + 3 * j * (i % 4 + 1)) % len(WORDS)] for j in range(length)) + f" {i}." for i in range(n)
    ]


def table(**columns: object) -> Callable[[], pd.DataFrame]:
    return lambda: pd.DataFrame({name.replace("__", " "): cells for name, cells in columns.items()})


def pairs(first: list, second: list, **more: list) -> Callable[[], pd.DataFrame]:
    """Every second pair of two lists of names, and a number for it."""

    def made() -> pd.DataFrame:
        grid = [(a, b) for i, a in enumerate(first) for j, b in enumerate(second) if (i + j) % 2 == 0]
        count = next(iter(more))
        frame = pd.DataFrame(grid, columns=["first", "second"]).assign(**{count: 1 + np.arange(len(grid)) % 5})
        for name, cells in list(more.items())[1:]:
            frame[name] = [cells[i % len(cells)] for i in range(len(grid))]
        a, b = more[count]
        return frame.rename(columns={"first": a, "second": b})

    return made


USERS, ITEMS = [f"user {i}" for i in range(8)], [f"item {i}" for i in range(10)]
NUMBERS, LARGE = list(range(1, 9)), list(range(101, 111))
COUNTS = np.arange(N) % 7
CHINESE = [f"人人生而自由，在尊严和权利上一律平等，他们赋有理性和良心{i}" for i in range(N)]
INDELS = ["DEL_C_1_0", "DEL_C_1_1", "INS_T_1_5+", "DEL_repeats_2_0", "DEL_MH_5+_5+"]
LABELS = ["red", "blue", "green"] * 8
YEARS = [2000 + i for i in range(N)]

# header and cells -> "texts COLUMN", "long N × M", "wide N × M", or the remedy that a refusal names
TABLES: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
    "tweets": (table(id=range(N), tweet=sentences(), likes=COUNTS, retweets=COUNTS), "texts tweet"),
    "speeches": (table(date=["2001-01-05"] * N, party=LABELS, speech=sentences(), votes=COUNTS), "texts speech"),
    "tweets without names": (table(tweet=sentences(), likes=COUNTS), "texts tweet"),
    "a text column": (table(id=range(N), text=["ok", "no", "yes"] * 8, likes=COUNTS), "texts text"),
    "bodies and titles": (
        table(title=sentences(length=5), body=sentences(length=30), year=YEARS),
        "texts body",
    ),
    "titles alone": (table(title=sentences(length=6), year=YEARS), "texts title"),
    "open answers": (
        table(respondent=range(N), age=COUNTS + 20, **{"open.ended.response": sentences()}),
        "texts open.ended.response",
    ),
    "reviews with stars": (table(review=sentences(), stars=COUNTS), "texts review"),
    "articles": (table(article=sentences(), topic=LABELS), "texts article"),
    "documents": (table(doc_id=range(N), document=sentences()), "texts document"),
    "Chinese": (table(id=range(N), 微博=CHINESE, likes=COUNTS), "texts 微博"),
    "questions and answers": (
        table(question=sentences(), answer=sentences(length=10)),
        "'question', 'answer' hold sentences; .*text_column",
    ),
    "field notes": (
        table(site=USERS * 3, notes=sentences(), ant=COUNTS, bee=COUNTS),
        "text_column='notes' .* layout='wide'",
    ),
    "texts among many numbers": (
        table(tweet=sentences(), **{f"f{i}": COUNTS for i in range(9)}),
        "text_column='tweet' .* layout='wide'",
    ),
    "genes with descriptions": (
        table(gene=[f"G{i}" for i in range(N)], description=sentences(), s1=COUNTS, s2=COUNTS),
        "wide 2 × 24",
    ),
    "ratings": (pairs(USERS, ITEMS, rating=["user", "item"]), "long 8 × 10"),
    "plays": (pairs(USERS, ITEMS, plays=["user", "artist"]), "long 8 × 10"),
    "clicks": (pairs(USERS, ITEMS, clicks=["visitor", "page"]), "long 8 × 10"),
    "quantities": (pairs(USERS, ITEMS, quantity=["customer", "product"]), "long 8 × 10"),
    "values": (pairs(USERS, ITEMS, value=["cell", "gene"]), "long 8 × 10"),
    "words": (pairs(USERS, ITEMS, n=["doc", "word"]), "long 8 × 10"),
    "words first": (pairs(ITEMS, USERS, n=["word", "doc"]), "long 8 × 10"),
    "numbered users": (pairs(NUMBERS, LARGE, rating=["userId", "movieId"]), "long 8 × 10"),
    "MovieLens": (
        pairs(NUMBERS, LARGE, rating=["userId", "movieId"], timestamp=[964982703, 964981247, 964982224]),
        "long 8 × 10",
    ),
    "ratings with titles": (pairs(USERS, LARGE, rating=["user", "item"], title=["Star Wars", "Alien"]), "long 8 × 10"),
    "identifiers of other names": (pairs(USERS, ITEMS, much=["who", "what"]), "long 8 × 10"),
    "loans with dates": (pairs(USERS, ITEMS, times=["who", "what"], day=["2001-01-05", "2001-01-06"]), "long 8 × 10"),
    "numbers of other names": (pairs(NUMBERS * 5, LARGE, r=["u", "i"]), "wide 200 × 3"),
    "numbers that may be identifiers": (
        pairs(list(range(30)), list(range(100, 130)), r=["u", "i"]),
        "layout='long' or layout='wide'",
    ),
    "two texts that do not repeat": (
        table(who=["x", "y"], what=["a", "b"], much=[1, 2]),
        "layout='long', or name the columns",
    ),
    "indels in columns": (table(sample=USERS, **dict.fromkeys(INDELS, NUMBERS)), "wide 8 × 5"),
    "indels in rows": (table(**{"": INDELS}, A=NUMBERS[:5], B=NUMBERS[:5]), "wide 2 × 5"),
    "indels with a header": (table(**{"Mutation Type": INDELS}, A=NUMBERS[:5], B=NUMBERS[:5]), "wide 2 × 5"),
    "indels under the header of their samples": (
        table(mutation=USERS, **dict.fromkeys(INDELS, NUMBERS)),
        "wide 8 × 5",
    ),
    "sigfit's names": (table(**{"": ["ACA>AAA", "TTG>TCG"]}, A=[1, 2], B=[3, 4]), "wide 2 × 2"),
    "copy numbers": (table(**{"": ["0:homdel:0-100kb", "2:LOH:>40Mb"]}, A=[1, 2], B=[3, 4]), "wide 2 × 2"),
    "counts alone": (table(ant=[1, 2, 3], bee=[0, 1, 0], wasp=[2, 2, 1]), "wide 3 × 3"),
    "counts with labels": (table(sample=USERS, stage=["early", "late"] * 4, ant=NUMBERS, bee=NUMBERS), "wide 8 × 2"),
    "one feature": (table(sample=USERS, count=NUMBERS), "wide 8 × 1"),
    "sites and species": (table(site=USERS, ant=NUMBERS, bee=NUMBERS, wasp=NUMBERS), "wide 8 × 3"),
    "lineages": (
        table(
            taxonomy=[f"Bacteria; Firmicutes; Bacilli; Order {i}; Family {i}; Genus {i}" for i in range(N)],
            s1=COUNTS,
            s2=COUNTS,
        ),
        "wide 2 × 24",
    ),
    "terms with long names": (table(**{"": sentences()}, s1=COUNTS, s2=COUNTS), "wide 24 × 2"),
    "likert answers": (
        table(id=range(N), view=["I agree with all of this very much", "I do not at all agree"] * 12),
        "text_column",
    ),
}


def outcome(X: um.Counts | um.Shards) -> str:
    if X.text is not None:
        return f"texts {X.text['text_column']}"
    return f"{X.reading.split(',')[0]} {X.shape[0]} × {X.shape[1]}"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("way", ["read", "shard"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_is_read_as_it_is_meant_or_refused_with_the_remedy(name, way, tmp_path):
    make, expected = TABLES[name]
    path = tmp_path / "table.csv"
    make().to_csv(path, index=False)
    read = um.read if way == "read" else lambda path: um.shard(path, tmp_path / "shards")
    if expected.split()[0] in ("texts", "long", "wide"):
        assert outcome(read(path)) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            read(path)


def test_the_tables_are_of_more_than_thirty_kinds_and_read_in_every_way():
    assert len(TABLES) > 30
    assert {"texts", "long", "wide"} < {expected.split()[0] for _, expected in TABLES.values()}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("field notes", {"text_column": "notes"}, "texts notes"),
        ("field notes", {"layout": "wide"}, "wide 24 × 2"),
        ("texts among many numbers", {"layout": "wide"}, "wide 24 × 9"),
        ("questions and answers", {"text_column": "answer"}, "texts answer"),
        ("numbers that may be identifiers", {"layout": "long"}, "long 30 × 30"),
        ("numbers that may be identifiers", {"layout": "wide"}, "wide 450 × 3"),
        ("two texts that do not repeat", {"layout": "long"}, "long 2 × 2"),
        ("ratings", {"layout": "long", "transpose": True}, "long 10 × 8"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_option_chooses_the_reading(name, options, expected, tmp_path):
    TABLES[name][0]().to_csv(tmp_path / "table.csv", index=False)
    assert outcome(um.read(tmp_path / "table.csv", **options)) == expected


def test_how_a_table_was_read_is_said_in_one_line(tmp_path):
    def reading(name: str) -> str:
        TABLES[name][0]().to_csv(tmp_path / "table.csv", index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return um.read(tmp_path / "table.csv").reading

    assert reading("tweets") == "one text per row, column 'tweet'; sample names: 'id'; metadata: 'likes', 'retweets'"
    assert reading("MovieLens") == (
        "long, one row per count; samples: 'userId'; features: 'movieId'; counts: 'rating'; left out: 'timestamp'"
    )
    assert reading("counts with labels") == (
        "wide, one column per feature, 2 in all; sample names: 'sample'; metadata: 'stage'"
    )
    assert reading("indels in rows").endswith("; transposed")


def test_an_unknown_layout_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(",ant\nx,1\n")
    with pytest.raises(ValueError, match="layout='tall'; give 'long' or 'wide'"):
        um.read(tmp_path / "a.csv", layout="tall")
    with pytest.raises(
        ValueError, match="a long table needs columns of samples, features and counts; there are '', 'ant'"
    ):
        um.read(tmp_path / "a.csv", layout="long")
