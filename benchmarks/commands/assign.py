"""Which signatures tumours have: errors and false positives of `um.assign`, of other rules and of SigProfilerAssignment.

Tumours are drawn as SigFitTest draws them (Medo, Ng and Medová, Nature Communications 2024): exposures of real tumours, scaled to
100, 2,000 or 50,000 mutations, without signatures of fewer than 10; multinomial counts. The error is half the absolute difference
of shares, where exposures below 10 mutations count as none. The catalogue is the user's: `--data-folder` has
`signatures/cosmic_sbs.npz` (signatures × types, `names`, `types`). `--tissues` is a folder of tables of real exposures,
samples × signatures, tab-separated, such as SigFitTest's "cosmic tissue data"; without it eight tissues are drawn from rough
frequencies and sizes. SigProfilerAssignment is compared where the Python that `--peer` names has it.
"""

import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import unmix as um
from benchmarks.measure import TaskError
from benchmarks.table import publish

LATER = {"SBS10c", "SBS10d", *(f"SBS{number}" for number in range(86, 96))}  # than COSMIC 3.0
LEAST = 10  # mutations of a signature
GOALS = {100: (0.26, 0.17), 2_000: (0.040, 0.035), 50_000: (0.006, 0.006)}  # alone, cohort

# Of signatures in eight tissues: how many per cent of the tumours have it, and the median of its mutations where it does.
TISSUES = {
    "breast": (
        "1:99:400 5:99:1200 2:85:200 13:80:200 3:40:2500 18:25:500 8:20:900 40:45:1500 17b:8:400 17a:8:200 30:3:2000"
    ),
    "brain": "1:98:1500 5:95:1600 40:75:2500 37:8:80 30:2:700 11:2:20000 15:2:1500",
    "bowel": (
        "1:99:3000 5:99:4000 40:40:5000 18:40:1500 17a:20:700 17b:20:1500 44:16:20000 15:8:10000 28:6:5000 "
        "10a:5:60000 10b:5:40000"
    ),
    "head": (
        "1:96:700 5:99:3000 2:91:800 13:93:1000 40:38:5000 18:33:1200 3:9:4000 4:9:15000 7b:3:1400 17b:4:150 "
        "16:5:1000 33:2:3300"
    ),
    "liver": (
        "1:70:500 5:98:3000 40:60:3500 12:60:800 4:35:2000 16:15:1500 22:4:9000 24:2:4000 29:5:1200 35:4:1500 "
        "17b:4:500 18:10:600"
    ),
    "lung": (
        "1:97:500 5:92:8000 4:64:22000 40:31:8000 2:60:1500 13:60:2500 18:18:1500 3:9:7000 17b:6:1700 17a:6:900 "
        "28:2:2600"
    ),
    "skin": (
        "1:75:500 5:90:3000 7a:85:40000 7b:85:20000 7c:45:3000 7d:60:3000 40:35:4000 38:15:4000 2:20:1000 "
        "13:20:800 17b:5:800"
    ),
    "stomach": (
        "1:99:1200 5:97:4000 18:60:2200 17a:60:800 17b:60:1800 40:27:3700 2:38:400 13:35:250 3:23:5000 41:6:2500 "
        "34:7:350 44:7:19000 26:5:9000 28:6:3000 15:3:9000 21:1:30000 20:1:50000"
    ),
}


def add_arguments(parser):
    parser.add_argument("--tissues", type=Path, help="folder of tables of exposures; drawn ones without it")
    parser.add_argument("--tumours", type=int, default=100, help="of a tissue (default 100)")
    parser.add_argument("--mutations", type=int, nargs="+", default=[100, 2_000, 50_000], help="of a tumour")
    parser.add_argument("--peer", help="a Python that has SigProfilerAssignment")
    parser.add_argument("--peer-tumours", type=int, default=20, help="of a tissue, for the peer (default 20)")
    parser.add_argument("--speed", action="store_true", help="only time 10,000 tumours and all signatures of the file")


def catalogue(folder, *, later=False):
    file = folder / "signatures" / "cosmic_sbs.npz"
    if not file.is_file():
        raise TaskError(f"{file} is not there: COSMIC's signatures have a licence of their own, bring them")
    with np.load(file) as data:
        table = pd.DataFrame(data["signatures"].T, index=data["types"].astype(str), columns=data["names"].astype(str))
    table = table if later else table.drop(columns=LATER & set(table))
    return table / table.sum()


def exposures_of(tissue, folder, known, rng):
    """Mutations of tumours by signature."""
    if folder is not None:
        return pd.read_csv(folder / tissue, sep="\t", index_col=0).reindex(columns=known, fill_value=0).to_numpy(float)
    table = np.zeros((300, len(known)))
    size = np.exp(rng.normal(0, 0.5, 300))  # tumours with many mutations have many of most signatures
    for text in TISSUES[tissue].split():
        name, frequency, median = text.split(":")
        has = rng.random(300) < float(frequency) / 100
        table[has, known.index(f"SBS{name}")] = (float(median) * size * np.exp(rng.normal(0, 0.6, 300)))[has]
    return table[table.sum(axis=1) > 0]


def cohort(tissue, folder, known, mutations, tumours, seed=0):
    """Counts, and true shares."""
    rng = np.random.default_rng([seed, mutations, *tissue.encode()])
    E = exposures_of(tissue, folder, list(known), rng)
    E = E * (mutations / E.sum(axis=1, keepdims=True))
    E[E < LEAST] = 0
    E = E[E.sum(axis=1) > 0]
    shares = E[rng.choice(len(E), tumours)]
    shares /= shares.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(mutations, known.to_numpy() @ w) for w in shares])
    return um.Counts(counts, features=list(known.index)), shares


def errors(exposures, shares, mutations):
    found = np.where(exposures < LEAST, 0, exposures) / mutations
    return np.abs(found - shares).sum(axis=1).mean() / 2, ((found > 0) & (shares == 0)).sum(axis=1).mean()


RULES = {
    "cohort": {},
    "each tumour alone": {"cohort": False},
    "refit of all": {"rule": "price", "price": 0},
    "tests": {"rule": "test"},
    "price by held-out counts": {"rule": "price", "price": "held-out"},
}
PEER = """
import sys
from SigProfilerAssignment import Analyzer
counts, signatures, out = sys.argv[1:]
Analyzer.cosmic_fit(counts, out, input_type="matrix", signature_database=signatures, make_plots=False, verbose=False)
"""


def by_peer(python, X, known):
    """Exposures by SigProfilerAssignment with the same catalogue, and CPU seconds, those of its imports included."""
    with tempfile.TemporaryDirectory() as folder:
        place, names = Path(folder), [f"T{i}" for i in range(len(X))]
        counts = pd.DataFrame(X.csr.toarray().T.astype(int), index=list(known.index), columns=names)
        counts.sort_index().rename_axis("MutationType").to_csv(place / "counts.txt", sep="\t")  # its order, by place
        known.sort_index().rename_axis("Type").to_csv(place / "known.txt", sep="\t")
        (place / "run.py").write_text(PEER)
        command, before = (
            [python, "run.py", "counts.txt", "known.txt", "out"],
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        tables = list(place.glob("out/**/Assignment_Solution_Activities.txt"))
        if done.returncode or not tables:
            raise TaskError(f"SigProfilerAssignment failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        found = pd.read_csv(tables[0], sep="\t", index_col=0).reindex(index=names, columns=list(known), fill_value=0)
        return found.to_numpy(float), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments):
    if arguments.speed:
        speed(arguments)
        return
    known, rows = catalogue(arguments.data_folder), []
    tissues = list(TISSUES) if arguments.tissues is None else sorted(file.name for file in arguments.tissues.iterdir())
    for mutations in arguments.mutations:
        for tissue in tissues:
            X, shares = cohort(tissue, arguments.tissues, known, mutations, arguments.tumours)
            for rule, how in RULES.items():
                began = time.process_time()
                found = um.assign(X, known, random_state=0, **how)
                seconds = time.process_time() - began
                rows.append(
                    (mutations, tissue, rule, *errors(found.exposures, shares, mutations), 1e3 * seconds / len(X))
                )
            if arguments.peer:
                few = arguments.peer_tumours
                found, seconds = by_peer(arguments.peer, X.take(np.arange(few)), known)
                rows.append(
                    (
                        mutations,
                        tissue,
                        "SigProfilerAssignment",
                        *errors(found, shares[:few], mutations),
                        1e3 * seconds / few,
                    )
                )
                own = um.assign(X, known, random_state=0)
                rows.append(
                    (
                        mutations,
                        tissue,
                        "cohort, the same tumours",
                        *errors(own.exposures[:few], shares[:few], mutations),
                        np.nan,
                    )
                )
    table = pd.DataFrame(rows, columns=["mutations", "tissue", "rule", "error", "false positives", "ms a tumour"])
    means = (
        table.groupby(["rule", "mutations"], sort=False)[["error", "false positives", "ms a tumour"]]
        .mean()
        .reset_index()
    )
    publish(means.to_dict("records"), "Assignment of signatures: means over tissues", "assign", arguments.out)
    table.to_csv(arguments.out / "assign-tissues.csv", index=False)
    for mutations in arguments.mutations:
        alone, together = GOALS.get(mutations, (np.nan, np.nan))
        mean = means[means["mutations"] == mutations].set_index("rule")["error"]
        cohort_error, alone_error = mean["cohort"], mean["each tumour alone"]
        print(
            f"{mutations:,} mutations: cohort {cohort_error:.4f} (goal {together}), alone {alone_error:.4f} (goal {alone})"
        )


def speed(arguments):
    """10,000 tumours, 79 signatures: CPU seconds, tests of residuals included."""
    known = catalogue(arguments.data_folder, later=True)
    parts = [cohort(tissue, None, known, 2_000, 1_250)[0].csr.toarray() for tissue in TISSUES]
    X = um.Counts(np.vstack(parts), features=list(known.index))
    X.rows  # noqa: B018 - made before the clock starts
    began = time.process_time()
    found = um.assign(X, known, random_state=0)
    print(f"{len(X):,} tumours × {known.shape[1]} signatures: {time.process_time() - began:.1f} s of CPU time (goal 20), "
          f"{len(found.table) / len(X):.1f} signatures a tumour")  # fmt: skip
