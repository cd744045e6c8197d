"""HOW it is optimised: one algorithm a file, one protocol, one loop."""
# ruff: noqa: F401 - it exports what it imports

from unmix.base.types import public_names
from unmix.counts.sides import Side
from unmix.models.problem import Problem, State
from unmix.models.variational import Inference
from unmix.solvers.base import FactorSolver, HalfStep, Solver
from unmix.solvers.callbacks import Checkpoint, Log, MeasureKKT, ProgressBar, StopAfter, StopAtKKT
from unmix.solvers.extrapolate import Alternate, Extrapolate
from unmix.solvers.halfsteps import CCD, EM, SCD, SN, Newton
from unmix.solvers.joint import PLSA, PLSI, Joint, Normalized, SparseL1, SparseL2
from unmix.solvers.online import OnlineEM, StochasticVI
from unmix.solvers.run import Progress, Trace, run
from unmix.solvers.vi import CAVI, ExtrapolatedVI

__all__ = public_names(globals())
