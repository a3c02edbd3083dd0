"""Evaluators of candidates, made by hand."""

from _support.internals import (
    ChunkTraining,
    PublicTraining,
    in_isolation,
    losses_of,
    trial_score,
)
from skdpbo.mechanisms import noise_source

__all__ = ["chunk_training", "public_training", "score_of_trial", "total_loss"]


def public_training(estimator, X, y, protected, scorer, **options):
    """Return an evaluator whose candidates are trained on X and y and scored on `protected`."""
    usual = {"fit_params": {}, "raise_errors": True, "n_jobs": None, "pre_dispatch": "2*n_jobs"}
    records = {
        "n_losses": len(protected.unreadable),
        "open_records": lambda: protected,
        "trials": [],
    }
    records |= {"candidates": [], "source": noise_source()}
    given = {"estimator": estimator, "X": X, "y": y, "scorer": scorer}
    return PublicTraining(**usual | given | records | options)


def chunk_training(estimator, rows, scorer, **options):
    """Return an evaluator whose candidates are trained on the chunks of `rows`."""
    usual = {"fit_params": {}, "excess_bound": None, "n_jobs": None, "pre_dispatch": "2*n_jobs"}
    return ChunkTraining(
        **usual | {"estimator": estimator, "rows": rows, "scorer": scorer} | options
    )


def total_loss(model, rows, scorer):
    """Return the exact total loss of a trained model."""
    return int(in_isolation(losses_of, model, rows, scorer).sum())


def score_of_trial(*args, **how):
    """Return the value of a private score, without its standard deviation."""
    return trial_score(*args, **how).value
