"""The transformations of a fit that leave every rate as it is, and how far they can move one number.

With topics that sum to one, L Fᵀ = (L A)(F A⁻ᵀ)ᵀ for every invertible A whose rows sum to one; A is allowed if

    P A >= 0   and   G A⁻ᵀ >= 0

P being the proportions of the samples and G those of the features (rows of F, each divided by its sum). The set of allowed A is
not convex, but near each of them it is almost a polytope: with A (I + B), rows of B summing to zero,

    S + S B >= 0,   T − T Bᵀ >= 0,   S = P A,   T = G A⁻ᵀ

So a number is moved as far as it goes by linear programs of K (K − 1) variables within a box, each from the last allowed A. A
step of such a program ends a little outside; Newton's method on the constraints that bind brings it back. Of the (n + m) K
constraints few bind: they are taken up when they are broken. An end where the direction is a combination of the normals that
bind, with weights of the right sign, is a local optimum, and that is known without another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, nnls

from unmix.base.types import Floats, Integers

BROKEN = 1e-12  # a share below −BROKEN is negative, not rounding
LEAST_GAIN = 1e-9  # of a share: what a program must promise
BINDING = 1e-8  # a share below that is at its bound
WORST_CONDITION = 1e5  # of a transformation: beyond, rates would not be the same to nine figures
LEAST_BOX = 1e-6  # how far an entry of B may be from zero; it starts at 1 / K
NEW_CONSTRAINTS = 3  # of one side and topic, taken up after a program
STEPS = 40  # programs in a row, at most, for one number
MANY = 4  # constraints a variable
SAMPLES, FEATURES = SIDES = 0, 1

Name = tuple[int, int]  # a row of a side and a topic: a share, which must not be negative


class Target(NamedTuple):
    """The proportion of a topic in a sample or a feature: to be made as large (sign 1) or as small (−1) as it can be."""

    side: int
    row: int
    topic: int
    sign: int


class Point(NamedTuple):
    """An allowed transformation, and its inverse."""

    A: Floats
    V: Floats

    @classmethod
    def of(cls, A: Floats) -> Point:
        return cls(A, np.linalg.inv(A).astype(np.float64))


@dataclass(eq=False)
class Region:
    """All that is known so far of the allowed transformations of one fit."""

    P: Floats
    G: Floats
    room: tuple[Floats | float, Floats | float] = (0.0, 0.0)  # how far below zero shares may be
    working: tuple[set[Name], set[Name]] = field(init=False)  # the constraints of each side that are looked at

    def __post_init__(self) -> None:
        K = self.P.shape[1]
        self.identity = Point.of(np.eye(K))
        self.rows, self.columns = (~np.eye(K, dtype=bool)).nonzero()  # of the entries of B that are free
        self.first = (_closest(self.P), _closest(self.G))
        self.working = (set(self.first[SAMPLES]), set(self.first[FEATURES]))

    def a_move(self) -> Floats | None:
        """Some B that is allowed. None if nothing moves in a generic direction: the fit's own transformation is then the only
        one, at least nearby."""
        c = np.random.default_rng(0).standard_normal(len(self.rows))
        moves = [self._program(self.identity, sign * c, 1 / len(self.identity.A))[:2] for sign in (1, -1)]
        B, gain = max(moves, key=lambda move: move[1])
        return B if gain >= LEAST_GAIN else None

    def value(self, here: Point, target: Target) -> float:
        """What is to become large."""
        return target.sign * float(self._shares(here, target.side, [target.row])[0, target.topic])

    def direction(self, here: Point, target: Target) -> Floats:
        """By how much that grows with each entry of B."""
        return target.sign * self._gradients(here, target.side, [(target.row, target.topic)])[0][0]

    def furthest(self, start: Point, target: Target, steps: int = STEPS) -> Point:
        """The allowed transformation to which a target leads, step by step."""
        here, box = start, 1 / len(start.A)
        for _ in range(steps):
            B, promised, binding = self._program(here, self.direction(here, target), box)
            if promised < LEAST_GAIN or box < LEAST_BOX:
                break
            there = self._brought_back(here.A @ (np.eye(len(B)) + B), binding)
            gain = -np.inf if there is None else self.value(there, target) - self.value(here, target)
            if there is None or gain < 0.1 * promised:
                box /= 4
                continue
            here = there
            box = min(1.0, 2 * box) if gain > 0.5 * promised else box
        self._forget(here)
        return here

    def is_furthest(self, here: Point, target: Target) -> bool:
        """Whether some of the constraints that bind forbid every small move that would gain."""
        normals, values = self._constraints(here)
        normals = normals[values <= BINDING]
        c = self.direction(here, target)
        if not len(normals) or not c.any():
            return not c.any()
        try:
            return bool(nnls(-normals.T, c)[1] <= LEAST_GAIN * np.abs(c).max())
        except RuntimeError:  # too many iterations
            return False

    def _program(self, here: Point, c: Floats, box: float) -> tuple[Floats, float, list[tuple[int, Name]]]:
        """The B of most gain in a direction, what it gains, and the constraints that bind there."""
        S, T = self.P @ here.A, self.G @ here.V.T
        below, under = self.room
        while True:
            normals, values = self._constraints(here)
            found = linprog(
                -c,
                A_ub=-normals,
                b_ub=np.maximum(values, 0),
                bounds=(-box, box),
                method="highs-ds",
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            if found.x is None:
                return np.zeros_like(here.A), 0.0, []
            B = self._matrix(found.x)
            if not self._take_up(S + S @ B + below, T - T @ B.T + under):
                names = [(side, name) for side in SIDES for name in sorted(self.working[side])]
                return B, float(c @ found.x), [names[i] for i in np.flatnonzero(found.slack <= LEAST_GAIN)]

    def _brought_back(self, A: Floats, binding: list[tuple[int, Name]]) -> Point | None:
        """A nearby allowed transformation, on which the constraints bind that did in the program; None if there is none."""
        bound, before = set(binding), np.inf
        while np.linalg.cond(A) < WORST_CONDITION:
            there = Point.of(A)
            shares = self.P @ there.A + self.room[SAMPLES], self.G @ there.V.T + self.room[FEATURES]
            least = min(part.min() for part in shares)
            if least >= -BROKEN:
                return there
            if -least > before / 2:  # Newton's method would halve it many times over
                break
            before = -least
            broken = [_worst(part) for part in shares]
            bound |= {(side, name) for side in SIDES for name in broken[side]}
            names = [sorted(name for which, name in bound if which == side) for side in SIDES]
            parts = [self._gradients(there, side, names[side]) for side in SIDES]
            normals, values = (np.concatenate(part) for part in zip(*parts, strict=True))
            b = np.linalg.lstsq(normals, -values, rcond=1e-10)[0]
            A = A @ (np.eye(len(A)) + self._matrix(b))
        return None

    def _constraints(self, here: Point) -> tuple[Floats, Floats]:
        """Normals and values of the constraints that are looked at: a move by b is allowed if normals b + values >= 0."""
        parts = [self._gradients(here, side, sorted(self.working[side])) for side in SIDES]
        normals, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return normals, values

    def _take_up(self, S: Floats, T: Floats) -> bool:
        """Whether there are broken constraints that were not looked at; the worst of them are from now on."""
        before = sum(len(known) for known in self.working)
        for known, shares in zip(self.working, (S, T), strict=True):
            for k in range(shares.shape[1]):
                broken = np.flatnonzero(shares[:, k] < -LEAST_GAIN)
                worst = broken[np.argsort(shares[broken, k], kind="stable")[:NEW_CONSTRAINTS]]
                known.update((int(i), k) for i in worst)
        return sum(len(known) for known in self.working) > before

    def _forget(self, here: Point) -> None:
        """Constraints that are far from binding, once there are many: programs grow slow with them."""
        if sum(len(known) for known in self.working) > MANY * len(self.rows):
            for side in SIDES:
                names = sorted(self.working[side])
                values = self._gradients(here, side, names)[1]
                near = {name for name, value in zip(names, values, strict=True) if value <= BINDING}
                self.working[side].intersection_update(near | self.first[side])

    def _shares(self, here: Point, side: int, rows: Sequence[int] | Integers) -> Floats:
        return self.P[rows] @ here.A if side == SAMPLES else self.G[rows] @ here.V.T

    def _gradients(self, here: Point, side: int, names: Sequence[Name]) -> tuple[Floats, Floats]:
        """Of shares, given by row and topic: (S B)_ik, or −(T Bᵀ)_jk, in the free entries of B; and how far they are from
        their bounds now."""
        places, topics = np.array(names, dtype=np.intp).reshape(-1, 2).T
        its, topics = self._shares(here, side, places), topics[:, None]
        own = np.take_along_axis(its, topics, axis=1)
        if side == SAMPLES:
            slopes = np.where(self.columns == topics, its[:, self.rows], 0) - np.where(self.rows == topics, own, 0)
        else:
            slopes = np.where(self.rows == topics, own - its[:, self.columns], 0)
        room = np.broadcast_to(self.room[side], (len(self.P) if side == SAMPLES else len(self.G), len(self.identity.A)))
        return slopes, own[:, 0] + room[places, topics[:, 0]]

    def _matrix(self, b: Floats) -> Floats:
        """B, whose rows sum to zero, from its free entries."""
        B = np.zeros_like(self.identity.A)
        B[self.rows, self.columns] = b
        np.fill_diagonal(B, -B.sum(axis=1))
        return B


def explored(region: Region, targets: list[Target], found: list[Point]) -> list[Point]:
    """Transformations among which every target has one that is a local optimum of it; each starts from the best found so
    far."""
    found = list(found)
    for target in targets:
        best = max(found, key=lambda point: region.value(point, target))
        if region.is_furthest(best, target):
            continue
        end = region.furthest(best, target)
        if region.value(end, target) > region.value(best, target) + LEAST_GAIN:
            found.append(end)
    return found


def spread_rows(shares: Floats, most: int) -> Integers:
    """Rows that differ most: the largest of every topic, then the one furthest from all chosen so far, while any differ."""
    chosen = [int(i) for i in dict.fromkeys(shares.argmax(axis=0))][:most]
    distance = np.min([((shares - shares[i]) ** 2).sum(axis=1) for i in chosen], axis=0)
    while len(chosen) < min(most, len(shares)) and distance.max() > 1e-12:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, ((shares - shares[chosen[-1]]) ** 2).sum(axis=1))
    return np.array(chosen, dtype=np.intp)


def _closest(shares: Floats) -> set[tuple[int, int]]:
    """For each pair of topics the row that has least of one next to the other: what binds first, as a rule."""
    names = set()
    for k in range(shares.shape[1]):
        for other in range(shares.shape[1]):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(shares[:, other] > 0, shares[:, k] / shares[:, other], np.inf)
            if other != k:
                names.add((int(ratio.argmin()), k))
    return names


def _worst(shares: Floats) -> list[Name]:
    """Of each topic the row that is most below zero, if any is."""
    rows = shares.argmin(axis=0)
    return [(int(i), k) for k, i in enumerate(rows) if shares[i, k] < -BROKEN]
