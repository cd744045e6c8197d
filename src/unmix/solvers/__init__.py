"""HOW it is optimised: one algorithm a file, one protocol, one loop."""

from unmix.deprecation import renamed_names
from unmix.models.problem import Problem, State
from unmix.models.variational import Inference
from unmix.sides import Side
from unmix.solvers.accelerate import DAAREM, SQUAREM
from unmix.solvers.alternate import Alternate
from unmix.solvers.base import HalfStep, Solver
from unmix.solvers.callbacks import Checkpoint, Log, MeasureKKT, ProgressBar, StopAfter, StopAtKKT
from unmix.solvers.cd import CCD, SCD, SN
from unmix.solvers.em import EM
from unmix.solvers.extrapolate import Extrapolate
from unmix.solvers.joint import PLSA, Joint
from unmix.solvers.newton import Newton
from unmix.solvers.online import OnlineEM, StochasticVI
from unmix.solvers.plsi import PLSI, Normalized
from unmix.solvers.run import Progress, run
from unmix.solvers.session import Trace
from unmix.solvers.sparse import SparseL1, SparseL2
from unmix.solvers.vi import CAVI, ExtrapolatedVI

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
    "ExtrapolatedVI",
    "HalfStep",
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
    "Side",
    "Solver",
    "SparseL1",
    "SparseL2",
    "State",
    "StochasticVI",
    "StopAfter",
    "StopAtKKT",
    "Trace",
    "run",
]

__getattr__ = renamed_names(__name__, {"Shrunk": "SparseL1", "Sparse": "SparseL2"})
