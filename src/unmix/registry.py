"""The names of models, solvers and analyses, and what the packages above need to know of each before it is imported.

A new model is named here and in `__init__.pyi`: the command line, `unmix.sc` and saved fits all look here. A new analysis is
its module, `unmix.analysis.NAME`, its row in `ANALYSES` and, where the report shows more than its table, the script of its
section. The command, the option of `unmix fit`, the files in a fit's folder, the section of the report and `Result.plot` follow
from the row; options follow from the signature and the docstring of its function.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from inspect import Parameter, Signature
from typing import Any, NamedTuple


class Model(NamedTuple):
    """Where an estimator lives, what it is called in the command line, and what it maximises if that is not the likelihood
    (with a prior, perhaps)."""

    home: str
    word: str
    objective: str | None = None


BOUND = "lower bound of log p(X)"
MODELS = {
    "TopicModel": Model("unmix.estimators.likelihood", "topics"),
    "PoissonNMF": Model("unmix.estimators.likelihood", "poisson-nmf"),
    "SparsePoissonNMF": Model("unmix.estimators.likelihood", "sparse"),
    "LDA": Model("unmix.estimators.variational", "lda", BOUND),
    "GammaPoisson": Model("unmix.estimators.variational", "gamma-poisson", BOUND),
    "BayesianPoissonNMF": Model("unmix.estimators.variational", "bayes", BOUND),
    "AllocationModel": Model("unmix.estimators.allocation", "allocation", "log p(S)"),
}
WORDS = {model.word: name for name, model in MODELS.items()}

# What a user may call a solver, and its class in `unmix.solvers`
SOLVERS = {
    "newton": "Newton",
    "scd": "SCD",
    "ccd": "CCD",
    "sn": "SN",
    "em": "EM",
    "joint": "Joint",
    "plsa": "PLSA",
    "plsi": "PLSI",
    "normalized": "Normalized",
}
STARTS = ("auto", "topic-score", "random")
NAMES = {"solvers": SOLVERS, "models": WORDS}


@dataclass(frozen=True)
class Analysis:
    """A question about counts or fits, whose module is imported when it is needed."""

    name: str  # of its module, of the command, and of its option of `unmix fit`
    function: str  # in its module, as is the class of the result
    result: str  # its class; in lower case, the name of its files and of its section
    summary: str  # one line of help
    title: str  # of its section in the report, a noun
    needs: tuple[str, ...]  # those parameters of the function that are arguments of the command, in this order
    pictures: tuple[str, ...] = ()  # in `unmix.plot`; one that has a parameter `topic` is drawn for each
    tables: tuple[str, ...] = ("table",)  # attributes of the result; of a method, the parameters are options too
    section: bool = (
        False  # whether the report shows it; a script of its name in `report/static` draws more than the table
    )
    asks_fit: bool = False  # whether it is a question about a fit, `unmix fit --NAME`
    shards: str = ""  # what it does with shards: "sample" takes their sample, "parts" all of them, "" refuses them
    multipliers: bool = True  # whether it takes fits whose rates have multipliers
    known: bool = True  # whether it takes fits whose topics are held as they are known
    also: tuple[str, ...] = ()  # options that save what another function of the same arguments gives
    examples: tuple[str, ...] = ()  # commands, for its help

    @property
    def stem(self) -> str:
        return self.result.lower()

    def here(self, name: str) -> Any:
        """What its module calls so."""
        return getattr(import_module(f"unmix.analysis.{self.name}"), name)

    def sketches(self) -> list[Any]:
        """Its function, and those of its tables that are methods, with signature and docstring alone: help must not wait for the
        libraries that its module imports."""
        tree = ast.parse(files("unmix").joinpath("analysis", f"{self.name}.py").read_text(encoding="utf-8"))
        kind = next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == self.result)
        found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == self.function}
        found |= {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef) and one.name in self.tables}
        constants = {
            ast.unparse(one.targets[0]): one.value.value
            for one in tree.body
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        }
        return [_sketch(one, constants) for one in found.values() if not one.decorator_list]


def _sketch(of: ast.FunctionDef, constants: dict[str, Any]) -> Any:
    """Something with the signature and docstring of a function, whose defaults are plain values or constants of its module."""

    def value(default: ast.expr | None) -> Any:
        if default is None:
            return Parameter.empty
        return constants[default.id] if isinstance(default, ast.Name) else _plain(default)

    def sketch() -> None: ...

    args = of.args
    required: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    own = zip(args.args, [*required, *args.defaults], strict=True)
    parameters = [Parameter(one.arg, Parameter.POSITIONAL_OR_KEYWORD, default=value(default)) for one, default in own]
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    parameters += [Parameter(one.arg, Parameter.KEYWORD_ONLY, default=value(default)) for one, default in named]
    sketch.__signature__, sketch.__doc__ = Signature(parameters), ast.get_docstring(of)  # type: ignore[attr-defined]
    return sketch


def _plain(default: ast.expr) -> Any:
    """A literal, or a range of literals."""
    if isinstance(default, ast.Call) and ast.unparse(default.func) == "range":
        return range(*map(ast.literal_eval, default.args))
    return ast.literal_eval(default)


ANALYSES = {
    row.name: row
    for row in (
        Analysis(
            "choose",
            "choose_topics",
            "Choice",
            "Compare numbers of topics by cross-validation.",
            "Number of topics",
            ("X", "topics"),
            pictures=("choice",),
            section=True,
            shards="sample",
            examples=(
                "unmix choose cells.h5ad -k 2-12,16,20 --layer counts --overdispersion estimate",
                "unmix choose speeches/ -k 2-20 --model lda --set alpha=auto --set eta=0.1",
            ),
        ),
        Analysis(
            "differences",
            "differences",
            "Differences",
            "Features that distinguish topics, with standard errors.",
            "Differential features",
            ("fit", "X"),
            pictures=("differences", "volcano"),
            tables=("surest",),
            section=True,
            asks_fit=True,
            shards="parts",
            multipliers=False,
            examples=(
                "unmix differences cells-k12 cells.h5ad --layer counts --groups donor",
                "unmix differences speeches-k8 speeches/ --held-out 0.5 -o speeches-differences",
            ),
        ),
        Analysis(
            "stability",
            "stability",
            "Stability",
            "Which topics are recovered from random halves of the counts.",
            "Stability",
            ("X", "n_components"),
            pictures=("stability",),
            section=True,
            asks_fit=True,
            shards="sample",
            also=("consensus",),
            examples=(
                "unmix stability counts.npz -k 10",
                "unmix stability cells.h5ad -k 12 --layer counts --runs 40 -o cells-stability",
                "unmix stability counts.npz -k 10 --reference counts-k10 -o counts-k10",
            ),
        ),
        Analysis(
            "freedom",
            "freedom",
            "Freedom",
            "Ranges of proportions that fit the data equally well.",
            "Identifiability",
            ("fit",),
            pictures=("freedom",),
            tables=("by_sample",),
            section=True,
            asks_fit=True,
            known=False,
            examples=("unmix freedom counts-k10", "unmix freedom counts-k10 -o ranges.csv"),
        ),
        Analysis(
            "intervals",
            "intervals",
            "Intervals",
            "Credible intervals of proportions, by sampling.",
            "Credible intervals",
            ("fit", "X"),
            pictures=("freedom",),
            tables=("by_sample",),
            section=True,
            asks_fit=True,
            multipliers=False,
            examples=("unmix intervals cells-k12 cells.h5ad --layer counts --level 0.95 -o intervals.csv",),
        ),
        Analysis(
            "quality",
            "quality",
            "Quality",
            "Coherence, exclusivity and diversity of topics.",
            "Topic quality",
            ("fit", "X"),
            pictures=("quality",),
            section=True,
            asks_fit=True,
            shards="parts",
            examples=("unmix quality counts-k10 counts.npz",),
        ),
        Analysis(
            "prevalence",
            "prevalence",
            "Prevalence",
            "Topics by group and over time, with intervals.",
            "Means by group",
            ("fit",),
            pictures=("prevalence",),
            tables=("table", "examples"),
            section=True,
            asks_fit=True,
            examples=(
                "unmix prevalence speeches-k8 --by party --groups president",
                "unmix prevalence speeches-k8 --over year -o trends.pdf -o trends.csv",
            ),
        ),
        Analysis(
            "effects",
            "effects",
            "Effects",
            "How topics change with covariates, with tests.",
            "Effects of covariates",
            ("fit", "X"),
            multipliers=False,
            pictures=("effects",),
            tables=("table", "tests", "predictions"),
            section=True,
            shards="parts",
            examples=(
                "unmix effects speeches-k8 speeches/ --formula '~ party + s(year)' --groups president",
                "unmix effects cells-k12 cells.h5ad --formula '~ condition' --groups donor -o effects.csv",
            ),
        ),
        Analysis(
            "assign",
            "assign",
            "Assignment",
            "Which topics of a catalogue each sample has.",
            "Topics of the catalogue",
            ("X",),
            pictures=("assignment",),
            tables=("table", "samples", "by_sample"),
            section=True,
            shards="parts",
            multipliers=False,
            examples=(
                "unmix assign mutations.csv --catalogue COSMIC_v3.4_SBS_GRCh37.txt -o assigned",
                "unmix assign tumours.SBS96.all --catalogue COSMIC_v3.4_SBS_GRCh37.txt --metadata tumours.csv --group tissue",
            ),
        ),
        Analysis(
            "compare",
            "compare",
            "Comparison",
            "Match the topics of a fit with those of a second fit or of a catalogue.",
            "Comparison",
            ("fit", "other"),
            pictures=("matches",),
            tables=("table", "proportions"),
            examples=(
                "unmix compare tumours-k5 tumours-k6",
                "unmix compare one.safetensors two.safetensors -o pairs.csv",
                "unmix compare tumours-k5 COSMIC_v3.4_SBS_GRCh37.txt",
            ),
        ),
        Analysis(
            "align",
            "align",
            "Alignment",
            "How topics split or merge between fits of several sizes.",
            "Alignment",
            ("fits",),
            pictures=("alignment",),
            tables=("table", "flows"),
            examples=("unmix align counts-k8 counts-k10 counts-k12 -o alignment",),
        ),
    )
}


def public(name: str) -> Any:
    """What a public name of `unmix` means, such as "plot.stability", imported now."""
    thing: Any = import_module("unmix")
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def estimator_class(name: str) -> Any:
    """The class of this name, imported now."""
    return getattr(import_module(MODELS[name].home), name)


def named(text: str | None) -> str:
    """A docstring with the names of solvers and models filled in."""
    quoted = {key: ", ".join(f'"{name}"' for name in names) for key, names in NAMES.items()}
    return (text or "").format(**quoted)
