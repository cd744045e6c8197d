"""Files and embedded data sets -> Counts; fits -> files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["datasets"])
