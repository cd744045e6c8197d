"""unmix takes matrices of counts apart into topics: X ≈ L Fᵀ.

Poisson NMF, the multinomial topic model and their relatives share one likelihood, and here one set of fast solvers.

>>> import unmix as um
>>> model = um.TopicModel(n_components=8, random_state=0).fit(um.datasets.sotu())
>>> model.result_.status
'converged'
"""

import lazy_loader

__version__ = "0.2.0"

# The names are in __init__.pyi. Each is imported when it is first asked for, so that `unmix info` does not wait for scikit-learn.
__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted({*_names, "__version__"} - {"sc"})  # which needs anndata


def __dir__() -> list[str]:
    return [*__all__, "sc"]
