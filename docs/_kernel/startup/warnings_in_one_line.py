"""Warnings say what they have to say, without the path of a file that was made for the build."""

import warnings

warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"
