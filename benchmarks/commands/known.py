"""`known`: seeded topics on newsgroups, beside tomotopy's word priors; what sixty held topics cost beside three new ones.

Five words a group were chosen before anything was fitted. A document is right where its heaviest seeded topic is that of its
group. The second table has seconds of half-steps and iterations with 3 topics, 60 held and 3 new, and 63 topics.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.table import publish

SEEDS = {
    "alt.atheism": ["atheism", "atheists", "atheist", "morality", "islam"],
    "comp.graphics": ["graphics", "image", "polygon", "gif", "rendering"],
    "comp.os.ms-windows.misc": ["windows", "microsoft", "dos", "win", "ini"],
    "comp.sys.ibm.pc.hardware": ["ide", "scsi", "bios", "motherboard", "controller"],
    "comp.sys.mac.hardware": ["mac", "apple", "centris", "quadra", "powerbook"],
    "comp.windows.x": ["motif", "widget", "xterm", "server", "window"],
    "misc.forsale": ["sale", "offer", "shipping", "sell", "condition"],
    "rec.autos": ["car", "cars", "engine", "ford", "dealer"],
    "rec.motorcycles": ["bike", "motorcycle", "riding", "helmet", "dod"],
    "rec.sport.baseball": ["baseball", "pitcher", "braves", "pitching", "hit"],
    "rec.sport.hockey": ["hockey", "nhl", "playoffs", "puck", "leafs"],
    "sci.crypt": ["encryption", "clipper", "key", "nsa", "crypto"],
    "sci.electronics": ["circuit", "voltage", "amp", "battery", "electronics"],
    "sci.med": ["medical", "disease", "patients", "doctor", "health"],
    "sci.space": ["space", "orbit", "nasa", "shuttle", "launch"],
    "soc.religion.christian": ["church", "christ", "christian", "bible", "sin"],
    "talk.politics.guns": ["gun", "guns", "firearms", "weapons", "fbi"],
    "talk.politics.mideast": ["israel", "israeli", "armenian", "turkish", "arab"],
    "talk.politics.misc": ["president", "clinton", "gay", "homosexual", "government"],
    "talk.religion.misc": ["jesus", "god", "koresh", "christians", "religion"],
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="only every this many documents (default 1: all)")
    parser.add_argument("--iterations", type=int, default=100, help="most iterations (default 100)")


def main(arguments: Namespace) -> None:
    publish(speed(arguments.threads), "60 held topics beside 3 new ones", "known_speed", arguments.out)
    publish(seeded(arguments), "Documents whose heaviest seeded topic is their group", "known_seeds", arguments.out)


def speed(threads: int) -> list[dict]:
    """Seconds of one Newton half-step of the factors, and of a whole iteration: the least of seven."""
    import unmix as um
    from unmix.base.threads import use_threads
    from unmix.models.known import Known
    from unmix.models.problem import Problem
    from unmix.solvers import Alternate, Newton

    rng = np.random.default_rng(0)
    n, m = 20_000, 2_000
    X = um.Counts(rng.poisson(0.05, (n, m)))
    L, F = rng.random((n, 63)), rng.random((m, 63))
    known = Known(("",) * 60, F[:, :60], np.ones(60, dtype=bool), np.zeros((m, 60)))
    cases = {"3": (3, None), "60 held and 3 new": (63, known), "63": (63, None)}
    rows, times = [], {name: ([], []) for name in cases}
    with use_threads(threads):
        for _ in range(7):
            for name, (K, given) in cases.items():
                problem, solver = Problem(X, K, known=given), Alternate(Newton())
                pair = (L[:, -K:].copy(), F[:, -K:].copy())
                _ = problem.left, problem.right, X.columns
                started = perf_counter()
                Newton()(problem.right, *pair, measure=True)
                times[name][0].append(perf_counter() - started)
                state = solver.start(problem, *pair)
                started = perf_counter()
                solver.step(problem, state)
                times[name][1].append(perf_counter() - started)
    for name, (halves, wholes) in times.items():
        ratios = [min(one) / min(other) for one, other in ((halves, times["3"][0]), (wholes, times["3"][1]))]
        rows.append(
            {
                "topics": name,
                "factors s": min(halves),
                "times": ratios[0],
                "iteration s": min(wholes),
                "times of": ratios[1],
            }
        )
    return rows


def seeded(arguments: Namespace) -> list[dict]:
    import scipy.sparse as sp

    import unmix as um

    folder = Path(arguments.data_folder) / "newsgroups"
    words = (folder / "features.txt").read_text(encoding="utf-8").split("\n")
    groups = np.array((folder / "samples.csv").read_text(encoding="utf-8").split("\n")[1:])
    matrix = sp.load_npz(folder / "counts.npz").tocsr()
    words, groups = words[: matrix.shape[1]], groups[: matrix.shape[0]]
    keep = np.arange(0, matrix.shape[0], arguments.every)
    matrix, groups = matrix[keep], groups[keep]
    names = list(SEEDS)
    truth = np.array([names.index(group) for group in groups])
    X, rows = um.Counts(matrix, features=words), []

    def row(what: str, proportions: np.ndarray, seconds: float) -> None:
        rows.append(
            {"model": what, "right": float((proportions[:, :20].argmax(axis=1) == truth).mean()), "CPU s": seconds}
        )
        print(rows[-1], flush=True)

    shared = {"random_state": 0, "max_iter": arguments.iterations, "tol": 1e-5, "n_jobs": arguments.threads}
    for what, model in {
        "LDA, alpha auto, weight 1": um.LDA(20, alpha="auto", seeds=SEEDS, seed_weight=1, **shared),
        "LDA, alpha auto, weight 0.1": um.LDA(20, alpha="auto", seeds=SEEDS, **shared),
        "TopicModel, weight 0.1": um.TopicModel(20, seeds=SEEDS, **shared),
    }.items():
        started = process_time()
        row(what, model.fit(X).result_.proportions, process_time() - started)
    try:
        import tomotopy
    except ImportError:
        return rows
    started, place = process_time(), {word: j for j, word in enumerate(words)}
    model = tomotopy.LDAModel(k=20, alpha=0.1, eta=0.01, seed=0)
    for i in range(matrix.shape[0]):
        part = slice(*matrix.indptr[i : i + 2])
        model.add_doc(
            [words[j] for j, x in zip(matrix.indices[part], matrix.data[part], strict=True) for _ in range(int(x))]
        )
    for k, name in enumerate(names):
        for word in SEEDS[name]:
            if word in place:
                model.set_word_prior(word, [1.0 if other == k else 0.1 for other in range(20)])
    model.train(500, workers=arguments.threads)
    docs = np.array([doc.get_topic_dist() for doc in model.docs])
    row("tomotopy, word priors, 500 sweeps", docs, process_time() - started)
    return rows
