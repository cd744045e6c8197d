"""What labels say: whether a header or a list of names speaks of samples, of features or of counts.

Used to tell which way round a table is. Only what is all but certain counts; everything else is left as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


SAMPLE_WORDS = _words(
    "sample cell barcode doc document patient subject donor tumor tumour individual person participant spot nucleus "
    "specimen observation obs user customer site plot station speech post article paper file filename"
)
FEATURE_WORDS = _words(
    "gene feature word term token mutation symbol ensembl transcript protein peak probe otu asv taxon taxa motif kmer "
    "vocabulary vocab variable ngram lemma hugo entrez"
)
COUNT_WORDS = _words("count n value freq frequency umi read tf number abundance weight occurrence")
INDEX_WORDS = _words("id index row name title")
LONG_FEATURE_WORDS = FEATURE_WORDS | {"type", "item", "product", "species", "category", "pathway"}

FEATURE_PATTERNS = {
    "mutation types": r"(?:[TUNBQ]:)?[ACGT]\[[CT]>[ACGT]\][ACGT]|[ACGT]{2}>(?:[ACGT]{2}|NN)|\d:(?:Del|Ins):[CTRM]:\d",
    "Ensembl genes": r"ENS[A-Z]{0,6}[GT]\d{11}(?:\.\d+)?(?:_\w+)?",
}
SAMPLE_PATTERNS = {
    # with a number after or a sample before it; without, it may be a stretch of a genome
    "cell barcodes": r"(?:\w{1,30}[_:.#-])?[ACGT]{14,24}[-._]\d{1,3}(?:[-_]\w{1,20})?|\w{1,30}[_:#][ACGT]{14,24}x?",
    "TCGA barcodes": r"TCGA[-.]\w{2}[-.]\w{4}(?:[-.]\w+)*",
}
# Genes that are in nearly every table of genes; three of them together are no accident.
COMMON_GENES = _words("ACTB GAPDH B2M MALAT1 TP53 RPLP0 RPL13A RPS18 EEF1A1 PPIA UBC HPRT1 MT-CO1 MYC TMSB4X")
MATCHING_SHARE = 0.9  # the share of labels that must match a pattern


def words_in(header: str) -> set[str]:
    """'cellBarcodes_ID' -> {'cell', 'barcode', 'id', …}: lower case, also without a plural s."""
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", header).lower())
    return {*parts, *(part.removesuffix("s") for part in parts)}


def speaks_of(header: str) -> str | None:
    """'sample' or 'feature', if the header of a column of labels says which."""
    words = words_in(header)
    sample, feature = bool(words & SAMPLE_WORDS), bool(words & FEATURE_WORDS)
    if sample == feature:
        return None
    return "sample" if sample else "feature"


def names_samples(header: str) -> bool:
    """Whether a column of this name may hold the names of samples.

    >>> [names_samples(header) for header in ("Sample_ID", "id", "", "age")]
    [True, True, True, False]
    """
    return header.strip() == "" or bool(words_in(header) & (SAMPLE_WORDS | INDEX_WORDS))


def long_roles(headers: Sequence[str]) -> tuple[int, int, int] | None:
    """Where samples, features and counts stand among three headers, if they say so.

    >>> long_roles(["word", "doc_id", "n"])
    (1, 0, 2)
    """
    if len(headers) != 3:
        return None
    said = [words_in(header) for header in headers]
    counts = [i for i in range(3) if said[i] & COUNT_WORDS]
    if len(counts) > 1:  # of 'word' and 'word count', the one that says nothing else
        counts = [i for i in counts if said[i] <= COUNT_WORDS | {"s", ""}] or counts
    if len(counts) != 1:
        return None
    a, b = (i for i in range(3) if i != counts[0])
    for features, samples in ((FEATURE_WORDS, SAMPLE_WORDS | INDEX_WORDS), (LONG_FEATURE_WORDS, SAMPLE_WORDS)):
        for sample, feature in ((a, b), (b, a)):
            if said[feature] & features and said[sample] & samples:
                return sample, feature, counts[0]
    return None


def looks_like(labels: Sequence[str]) -> tuple[str | None, str]:
    """Whether names are those of 'sample' or 'feature', and what they look like.

    >>> looks_like(["A[C>A]A", "A[C>A]C", "A[C>A]G"])
    ('feature', 'mutation types')
    """
    few = list(labels[:2000])
    if len(few) > 1:
        for kind, patterns in (("feature", FEATURE_PATTERNS), ("sample", SAMPLE_PATTERNS)):
            for what, pattern in patterns.items():
                if sum(re.fullmatch(pattern, label) is not None for label in few) >= MATCHING_SHARE * len(few):
                    return kind, what
        if len(COMMON_GENES.intersection(label.upper() for label in labels)) >= 3:
            return "feature", "genes"
    return None, ""


def rows_are_features(header: str, rows: Sequence[str], columns: Sequence[str]) -> str | None:
    """Why the rows of a table are its features, or None where that is not certain.

    Evidence for one side is dropped where there is as good evidence for the other: names outweigh headers.
    """
    row_kind, row_look = looks_like(rows)
    column_kind, column_look = looks_like(columns)
    if row_kind == "sample" or column_kind == "feature":
        return None
    if row_kind == "feature":
        return f"they have names of {row_look}"
    if speaks_of(header) == "sample":
        return None
    if speaks_of(header) == "feature":
        return f"their header says {header.strip()!r}"
    if column_kind == "sample":
        return f"the columns have names of {column_look}"
    return None
