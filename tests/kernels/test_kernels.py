"""Every compiled kernel equals its slow NumPy twin, for any number of topics, threads and instruction set."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
import reference
from conftest import awkward_counts, random_counts, random_start
from scipy.optimize import minimize

from unmix import kernels
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts

TOPICS = (1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 20, 33, 40, 70)

HALF_STEPS = {
    "em 1": ("em", {"steps": 1}),
    "em 4": ("em", {"steps": 4}),
    "scd": ("cd", {"sweeps": 4, "rule": "scd"}),
    "ccd": ("cd", {"sweeps": 4, "rule": "ccd"}),
    "sn": ("cd", {"sweeps": 4, "rule": "sn"}),
    "scd without rest": ("cd", {"sweeps": 4, "rule": "scd", "rest": False}),
    "newton": ("newton", {"rounds": 1, "tolerance": 0.0}),
}
# Relative to the largest entry of a row. EM is a sum; coordinate descent adds rates up step by step;
# Newton's curvature is a single precision sum, which changes the path but not the solution.
TOLERANCE = {"em": 1e-12, "cd": 1e-9, "newton": 2e-4}


def half_step_arguments(K: int, dtype: str, prior: bool, seed: int = 5):
    X = Counts(awkward_counts())
    L, F = (factor.astype(dtype) for factor in random_start(*X.shape, K, seed))
    cost, shape = F.sum(axis=0, dtype=np.float64), None
    if prior:
        rng = np.random.default_rng(seed)
        cost = cost + rng.gamma(1, 1, K)
        shape = np.broadcast_to(rng.gamma(1, 1, K), L.shape)
    return X.rows, F, L, cost, shape


def in_units_of_rows(A: np.ndarray, like: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Shares of each topic in its row, so that one tolerance serves rows of all sizes."""
    size = np.maximum((like * cost).sum(axis=1, keepdims=True), 1e-300)
    return np.where(size > 1e-300, A * cost / size, A)


@pytest.mark.parametrize("prior", [False, True], ids=["ml", "map"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("K", TOPICS)
@pytest.mark.parametrize("name", HALF_STEPS)
def test_half_step_equals_its_reference(name: str, K: int, dtype: str, prior: bool) -> None:
    kernel, options = HALF_STEPS[name]
    arguments = half_step_arguments(K, dtype, prior)
    got, got_xlog = getattr(kernels, kernel)(*arguments, **options, measure=True)
    want, want_xlog = getattr(reference, kernel)(*arguments, **options, measure=True)
    assert got.dtype == want.dtype == dtype
    tolerance = max(TOLERANCE[kernel], 2e-7 if dtype == "float32" else 0)
    shares = [in_units_of_rows(A, want, arguments[3]) for A in (got, want)]
    np.testing.assert_allclose(*shares, rtol=0, atol=tolerance)
    per_count = np.maximum(Counts(awkward_counts()).sample_totals, 1)
    tolerance = 1e-6 if kernel == "newton" else 1e-10
    np.testing.assert_allclose(got_xlog / per_count, want_xlog / per_count, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("prior", [False, True], ids=["ml", "map"])
@pytest.mark.parametrize("K", TOPICS)
def test_newton_to_the_end_equals_its_reference(K: int, prior: bool) -> None:
    # where topics outnumber a row's nonzeros the minimiser is not unique, but its objective is
    rows, F, L, cost, shape = half_step_arguments(K, "float64", prior)
    options = {"rounds": 200, "tolerance": 1e-12}
    got, _ = kernels.newton(rows, F, L, cost, shape, **options)
    want, _ = reference.newton(rows, F, L, cost, shape, **options)
    objectives = [row_objectives(rows, F, A, cost, shape) for A in (got, want)]
    np.testing.assert_allclose(*objectives, rtol=1e-8, atol=1e-8)
    if K <= 3 or prior:
        shares = [in_units_of_rows(A, want, cost) for A in (got, want)]
        np.testing.assert_allclose(*shares, rtol=0, atol=1e-6)


def row_costs(K: int, dtype: str, prior: bool, by: str, seed: int = 5):
    """Arguments with costs that differ: of three groups, one of them a thousand times those of another, or of every row."""
    rows, F, L, cost, shape = half_step_arguments(K, dtype, prior, seed)
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, len(L)).astype(np.int32) if by == "group" else None
    many = 3 if by == "group" else len(L)
    return (rows, F, L, cost * rng.gamma(2, 1, (many, K)) * 10.0 ** rng.uniform(-2, 2, (many, 1)), shape), groups


@pytest.mark.parametrize("prior", [False, True], ids=["ml", "map"])
@pytest.mark.parametrize("by", ["group", "row"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("K", [1, 3, 10, 20, 70])
@pytest.mark.parametrize("name", HALF_STEPS)
def test_half_step_with_costs_of_rows_equals_its_reference(name: str, K: int, dtype: str, by: str, prior: bool) -> None:
    kernel, options = HALF_STEPS[name]
    arguments, groups = row_costs(K, dtype, prior, by)
    got, got_xlog = getattr(kernels, kernel)(*arguments, **options, groups=groups, measure=True)
    want, want_xlog = getattr(reference, kernel)(*arguments, **options, groups=groups, measure=True)
    tolerance = max(TOLERANCE[kernel], 2e-7 if dtype == "float32" else 0)
    cost = arguments[3] if groups is None else arguments[3][groups]
    np.testing.assert_allclose(*(in_units_of_rows(A, want, cost) for A in (got, want)), rtol=0, atol=tolerance)
    per_count = np.maximum(Counts(awkward_counts()).sample_totals, 1)
    tolerance = 1e-6 if kernel == "newton" else 1e-10
    np.testing.assert_allclose(got_xlog / per_count, want_xlog / per_count, rtol=tolerance, atol=tolerance)


def held_arguments(K: int, held: int, dtype: str, prior: bool, barred: bool, seed: int = 5):
    """Arguments of a half-step of K topics beside held ones; if `barred`, with costs of groups in which some topics have none."""
    rows, F, L, cost, shape = half_step_arguments(K + held, dtype, prior, seed)
    held_ones = (F[:, :held].copy(), L[:, :held].copy())
    F, L, cost, shape, groups = F[:, held:].copy(), L[:, held:].copy(), cost[held:], shape, None
    if shape is not None:
        shape = shape[:, held:]
    if barred:
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, 3, len(L)).astype(np.int32)
        sets = rng.random((3, K)) < 0.6
        sets[:, 0] = True
        cost, L = cost * sets, np.where(sets[groups], L, 0).astype(dtype)
    return (rows, F, L, cost, shape), {"held": held_ones, "groups": groups}


@pytest.mark.parametrize("prior", [False, True], ids=["ml", "map"])
@pytest.mark.parametrize("barred", [False, True], ids=["all", "sets"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("K", "held"), [(1, 1), (3, 2), (3, 60), (20, 5), (70, 3)])
@pytest.mark.parametrize("name", HALF_STEPS)
def test_half_step_beside_held_topics_equals_its_reference(
    name: str, K: int, held: int, dtype: str, barred: bool, prior: bool
) -> None:
    kernel, options = HALF_STEPS[name]
    arguments, others = held_arguments(K, held, dtype, prior, barred)
    got, got_xlog = getattr(kernels, kernel)(*arguments, **options, **others, measure=True)
    want, want_xlog = getattr(reference, kernel)(*arguments, **options, **others, measure=True)
    tolerance = max(TOLERANCE[kernel], 2e-7 if dtype == "float32" else 0)
    X = Counts(awkward_counts())
    costs = np.broadcast_to(arguments[3], got.shape) if others["groups"] is None else arguments[3][others["groups"]]
    assert not got[costs == 0].any()
    units = costs / np.maximum(X.sample_totals, 1)[:, None]
    np.testing.assert_allclose(got * units, want * units, rtol=0, atol=tolerance)
    per_count = np.maximum(X.sample_totals, 1)
    tolerance = 1e-6 if kernel == "newton" else 1e-10
    np.testing.assert_allclose(got_xlog / per_count, want_xlog / per_count, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("barred", [False, True], ids=["all", "sets"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["em 1", "em 4", "sn", "newton"])
def test_beside_held_topics_the_objective_of_no_row_rises(name: str, dtype: str, barred: bool) -> None:
    kernel, options = HALF_STEPS[name]
    rounding = 1e-9 if dtype == "float64" else 1e-5
    for seed, K, held in ((1, 2, 2), (2, 5, 1), (3, 3, 60), (5, 70, 4)):
        (rows, F, L, cost, shape), others = held_arguments(K, held, dtype, False, barred, seed)
        costs = np.broadcast_to(cost, L.shape) if others["groups"] is None else cost[others["groups"]]
        both_F = np.hstack([F, others["held"][0]])
        both_cost = np.hstack([costs, np.zeros((len(L), held))])
        for _ in range(6):
            new, _ = getattr(kernels, kernel)(rows, F, L, cost, shape, **options, **others)
            pair = [np.hstack([A, others["held"][1]]).astype(float) for A in (L, new)]
            before, after = (row_objectives(rows, both_F, A, both_cost, None) for A in pair)
            assert (after <= before + rounding * np.maximum(np.abs(before), 1)).all()
            L = new


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("K", "held"), [(1, 1), (3, 60), (70, 3)])
def test_sums_beside_held_topics_equal_their_reference(K: int, held: int, dtype: str) -> None:
    X = Counts(awkward_counts())
    L, F = (factor.astype(dtype) for factor in random_start(*X.shape, K + held, 3))
    given = (X.columns, L[:, held:].copy(), F[:, held:].copy())
    sums = [(np.zeros((X.shape[1], K)), np.zeros((X.shape[1], kernels.curvature_size(K)), np.float32)) for _ in "ab"]
    kernels.add_sums(*given, *sums[0], held=(L[:, :held], F[:, :held]))
    reference.add_sums(*given, *sums[1], held=(L[:, :held].astype(float), F[:, :held].astype(float)))
    for got, want in zip(*sums, strict=True):
        assert np.all(np.abs(got - want) <= 2e-5 * want.max(axis=1, initial=0, keepdims=True))


@pytest.mark.parametrize("prior", [False, True], ids=["ml", "map"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["em 1", "em 4", "sn", "newton"])
def test_with_costs_of_rows_the_objective_of_no_row_rises(name: str, dtype: str, prior: bool) -> None:
    kernel, options = HALF_STEPS[name]
    rounding = 1e-9 if dtype == "float64" else 1e-5
    for seed, K in ((1, 2), (2, 5), (3, 10), (4, 20), (5, 70)):
        (rows, F, L, cost, shape), groups = row_costs(K, dtype, prior, "group", seed)
        L = np.maximum(L, 1e-6)
        for _ in range(6):
            new, _ = getattr(kernels, kernel)(rows, F, L, cost, shape, **options, groups=groups)
            new = np.maximum(new, np.finfo(dtype).tiny)
            before, after = (row_objectives(rows, F, A.astype(float), cost[groups], shape) for A in (L, new))
            assert (after <= before + rounding * np.maximum(np.abs(before), 1)).all()
            L = new


@pytest.mark.parametrize("name", ["sn", "scd", "newton"])
def test_with_costs_of_rows_the_end_is_that_of_another_optimiser(name: str) -> None:
    kernel, options = HALF_STEPS[name]
    options = {key: 500 if key in ("sweeps", "rounds") else value for key, value in options.items()} | {"rest": False}
    (rows, F, L, cost, shape), _ = row_costs(3, "float64", True, "row")
    got, _ = getattr(kernels, kernel)(rows, F, L, cost, shape, **options)
    for i in range(len(L)):
        some = slice(rows.indptr[i], rows.indptr[i + 1])
        x, f, c, s = rows.data[some], F[rows.indices[some]], cost[i], shape[i]

        def loss(log, x=x, f=f, c=c, s=s) -> tuple[float, np.ndarray]:
            b = np.exp(log)
            rate = f @ b
            return c @ b - x @ np.log(rate) - s @ log, b * (c - (x / rate) @ f) - s

        size = np.log(max(x.sum(), 1) / c)
        best = minimize(loss, size, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000})
        np.testing.assert_allclose(got[i] * c, np.exp(best.x) * c, rtol=1e-5, atol=1e-7 * max(x.sum(), 1))


@pytest.mark.parametrize("name", HALF_STEPS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_four_times_the_costs_of_a_row_are_a_quarter_of_its_entries(name: str, dtype: str) -> None:
    kernel, options = HALF_STEPS[name]
    (rows, F, L, cost, _), groups = row_costs(5, dtype, False, "group")
    times = np.array([4.0, 1.0, 0.125])
    one, xlog = getattr(kernels, kernel)(rows, F, L, cost, None, **options, groups=groups, measure=True)
    moved = (L / times[groups][:, None]).astype(dtype)
    two, _ = getattr(kernels, kernel)(rows, F, moved, cost * times[:, None], None, **options, groups=groups)
    np.testing.assert_array_equal(two, (one / times[groups][:, None]).astype(dtype))
    np.testing.assert_allclose(xlog, reference.xlogs(rows, np.maximum(one, 1e-30), F), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", HALF_STEPS)
def test_costs_that_are_the_same_in_all_rows_are_shared_costs(name: str) -> None:
    kernel, options = HALF_STEPS[name]
    for prior in (False, True):
        rows, F, L, cost, shape = half_step_arguments(10, "float64", prior)
        want, _ = getattr(kernels, kernel)(rows, F, L, cost, shape, **options)
        got, _ = getattr(kernels, kernel)(rows, F, L, np.tile(cost, (len(L), 1)), shape, **options)
        shares = [in_units_of_rows(A, want, cost) for A in (got, want)]
        np.testing.assert_allclose(*shares, rtol=0, atol=max(1e-11, 0.1 * TOLERANCE[kernel]))


@pytest.mark.parametrize("name", HALF_STEPS)
def test_a_topic_that_costs_nothing_in_a_row_is_zero_there(name: str) -> None:
    kernel, options = HALF_STEPS[name]
    rows, F, L, _, _ = half_step_arguments(4, "float64", prior=False)
    lost = np.unique(rows.indices[rows.indptr[0] : rows.indptr[1]])
    F = F.copy()
    F[lost, 2] = 0  # the first row has counts of other features alone
    cost = np.tile(F.sum(axis=0), (len(L), 1))
    cost[0, 2] = 0
    want, _ = getattr(kernels, kernel)(rows, F, L, cost, None, **options)
    fewer = [0, 1, 3]
    alone, _ = getattr(kernels, kernel)(rows, F[:, fewer].copy(), L[:, fewer].copy(), cost[:, fewer], None, **options)
    assert want[0, 2] == 0
    assert (want[1, [0, 1, 3]] > 0).all()
    np.testing.assert_allclose(want[0, fewer], alone[0], rtol=1e-6, atol=1e-6)


def row_objectives(rows, fixed, moving, cost, shape) -> np.ndarray:
    values = (moving * cost).sum(axis=1) - reference.xlogs(rows, np.where(moving > 0, moving, 1e-300), fixed)
    return values if shape is None else values - (shape * np.log(moving)).sum(axis=1)


@pytest.mark.parametrize("name", HALF_STEPS)
def test_a_row_without_counts_is_zero_or_the_mode_of_the_prior(name: str) -> None:
    kernel, options = HALF_STEPS[name]
    empty = [2, 7]
    rows, F, L, cost, _ = half_step_arguments(3, "float64", prior=False)
    out, _ = getattr(kernels, kernel)(rows, F, L, cost, None, **options)
    assert np.all(out[empty] == 0)
    rows, F, L, cost, shape = half_step_arguments(3, "float64", prior=True)
    out, _ = getattr(kernels, kernel)(rows, F, L, cost, shape, **options)
    np.testing.assert_allclose(out[empty], (shape / cost)[empty], rtol=1e-15)


@pytest.mark.parametrize("name", ["scd", "ccd", "sn", "newton"])
def test_a_row_with_one_nonzero_goes_to_the_topic_that_is_best_for_it(name: str) -> None:
    # all mass on k = argmax f_jk / u_k, with l_k = x / u_k
    kernel, options = HALF_STEPS[name]
    options = {key: 200 if key in ("sweeps", "rounds") else value for key, value in options.items()}
    rows, F, L, cost, _ = half_step_arguments(4, "float64", prior=False)
    out, _ = getattr(kernels, kernel)(rows, F, L, cost, None, **options)
    for i, j, x in ((4, 3, 1.0), (5, 3, 250.0), (9, 11, 0.5)):
        best = np.argmax(F[j] / cost)
        expected = np.zeros(4)
        expected[best] = x / cost[best]
        np.testing.assert_allclose(out[i], expected, rtol=1e-8, atol=1e-8 * x)


@pytest.mark.parametrize("name", HALF_STEPS)
@pytest.mark.parametrize("K", [3, 10, 20])
def test_the_measured_sums_belong_to_the_rows_of_the_returned_factor(name: str, K: int) -> None:
    kernel, options = HALF_STEPS[name]
    if kernel == "newton":
        options = {"rounds": 4, "tolerance": 0.0}
    rows, F, L, cost, _ = half_step_arguments(K, "float64", prior=False)
    out, xlog = getattr(kernels, kernel)(rows, F, L, cost, None, **options, measure=True)
    positive = np.maximum(out, 1e-300)
    np.testing.assert_allclose(xlog, reference.xlogs(rows, positive, F), rtol=1e-11, atol=1e-11)
    assert getattr(kernels, kernel)(rows, F, L, cost, None, **options)[1] is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("K", TOPICS)
def test_the_pass_over_nonzeros_equals_its_reference(K: int, dtype: str) -> None:
    X = Counts(awkward_counts())
    L, F = (factor.astype(dtype) for factor in random_start(*X.shape, K))
    np.testing.assert_allclose(kernels.xlogs(X.rows, L, F), reference.xlogs(X.rows, L, F), rtol=1e-12, atol=1e-12)
    for got, want in zip(kernels.numerators(X.rows, L, F), reference.numerators(X.rows, L, F), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    arguments = (X.rows, X.columns, X.column_order, L, F)
    for got, want in zip(kernels.both_numerators(*arguments), reference.both_numerators(*arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_counts_of_two_bytes_give_the_same_bytes() -> None:
    X = Counts(random_counts(40, 50))
    assert X.transposed.data.dtype == np.uint16
    narrow = Counts.trusted(X.csr)
    narrow.rows = X.rows._replace(data=X.rows.data.astype(np.uint16))
    for K in (3, 20):
        assert every_kernel(narrow, K) == every_kernel(X, K)
    with pytest.raises(ValueError, match="float64 or uint16"):
        kernels.xlogs(X.rows._replace(data=X.rows.data.astype(np.int64)), *random_start(*X.shape, 3))


@pytest.mark.parametrize("factor", [0.5, 1e4, 1e9], ids=["fractions", "large", "larger"])
def test_counts_that_two_bytes_do_not_hold_stay_doubles(factor: float) -> None:
    X = Counts(factor * random_counts())
    assert X.transposed.data.dtype == np.float64
    np.testing.assert_array_equal(X.transposed.data, X.columns.data)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("K", [3, 10, 20])
def test_any_number_of_threads_gives_the_same_bytes(K: int, dtype: str) -> None:
    X = Counts(random_counts(2000, 60, seed=2))  # more than one block of rows
    L, F = (factor.astype(dtype) for factor in random_start(*X.shape, K))
    cost = F.sum(axis=0, dtype=np.float64)

    def everything() -> bytes:
        parts = []
        for kernel, options in HALF_STEPS.values():
            out, xlog = getattr(kernels, kernel)(X.rows, F, L, cost, None, **options, measure=True)
            parts += [out, xlog]
        parts += [kernels.xlogs(X.rows, L, F)]
        parts += kernels.both_numerators(X.rows, X.columns, X.column_order, L, F)
        return b"".join(np.asarray(part).tobytes() for part in parts)

    found = []
    for n in (1, 2, 3):
        with use_threads(n):
            found.append(everything())
    assert found[0] == found[1] == found[2]


ISA_PROGRAM = """
import sys
import numpy as np
from unmix import kernels
from unmix.counts.counts import Counts
archive = np.load(sys.argv[1])
X = Counts(archive["X"])
out, _ = kernels.em(X.rows, archive["F"], archive["L"], archive["F"].sum(axis=0), None, steps=3)
np.savez(sys.argv[2], isa=kernels.isa, out=out)
"""


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_instruction_set_this_cpu_runs_agrees(isa: str, tmp_path) -> None:
    if not kernels.runs(isa):
        pytest.skip(f"this CPU does not run {isa}")
    X = awkward_counts()
    L, F = random_start(*X.shape, 10)
    np.savez(tmp_path / "in.npz", X=X, L=L, F=F)
    environment = os.environ | {"UNMIX_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", ISA_PROGRAM, tmp_path / "in.npz", tmp_path / "out.npz"], check=True, env=environment
    )
    result = np.load(tmp_path / "out.npz")
    assert str(result["isa"]) == isa
    want, _ = kernels.em(Counts(X).rows, F, L, F.sum(axis=0), None, steps=3)
    np.testing.assert_allclose(result["out"], want, rtol=1e-10)


def test_an_instruction_set_this_cpu_lacks_is_refused() -> None:
    environment = os.environ | {"UNMIX_ISA": "avx9000", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", "import unmix.kernels"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "UNMIX_ISA=avx9000" in done.stderr


def test_the_logarithm_is_exact_from_the_least_subnormal_to_the_largest_double() -> None:
    rng = np.random.default_rng(0)
    tiny = np.finfo(float).smallest_subnormal
    rates = np.concatenate(
        [
            2.0 ** rng.uniform(-1073, 1023, 20_000),
            1 + rng.uniform(-0.3, 0.42, 20_000),
            1 + rng.normal(0, 1e-6, 2_000),
            rng.integers(1, 2**52, 500) * tiny,
            [tiny, 2 * tiny, np.finfo(float).tiny, np.finfo(float).max, 1.0, np.nextafter(1, 0), np.nextafter(1, 2)],
            np.sqrt(0.5) * np.array([1, 1 - 1e-16, 1 + 1e-16]),
        ]
    )
    X = Counts(np.ones((len(rates), 1)))
    got = kernels.xlogs(X.rows, rates[:, None], np.ones((1, 1)))
    np.testing.assert_allclose(got, np.log(rates), rtol=1e-14, atol=0)
    # eight logarithms at a time take another road through the code than the last few of a row
    wide = rates[: len(rates) // 16 * 16].reshape(-1, 16)
    X = Counts(np.ones((1, 16)))
    for row in wide[:: len(wide) // 200]:
        got = kernels.xlogs(X.rows, np.ones((1, 1)), row[:, None].copy())
        np.testing.assert_allclose(got, [np.log(row).sum()], rtol=1e-13, atol=1e-13)


def test_a_rate_of_zero_has_an_infinite_logarithm() -> None:
    X = Counts([[1.0, 2.0]])
    assert kernels.xlogs(X.rows, np.ones((1, 1)), np.array([[1.0], [0.0]]))[0] == -np.inf


def test_arrays_that_do_not_fit_are_refused() -> None:
    X = Counts(random_counts())
    (n, m), K = X.shape, 3
    L, F = random_start(n, m, K)
    cost = F.sum(axis=0)
    good = {"fixed": F, "moving": L, "cost": cost, "shape": None}
    bad = [
        {"moving": L[:-1]},
        {"moving": L[:, :2].copy()},
        {"fixed": F[:, :2].copy()},
        {"cost": cost[:2]},
        {"shape": np.ones((n, K + 1))},
        {"shape": np.ones((n - 1, K))},
        {"fixed": F[:-1]},
    ]
    for change in bad:
        for kernel, options in HALF_STEPS.values():
            with pytest.raises(ValueError, match=r"\w{4,}"):
                getattr(kernels, kernel)(X.rows, *(good | change).values(), **options)
    for left, right in ((L[:-1], F), (L, F[:, :2].copy()), (L, F[:-1])):
        with pytest.raises(ValueError, match=r"\w{4,}"):
            kernels.xlogs(X.rows, left, right)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.xlogs(X.rows._replace(data=X.rows.data[:-1]), L, F)


@pytest.mark.parametrize("name", HALF_STEPS)
def test_memory_order_and_mixed_precision_do_not_change_the_result(name: str) -> None:
    kernel, options = HALF_STEPS[name]
    rows, F, L, cost, _ = half_step_arguments(5, "float64", prior=False)
    want, _ = getattr(kernels, kernel)(rows, F, L, cost, None, **options)
    got, _ = getattr(kernels, kernel)(rows, F, np.asfortranarray(L), cost, None, **options)
    np.testing.assert_array_equal(got, want)
    with pytest.raises((TypeError, ValueError)):
        getattr(kernels, kernel)(rows, F, L.astype(np.float32), cost, None, **options)


# --- the matrix ------------------------------------------------------------------------------------------------------


def test_the_arrays_of_a_matrix_are_checked_once_for_all_kernels_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    class Native:
        def __getattr__(self, name: str):
            return getattr(native, name)

        def Matrix(self, *arrays):
            checked.append(arrays)
            return native.Matrix(*arrays)

    native = kernels._native
    monkeypatch.setattr(kernels, "_native", Native())
    X = Counts(random_counts())
    for counts in (X, Counts(X)):
        every_kernel(counts, 3)
        for _ in range(2):
            sides, (L, F) = counts.sides(), random_start(*X.shape, 3)
            sides.left.xlogs(L, F)
            sides.right.xlogs(F, L)
    assert sum(arrays[0] is X.rows.indptr for arrays in checked) == 1
    assert len(checked) == 1 + 2 * 2  # the transpose of each `Counts` is its own, in double precision and in two bytes


def test_copies_and_pickles_of_a_matrix_are_of_its_arrays() -> None:
    X = Counts(random_counts())
    L, F = random_start(*X.shape, 3)
    want = kernels.xlogs(X.rows, L, F)
    for again in (copy.copy(X.rows), copy.deepcopy(X.rows), pickle.loads(pickle.dumps(X.rows))):
        assert type(again) is kernels.CSR
        assert not vars(again)
        np.testing.assert_array_equal(kernels.xlogs(again, L, F), want)


# --- workspaces ------------------------------------------------------------------------------------------------------


def every_kernel(X: Counts, K: int, dtype: str = "float64", workspace=None) -> list[bytes]:
    """What each kernel that copies a factor returns, with this memory for the copy."""
    L, F = (factor.astype(dtype) for factor in random_start(*X.shape, K))
    cost, options = F.sum(axis=0, dtype=np.float64), {"workspace": workspace}
    doubles = (F.astype(np.float64), np.ones(K), L.astype(np.float64), np.full(K, 0.3))
    results = [
        *(getattr(kernels, kernel)(X.rows, F, L, cost, None, **how, **options) for kernel, how in HALF_STEPS.values()),
        (kernels.xlogs(X.rows, L, F, **options),),
        (kernels.ratios(X.rows, L, F, **options),),
        kernels.numerators(X.rows, L, F, **options),
        kernels.both_numerators(X.rows, X.columns, X.column_order, L, F, **options),
        (kernels.infer(X.rows, *doubles, steps=3, tolerance=0.0, **options),),
    ]
    return [np.asarray(part).tobytes() for result in results for part in result if part is not None]


def test_a_workspace_serves_kernels_of_any_size_in_turn() -> None:
    workspace = kernels.Workspace()
    small, large = Counts(awkward_counts()), Counts(random_counts(40, 50))
    for X, K, dtype in ((small, 3, "float64"), (large, 20, "float64"), (small, 17, "float32"), (large, 3, "float32")):
        want = every_kernel(X, K, dtype)
        assert every_kernel(X, K, dtype, workspace=workspace) == want


def test_a_workspace_keeps_its_memory_from_call_to_call() -> None:
    workspace, X = kernels.Workspace(), Counts(random_counts())
    every_kernel(X, 20, workspace=workspace)
    (kept,) = workspace._spare
    every_kernel(X, 3, workspace=workspace)
    assert len(workspace._spare) == 1
    assert workspace._spare[0] is kept


def test_a_workspace_is_freed_when_it_is_let_go() -> None:
    workspace, X = kernels.Workspace(), Counts(random_counts())
    every_kernel(X, 3, workspace=workspace)
    gone = [weakref.ref(workspace), weakref.ref(workspace._spare[0])]
    del workspace
    assert [ref() for ref in gone] == [None, None]


def test_a_copy_of_a_workspace_shares_nothing_with_it() -> None:
    workspace = kernels.Workspace()
    every_kernel(Counts(random_counts()), 3, workspace=workspace)
    assert copy.deepcopy(workspace)._spare == []
    assert len(pickle.dumps(workspace)) < 100


def test_a_workspace_gets_its_memory_back_from_a_kernel_that_fails() -> None:
    workspace, X = kernels.Workspace(), Counts(random_counts())
    L, F = random_start(*X.shape, 3)
    kernels.xlogs(X.rows, L, F, workspace=workspace)
    (kept,) = workspace._spare
    with pytest.raises(ValueError, match="do not fit the matrix"):
        kernels.xlogs(X.rows, L[:-1], F, workspace=workspace)
    assert workspace._spare[0] is kept


class Lender(kernels.Workspace):
    """Lends part of an array that begins anywhere, `less` bytes shorter than it was asked for."""

    __slots__ = ("less", "offset", "whole")

    def __init__(self, offset: int, less: int = 0) -> None:
        self.offset, self.less = offset, less

    def borrow(self, size: int) -> np.ndarray:
        self.whole = np.full(size + 256, 0xA5, np.uint8)
        return self.whole[self.offset : self.offset + size - self.less]

    def give_back(self, scratch: np.ndarray) -> None:
        end = self.offset + len(scratch)
        assert (self.whole[: self.offset] == 0xA5).all()
        assert (self.whole[end:] == 0xA5).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("K", [1, 10, 17])
def test_kernels_stay_within_the_memory_they_are_lent_wherever_it_begins(K: int, dtype: str) -> None:
    X = Counts(awkward_counts())
    want = every_kernel(X, K, dtype)
    for offset in (0, 1, 8, 31, 32, 63, 64, 65):
        assert every_kernel(X, K, dtype, workspace=Lender(offset)) == want


def test_a_scratch_array_that_is_too_small_is_refused() -> None:
    X = Counts(awkward_counts())
    L, F = random_start(*X.shape, 10)
    cost, short = F.sum(axis=0), {"workspace": Lender(0, less=X.shape[1] * 10 * 8 // 2)}  # Newton needs the least
    calls = [
        *(
            lambda kernel=kernel, how=how: getattr(kernels, kernel)(X.rows, F, L, cost, None, **how, **short)
            for kernel, how in HALF_STEPS.values()
        ),
        *(lambda of=of: of(X.rows, L, F, **short) for of in (kernels.xlogs, kernels.ratios, kernels.numerators)),
        lambda: kernels.both_numerators(X.rows, X.columns, X.column_order, L, F, **short),
        lambda: kernels.infer(X.rows, F, np.ones(10), L, np.ones(10), steps=1, tolerance=0.0, **short),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="scratch array is too small"):
            call()
