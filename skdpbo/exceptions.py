"""Warnings and errors of skdpbo. None of them ever carries a protected value."""

__all__ = [
    "BudgetExceededError",
    "DefaultBoundsWarning",
    "DryRunWarning",
    "LedgerError",
    "NewBudgetWarning",
    "NoisyGradientWarning",
    "NoisyScoreWarning",
    "PublicTrainingWarning",
    "SeededNoiseWarning",
    "SelectionCostWarning",
    "SkdpboWarning",
    "UnboundedSensitivityError",
    "VoidGuaranteeWarning",
]


class SkdpboWarning(UserWarning):
    """Base class of the warnings of skdpbo, so that one filter silences or raises them all."""


class DefaultBoundsWarning(SkdpboWarning):
    """A bound was not given; a default that does not look at the data is used instead."""


class DryRunWarning(SkdpboWarning):
    """A fit fails on synthetic rows; a failure on protected rows would not be told."""


class NewBudgetWarning(SkdpboWarning):
    """A ledger file gets a budget for a new data set whose name is close to one it has."""


class NoisyGradientWarning(SkdpboWarning):
    """The noise is large beside the clipping norm: few records for the steps and dimensions."""


class NoisyScoreWarning(SkdpboWarning):
    """The noise of ``best_score_`` is large beside its range: few records for the budget."""


class PublicTrainingWarning(SkdpboWarning):
    """Some of the rows passed to ``fit`` are treated as public and are not protected."""


class SeededNoiseWarning(SkdpboWarning):
    """The privacy noise is reproducible, so it is not secret and the guarantee is void."""


class SelectionCostWarning(SkdpboWarning):
    """Publishing the score of every candidate would need less noise than a private selection."""


class VoidGuaranteeWarning(SkdpboWarning):
    """A release carries no guarantee, for the reason given in the message."""


class BudgetExceededError(RuntimeError):
    """A release would spend more than a privacy ledger allows; nothing was touched."""


class LedgerError(RuntimeError):
    """A privacy ledger cannot be read or written, so nothing may be charged to it or released.

    Parameters
    ----------
    message : str, default=""
        What went wrong.
    path : str, default=None
        The ledger's file, if it has one.
    """

    def __init__(self, message: str = "", path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class UnboundedSensitivityError(ValueError):
    """A metric has no bound on what one record can change, so noise cannot hide the record."""
