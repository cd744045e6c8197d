"""`fit`: every program from the same start, by time per iteration and time to a given log-likelihood."""

import math
from argparse import ArgumentParser, Namespace
from importlib import import_module

import numpy as np
import scipy.sparse as sp

from benchmarks.data import Case, load_counts, load_start, make_case
from benchmarks.measure import attempt, poisson_loglik, score, timed
from benchmarks.peers import Peer, TracedPeer, all_peers
from benchmarks.plot import gap_against_time
from benchmarks.table import publish

# Ten units below where every good solver converges from the stored start.
KNOWN_TARGETS = {("newsgroups", 10): -12_400_465.0}
TOLERANCE = 10.0
REFERENCE, YARDSTICK = "unmix", "sklearn-mu"
GROWTH = 4

Start = tuple[np.ndarray, np.ndarray]


def add_arguments(parser: ArgumentParser) -> None:
    names = list(all_peers())
    parser.add_argument("--peers", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--iterations", type=int, default=400, help="most iterations of a run (default 400)")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each program (default 60)")
    parser.add_argument("--target", type=float, help="log-likelihood to reach")


def main(arguments: Namespace) -> None:
    case = make_case(arguments.data, arguments.k, arguments.data_folder, arguments.out)
    curves = {}
    for name in arguments.peers:
        curve = attempt(
            name,
            "benchmarks.commands.fit:measure_curve",
            threads=arguments.threads,
            timeout=10 * arguments.budget + 60,
            peer=name,
            matrix=str(case.matrix),
            start=str(case.start),
            iterations=arguments.iterations,
            budget=arguments.budget,
        )
        if curve:
            curves[name] = curve
            print(f"{name}: {curve['iterations']} iterations, best {max(curve['loglik']):,.0f}", flush=True)
    if not curves:
        raise SystemExit("no program ran: install the peers with pip install '.[bench]'")
    target = arguments.target or default_target(case, curves)
    stem = f"fit_{case.name}_k{case.K}"
    publish(
        rows_of(curves, target, start_loglik(case)),
        f"{case.title}, {arguments.threads} threads, target {target:,.0f}",
        stem,
        arguments.out,
        "Ratios above 1 mean slower than unmix. "
        "`unmix sooner by` compares the times to the best log-likelihood the program itself reached. "
        "Programs without a trace are seen after 1, 4, 16, … iterations, each a run of its own.",
    )
    picture = arguments.out / f"{stem}.png"
    gap_against_time(curves, target, f"{case.title}, {arguments.threads} threads", picture)
    print(f"Picture: {picture}")


def default_target(case: Case, curves: dict[str, dict]) -> float:
    if case.stored_start and (case.name, case.K) in KNOWN_TARGETS:
        return KNOWN_TARGETS[case.name, case.K]
    ours = {name: curve for name, curve in curves.items() if name.startswith(REFERENCE)} or curves
    return max(max(curve["loglik"]) for curve in ours.values()) - TOLERANCE


def start_loglik(case: Case) -> float:
    return poisson_loglik(load_counts(case.matrix), *load_start(case.start))


def measure_curve(peer: str, matrix: str, start: str, iterations: int, budget: float) -> dict:
    """Time and log-likelihood of one program along its way; runs in a process of its own."""
    program = all_peers()[peer]
    import_module(program.requires)
    curve = traced_curve if hasattr(program, "trace") else stepped_curve
    return curve(program, load_counts(matrix), load_start(start), iterations, budget)


def traced_curve(program: TracedPeer, X: sp.csr_matrix, start: Start, iterations: int, budget: float) -> dict:
    """One long run, after a short one that warms up and tells how many iterations the budget pays for."""
    warm_up = program.prepare(X, *start)
    program.run(warm_up, 4)
    pace = max(float(np.median(np.diff(program.trace(warm_up)[0]))), 1e-6)
    length = max(4, min(iterations, int(budget / pace)))
    # Prepared afresh: what the warm-up left cached in its problem is part of the set-up to be timed.
    set_up, problem = timed(program.prepare, X, *start)
    total, _ = timed(program.run, problem, length)
    seconds, loglik = program.trace(problem)
    checked, floored = score(X, *program.factors(problem))
    return {
        "seconds": (set_up + seconds).tolist(),
        "loglik": loglik.tolist(),
        "iterations": length,
        "seconds_per_iteration": float(np.median(np.diff(seconds))),
        "set_up": set_up + seconds[0] + total - seconds[-1],
        "checked_loglik": checked,
        "floored": floored,
    }


def stepped_curve(program: Peer, X: sp.csr_matrix, start: Start, iterations: int, budget: float) -> dict:
    """Runs of 1, 4, 16, … iterations, each from the start, until the budget is spent; the last fills what is left."""
    set_up, problem = timed(program.prepare, X, *start)
    lengths, seconds, loglik, floored = [], [], [], False
    length = 1
    while True:
        elapsed, _ = timed(program.run, problem, length)
        value, was_floored = score(X, *program.factors(problem))
        lengths.append(length)
        seconds.append(elapsed)
        loglik.append(value)
        floored |= was_floored
        pace = elapsed / length
        affordable = int((budget - sum(seconds)) / pace)
        length = min(GROWTH * length, affordable, iterations)
        if len(lengths) == 1:
            length = max(length, 2)  # the slope needs two runs, whatever the budget
        if length < 2 * lengths[-1]:
            break
    slope = max(0.0, (seconds[-1] - seconds[0]) / (lengths[-1] - lengths[0]))
    return {
        "seconds": (set_up + np.asarray(seconds)).tolist(),
        "loglik": loglik,
        "iterations": lengths[-1],
        "seconds_per_iteration": slope,
        "set_up": set_up + max(0.0, seconds[0] - slope * lengths[0]),
        "checked_loglik": loglik[-1],
        "floored": floored,
    }


def time_to(curve: dict, loglik: float) -> float:
    """Seconds to the first point at or above this log-likelihood; NaN if there is none."""
    reached = np.flatnonzero(np.asarray(curve["loglik"]) >= loglik)
    return curve["seconds"][reached[0]] if len(reached) else math.nan


def rows_of(curves: dict[str, dict], target: float, loglik_at_start: float) -> list[dict]:
    """The table. A curve that never leaves the start's log-likelihood has no time to compare."""
    reference, yardstick = curves.get(REFERENCE), curves.get(YARDSTICK)
    rows = []
    for name, curve in curves.items():
        best = max(curve["loglik"])
        pace = curve["seconds_per_iteration"]
        own_level = best - TOLERANCE
        equal = math.nan
        if reference and name != REFERENCE and own_level > loglik_at_start:
            equal = time_to(curve, own_level) / time_to(reference, own_level)
        note = all_peers()[name].note + ("; factors floored for scoring" if curve["floored"] else "")
        if abs(curve["checked_loglik"] - curve["loglik"][-1]) > 1.0:
            note += (
                f"; OWN LOG-LIKELIHOOD OFF: {curve['loglik'][-1]:,.1f} reported, {curve['checked_loglik']:,.1f} true"
            )
        rows.append(
            {
                "program": name,
                "s / iteration": pace,
                "set-up s": curve["set_up"],
                "× unmix iteration": pace / reference["seconds_per_iteration"] if reference else math.nan,
                "× sklearn-mu iteration": pace / yardstick["seconds_per_iteration"] if yardstick else math.nan,
                "iterations": curve["iterations"],
                "best log-likelihood": best,
                "s to target": time_to(curve, target),
                "× unmix to target": time_to(curve, target) / time_to(reference, target) if reference else math.nan,
                "unmix sooner by": equal,
                "note": note,
            }
        )
    return rows
