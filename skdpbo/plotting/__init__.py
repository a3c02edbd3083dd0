"""Plots of what was released: they read public and released values of fitted objects only.

Each display has ``from_estimator`` (or another constructor that says what it takes) and ``plot``,
as those of scikit-learn. Matplotlib is imported when something is drawn, not before.
"""

from skdpbo.plotting._budget import BudgetDisplay
from skdpbo.plotting._posterior import GPPosteriorDisplay
from skdpbo.plotting._privacy_utility import PrivacyUtilityDisplay
from skdpbo.plotting._search_trace import SearchTraceDisplay

__all__ = [
    "BudgetDisplay",
    "GPPosteriorDisplay",
    "PrivacyUtilityDisplay",
    "SearchTraceDisplay",
]
