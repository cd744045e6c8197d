"""The programs compared, each behind the same three functions so that a command need not know which one it times.

A peer is given counts X (n x m, CSR, integers) and a start (L0, F0), and approximates X by the rates L Fᵀ.
Its library is imported only when the peer is used; `benchmarks.commands` prints why a peer was skipped.
"""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

MODULES = ("unmix_solvers", "sklearn_mu", "sklearn_minibatch", "poismf_tncg", "gensim_nmf")


class Peer(Protocol):
    """One program. `requires` is imported before the clock starts; `note` goes into its row of the table."""

    name: str
    requires: str
    note: str

    def prepare(self, X: sp.csr_matrix, L0: np.ndarray, F0: np.ndarray) -> Any:
        """Whatever set-up the program needs before its first iteration (timed); returns its problem object."""

    def run(self, problem: Any, iterations: int) -> None:
        """Run this many iterations from the start, as one ordinary call of the library, and keep the result."""

    def factors(self, problem: Any) -> tuple[np.ndarray, np.ndarray]:
        """(L, F) of the last run on the Poisson scale: L is n x K, F is m x K (not timed)."""


class TracedPeer(Peer, Protocol):
    """A program that also says where it was after every iteration, so that one run gives its whole curve."""

    def trace(self, problem: Any) -> tuple[np.ndarray, np.ndarray]:
        """Seconds since `run` was called and log-likelihood: at the start, then after every iteration."""


def all_peers() -> dict[str, Peer]:
    """Every peer by name, in the order of the tables."""
    modules = (import_module(f"benchmarks.peers.{module}") for module in MODULES)
    return {peer.name: peer for module in modules for peer in module.PEERS}
