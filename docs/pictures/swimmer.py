"""Draws docs/images/swimmer.png: the 17 topics of Swimmer by BLD beside those of KL-NMF. Run: python docs/pictures/swimmer.py"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import unmix as um

OUT = Path(__file__).resolve().parent.parent / "images" / "swimmer.png"
COLUMNS, ROWS = 6, 3
X = um.datasets.swimmer()
PARTS = X.truth.F  # a part in each column, the torso last


def counts_by_topic(fit: um.Fit) -> np.ndarray:
    """Expected counts of every pixel in every topic, topics in the order of the parts they are most like."""
    counts = fit.topics * (fit.sizes @ fit.proportions)
    order = linear_sum_assignment(-(np.sqrt(PARTS).T @ np.sqrt(fit.topics)))[1]
    return counts[:, order]


def ghost(counts: np.ndarray) -> float:
    """The part of the torso's counts that topics hold which are mostly limb."""
    torso = counts[PARTS[:, 16] > 0].sum(axis=0)
    return float(torso[torso < 0.5 * counts.sum(axis=0)].sum() / torso.sum())


def draw(panel: Any, counts: np.ndarray, title: str) -> None:
    """One image a topic, brightness by the square root of the counts, and the number in the last place."""
    axes = panel.subplots(ROWS, COLUMNS, gridspec_kw={"wspace": 0.06, "hspace": 0.06}).ravel()
    for k, axis in enumerate(axes):
        axis.set_axis_off()
        if k < 17:
            image = counts[:, k].reshape(32, 32)[3:29, 5:28]
            axis.imshow(np.sqrt(image / image.max()), cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
    axes[17].text(0.5, 0.5, f"{100 * ghost(counts):.0f} %", ha="center", va="center", fontsize=15, weight="bold")
    axes[17].text(
        0.5, 0.22, "of the torso\nin limbs", ha="center", va="center", fontsize=8, transform=axes[17].transAxes
    )
    axes[17].texts[0].set_transform(axes[17].transAxes)
    panel.suptitle(title, fontsize=11)


def main() -> None:
    beta = np.append(np.full(16, 10.0), 60.0)
    bld = um.AllocationModel(17, a=100, b=1, alpha=0.05, beta=beta, tol=1e-6, random_state=0).fit(X).result_
    nmf = um.PoissonNMF(17, random_state=0).fit(X).result_
    figure = plt.figure(figsize=(10, 3.5), layout="none")
    left, right = figure.subfigures(1, 2, wspace=0.04)
    draw(left, counts_by_topic(bld), "Best latent decomposition: 17 parts, 17 topics")
    draw(right, counts_by_topic(nmf), "KL-NMF: every limb drags a ghost of the torso along")
    for panel in (left, right):
        panel.subplots_adjust(left=0.02, right=0.98, top=0.88, bottom=0.02)
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=130)


if __name__ == "__main__":
    main()
