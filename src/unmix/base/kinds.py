"""What names say: whether they are of genes, cells, tumours or types of mutations, and the many spellings of the latter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unmix.base.checks import plural

FEATURE_PATTERNS = {
    "mutation types": r"(?:[TUNBQ]:)?[ACGT]\[[CT]>[ACGT]\][ACGT]|[ACGT]{2}>(?:[ACGT]{2}|NN)|[ACGT]{3}>[ACGT]{3}"
    r"|\d:(?:Del|Ins):[CTRM]:\d|(?:DEL|INS)_(?:C|T|MH|repeats)_\d\+?_\d\+?|\d(?:[+]|-\d)?:(?:homdel|LOH|het):\S+"
    r"|[CT]>[ACGT][:_ ][ACGT]{3}|[CT][ACGT][ _][ACGT]\.[ACGT]|(?:[CT]|\d\+?bp)_(?:deletion|insertion)_\w+\+?",
    "Ensembl genes": r"ENS[A-Z]{0,6}[GT]\d{11}(?:\.\d+)?(?:_\w+)?",
    "regions of a genome": r"(?:chr)?(?:\d\d?|[XYM]|MT|[GK][LI]\d+\.\d)[:_-]\d{3,}[_-]\d{3,}",
    "stretches of DNA": r"[ACGTN]{25,}",
    "lineages": r"[dk]__\w+[;|].*|(?:Bacteria|Archaea|Eukaryota|Viruses)[;|].*",
    "entries of databases": r"(?:GO:\d{7}|K\d{5}|PF\d{5}|rs\d{4,}|cg\d{8}|[NX][MR]_\d{6,}(?:\.\d+)?|\w{3}-(?:mir|miR|let)-\S+)",
}
SAMPLE_PATTERNS = {
    # with a number after or a sample before it; without, it may be a stretch of a genome
    "cell barcodes": r"(?:\w{1,30}[_:.#-])?[ACGT]{14,24}[-._]\d{1,3}(?:[-_]\w{1,20})?|\w{1,30}[_:#][ACGT]{14,24}x?",
    "TCGA barcodes": r"TCGA[-.]\w{2}[-.]\w{4}(?:[-.]\w+)*",
}
# Genes that are in nearly every table of genes; three of them together are no accident.
GENES = "ACTB GAPDH B2M MALAT1 TP53 RPLP0 RPL13A RPS18 EEF1A1 PPIA UBC HPRT1 MT-CO1 MYC TMSB4X"
COMMON_GENES = frozenset(GENES.split())
FAMILIES = re.compile(  # of genes; members of five of them are no accident either
    r"(CD|IL|CCL|CCR|CXCL|CXCR|HLA-|MT-|RPL|RPS|ZNF|TMEM|KRT|COL|FOX|SOX|HOX|GZM|LINC|TNF|KLR|FCGR|MS4A|S100A|IGH|IGK|TRB)\w*\d\w*"
    r"|(SLC)\d+A\d+|(HLA-)D?[A-Z]+\d?"
)
MATCHING_SHARE = 0.9  # the share of labels that must match a pattern


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
        upper = [label.upper() for label in labels]
        families = {next(filter(None, found.groups())) for label in upper if (found := FAMILIES.fullmatch(label))}
        if len(COMMON_GENES.intersection(upper)) >= 3 or len(families) >= 5:
            return "feature", "genes"
    return None, ""


def look_of_turned(samples: Any, features: Any) -> str:
    """What the names of samples look like, if it is features, and those of features do not; else nothing.

    >>> look_of_turned(["chr1:1000-1500", "chr1:2000-2500"], None)
    'regions of a genome'
    """
    kind, look = looks_like(samples)
    return look if kind == "feature" and looks_like(() if features is None else features)[0] != kind else ""


def size(samples: int, features: int, *, text: bool, names: tuple[Any, Any] = (None, None)) -> str:
    """How large counts are, in the words of their field where these are known. `names` are those of samples and features.

    >>> size(233, 10_065, text=False)
    '233 samples × 10,065 features'
    >>> size(2, 2, text=False, names=(None, ["A[C>A]A", "A[C>A]C"]))
    '2 tumours × 2 mutation types'
    """
    sample, feature = ("document", "word") if text else ("sample", "feature")
    if not text:
        ours, theirs = (() if one is None else one for one in names)
        looks = looks_like(theirs)[1]
        feature = {"mutation types": "mutation type", "genes": "gene", "Ensembl genes": "gene"}.get(looks, feature)
        kinds = {"cell barcodes": "cell", "TCGA barcodes": "tumour"}
        sample = "tumour" if looks == "mutation types" else kinds.get(looks_like(ours)[1], sample)
    return f"{plural(samples, sample)} × {plural(features, feature)}"


# Types of mutations as other programs spell them, and as COSMIC and SigProfiler do, which is how unmix knows them.

TURNED = str.maketrans("ACGT", "TGCA")
COUNTED = {"Del": 1, "Ins": 0}  # MutationalPatterns counts the deleted unit too
BASE, TRIO = "[ACGT]", "([ACGT])([ACGT])([ACGT])"


def _substitution(left: str, old: str, new: str, right: str) -> str:
    """On the strand that has a pyrimidine there.

    >>> _substitution("A", "G", "T", "C")
    'G[C>A]T'
    """
    if old in "AG":
        left, old, new, right = (base.translate(TURNED) for base in (right, old, new, left))
    return f"{left}[{old}>{new}]{right}"


# A pair of bases and its reverse complement are one: of what AT, CG, GC and TA become, six are left of nine.
DOUBLETS = {
    "AC": "CA CG CT GA GG GT TA TG TT",
    "AT": "CA CC CG GA GC TA",
    "CC": "AA AG AT GA GG GT TA TG TT",
    "CG": "AT GC GT TA TC TT",
    "CT": "AA AC AG GA GC GG TA TC TG",
    "GC": "AA AG AT CA CG TA",
    "TA": "AT CG CT GC GG GT",
    "TC": "AA AG AT CA CG CT GA GG GT",
    "TG": "AA AC AT CA CC CT GA GC GT",
    "TT": "AA AC AG CA CC CG GA GC GG",
}


def _doublet(old: str, new: str) -> str:
    if new not in DOUBLETS.get(old, "").split():
        old, new = (pair.translate(TURNED)[::-1] for pair in (old, new))
    return f"{old}>{new}"


KINDS = {"C": "C", "T": "T", "repeats": "R", "MH": "M"}
SPELLINGS: dict[str, Callable[..., str]] = {
    rf"({BASE})[\[(]({BASE})>({BASE})[\])]({BASE})": lambda a, b, c, d: _substitution(a, b, c, d),
    rf"({BASE})\.({BASE})\.({BASE})\.({BASE})": lambda a, b, c, d: _substitution(a, b, c, d),  # R's make.names
    rf"{TRIO}>\1({BASE})\3": lambda a, b, c, d: _substitution(a, b, d, c),  # sigfit
    rf"({BASE})>({BASE})[:_ ]({BASE})\1({BASE})": lambda b, c, a, d: _substitution(a, b, c, d),  # signeR, musicatk
    rf"({BASE})({BASE})[ _]({BASE})\.({BASE})": lambda b, c, a, d: _substitution(
        a, b, c, d
    ),  # SomaticSignatures, Palimpsest
    rf"({BASE}{{2}})[>_.]({BASE}{{2}})": _doublet,  # MutationalPatterns has AC_CA
    r"X?(\d)[:.](Del|Ins)[:.]([CTRM])[:.](\d)": lambda *parts: ":".join(parts),
    r"(DEL|INS)_(C|T|repeats|MH)_(\d)\+?_(\d)\+?": lambda what, kind, size, n: (  # PCAWG
        f"{size}:{what.title()}:{KINDS[kind]}:{n}"
    ),
    r"([CT])_(deletion|insertion)_(\d)\+?": lambda base, what, n: _counted("1", what, base, n),  # MutationalPatterns
    r"(\d)\+?bp_(deletion|insertion)_(\d)\+?": lambda size, what, n: _counted(size, what, "R", n),
    r"(\d)\+?bp_deletion_with_microhomology_(\d)\+?": lambda size, n: f"{size}:Del:M:{n}",
    r"(\d\+?|\d-\d):(homdel|LOH|het):(.+)": lambda copies, state, span: (
        f"{copies}:{state}:{re.sub('[kK][bB]', 'kb', span).replace('MB', 'Mb')}"
    ),
}
COMPILED = {re.compile(pattern): spelled for pattern, spelled in SPELLINGS.items()}


def _counted(size: str, what: str, kind: str, n: str) -> str:
    change = what[:3].title()
    return f"{size}:{change}:{kind}:{int(n) - COUNTED[change]}"


def mutation_type(name: str) -> str:
    """The name that COSMIC and SigProfiler give a type of mutation; any other name as it is.

    >>> [mutation_type(name) for name in ("ACA>AAA", "T[G>T]T", "C>A:ACA", "GT_TG", "DEL_repeats_5+_0", "C_deletion_6+", "bee")]
    ['A[C>A]A', 'A[C>A]A', 'A[C>A]A', 'AC>CA', '5:Del:R:0', '1:Del:C:5', 'bee']
    """
    for pattern, spelled in COMPILED.items():
        if found := pattern.fullmatch(name):
            return spelled(*found.groups())
    return name


def mutation_types(names: Iterable[Any]) -> list[str]:
    return [mutation_type(str(name)) for name in names]
