"""Plots of public and released values of fitted objects.

Like those of scikit-learn, each display has a constructor such as ``from_estimator`` and a method
``plot``. Matplotlib is imported when a plot is drawn.
"""

from skdpbo.plotting._budget_display import BudgetDisplay
from skdpbo.plotting._posterior_display import GPPosteriorDisplay
from skdpbo.plotting._privacy_utility import PrivacyUtilityDisplay
from skdpbo.plotting._search_trace import SearchTraceDisplay

__all__ = [
    "BudgetDisplay",
    "GPPosteriorDisplay",
    "PrivacyUtilityDisplay",
    "SearchTraceDisplay",
]
