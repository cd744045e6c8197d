"""The types of mutations that signatures are made of, by the names, in the order and in the colours that the field gives them.

96 single base substitutions, 78 doublet substitutions, 83 small insertions and deletions (Alexandrov et al., Nature 2020), 48
classes of copy number segments (Steele et al., Nature 2022) and 32 of structural variants (Nik-Zainal et al., Nature 2016), as
COSMIC and SigProfiler name them: "A[C>A]A", "AC>CA", "1:Del:C:0", "2:LOH:1Mb-10Mb", "clustered_del_1-10Kb".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

BASES = "ACGT"


@dataclass(frozen=True)
class Group:
    """Types that stand together in one box: its label, the heading over its neighbours and itself, what is under their bars."""

    label: str
    features: tuple[str, ...]
    ticks: tuple[str, ...]
    colours: tuple[str, ...]  # of the bars; the box has the last one
    heading: str = ""
    below: str = ""


@dataclass(frozen=True)
class Layout:
    """All types of a kind of mutation, group by group."""

    kind: str
    groups: tuple[Group, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(feature for group in self.groups for feature in group.features)


@cache
def layouts() -> tuple[Layout, ...]:
    return _substitutions(), _doublets(), _indels(), _copy_numbers(), _rearrangements()


def layout_of(features: Iterable[str]) -> Layout:
    """The layout that has all these features; not all of its own need be among them."""
    names = list(features)
    best = max(layouts(), key=lambda layout: len(set(names) & set(layout.features)))
    foreign = [name for name in names if name not in set(best.features)]
    if not foreign:
        return best
    known = ", ".join(f"{len(layout.features)} {layout.kind} ({layout.features[0]} …)" for layout in layouts())
    raise ValueError(f"the feature {foreign[0]!r} is not a type of mutation; signatures are drawn of {known}")


def _substitutions() -> Layout:
    colours = {
        "C>A": "#03BDEF",
        "C>G": "#010101",
        "C>T": "#E42926",
        "T>A": "#CBCACA",
        "T>C": "#A2CF63",
        "T>G": "#ECC7C5",
    }
    around = [(left, right) for left in BASES for right in BASES]
    return Layout(
        "single base substitutions",
        tuple(
            Group(
                change,
                tuple(f"{left}[{change}]{right}" for left, right in around),
                tuple(f"{left}{change[0]}{right}" for left, right in around),
                (colour,) * 16,
            )
            for change, colour in colours.items()
        ),
    )


# A pair of bases and its reverse complement are one: of what AT, CG, GC and TA become, six are left of nine.
DOUBLETS = {
    "AC": ("CA CG CT GA GG GT TA TG TT", "#03BDEF"),
    "AT": ("CA CC CG GA GC TA", "#0366CC"),
    "CC": ("AA AG AT GA GG GT TA TG TT", "#A2CF63"),
    "CG": ("AT GC GT TA TC TT", "#016601"),
    "CT": ("AA AC AG GA GC GG TA TC TG", "#FF9999"),
    "GC": ("AA AG AT CA CG TA", "#E42926"),
    "TA": ("AT CG CT GC GG GT", "#FFB266"),
    "TC": ("AA AG AT CA CG CT GA GG GT", "#FF8001"),
    "TG": ("AA AC AT CA CC CT GA GC GT", "#CC99FF"),
    "TT": ("AA AC AG CA CC CG GA GC GG", "#4C0199"),
}


def _doublets() -> Layout:
    groups = []
    for pair, (changes, colour) in DOUBLETS.items():
        ticks = tuple(changes.split())
        groups.append(Group(f"{pair}>NN", tuple(f"{pair}>{tick}" for tick in ticks), ticks, (colour,) * len(ticks)))
    return Layout("doublet base substitutions", tuple(groups))


def _indels() -> Layout:
    """ "2:Del:R:0": two bases are deleted that are repeated 0 times more; "2:Del:M:1": with a microhomology of 1."""
    single = {
        ("Del", "C"): "#FDBE6F",
        ("Del", "T"): "#FF8002",
        ("Ins", "C"): "#B0DD8B",
        ("Ins", "T"): "#36A12E",
    }
    longer = {
        "Del": ("#FDCAB5", "#FC8A6A", "#F14432", "#BC191A"),
        "Ins": ("#D0E1F2", "#94C4DF", "#4A98C9", "#1764AB"),
    }
    words = {"Del": "deletion", "Ins": "insertion"}
    ticks = {"Del": ("1", "2", "3", "4", "5", "6+"), "Ins": ("0", "1", "2", "3", "4", "5+")}
    lengths = ("2", "3", "4", "5+")
    groups = [
        _indel(
            f"1:{change}:{base}", range(6), ticks[change], base, colour, f"1 bp {words[change]}", "homopolymer length"
        )
        for (change, base), colour in single.items()
    ]
    groups += [
        _indel(
            f"{length[0]}:{change}:R",
            range(6),
            ticks[change],
            length,
            colour,
            f">1 bp {words[change]} at repeats",
            "repeat units",
        )
        for change, colours in longer.items()
        for length, colour in zip(lengths, colours, strict=True)
    ]
    most = (1, 2, 3, 5)
    at = ("1", "2", "3", "4", "5+")
    groups += [
        _indel(f"{length[0]}:Del:M", range(1, n + 1), at[:n], length, colour, "microhomology", "length")
        for length, n, colour in zip(lengths, most, ("#E2E2EF", "#B6B6D8", "#8683BD", "#62409B"), strict=True)
    ]
    return Layout("small insertions and deletions", tuple(groups))


def _indel(
    start: str, numbers: range, ticks: Sequence[str], label: str, colour: str, heading: str, below: str
) -> Group:
    features = tuple(f"{start}:{number}" for number in numbers)
    return Group(label, features, tuple(ticks), (colour,) * len(features), heading, below)


SIZES = ("0-100kb", "100kb-1Mb", "1Mb-10Mb", "10Mb-40Mb", ">40Mb")
COPIES = {"1": "#5A5A5A", "2": "#6B8E23", "3-4": "#7A28B8", "5-8": "#A0522D", "9+": "#E0218A"}


def _copy_numbers() -> Layout:
    few = (*SIZES[:2], ">1Mb")
    groups = [Group("0", tuple(f"0:homdel:{size}" for size in few), few, _shades("#1F3FBF", 3), "hom. del.")]
    for state, heading in (("LOH", "loss of heterozygosity"), ("het", "heterozygous")):
        groups += [
            Group(copies, tuple(f"{copies}:{state}:{size}" for size in SIZES), SIZES, _shades(colour, 5), heading)
            for copies, colour in COPIES.items()
            if (state, copies) != ("het", "1")
        ]
    return Layout("classes of copy number", tuple(groups))


LENGTHS = ("1-10Kb", "10-100Kb", "100Kb-1Mb", "1Mb-10Mb", ">10Mb")


def _rearrangements() -> Layout:
    groups = []
    for where in ("clustered", "non-clustered"):
        for event, colour in (("del", "#E0218A"), ("tds", "#A0522D"), ("inv", "#7A28B8")):
            features = tuple(f"{where}_{event}_{length}" for length in LENGTHS)
            groups.append(Group(event, features, LENGTHS, _shades(colour, 5), where))
        groups.append(Group("tr", (f"{where}_trans",), ("trans",), ("#6E6E6E",), where))
    return Layout("classes of structural variants", tuple(groups))


def _shades(colour: str, n: int) -> tuple[str, ...]:
    """From a pale shade of a colour to the colour: the longer, the darker."""
    channels = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    strengths = [0.25 + 0.75 * i / (n - 1) for i in range(n)]
    return tuple("#" + "".join(f"{round(255 - s * (255 - c)):02X}" for c in channels) for s in strengths)
