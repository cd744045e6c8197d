"""Whatever they are called with, kernels stay within their arrays: what would lead outside is refused, by every compiled module.

One good call of every function that the modules bind; then the same with one argument spoilt, or one array of the matrix, before
the matrix is made or after. `make sanitize` runs this file too, so that what is accepted is seen to stay inside.
"""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from unmix import kernels
from unmix.kernels import _native as native

N, M, K, NONZEROS = 4, 5, 4, 7  # rows, columns, topics: a multiple of 4, so that no padding is left to grow into
CHAINS, TOKENS, PADDED = 2, 12, 4
Arguments = dict[str, Any]


def matrix() -> Arguments:
    return {
        "indptr": np.array([0, 2, 2, 5, 7]),
        "indices": np.array([0, 4, 1, 2, 3, 0, 4], dtype=np.int32),
        "data": np.array([1.0, 2, 3, 1, 1, 2, 2]),
    }


def transposed() -> Arguments:
    return {
        "indptr": np.array([0, 2, 3, 4, 5, 7]),
        "indices": np.array([0, 3, 2, 2, 2, 0, 3], dtype=np.int32),
        "data": np.array([1.0, 2, 3, 1, 1, 2, 2]),
    }


def made(module: Any, arguments: Arguments) -> Arguments:
    """The same arguments, the arrays of the matrix among them made to a matrix."""
    names = ("indptr", "indices", "data")
    if "indptr" not in arguments:
        return arguments
    others = {name: value for name, value in arguments.items() if name not in names}
    return others | {"matrix": module.Matrix(*(arguments[name] for name in names))}


def call(module: Any, kernel: str, arguments: Arguments) -> Any:
    return getattr(module, kernel)(**made(module, arguments))


def scratch(rows: int) -> Arguments:
    return {"scratch": np.empty(native.scratch_bytes(rows, K, 8), np.uint8)}


def factor(rows: int, columns: int = K) -> np.ndarray:
    return np.linspace(0.5, 2, rows * columns).reshape(rows, columns)


def half_step(**options: float) -> Arguments:
    arrays = {"fixed": factor(M), "moving": factor(N), "out": np.empty((N, K)), "cost": factor(M).sum(axis=0)}
    groups = {"weights": factor(3), "groups": np.array([0, 2, 1, 2], dtype=np.int32)}
    held = {"held_fixed": factor(M, 2), "held_moving": factor(N, 2)}
    prior = {"shape": factor(N), **groups, **held, "xlog": np.empty(N), "threads": 2}
    return scratch(M) | matrix() | arrays | prior | options


def labelled(**last: Any) -> Arguments:
    """Of chains of labels, with the tables that belong to them."""
    tokens = {"labels": np.arange(CHAINS * TOKENS, dtype=np.uint16).reshape(CHAINS, TOKENS) % K}
    by_column, by_row = np.zeros((CHAINS, M, PADDED), np.int32), np.zeros((CHAINS, N, PADDED), np.int32)
    tables = {"by_column": by_column, "by_row": by_row, "by_topic": np.zeros((CHAINS, PADDED), np.int32)}
    call(native, "tally", matrix() | {"topics": K} | tokens | tables | {"threads": 1})
    return tokens | tables | last


def priors() -> Arguments:
    return {"alpha": np.full(M, 0.5), "beta": np.full(K, 0.7)}


def generators() -> np.ndarray:
    return np.arange(1, CHAINS * 4 + 1, dtype=np.uint64).reshape(CHAINS, 4)


def posteriors() -> Arguments:
    packed = (M, K * (K + 1) // 2)
    given = {
        "begin": 0,
        "weights": factor(N),
        "sums": factor(N).sum(axis=0),
        "rates": np.ones(M),
        "shape": 0.5,
        "start": 1.0,
    }
    groups = {"gram": None, "labels": np.array([0, 1, 0, 1], dtype=np.int32), "group_sums": factor(2)}
    out = {
        "modes": np.empty((M, K)),
        "covariances": np.empty(packed),
        "thirds": np.empty((M, K)),
        "robust": np.empty(packed),
    }
    return (
        scratch(N)
        | transposed()
        | given
        | groups
        | out
        | {"pearson": np.empty(M), "rounds": np.empty(M, np.int32), "threads": 2}
    )


def sums() -> Arguments:
    return {"B": np.ones((M, K)), "H": np.ones((M, 10), np.float32)}


GOOD: dict[str, Callable[[], Arguments]] = {
    "em": lambda: half_step(steps=2),
    "cd": lambda: half_step(sweeps=2, rule=1, rest=True),
    "newton": lambda: half_step(rounds=2, enough=1e-3),
    "pass_rows": lambda: scratch(M) | matrix() | {
        "left": factor(N), "right": factor(M), "numerators": np.empty((N, K)), "xlog": np.empty(N),
        "ratio": np.empty(NONZEROS), "threads": 2,
    },
    "gather_rows": lambda: scratch(N) | transposed() | {
        "order": np.array([0, 5, 2, 3, 4, 1, 6]), "ratio": np.ones(NONZEROS), "left": factor(N),
        "numerators": np.empty((M, K)), "threads": 2,
    },
    "log_means": lambda: {
        "shape": factor(N), "offset": np.zeros((N, K)), "prior": factor(N), "geometric": np.empty((N, K)),
        "shift": np.empty(N), "term": np.empty(N), "threads": 2,
    },
    "infer": lambda: scratch(M) | matrix() | {
        "fixed": factor(M), "scale": np.ones(K), "start": factor(N), "out": np.empty((N, K)), "prior": np.ones(K),
        "cost": factor(N), "shape": 2.0, "rate": 1.0, "steps": 3, "enough": 0.0, "threads": 2,
    },
    "means_of_rates": lambda: {
        "parameters": factor(N), "cost": factor(N), "shape": 2.0, "rate": 1.0, "out": np.empty(N), "threads": 2,
    },
    "add_sums": lambda: scratch(N) | transposed() | {"left": factor(N), "right": factor(M)} | sums() | {
        "held_left": factor(N, 2), "held_right": factor(M, 2), "threads": 2,
    },
    "box_step": lambda: {"F": factor(M), "out": np.empty((M, K))} | sums() | {
        "cost": factor(M), "totals": np.ones(M), "shape": factor(M), "threads": 2,
    },
    "transpose": lambda: matrix() | {
        "out_indptr": np.empty(M + 1, np.int64), "out_indices": np.empty(NONZEROS, np.int32),
        "out_data": np.empty(NONZEROS), "threads": 2,
    },
    "posteriors": posteriors,
    "assign_topics": lambda: matrix() | {
        "catalogue": factor(M), "logs": np.log(factor(M)), "odds": factor(3), "groups": np.array([0, 2, 1, 2], np.int32),
        "given": None, "volume": True, "dispersion": 0.0, "most": 3, "exposures": np.empty((N, K)),
        "probabilities": np.empty((N, K)), "gains": np.empty((N, K)), "numbers": np.empty((N, 4)),
        "chosen": np.empty((N, K), np.uint8), "threads": 2,
    },
    "residuals": lambda: matrix() | {
        "catalogue": factor(M), "exposures": factor(N), "chosen": np.ones((N, K), np.uint8), "seed": 1, "draws": 3,
        "numbers": np.empty((N, 3)), "threads": 2,
    },
    "gibbs": lambda: matrix() | priors() | labelled(random=generators(), sweeps=2, threads=2),
    "icm": lambda: matrix() | priors() | labelled(),
    "greedy": lambda: matrix() | priors() | {"order": np.arange(NONZEROS)[::-1].copy()} | labelled(),
    "tally": lambda: matrix() | {"topics": K} | labelled(threads=2),
    "log_factorials": lambda: matrix() | {
        "topics": K, "labels": np.zeros((CHAINS, TOKENS), np.uint16), "out": np.empty(CHAINS), "threads": 2,
    },
    "filter": lambda: {
        "rows": np.array([0, 0, 1, 1]), "columns": np.array([0, 4, 4, 1], dtype=np.int32), **priors(),
        "random": generators(), "out": np.empty(CHAINS), "particles": 5, "threads": 2,
    },
    "digamma": lambda: {"x": np.ones(3), "out": np.empty(3), "threads": 2},
    "log_gamma": lambda: {"x": np.ones(3), "out": np.empty(3), "threads": 2},
}  # fmt: skip

OF_MATRICES = [kernel for kernel in GOOD if "indptr" in GOOD[kernel]()]
SAMPLERS = ["gibbs", "icm", "greedy", "tally", "log_factorials"]

# What kernels write to, by name; everything else they only read.
WRITTEN = {
    *(
        "scratch",
        "out",
        "xlog",
        "numerators",
        "ratio",
        "geometric",
        "shift",
        "term",
        "B",
        "H",
        "modes",
        "covariances",
        "thirds",
    ),
    *(
        "robust",
        "pearson",
        "rounds",
        "out_indptr",
        "out_indices",
        "out_data",
        "labels",
        "by_column",
        "by_row",
        "by_topic",
        "random",
    ),
    *("exposures", "probabilities", "gains", "numbers", "chosen"),
}
STATES = {"B", "H", "labels", "by_column", "by_row", "by_topic", "random"}  # read and written
READ = {("gather_rows", "ratio"), ("box_step", "B"), ("box_step", "H"), ("posteriors", "labels")}
READ |= {("residuals", "exposures"), ("residuals", "chosen")}
STRIDED = {("em", "shape"), ("cd", "shape"), ("newton", "shape"), ("box_step", "shape"), ("box_step", "cost")}
STRIDED |= {("log_means", "prior"), ("log_means", "offset")}
# What is other than in the good call, and as good: more memory; features without rates; empty rows at the end of what is
# transposed, a column of it without entries; a group without samples; other numbers of features and topics where no table says
# how many there are.
AS_GOOD = {
    **{name: {("scratch", "a row more")} for name in ("infer", "pass_rows", "gather_rows", "add_sums")},
    **{name: {("scratch", "a row more"), ("weights", "a row more")} for name in ("em", "cd", "newton")},
    "assign_topics": {("odds", "a row more")},
    "residuals": {("catalogue", "a row more")},
    "transpose": {("indptr", "a row more"), ("out_indptr", "a row more")},
    "posteriors": {("indptr", "a row more"), ("scratch", "a row more"), ("group_sums", "a row more")},
    "log_factorials": {("indptr", "a row more")},
    "filter": {("alpha", "a row more"), ("beta", "a row more"), ("beta", "a row fewer")},
}


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def module(request: pytest.FixtureRequest) -> Any:
    if not kernels.runs(request.param):
        pytest.skip(f"this CPU, or this installation, has no kernels for {request.param}")
    return importlib.import_module(f"unmix.kernels._{request.param}")


def arrays(arguments: Arguments) -> dict[str, np.ndarray]:
    return {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}


def unaligned(array: np.ndarray) -> np.ndarray:
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    buffer[1:] = array.reshape(-1).view(np.uint8)
    return buffer[1:].view(array.dtype).reshape(array.shape)


def spoilt(kernel: str, name: str, array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The argument in forms that no kernel may take."""
    yield "a list", array.tolist()
    yield "a dimension more", array[..., None]
    yield "one dimension", array.reshape(-1) if array.ndim > 1 else array[0]
    yield "a row more", np.concatenate([array, array[-1:]])
    yield "a row fewer", array[:-1].copy()
    yield "no rows", array[:0].copy()
    if array.ndim > 1:
        yield "a column more", np.concatenate([array, array[..., -1:]], axis=-1)
        yield "a column fewer", array[..., :-1].copy()
        yield "no columns", array[..., :0].copy()
    if array.itemsize > 1:
        yield "bytes in the other order", array.astype(array.dtype.newbyteorder())
        yield "at an odd address", unaligned(array)
    yield "of complex numbers", array.astype(complex)
    if (kernel, name) not in STRIDED:
        yield "every other", np.repeat(array, 2, axis=0)[::2]
    if name in WRITTEN and (kernel, name) not in READ:
        closed = array.copy()
        closed.flags.writeable = False
        yield "read-only", closed


def wrong_numbers(kernel: str, arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """Numbers that would lead outside an array."""
    if "indptr" in arguments:
        for change in ((0, 1), (0, -1), (1, 9), (1, -3), (1, 2**62), (2, 1), (-1, 6), (-1, 8), (-1, -1), (-1, 2**62)):
            yield "indptr", change
    rows = {"add_sums": N, "posteriors": N, "gather_rows": N}.get(kernel, M)
    for name in {"indices", "columns"} & arguments.keys() if kernel != "log_factorials" else ():  # which reads none
        for value in (-1, rows, 2**31 - 1, -(2**31)):
            yield name, (1, value)
    if "order" in arguments:
        for value in (-1, NONZEROS, 2**62, -(2**63)):
            yield "order", (1, value)
    if kernel == "greedy":
        yield "order", (1, arguments["order"][0])
    if kernel in SAMPLERS:
        yield from (("labels", ((1, 3), value)) for value in (K, 65_535))
        yield from (("data", (1, value)) for value in (np.nan, np.inf, -1.0, -2.0, 0.5, 3.0, 1e300, 2.0**31))
    if kernel == "posteriors":
        yield from (("labels", (1, value)) for value in (-1, 2, 2**31 - 1))
    if "groups" in arguments:
        yield from (("groups", (1, value)) for value in (-1, 3, 2**31 - 1, -(2**31)))


def test_every_function_of_the_modules_is_in_this_table(module: Any) -> None:
    questions = {"curvature_size", "scratch_bytes"}
    assert {name for name in dir(module) if not name.startswith("__")} == GOOD.keys() | questions | {"Matrix"}


@pytest.mark.parametrize("kernel", GOOD)
def test_the_good_call_is_taken_and_by_any_number_of_threads(module: Any, kernel: str) -> None:
    for threads in (2, 1, 0, -1, 2**31 - 1):
        arguments = GOOD[kernel]()
        call(module, kernel, arguments | {"threads": threads} if "threads" in arguments else arguments)


@pytest.mark.parametrize("kernel", GOOD)
def test_an_array_of_another_form_is_refused(module: Any, kernel: str) -> None:
    taken = []
    for name in arrays(GOOD[kernel]()):
        for how, value in spoilt(kernel, name, GOOD[kernel]()[name]):
            try:
                call(module, kernel, GOOD[kernel]() | {name: value})
            except (TypeError, ValueError):
                continue
            taken.append((name, how))
    assert set(taken) == AS_GOOD.get(kernel, set())


@pytest.mark.parametrize("kernel", GOOD)
def test_numbers_that_lead_outside_are_refused(module: Any, kernel: str) -> None:
    taken = []
    for name, (place, value) in wrong_numbers(kernel, GOOD[kernel]()):
        arguments = GOOD[kernel]()
        arguments[name][place] = value
        try:
            call(module, kernel, arguments)
        except ValueError:
            continue
        taken.append((name, place, value))
    assert taken == []


@pytest.mark.parametrize("kernel", GOOD)
def test_values_that_are_no_numbers_lead_nowhere_outside(module: Any, kernel: str) -> None:
    """Factors and priors of NaN, infinities, zeros and negative numbers give nonsense, and nothing worse."""
    for name, array in arrays(GOOD[kernel]()).items():
        if array.dtype.kind != "f" or (name == "data" and "labels" in GOOD[kernel]() and kernel != "posteriors"):
            continue
        for value in (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-310, 1e300):
            arguments = GOOD[kernel]()
            with np.errstate(over="ignore"):  # in single precision
                arguments[name][...] = value
            call(module, kernel, arguments)


@pytest.mark.parametrize("kernel", GOOD)
def test_nothing_is_done_with_no_rows(module: Any, kernel: str) -> None:
    """An empty matrix, and with it empty outputs."""
    by_rows = {
        "moving",
        "out",
        "shape",
        "xlog",
        "left",
        "numerators",
        "geometric",
        "shift",
        "term",
        "start",
        "right",
        "B",
        "H",
    }
    by_rows |= {"F", "totals", "rates", "modes", "covariances", "thirds", "robust", "pearson", "rounds", "x", "prior"}
    by_rows |= {"groups", "offset", "parameters", "exposures", "probabilities", "gains", "numbers", "chosen"}
    by_rows |= {"held_moving", "held_right"}
    by_rows |= {"cost"} if kernel in {"box_step", "infer", "means_of_rates"} else set()
    by_nonzeros = {"indices", "data", "ratio", "order", "out_indices", "out_data", "rows", "columns"}
    stays = {"pass_rows": {"right"}, "gather_rows": {"left"}, "add_sums": {"left"}, "infer": {"prior"}}.get(
        kernel, set()
    )
    arguments = GOOD[kernel]()
    for name, array in arrays(arguments).items():
        if name == "indptr":
            arguments[name] = array[:1]
        elif name in by_nonzeros or (
            name in by_rows - stays and not (kernel in {"filter", "log_factorials"} and name == "out")
        ):
            arguments[name] = array[:0]
    if kernel in SAMPLERS:
        arguments["labels"] = arguments["labels"][:, :0].copy()
        if "by_row" in arguments:
            arguments["by_row"] = arguments["by_row"][:, :0].copy()
    call(module, kernel, arguments)


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        ("cd", {"rule": 3}),
        ("cd", {"rule": -1}),
        *((kernel, {"groups": None}) for kernel in ("em", "cd", "newton")),
        *((kernel, {"weights": None}) for kernel in ("em", "cd", "newton")),
        ("tally", {"topics": 0}),
        ("tally", {"topics": 65_536}),
        ("log_factorials", {"topics": 0}),
        ("log_factorials", {"topics": 2**40}),
        ("filter", {"particles": 0}),
        ("filter", {"particles": -1}),
        ("assign_topics", {"most": 0}),
        ("assign_topics", {"most": K + 1}),
        ("assign_topics", {"given": np.zeros((N, K), np.uint8)}),
        ("assign_topics", {"given": np.ones((N, K), np.uint8)}),  # more than `most`
        ("residuals", {"draws": 0}),
        ("posteriors", {"shape": 0.0}),
        ("posteriors", {"labels": None}),
        ("posteriors", {"gram": np.ones((K, K))}),
        ("posteriors", {"robust": None}),
        ("posteriors", {"begin": 1}),
        ("posteriors", {"begin": M}),
        ("posteriors", {"begin": 2**62}),
        *((kernel, {"data": matrix()["data"].astype(np.uint16)}) for kernel in SAMPLERS),
        ("transpose", {"data": matrix()["data"].astype(np.uint16)}),
    ],
)
def test_a_choice_that_there_is_not_is_refused(module: Any, kernel: str, change: Arguments) -> None:
    arguments = GOOD[kernel]() | change
    with pytest.raises(ValueError, match=r"\w{4,}"):
        call(module, kernel, arguments)


# --- the matrix ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", OF_MATRICES)
def test_indices_that_are_changed_after_the_matrix_was_made_lead_nowhere_outside(module: Any, kernel: str) -> None:
    for place in range(NONZEROS):
        for value in (-1, M, 2**31 - 1, -(2**31)):
            arguments = GOOD[kernel]()
            indices, given = arguments["indices"], made(module, arguments)
            indices[place] = value
            with pytest.raises(ValueError, match="changed after the matrix was made"):
                getattr(module, kernel)(**given)


@pytest.mark.parametrize("kernel", OF_MATRICES)
def test_offsets_that_are_changed_after_the_matrix_was_made_change_nothing(module: Any, kernel: str) -> None:
    results = []
    for spoil in (False, True):
        arguments = GOOD[kernel]()
        for name in (WRITTEN - STATES) & arrays(arguments).keys():
            if (kernel, name) not in READ:
                arguments[name][...] = 0
        given = made(module, arguments)
        if spoil:
            arguments["indptr"][:] = np.arange(len(arguments["indptr"]))[::-1] << 58
        getattr(module, kernel)(**given)
        results.append([array.tobytes() for name, array in arrays(given).items() if name != "scratch"])
    assert results[0] == results[1]


@pytest.mark.parametrize("kernel", SAMPLERS)
def test_counts_that_are_changed_after_the_matrix_was_made_are_counted_again(module: Any, kernel: str) -> None:
    for value in (np.nan, np.inf, -1.0, 0.5, 3.0, 1e300, 2.0**31):
        arguments = GOOD[kernel]()
        data, given = arguments["data"], made(module, arguments)
        data[1] = value
        with pytest.raises(ValueError, match="token"):
            getattr(module, kernel)(**given)


@pytest.mark.parametrize("name", ["indices", "data"])
@pytest.mark.parametrize("kernel", OF_MATRICES)
def test_an_array_that_is_resized_after_the_matrix_was_made_is_refused(module: Any, kernel: str, name: str) -> None:
    for size in (0, NONZEROS - 1, NONZEROS + 1, 1 << 20):
        arguments = GOOD[kernel]()
        given = made(module, arguments)
        arguments[name].resize(size, refcheck=False)
        with pytest.raises(ValueError, match="resized"):
            getattr(module, kernel)(**given)


def test_a_matrix_keeps_its_arrays_and_lets_them_go(module: Any) -> None:
    arguments = GOOD["em"]()
    kept = [weakref.ref(arguments[name]) for name in ("indices", "data")]
    given = made(module, arguments)
    del arguments
    gc.collect()
    assert all(ref() is not None for ref in kept)
    module.em(**given)
    del given
    gc.collect()
    assert all(ref() is None for ref in kept)


def test_a_matrix_of_arrays_that_cannot_be_written_is_taken(module: Any) -> None:
    arguments = GOOD["em"]()
    for name in ("indptr", "indices", "data"):
        arguments[name].flags.writeable = False
    call(module, "em", arguments)


def test_only_a_whole_matrix_of_the_same_module_is_taken(module: Any) -> None:
    given = made(module, GOOD["em"]())
    others = [importlib.import_module(f"unmix.kernels._{isa}") for isa in ("baseline", "avx512") if kernels.runs(isa)]
    foreign = [made(other, matrix())["matrix"] for other in others if other is not module]
    for wrong in (None, matrix(), object(), *foreign):
        with pytest.raises(TypeError):
            module.em(**given | {"matrix": wrong})
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        module.em(**given | {"matrix": module.Matrix.__new__(module.Matrix)})
    with pytest.warns(RuntimeWarning, match="already-initialized"), pytest.raises(TypeError):
        given["matrix"].__init__(**matrix())
    with pytest.raises(TypeError):
        type("Sub", (module.Matrix,), {})


@pytest.mark.parametrize("topics", [0, -1, 2**24 + 1, 2**31 - 1, 2**33])
def test_a_number_of_topics_that_nothing_could_hold_is_refused(module: Any, topics: int) -> None:
    for question in (lambda: module.curvature_size(topics), lambda: module.scratch_bytes(5, topics, 8)):
        with pytest.raises((TypeError, ValueError)):
            question()


def test_particles_that_no_memory_holds_are_refused(module: Any) -> None:
    with pytest.raises(MemoryError):
        module.filter(**GOOD["filter"]() | {"particles": 2**31 - 1, "alpha": np.full(2**16, 0.5)})
