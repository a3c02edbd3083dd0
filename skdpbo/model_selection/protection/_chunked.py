"""``protect=Chunks(...)``: sample and aggregate, for any estimator.

No row is public. What is released is one private choice among candidates, and one score, or noisy
scores of which they are functions: the mechanisms are those of protected validation records, with
the sensitivity of `chunk_sensitivity`. No model is released.
"""

from dataclasses import replace

from sklearn.base import is_classifier

from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import all_stated_for_groups
from skdpbo.model_selection._search_mechanism import SearchProblem
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.evaluation._chunk_metrics import (
    ChunkMetricTraining,
    chunk_metric_sensitivity,
    refuse_empty_parts,
)
from skdpbo.model_selection.evaluation._chunk_training import ChunkTraining
from skdpbo.model_selection.evaluation._chunks import (
    ChunkedRows,
    chunk_positions,
    chunk_sensitivity,
    n_chunk_losses,
    number_of_chunks,
)
from skdpbo.model_selection.evaluation._dry_run import dry_run
from skdpbo.model_selection.protection._options import (
    refuse_chunk_schema,
    refuse_options_of_public_rows,
    refuse_telling_parts,
)
from skdpbo.model_selection.protection._protection import Protection, Release, table_of
from skdpbo.model_selection.protection._setup import (
    MOSTLY_NOISE,
    check_rows,
    groups_of_all,
    warn_if_score_is_noisy,
)
from skdpbo.model_selection.rows._object_table import as_objects, list_width
from skdpbo.model_selection.rows._overlap import (
    entries_assumption,
    refuse_rows_among_entries,
    refuse_shared_rows,
    with_disjoint_parts,
)
from skdpbo.model_selection.rows._settled_types import settled_rows, settled_targets
from skdpbo.model_selection.rows._units import number_of_units
from skdpbo.model_selection.scoring._resolve import resolve_chunk_scorer
from skdpbo.model_selection.scoring.metrics._chunk_metric import is_chunk_metric

__all__ = ["ChunkedProtection"]

_ASSUMPTIONS = (
    "the estimator predicts each row from that row alone",
    "what is trained on one chunk leaves nothing behind, in files or global state, that training "
    "on another can see",
    "the numbers of rows and of columns, the column names and the types (with the categories of "
    "categorical columns) are public",
    "running time and memory use are not observed",
)


class ChunkedProtection(Protection):
    """Every record is protected; any estimator is trained on disjoint chunks of them.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    chunks : Chunks
    """

    def __init__(self, searcher, chunks):
        super().__init__(searcher)
        self.chunks = chunks

    def check(self):
        """Refuse options that would be releases of their own, or need public rows."""
        self._mechanism(None)
        refuse_options_of_public_rows(self.searcher)
        refuse_telling_parts(self.searcher.estimator, self.candidates)

    def promise(self, n_samples):
        """Return the guarantee of the mechanism, for all records."""
        mechanism = self._mechanism(self._size(n_samples, None))
        return self._guarantee(mechanism, n_samples)

    def search(self, rows, params):
        """Train every candidate on every chunk and release a choice."""
        searcher = self.searcher
        X, y, X_val, y_val, groups_val = rows
        X, y, X_val = check_rows(X, y, X_val, y_val, groups_val)
        groups, groups_val = groups_of_all(params, X, X_val, groups_val)
        params = {name: entry for name, entry in params.items() if name != "groups"}
        n_samples = number_of_units(X, groups)
        size = self._size(n_samples, None if X_val is None else number_of_units(X_val, groups_val))
        refuse_chunk_schema(searcher.estimator, size[0], n_samples, X, y, X_val, y_val)
        by_metric = is_chunk_metric(searcher.scoring)
        if by_metric:
            refuse_empty_parts(*size)
        refuse_shared_rows(X, X_val)
        refuse_rows_among_entries(params, [X, y, X_val, y_val], {n_rows(X)})
        scorer = resolve_chunk_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
        mechanism = self._mechanism(size)
        mechanism.refuse_scorer(scorer)
        warn_if_score_is_noisy(mechanism, **self._noise_sizes(size))
        guarantee = with_disjoint_parts(self._guarantee(mechanism, n_samples), X_val)
        if groups is not None:
            guarantee = self.for_groups(guarantee)
            scorer = scorer if by_metric else scorer.for_groups()
        entries = entries_assumption(params, n_rows(X), None)
        guarantee = self.stated(guarantee, n_samples + (size[2] or 0), entries=entries)
        self.check_budget(guarantee, own_rows=X_val is not None)
        fit_params = self.routed(X, params)
        dry_run(searcher.estimator, self.candidates, X, y, scorer, fit_params)
        with self.all_or_nothing():
            # before any protected value is read
            self.charge(guarantee, own_rows=X_val is not None)
            width, labels = list_width(X), is_classifier(searcher.estimator)
            evaluator = (ChunkMetricTraining if by_metric else ChunkTraining)(
                estimator=searcher.estimator,
                rows=ChunkedRows(
                    settled_rows(as_objects(X, width)),
                    settled_targets(y, labels),
                    chunk_positions(n_samples, size[0]),
                    settled_rows(as_objects(X_val, width)),
                    settled_targets(y_val, labels),
                    groups,
                    groups_val,
                ),
                fit_params=fit_params,
                scorer=scorer,
                excess_bound=self.chunks.excess_bound,
                n_jobs=searcher.n_jobs,
                pre_dispatch=searcher.pre_dispatch,
                verbose=searcher.verbose,
            )
            source = noise_source(searcher.random_state)
            mechanism.start(SearchProblem(self.candidates, evaluator, source, self.space), False)
            chosen = mechanism.search_unguided()
        self.forget()  # what an earlier fit has set
        columns = getattr(X, "shape", (None, width))[1:]
        n_features = {} if columns in ((), (None,)) else {"n_features_in_": columns[0]}
        return Release(
            guarantee=guarantee,
            table=table_of(chosen.candidates) | chosen.columns,
            index=chosen.index,
            score=chosen.score,
            scorer=scorer,
            attributes={"multimetric_": False} | n_features,
        )

    def _mechanism(self, size):
        """Return the mechanism; by default no score that would be mostly noise is paid for."""
        searcher = self.searcher
        mechanism = searcher._mechanism(guided=False)
        if size is None or searcher.score_fraction != "auto":
            return mechanism
        noisy = mechanism.score_noise(**self._noise_sizes(size)) > MOSTLY_NOISE
        return searcher._mechanism(guided=False, score_fraction=0.0) if noisy else mechanism

    def _noise_sizes(self, size):
        """Return what one record can move of a total of losses of 1, and the largest total."""
        if is_chunk_metric(self.searcher.scoring):
            return {"sensitivity": chunk_metric_sensitivity(1), "largest": size[0]}
        return {"sensitivity": chunk_sensitivity(1, *size), "largest": n_chunk_losses(*size)}

    def for_groups(self, guarantee):
        """Return the guarantee of chunks that divide no group, for all records of a group."""
        return all_stated_for_groups(guarantee)

    def _size(self, n_samples, n_validation):
        """Return (k, n, m), all that the sensitivities depend on; None without n."""
        if n_samples is None:
            return None
        n_chunks = number_of_chunks(self.chunks, self.searcher.epsilon, n_samples)
        return n_chunks, n_samples, n_validation

    def _guarantee(self, mechanism, n_samples):
        n_chunks = number_of_chunks(self.chunks, self.searcher.epsilon, n_samples)
        return replace(
            mechanism.guarantee,
            protects="training and validation records",
            mechanism=f"{mechanism.guarantee.mechanism}, aggregated over {n_chunks} chunks",
            assumptions=_ASSUMPTIONS,
            reference=f"{mechanism.guarantee.reference}; Nissim, Raskhodnikova & Smith 2007; "
            "docs/theory/sample_and_aggregate.md",
        )
