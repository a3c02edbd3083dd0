"""Display of a ledger: composed epsilon after each charge."""

import textwrap
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skdpbo.plotting._axes import PRIVATE, PUBLIC, TITLE_WIDTH, axes_for, plain
from skdpbo.privacy import PrivacyLedger
from skdpbo.privacy._composed_losses import composed_epsilon
from skdpbo.privacy._replace_one import in_one_relation

_MOST_LABELS = 24  # largest number of labels on the axis
_LABEL_WIDTH = 32  # characters of a line


@dataclass(eq=False, kw_only=True, repr=False)
class BudgetDisplay:
    """Composed epsilon after each charge of a ledger, against its budget.

    Parameters
    ----------
    spent : ndarray of shape (n_charges,)
        Composed epsilon after each charge, at the delta of the ledger. Public.
    labels : list of str, length n_charges
        Label of each charge.
    budget : float
        Total epsilon.
    delta : float
        Delta at which epsilon is composed.
    dataset : str, default=""
        Name of the data set whose budget it is, for the title.

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

    spent: np.ndarray
    labels: list[str]
    budget: float
    delta: float
    dataset: str = ""

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw a ledger.

        Parameters
        ----------
        ledger : PrivacyLedger
            Ledger to show; nothing is charged.
        ax : matplotlib Axes, default=None
            Default: new axes.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : BudgetDisplay
            The drawn display.
        """
        entries = ledger.entries
        guarantees = [entry.guarantee for entry in entries]
        delta = float(ledger.delta)
        # A void guarantee counts with its stated epsilon, as in the ledger. All charges so far are
        # composed, which costs less than their sum.
        counts = range(1, len(guarantees) + 1)
        spent = [composed_epsilon(in_one_relation(guarantees[:k]), delta) for k in counts]
        display = cls(
            spent=np.array(spent),
            labels=[entry.label for entry in entries],
            budget=float(ledger.epsilon),
            delta=delta,
            dataset=ledger.dataset,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Default: new axes.

        Returns
        -------
        display : BudgetDisplay
            The drawn display.
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
        labelled = charges[:: 1 + len(charges) // _MOST_LABELS]
        names = ["", *(plain(textwrap.fill(label, _LABEL_WIDTH)) for label in self.labels)]
        self.ax_.set_xticks(labelled, [names[k] for k in labelled], rotation=30, ha="right")
        if self.dataset:
            self.ax_.set_title(plain(textwrap.fill(f"data set {self.dataset!r}", TITLE_WIDTH)))
        self.ax_.legend()
        return self
