"""The picture of `fit`: how far each program is from the best log-likelihood, against time."""

from pathlib import Path

import numpy as np

# Okabe and Ito's colours, told apart by readers with any common colour blindness; markers and dashes say it again.
COLOURS = {
    "unmix": "#000000",
    "unmix-scd": "#0072B2",
    "unmix-newton": "#D55E00",
    "unmix-em": "#009E73",
    "sklearn-mu": "#E69F00",
    "sklearn-minibatch": "#CC79A7",
    "poismf": "#56B4E9",
    "gensim": "#8C8C8C",
}
MARKERS = dict(zip(COLOURS, "*osD^vPX", strict=True))
PLAIN = "-plain"


def gap_against_time(curves: dict[str, dict[str, list[float]]], target: float, title: str, path: Path) -> None:
    """Log-log plot of (best log-likelihood of all − log-likelihood + 1) against seconds, set-up included."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    best = max(target, *(max(curve["loglik"]) for curve in curves.values()))
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    for name, curve in curves.items():
        family = name.removesuffix(PLAIN)
        axes.plot(
            curve["seconds"],
            best - np.asarray(curve["loglik"]) + 1,
            label=name,
            color=COLOURS[family],
            marker=MARKERS[family],
            markevery=max(1, len(curve["seconds"]) // 12),
            markersize=6,
            linestyle="--" if name.endswith(PLAIN) else "-",
        )
    axes.axhline(best - target + 1, color="black", linewidth=0.8, linestyle=":", label="target")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="seconds, set-up included",
        ylabel="log-likelihood units below the best reached, plus 1",
        title=title,
    )
    axes.grid(which="major", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=150)
    plt.close(figure)
