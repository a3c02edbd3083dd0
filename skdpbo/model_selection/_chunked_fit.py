"""``protect="all"`` with ``n_chunks``: sample and aggregate, for any estimator.

No row is public. What is released is one private choice among candidates, and one score, or noisy
scores of which they are functions: the mechanisms are those of protected validation records, with
the sensitivity of `chunk_sensitivity`.
"""

import warnings
from dataclasses import dataclass, replace

from sklearn.metrics import check_scoring

from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._chunk_losses import chunk_losses
from skdpbo.model_selection._chunk_refusals import refuse_options, refuse_parts, refuse_schema
from skdpbo.model_selection._chunks import (
    ChunkedRows,
    as_chunks,
    chunk_positions,
    chunk_sensitivity,
    clipped_excess,
    excess_cap,
    excess_sensitivity,
    n_chunk_losses,
)
from skdpbo.model_selection._dry_run import dry_run
from skdpbo.model_selection._objects import as_objects, list_width
from skdpbo.model_selection._opening import check_rows, warn_if_score_is_noisy
from skdpbo.model_selection._running_search import RunningSearch
from skdpbo.model_selection._scores import resolve_scorer
from skdpbo.model_selection._shared_rows import (
    refuse_rows_among_entries,
    refuse_shared_rows,
    with_disjoint_parts,
)
from skdpbo.model_selection._sklearn import masked_param_columns, n_rows, take_method_params
from skdpbo.privacy import charge_active_ledger

__all__ = ["CHUNK_ASSUMPTIONS", "chunked_guarantee", "fit_chunked"]

CHUNK_ASSUMPTIONS = (
    "the estimator predicts each row from that row alone",
    "what is trained on one chunk leaves nothing behind, in files or global state, that training "
    "on another can see",
    "the numbers of rows and of columns, the column names and the types (with the categories of "
    "categorical columns) are public",
    "running time and memory use are not observed",
)


def chunked_guarantee(searcher):
    """What `fit_chunked` promises with secret noise; the caller voids it for seeded runs."""
    choice, n_chunks = searcher._guarantee(), as_chunks(searcher.n_chunks).n_chunks
    return replace(
        choice,
        protects="training and validation records",
        mechanism=f"{choice.mechanism}, aggregated over {n_chunks} chunks",
        assumptions=CHUNK_ASSUMPTIONS,
        reference=f"{choice.reference}; Nissim, Raskhodnikova & Smith 2007; "
        "docs/theory/sample_and_aggregate.md",
    )


def fit_chunked(searcher, candidates, X, y, X_val, y_val, params):
    """Fit a searcher with ``protect="all"`` and ``n_chunks``; sets its fitted attributes.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    candidates : list of dict
    X, y, X_val, y_val, params
        As given to ``fit``. Without `X_val` each model is scored on the rows outside its chunk.
    """
    refuse_options(searcher, params)
    refuse_parts(searcher.estimator, candidates)
    X, y, X_val = check_rows(X, y, X_val, y_val)
    n_chunks = as_chunks(searcher.n_chunks).n_chunks
    refuse_schema(searcher.estimator, n_chunks, X, y, X_val, y_val)
    refuse_shared_rows(X, X_val)
    refuse_rows_among_entries(params, [X, y, X_val, y_val], {n_rows(X)})
    scorer = resolve_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
    fit_params = _routed(searcher, X, params)
    dry_run(searcher.estimator, candidates, X, y, scorer)
    _warn_of_noise(searcher, n_chunks, n_rows(X), X_val)
    guarantee = with_disjoint_parts(searcher.privacy_guarantee(n_rows(X)), X_val)
    charge_active_ledger(guarantee, type(searcher).__name__, searcher)
    with searcher._all_or_nothing():
        chunks = chunk_positions(n_rows(X), n_chunks)
        width = list_width(X)
        X, X_val = as_objects(X, width), as_objects(X_val, width)
        rows = ChunkedRows(X, y, chunks, X_val, y_val)
        search = _running_search(searcher, candidates, rows, scorer, fit_params)
        candidates, best, score, columns = searcher._search_chunks(search)
    searcher._forget()  # what an earlier fit has set
    searcher.multimetric_ = False
    searcher.best_index_, searcher.best_params_ = best, candidates[best]
    searcher.cv_results_ = {**masked_param_columns(candidates), "params": candidates, **columns}
    if score is not None:
        searcher.best_score_ = score
    searcher.scorer_ = (
        check_scoring(searcher.estimator, None) if searcher.scoring is None else scorer
    )
    searcher.privacy_ = guarantee


@dataclass(frozen=True, kw_only=True)
class ChunkedSearch(RunningSearch):
    """A running search whose totals come from chunks.

    Attributes
    ----------
    losses : callable
        ``losses(indices)``: protected total loss of each model, shape (n_candidates, n_chunks).
    rows : ChunkedRows
    excess_bound : float or None
        See `Chunks`.
    """

    losses: object
    rows: ChunkedRows
    excess_bound: float | None

    def release(self, choice):
        """Release (index of the choice among all candidates, total loss or None)."""
        losses = self.losses(range(len(self.candidates)))
        totals = [sum(of_models) for of_models in losses]
        compared, sensitivity = self._compared(losses, totals)
        index = choice.choose(
            compared, [0] * len(totals), sensitivity=sensitivity, source=self.source
        )
        return index, choice.score(
            totals[index],
            sensitivity=self.sensitivity,
            largest=self.n_records * self.scorer.units,
            source=self.source,
        )

    def _compared(self, losses, totals):
        """Integers by which candidates are chosen, and what one record can move of them."""
        if self.excess_bound is None:
            return totals, self.sensitivity
        units, (k, _, m) = self.scorer.units, self.rows.size
        cap = excess_cap(units, self.excess_bound, *self.rows.size)
        return clipped_excess(losses, cap), excess_sensitivity(units, cap, k, m)


def _running_search(searcher, candidates, rows, scorer, fit_params):
    def losses(indices):
        return chunk_losses(
            searcher.estimator,
            [candidates[k] for k in indices],
            rows,
            scorer=scorer,
            fit_params=fit_params,
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
        )

    return ChunkedSearch(
        X=None,
        candidates=candidates,
        totals=lambda indices, **how: [sum(of_models) for of_models in losses(indices)],
        losses=losses,
        rows=rows,
        excess_bound=as_chunks(searcher.n_chunks).excess_bound,
        scorer=scorer,
        n_records=n_chunk_losses(*rows.size),
        sensitivity=chunk_sensitivity(scorer.units, *rows.size),
        source=noise_source(searcher.random_state),
        design={},
    )


def _warn_of_noise(searcher, n_chunks, n_samples, X_val):
    size = (n_chunks, n_samples, None if X_val is None else n_rows(X_val))
    warn_if_score_is_noisy(
        searcher,
        sensitivity=chunk_sensitivity(1, *size),
        largest=n_chunk_losses(*size),
        stacklevel=4,
    )


def _routed(searcher, X, params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # weights of scores: records are scored with equal weights
        return searcher._get_routed_params_for_fit(take_method_params(X, params)).estimator.fit
