"""HOW it is optimised: one algorithm a file, one protocol, one loop."""

from unmix.solvers.accelerate import DAAREM, SQUAREM
from unmix.solvers.alternate import Alternate
from unmix.solvers.base import Problem, Side, State
from unmix.solvers.callbacks import Checkpoint, Log, MeasureKKT, ProgressBar, StopAfter, StopAtKKT
from unmix.solvers.cd import CCD, SCD, SN
from unmix.solvers.em import EM
from unmix.solvers.extrapolate import Extrapolate
from unmix.solvers.joint import PLSA, Joint
from unmix.solvers.newton import Newton
from unmix.solvers.online import OnlineEM, StochasticVI
from unmix.solvers.plsi import PLSI, Normalized
from unmix.solvers.run import Progress, Trace, run
from unmix.solvers.sparse import Shrunk, Sparse
from unmix.solvers.vi import CAVI, Inference

__all__ = [
    "CAVI",
    "CCD",
    "DAAREM",
    "EM",
    "PLSA",
    "PLSI",
    "SCD",
    "SN",
    "SQUAREM",
    "Alternate",
    "Checkpoint",
    "Extrapolate",
    "Inference",
    "Joint",
    "Log",
    "MeasureKKT",
    "Newton",
    "Normalized",
    "OnlineEM",
    "Problem",
    "Progress",
    "ProgressBar",
    "Shrunk",
    "Side",
    "Sparse",
    "State",
    "StochasticVI",
    "StopAfter",
    "StopAtKKT",
    "Trace",
    "run",
]
