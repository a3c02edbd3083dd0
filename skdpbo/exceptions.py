"""Warnings and errors of skdpbo. Their messages never contain a protected value."""

__all__ = [
    "BudgetExceededError",
    "DefaultBoundsWarning",
    "DryRunWarning",
    "FlatLossWarning",
    "HiddenColumnsWarning",
    "KernelUnitsWarning",
    "LedgerError",
    "LedgerUnavailableError",
    "LowBoundWarning",
    "NewBudgetWarning",
    "NoisyGradientWarning",
    "NoisyRowsWarning",
    "NoisyScoreWarning",
    "OutsideBoundsWarning",
    "PublicTrainingWarning",
    "ScoreGapWarning",
    "SeededNoiseWarning",
    "SelectionCostWarning",
    "SkdpboWarning",
    "UnboundedSensitivityError",
    "UnreachedRowsWarning",
    "VoidGuaranteeWarning",
    "WideBoundsWarning",
]


class SkdpboWarning(UserWarning):
    """Base class of the warnings of skdpbo, so that one filter silences or raises them all."""


class DefaultBoundsWarning(SkdpboWarning):
    """A bound was not given, or no range found, and a data-independent default is used."""


class DryRunWarning(SkdpboWarning):
    """A fit fails on synthetic rows. A failure on protected rows would be silent."""


class FlatLossWarning(SkdpboWarning):
    """A loss has no gradient to follow on the public rows: it is flat, in steps or noisy."""


class HiddenColumnsWarning(SkdpboWarning):
    """By what was released, noise hides some columns: their spread, or each of their categories."""


class KernelUnitsWarning(SkdpboWarning):
    """A given kernel can hardly follow targets in the public bounds: its units are others."""


class LowBoundWarning(SkdpboWarning):
    """Many public records lose more than counts, or the bound makes R2 or D2 wrong."""


class NewBudgetWarning(SkdpboWarning):
    """A ledger opens a budget for a data set whose name resembles an existing one."""


class NoisyGradientWarning(SkdpboWarning):
    """Gradients, or the models behind them, are noisy: too few records for the steps."""


class NoisyRowsWarning(SkdpboWarning):
    """The noise of released rows is larger than any row: the displacement is in other units."""


class NoisyScoreWarning(SkdpboWarning):
    """The noise of ``best_score_`` is large beside its range or the public loss: few records."""


class OutsideBoundsWarning(SkdpboWarning):
    """By what was released, nearly all records are near or beyond one end of public bounds."""


class PublicTrainingWarning(SkdpboWarning):
    """Rows are treated as public: some of those passed to ``fit``, or those of a private model."""


class ScoreGapWarning(SkdpboWarning):
    """A released score is far below the public one: the rows are not of one population."""


class SeededNoiseWarning(SkdpboWarning):
    """The privacy noise is reproducible, hence not secret, and the guarantee is void."""


class SelectionCostWarning(SkdpboWarning):
    """Releasing every candidate's score would need less noise than private selection."""


class UnreachedRowsWarning(SkdpboWarning):
    """By what was released, most records are far from the inducing points of the model."""


class VoidGuaranteeWarning(SkdpboWarning):
    """A release has no guarantee, for the reason given in the message."""


class WideBoundsWarning(SkdpboWarning):
    """By what was released, the records fill a small part of their public bounds."""


class BudgetExceededError(RuntimeError):
    """A release would exceed the budget of a privacy ledger. No protected value was read."""


class LedgerError(RuntimeError):
    """A privacy ledger cannot be read or written, so that no release is allowed.

    Parameters
    ----------
    message : str, default=""
        Description of the failure.
    path : str, default=None
        The ledger's file, if it has one.
    """

    def __init__(self, message: str = "", path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class LedgerUnavailableError(LedgerError):
    """The ledger of a fit cannot be reached from this process, and the fit is refused.

    Parameters
    ----------
    message : str, default=""
        Description of the failure.
    path : str, default=None
        The ledger's file, if it has one.
    """


class UnboundedSensitivityError(ValueError):
    """A metric has no bound on the influence of one record, so noise cannot hide it."""
