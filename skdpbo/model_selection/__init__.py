"""Private counterparts of scikit-learn's hyper-parameter searchers."""

from skdpbo.model_selection._bayes import DPBayesSearchCV
from skdpbo.model_selection._gibo import DPGIBOSearchCV
from skdpbo.model_selection._grid import DPGridSearchCV
from skdpbo.model_selection._randomized import DPRandomizedSearchCV
from skdpbo.model_selection.bayes._gaussian_trajectory import GaussianTrajectory
from skdpbo.model_selection.evaluation._chunks import Chunks
from skdpbo.model_selection.gibo._settings import Descent, GradientSurrogate
from skdpbo.model_selection.papers._kusner2015 import Kusner2015
from skdpbo.model_selection.papers._kusner_lipschitz import Kusner2015Lipschitz
from skdpbo.model_selection.private_training._selection_rules import PrivateSelection
from skdpbo.model_selection.scoring._log_density import make_log_density_scorer
from skdpbo.model_selection.scoring._scorer import PerRecordScorer
from skdpbo.model_selection.scoring._user_loss import make_per_record_scorer

__all__ = [
    "Chunks",
    "DPBayesSearchCV",
    "DPGIBOSearchCV",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "Descent",
    "GaussianTrajectory",
    "GradientSurrogate",
    "Kusner2015",
    "Kusner2015Lipschitz",
    "PerRecordScorer",
    "PrivateSelection",
    "make_log_density_scorer",
    "make_per_record_scorer",
]
