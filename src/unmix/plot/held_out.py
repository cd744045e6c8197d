"""What splitting the counts does to tests: z from the counts that made the topics (across), and from others (up)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unmix.analysis import Differences
from unmix.plot.style import MANY_POINTS, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def held_out(naive: Differences, honest: Differences, ax: Axes | None = None) -> Axes:
    """One point per feature and topic: its z where counts are used twice, and where some were held out for the test.

    What is real lies along the dashed line, which is less steep than the dotted one as there are fewer counts; what noise made
    has no z left and lies along the axis.

    Parameters
    ----------
    naive, honest : Differences
        What `unmix.differences` found without and with `held_out`, of the same features and topics.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If the two are of different features or topics, or the second was not held out.

    See Also
    --------
    differences

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.TopicModel(3, tol=1e-4, random_state=0).fit(X)
    >>> ax = um.plot.held_out(um.differences(model, X), um.differences(model, X, held_out=0.5, random_state=0))
    """
    if naive.z.shape != honest.z.shape:
        raise ValueError(
            f"z of shapes {naive.z.shape} and {honest.z.shape}; give differences of the same features and topics"
        )
    if honest.held_out is None:
        raise ValueError("the second of the two was not held out; give one from differences(..., held_out=0.5)")
    known = np.isfinite(naive.z) & np.isfinite(honest.z)
    across, up = naive.z[known], honest.z[known]
    ax = new_axes(5.5, 5.2) if ax is None else ax
    ends = np.array([-1.0, 1.0]) * float(np.abs(np.concatenate([across, up, [1.0]])).max()) * 1.05
    ax.axhspan(-1.96, 1.96, color="0.94", linewidth=0, zorder=0)
    ax.plot(ends, ends, color="0.5", linewidth=0.8, linestyle=":")
    ax.plot(ends, np.sqrt(honest.held_out) * ends, color="0.5", linewidth=0.8, linestyle="--")
    ax.scatter(across, up, s=5, color="#0072B2", alpha=0.4, linewidths=0, rasterized=len(up) > MANY_POINTS)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    tidy(ax)
    beyond = [float((np.abs(z) > 1.96).mean()) if len(z) else 0.0 for z in (across, up)]
    ax.set_xlabel(f"z from the counts that made the topics ({beyond[0]:.0%} beyond ±1.96)")
    ax.set_ylabel(f"z from counts held out ({beyond[1]:.0%} beyond ±1.96)")
    return ax
