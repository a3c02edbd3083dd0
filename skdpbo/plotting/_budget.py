"""What has been spent of a budget, charge by charge."""

import numpy as np

from skdpbo.plotting._axes import PRIVATE, PUBLIC, axes_for
from skdpbo.privacy import compose

__all__ = ["BudgetDisplay"]


class BudgetDisplay:
    """The composed epsilon after each charge of a ledger, against its budget.

    Parameters
    ----------
    spent : ndarray of shape (n_charges,)
        Composed epsilon after each charge, at the delta of the ledger. Public.
    labels : list of str, length n_charges
        What was charged.
    budget : float
        Total epsilon.
    delta : float
        At which delta epsilon is counted.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    steps_ : list of Artist
    budget_ : Line2D

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skdpbo.plotting import BudgetDisplay
    >>> from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    >>> for _ in range(4):
    ...     ledger.charge(PrivacyGuarantee(epsilon=0.5), label="choice of C")
    >>> display = BudgetDisplay.from_ledger(ledger)
    >>> [round(float(value), 2) for value in display.spent]
    [0.5, 1.0, 1.5, 2.0]
    """

    def __init__(self, *, spent, labels, budget, delta):
        self.spent = spent
        self.labels = labels
        self.budget = budget
        self.delta = delta

    @classmethod
    def from_ledger(cls, ledger, *, ax=None, **kwargs):
        """Draw a ledger.

        Parameters
        ----------
        ledger : PrivacyLedger
            Its charges are read, and nothing is charged.
        ax : matplotlib Axes, default=None
            New ones by default.
        **kwargs : dict
            Given to `plot`.

        Returns
        -------
        display : BudgetDisplay
            The display, drawn.
        """
        entries = ledger.entries
        guarantees = [entry.guarantee for entry in entries]
        delta = float(ledger.delta)
        spent = [_epsilon(guarantees[: k + 1], delta) for k in range(len(guarantees))]
        display = cls(
            spent=np.array(spent),
            labels=[entry.label for entry in entries],
            budget=float(ledger.epsilon),
            delta=delta,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            New ones by default.

        Returns
        -------
        display : BudgetDisplay
            The display, drawn.
        """
        self.figure_, self.ax_ = axes_for(ax, type(self).__name__)
        charges = np.arange(len(self.spent) + 1)
        spent = np.concatenate([[0.0], self.spent])
        self.steps_ = [
            self.ax_.fill_between(charges, spent, step="post", color=PRIVATE, alpha=0.2),
            *self.ax_.step(charges, spent, where="post", color=PRIVATE, marker="o", label="spent"),
        ]
        self.budget_ = self.ax_.axhline(self.budget, color=PUBLIC, linestyle="--", label="budget")
        self.ax_.set(
            xlabel="charges",
            ylabel="ε, composed" + (f", at δ = {self.delta:.3g}" if self.delta else ""),
            ylim=(0, 1.05 * max(self.budget, *spent)),
        )
        self.ax_.set_xticks(charges, ["", *self.labels], rotation=30, ha="right")
        self.ax_.legend()
        return self


def _epsilon(guarantees, delta):
    """Composed epsilon at a delta; a void guarantee counts what it claims."""
    return compose(*guarantees, delta=delta).epsilon
