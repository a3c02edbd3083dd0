"""``protect=Chunks(...)``: sample and aggregate, for any estimator.

No row is public. What is released is one private choice among candidates, and one score, or noisy
scores of which they are functions: the mechanisms are those of protected validation records, with
the sensitivity of `chunk_sensitivity`. No model is released.
"""

from dataclasses import replace

from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import all_stated_for_groups
from skdpbo.model_selection._search_mechanism import SearchProblem
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.evaluation._chunk_training import (
    ChunkMetricTraining,
    ChunkTraining,
    chunk_metric_sensitivity,
    refuse_empty_parts,
)
from skdpbo.model_selection.evaluation._chunks import (
    ChunkedRows,
    chunk_positions,
    chunk_sensitivity,
    n_chunk_losses,
    number_of_chunks,
)
from skdpbo.model_selection.evaluation._dry_run import dry_run
from skdpbo.model_selection.protection._protection import AllRecordsProtection
from skdpbo.model_selection.protection._score_share import warn_if_score_is_noisy
from skdpbo.model_selection.protection._setup import refuse_chunk_schema
from skdpbo.model_selection.rows._overlap import refuse_rows_among_entries
from skdpbo.model_selection.scoring._resolve import resolve_chunk_scorer
from skdpbo.model_selection.scoring._score_release import MOSTLY_NOISE
from skdpbo.model_selection.scoring.metrics._protected_metrics import is_chunk_metric

__all__ = ["ChunkedProtection"]

_ASSUMPTIONS = (
    "the estimator predicts each row from that row alone",
    "what is trained on one chunk leaves nothing behind, in files or global state, that training "
    "on another can see",
    "the numbers of rows and of columns, the column names and the types (with the categories of "
    "categorical columns) are public",
    "running time and memory use are not observed",
)


class ChunkedProtection(AllRecordsProtection):
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
        self._mechanism(None)  # raises for parameters that do not go together
        super().check()

    def promise(self, n_samples):
        """Return the guarantee of the mechanism, for all records."""
        n_chunks = number_of_chunks(self.chunks, self.searcher.epsilon, n_samples)
        size = None if n_samples is None else (n_chunks, n_samples, None)
        return self._guarantee(self._mechanism(size), n_chunks)

    def planned(self, parts):
        """Settle scorer and mechanism, from public sizes; return the guarantee of records."""
        searcher, n_samples = self.searcher, parts.n_samples
        self.n_chunks = number_of_chunks(self.chunks, searcher.epsilon, n_samples)
        size = self.n_chunks, n_samples, parts.n_validation  # all that the sensitivities depend on
        refuse_chunk_schema(searcher.estimator, self.n_chunks, n_samples, *parts.containers)
        by_metric = is_chunk_metric(searcher.scoring)
        if by_metric:
            refuse_empty_parts(*size)
        refuse_rows_among_entries(parts.params, parts.containers, {n_rows(parts.X)})
        scorer = resolve_chunk_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
        self.mechanism = self._mechanism(size)
        self.mechanism.refuse_scorer(scorer)
        warn_if_score_is_noisy(self.mechanism, **self._noise_sizes(size))
        # A metric of a chunk is one loss already, however its records are grouped.
        self.scorer = scorer if parts.groups is None or by_metric else scorer.for_groups()
        return self._guarantee(self.mechanism, self.n_chunks)

    def try_publicly(self):
        """Warn of what fails on synthetic rows, and refuse noise that is too large."""
        searcher, parts = self.searcher, self.parts
        fit_params = self.routed(parts.X, parts.params)
        dry_run(searcher.estimator, self.candidates, parts.X, parts.y, self.scorer, fit_params)
        by_metric = is_chunk_metric(searcher.scoring)
        self.evaluator = (ChunkMetricTraining if by_metric else ChunkTraining)(
            estimator=searcher.estimator,
            rows=ChunkedRows(
                X=parts.X,
                y=parts.y,
                chunks=chunk_positions(parts.n_samples, self.n_chunks),
                X_val=parts.X_val,
                y_val=parts.y_val,
                groups=parts.groups,
                groups_val=parts.groups_val,
            ),
            fit_params=fit_params,
            scorer=self.scorer,
            excess_bound=self.chunks.excess_bound,
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
            verbose=searcher.verbose,
        )
        problem = self.candidates, self.evaluator, noise_source(searcher.random_state), self.space
        # Of sizes alone: too much noise is refused here.
        self.mechanism.start(SearchProblem(*problem), False)

    def run(self, charge):
        """Protected: train every candidate on every chunk and release a choice."""
        charge()
        opened = in_isolation(self.parts.opened, self.searcher.estimator)
        rows = {name: getattr(opened, name) for name in ("X", "y", "X_val", "y_val")}
        self.evaluator.rows = replace(self.evaluator.rows, **rows)  # the chunks stay
        chosen = self.mechanism.search_unguided()
        columns = getattr(opened.X, "shape", ())[1:]  # public, as all of the schema
        n_features = {"n_features_in_": columns[0]} if columns else {}
        return replace(chosen, attributes=chosen.attributes | n_features)

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

    def _guarantee(self, mechanism, n_chunks):
        return replace(
            mechanism.guarantee,
            protects="training and validation records",
            mechanism=f"{mechanism.guarantee.mechanism}, aggregated over {n_chunks} chunks",
            assumptions=_ASSUMPTIONS,
            reference=f"{mechanism.guarantee.reference}; Nissim, Raskhodnikova & Smith 2007; "
            "docs/theory/sample_and_aggregate.md",
        )
