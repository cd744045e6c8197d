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
    "reviews of users and items": (
        pairs(USERS, ITEMS, rating=["user", "item"], review=sentences(40)),
        "text_column='review' or layout='long'",
    ),
    "short answers": (
        table(id=[f"r{i}" for i in range(N)], answer=["no", "yes"] * 12, age=COUNTS),
        "text_column='answer'",
    ),
    "short titles and years": (
        table(title=[f"{a} {b}" for a, b in zip(WORDS * 2, WORDS[3:] * 2, strict=False)][:N], year=YEARS),
        "if 'title' holds texts, give text_column",
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
    "events": (pairs(USERS, ITEMS, timestamp=["user", "item"]), "long 8 × 10"),
    "purchases with labels": (
        pairs(USERS, ITEMS, price=["invoice", "code"], country=["UK", "France"], day=["2001-01-05"]),
        "long_columns, .*'invoice,code'",
    ),
    "mutations one by one": (
        table(Hugo_Symbol=["TP53"] * N, Reference_Allele=["C"] * N, Tumor_Sample_Barcode=LABELS),
        "long_columns='Tumor_Sample_Barcode,Hugo_Symbol'",
    ),
    "ratings without a header": (
        table(**{"1": NUMBERS * 3, "105": [100 + i for i in range(N)], "5": COUNTS, "881250949": YEARS}),
        "put a row with the names",
    ),
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
    "doublets in two columns": (
        table(Ref=["AC", "AC", "CC"], Var=["CA", "GG", "TT"], A=[1, 2, 3], B=[3, 4, 5]),
        "wide 2 × 3",
    ),
    "numbered taxa": (table(**{"": [f"OTU_{i}" for i in range(N)]}, A=COUNTS, B=COUNTS), "wide 2 × 24"),
    "numbered samples on top": (table(**{"": WORDS}, **{f"Sample {i}": range(17) for i in range(4)}), "wide 4 × 17"),
    "places in the genome": (
        table(Geneid=[f"G{i}" for i in range(N)], Chr="chr1", Start=YEARS, End=YEARS, Length=9, a=COUNTS, b=COUNTS),
        "wide 2 × 24",
    ),
    "years beside counts": (table(doc=USERS, year=YEARS[:8], war=NUMBERS, peace=NUMBERS), "wide 8 × 2"),
    "totals of cells": (table(barcode=USERS, n_counts=NUMBERS, CD3D=NUMBERS, LYZ=NUMBERS), "wide 8 × 2"),
    "a column of totals": (table(site=["a", "b"], ant=[1, 2], bee=[3, 4], Total=[4, 6]), "wide 2 × 2"),
    "a row of totals": (
        table(site=["a", "b", "Total"], ant=[1, 2, 3], bee=[3, 4, 7]),
        "'Total'. is the sum of the others",
    ),
    "measurements beside counts": (
        table(
            site=USERS, pH=[4.5 + i / 7 for i in range(8)], altitude=[90] * 8, ant=NUMBERS, bee=NUMBERS, wasp=NUMBERS
        ),
        "metadata_columns='pH,altitude', or layout='wide'",
    ),
    "thousands between commas": (
        table(site=["a", "b"], ant=["1,005", "2,118"], bee=[3, 4]),
        "'1,005'; write counts as",
    ),
    "labels that repeat": (table(party=LABELS, tax=COUNTS, war=COUNTS), "wide 24 × 2"),
    "labels last": (table(tax=COUNTS, war=COUNTS, party=LABELS), "wide 24 × 2"),
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
    "row numbers of pandas": (table(**{"Unnamed: 0": range(N)}, ant=COUNTS, bee=COUNTS), "wide 24 × 2"),
    "row numbers twice": (table(**{"": range(N), "Unnamed: 0": range(N)}, ant=COUNTS, bee=COUNTS), "wide 24 × 2"),
    "row numbers of R": (table(X=range(1, N + 1), ant=COUNTS, bee=COUNTS), "wide 24 × 2"),
    "pairs with row numbers": (
        lambda: pairs(USERS, ITEMS, much=["who", "what"])().reset_index(names=""),
        "long 8 × 10",
    ),
    "pairs without a header": (
        table(u1=["u1", "u1", "u2", "u2"] * 6, i1=["i1", "i2", "i3"] * 8, **{"3": COUNTS}),
        "put a row with the names of the columns above it",
    ),
    "a column of short texts": (
        table(keywords=[" ".join(WORDS[i : i + 3]) for i in range(14)]),
        "text_column='keywords'",
    ),
    "percentages": (table(site=["a", "b"], ant=["1%", "21%"], bee=["3%", "4%"]), "holds numbers such as '1%'"),
    "a title above the header": (
        table(Bees=["site", "x", "y"], **{"": ["ant", "1", "2"], " ": ["bee", "3", "4"]}),
        "if row 1 has the names of the columns, remove what is above it",
    ),
    "symbols of genes": (
        table(**{"": ["CD3D", "CCL5", "MS4A1", "LYZ", "IL7R", "GZMB", "HLA-DRA"]}, WT=[1] * 7, KO=[2] * 7),
        "wide 2 × 7",
    ),
    "treatments by markers": (
        table(**{"": ["CD3", "CD4", "CD8", "CD14", "CD19", "CD56"]}, ant=[1] * 6, bee=[2] * 6),
        "wide 6 × 2",
    ),
    "peaks": (table(**{"": [f"chr{i}:{i}000-{i}900" for i in range(1, 9)]}, A=NUMBERS, B=NUMBERS), "wide 2 × 8"),
    "lineages between bars": (
        table(**{"": [f"k__Bacteria|p__F{i}|g__{i}" for i in range(8)]}, A=NUMBERS, B=NUMBERS),
        "wide 2 × 8",
    ),
    "stretches of DNA": (
        table(**{"": ["ACGTTGCA" * 5 + "ACGT" * i for i in range(8)]}, A=NUMBERS, B=NUMBERS),
        "wide 2 × 8",
    ),
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
        ("reviews of users and items", {"layout": "long"}, "long 8 × 10"),
        ("purchases with labels", {"long_columns": "invoice,code"}, "long 8 × 10"),
        ("purchases with labels", {"long_columns": ["country", "code", "price"]}, "long 2 × 10"),
        ("mutations one by one", {"long_columns": "Tumor_Sample_Barcode, Hugo_Symbol"}, "long 3 × 1"),
        ("measurements beside counts", {"metadata_columns": ["pH", "altitude"]}, "wide 8 × 3"),
        ("measurements beside counts", {"layout": "wide"}, "wide 8 × 5"),
        ("years beside counts", {"layout": "wide"}, "wide 8 × 3"),
        ("a row of totals", {"layout": "wide"}, "wide 3 × 2"),
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
        "long, one row per count; samples: 'userId'; features: 'movieId'; counts: 'rating'; omitted: 'timestamp'"
    )
    assert reading("counts with labels") == (
        "wide, one column per feature, 2 in all: 'ant', 'bee'; sample names: 'sample'; metadata: 'stage'"
    )
    assert reading("events") == (
        "long, one row per event, which counts one; samples: 'user'; features: 'item'; omitted: 'timestamp'"
    )
    assert reading("indels in rows").endswith("; transposed")


TEXTS = {  # a file as text, and its counts
    "R's write.table": ("a.txt", '"ant" "my bee"\n"s 1" 1 2\n"s 2" 3 0\n', [[1, 2], [3, 0]]),
    "bars": ("a.csv", "site|ant|bee\nx|1|2\ny|3|0\n", [[1, 2], [3, 0]]),
    "blanks": ("a.csv", "site ant bee\nx 1 2\ny 3 0\n", [[1, 2], [3, 0]]),
    "an empty column and empty rows": ("a.csv", "site,ant,bee,\nx,1,2,\n,,,\ny,3,0,\n,,,\n", [[1, 2], [3, 0]]),
    "commas in .tsv": ("a.tsv", "site,ant,bee\nx,1,2\ny,3,0\n", [[1, 2], [3, 0]]),
    "comments of biom": (
        "a.tsv",
        "# Constructed from biom file\n#OTU ID\tS1\tS2\nX\t1\t3\nY\t2\t0\n",
        [[1, 2], [3, 0]],
    ),
    "comments of featureCounts": (
        "a.txt",
        '# Program:featureCounts; Command:"a, b"\nGeneid\tChr\tStart\tEnd\tStrand\tLength\ta\tb\n'
        "G1\tchr1\t1\t9\t+\t9\t1\t3\nG2\tchr1\t11\t19\t+\t9\t2\t0\n",
        [[1, 2], [3, 0]],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_separators_and_comments(name, tmp_path):
    file, text, expected = TEXTS[name]
    (tmp_path / file).write_text(text)
    assert um.read(tmp_path / file).csr.toarray().tolist() == expected
    disk = um.shard(tmp_path / file, tmp_path / "shards")
    assert disk.take(np.arange(2)).csr.toarray().tolist() == expected


def test_texts_of_few_words_and_numbers_are_not_tables(tmp_path):
    (tmp_path / "a.txt").write_text("we met 3 times\nroom 12\nwe met 4 times\n")
    assert um.read(tmp_path / "a.txt", min_df=1).reading == "one text per line"


@pytest.mark.parametrize("way", ["read", "shard"])
@pytest.mark.filterwarnings("ignore:.*have no word that is counted")
def test_a_quotation_mark_that_is_not_closed_takes_no_rows_for_a_text(way, tmp_path):
    text = 'id,text\n1,we met them all again\n2,"and so it went on\n3,"and on\n4,until they had gone\n5,for good\n'
    (tmp_path / "a.csv").write_text(text)
    read = um.read if way == "read" else lambda path: um.shard(path, tmp_path / "shards")
    with pytest.raises(ValueError, match="line 3 opens a quotation mark that is closed within a cell, in line 4"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(text.replace('"and on', '"",and on').replace("went on\n", 'went on"\n'))
    with pytest.raises(ValueError, match="line 4 has 3 cells"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text('id,text\n1,"they said ""we met\nall"" again"\n2,a 5" pipe is here\n')
    assert read(tmp_path / "a.csv").shape[0] == 2
    (tmp_path / "a.csv").write_text('id,text\n1,"all that we met" again\n2,"they went\non and on"\n3,"and so on" too\n')
    assert um.read(tmp_path / "a.csv").shape[0] == 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_levels_of_an_index_are_not_counts(tmp_path):
    index = pd.MultiIndex.from_product([["a", "b", "c"], range(10)])
    pd.DataFrame({"ant": range(30), "bee": range(1, 31)}, index=index).to_parquet(tmp_path / "a.parquet")
    X = um.read(tmp_path / "a.parquet")
    assert list(X.features) == ["ant", "bee"]
    assert X.metadata.iloc[:, 0].tolist() == [*range(10)] * 3


def test_errors_below_comments_name_the_line_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("# a\n# b\nsite,ant,bee\nx,1,2\ny,1\n")
    with pytest.raises(ValueError, match=r"row 2 \(line 5\) has 2 cells"):
        um.read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"long_columns": "site,gull"}, "long_columns has 'gull'; the columns are 'site', 'ant', 'bee'"),
        ({"long_columns": "ant"}, "needs columns of samples, features and counts"),
        ({"long_columns": "site,ant", "layout": "wide"}, "leave layout out"),
        ({"long_columns": "site,ant", "metadata_columns": "bee"}, "leave metadata_columns out"),
        ({"metadata_columns": "gull"}, "metadata_columns has 'gull'"),
        ({"metadata_columns": "bee", "layout": "long"}, "metadata_columns is for wide tables"),
    ],
)
def test_columns_that_do_not_fit_are_refused(options, problem, tmp_path):
    (tmp_path / "a.csv").write_text("site,ant,bee\nx,1,2\ny,3,0\n")
    with pytest.raises(ValueError, match=problem):
        um.read(tmp_path / "a.csv", **options)


def test_an_unknown_layout_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(",ant\nx,1\n")
    with pytest.raises(ValueError, match="layout='tall'; use 'long' or 'wide'"):
        um.read(tmp_path / "a.csv", layout="tall")
    with pytest.raises(
        ValueError, match="a long table needs columns of samples, features and counts; there are '', 'ant'"
    ):
        um.read(tmp_path / "a.csv", layout="long")
