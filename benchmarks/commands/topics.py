"""`topics`: time to a given log-likelihood as topics grow in number: Newton, coordinate descent, EM and scikit-learn."""

import math
from argparse import ArgumentParser, Namespace

from benchmarks.commands.fit import time_to
from benchmarks.data import SHAPES, make_case
from benchmarks.measure import attempt
from benchmarks.table import publish

PROGRAMS = ("unmix", "unmix-scd", "unmix-em", "sklearn-mu")
TOPICS = (20, 50, 100, 200)
# Programs are compared at the log-likelihood that the last of unmix's solvers reached, and at the best of all less this part of
# the way there from the start.
LEFT = 0.01


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", choices=list(SHAPES), default=["newsgroups", "pbmc_facs"])
    parser.add_argument("--topics", type=int, nargs="+", default=list(TOPICS), help="numbers of topics")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), help=f"by default {', '.join(PROGRAMS)}")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each program and case (default 60)")
    parser.add_argument("--iterations", type=int, default=200, help="most iterations of a run (default 200)")


def main(arguments: Namespace) -> None:
    rows = []
    for data in arguments.data:
        for K in arguments.topics:
            case = make_case(data, K, arguments.data_folder, arguments.out)
            curves = {}
            for name in arguments.programs:
                curve = attempt(
                    name,
                    "benchmarks.commands.fit:measure_curve",
                    threads=arguments.threads,
                    timeout=20 * arguments.budget + 120,
                    peer=name,
                    matrix=str(case.matrix),
                    start=str(case.start),
                    iterations=arguments.iterations,
                    budget=arguments.budget,
                )
                if curve:
                    curves[name] = curve
                    print(f"{case.title}, {name}: {curve['iterations']} iterations, best {max(curve['loglik']):,.0f}")
            rows += rows_of(case.title, curves)
    publish(
        rows,
        f"Number of topics, {arguments.threads} threads",
        "topics",
        arguments.out,
        "The common level is the best log-likelihood of the program (of unmix's) that ended lowest; the high one leaves "
        f"{100 * LEFT:.0f}% of the way from the first point on record to the best of all. A dash: not reached.",
    )


def rows_of(title: str, curves: dict[str, dict]) -> list[dict]:
    ours = {name: curve for name, curve in curves.items() if name.startswith("unmix")}
    if not ours:
        return []
    best = max(max(curve["loglik"]) for curve in ours.values())
    common = min(max(curve["loglik"]) for curve in ours.values())
    first = min(curve["loglik"][0] for curve in ours.values())
    high = best - LEFT * (best - first)
    reference = curves.get("unmix")
    return [
        {
            "case": title,
            "program": name,
            "s / iteration": curve["seconds_per_iteration"],
            "iterations": curve["iterations"],
            "best log-likelihood": max(curve["loglik"]),
            "s to the common level": time_to(curve, common),
            "s to the high level": time_to(curve, high),
            "× unmix, high level": time_to(curve, high) / time_to(reference, high) if reference else math.nan,
        }
        for name, curve in curves.items()
    ]
