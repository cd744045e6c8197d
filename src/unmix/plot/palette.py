"""Colours of topics, as hex strings: one palette for pictures, the terminal and web pages. Needs no matplotlib."""

from __future__ import annotations

from math import cos, gcd, radians, sin

from unmix.analysis import topic_order
from unmix.fit import Fit

# Okabe and Ito's colours, with yellow and black toned to be read on white, in an order that keeps neighbours
# far apart in normal sight and in every kind of colour blindness.
SAFE = ("#0072B2", "#E69F00", "#56B4E9", "#D55E00", "#4D4D4D", "#009E73", "#E0D040", "#CC79A7")


def palette(n: int) -> list[str]:
    """Colours of which neighbours are distinct: up to 8 safe for the colour-blind, beyond even hues of alternating lightness.

    Parameters
    ----------
    n : int
        How many.

    Returns
    -------
    list of str
        "#RRGGBB".

    Examples
    --------
    >>> palette(3)
    ['#0072B2', '#E69F00', '#56B4E9']
    """
    if n <= len(SAFE):
        return list(SAFE[:n])
    # Walking round the circle of hues in strides of about 3/8 visits each hue once and never a near one next.
    stride = next(step for step in range(round(0.38 * n), n) if gcd(step, n) == 1)
    return [_oklch((0.50, 0.74)[i % 2], 0.13, 360 * (i * stride % n) / n + 30) for i in range(n)]


def topic_colours(fit: Fit) -> list[str]:
    """The colour of each topic, given out in `topic_order` so that neighbours in a stack differ most.

    Parameters
    ----------
    fit : Fit
        Of any model.

    Returns
    -------
    list of str
        "#RRGGBB", one a topic.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.plot.topic_colours(fit)
    ['#0072B2', '#E69F00']
    """
    colours = [""] * fit.n_topics
    for topic, colour in zip(topic_order(fit), palette(fit.n_topics), strict=True):
        colours[topic] = colour
    return colours


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the perceptual space OKLCH (Ottosson 2020), clipped to what a screen can show."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{_byte(channel):02X}" for channel in linear)


def _byte(linear: float) -> int:
    clipped = min(max(linear, 0.0), 1.0)
    return round(255 * (12.92 * clipped if clipped <= 0.0031308 else 1.055 * clipped ** (1 / 2.4) - 0.055))
