"""``protect=Chunks(...)``: sample and aggregate, for any estimator.

No row is public. The releases are a private choice among candidates and a score, or noisy scores
from which both are computed: the mechanisms are those of protected validation records, with the
sensitivity of `chunk_sensitivity`. No model is released.
"""

import numbers
from dataclasses import replace

from sklearn.base import is_classifier
from sklearn.utils import get_tags

from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._parameters import warn_caller
from skdpbo._schema import kind_of_type, public_shape
from skdpbo.exceptions import DryRunWarning, SkdpboWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import for_groups_of_all_records
from skdpbo.model_selection._search_mechanism import SearchProblem
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.evaluation._chunk_training import (
    ChunkMetricTraining,
    ChunkTraining,
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
from skdpbo.model_selection.protection._setup import refuse_complex
from skdpbo.model_selection.rows._overlap import refuse_rows_among_entries
from skdpbo.model_selection.rows._protected import check_schema
from skdpbo.model_selection.scoring._resolve import resolve_chunk_scorer
from skdpbo.model_selection.scoring._score_release import MOSTLY_NOISE
from skdpbo.model_selection.scoring._scorer import total_loss_sensitivity
from skdpbo.model_selection.scoring.metrics._protected_metrics import chunk_scorer

_FEW_ROWS = 5  # warn if a chunk has fewer rows
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
    searcher, space, candidates
        Of `Protection`.
    chunks : Chunks
    """

    for_groups = staticmethod(for_groups_of_all_records)  # no group is divided between chunks

    def __init__(self, searcher, space, candidates, chunks):
        super().__init__(searcher, space, candidates)
        self.chunks = chunks
        self.by_metric = chunk_scorer(searcher.scoring) is not None
        # No row is public, so that there are no public scores as guides.
        self.mechanism = searcher._mechanism(guided=False)  # raises for unsuitable parameters

    def promise(self, n_samples, n_validation=None):
        """Determine the mechanism; return its guarantee for all records."""
        searcher, mechanism = self.searcher, self.mechanism
        k = number_of_chunks(self.chunks, searcher.epsilon, n_samples)
        if n_samples is not None:
            # For losses in [0, 1]: sensitivity of a total, and the largest total.
            size = k, n_samples, n_validation
            sensitivity, largest = chunk_sensitivity(1, *size), n_chunk_losses(*size)
            if self.by_metric:
                sensitivity, largest = total_loss_sensitivity(1), k
            self.noise_sizes = {"sensitivity": sensitivity, "largest": largest}
            noise = mechanism.score_noise(**self.noise_sizes)
            # By default no budget is spent on a score that would be mostly noise.
            if searcher.score_fraction == "auto" and noise > MOSTLY_NOISE:
                self.mechanism = mechanism = searcher._mechanism(guided=False, score_fraction=0.0)
        stated = mechanism.guarantee
        return replace(
            stated,
            protects="training and validation records",
            mechanism=f"{stated.mechanism}, aggregated over {k} chunks",
            assumptions=_ASSUMPTIONS,
            reference=f"{stated.reference}; Nissim, Raskhodnikova & Smith 2007; "
            "docs/theory/sample_and_aggregate.md",
        )

    def planned(self, parts):
        """Determine scorer and mechanism from public sizes; return the guarantee of records."""
        searcher, n_samples = self.searcher, parts.n_samples
        self.n_chunks = number_of_chunks(self.chunks, searcher.epsilon, n_samples)
        _refuse_schema(searcher.estimator, self.n_chunks, parts)
        if self.by_metric:
            refuse_empty_parts(self.n_chunks, n_samples, parts.n_validation)
        # Entries as long as X are divided into chunks; others go to every training.
        options = {"counted": parts.groups is None}
        refuse_rows_among_entries(self.params, parts.containers, {n_rows(parts.X)}, **options)
        scorer = resolve_chunk_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
        if self.by_metric:
            # With a label of another type than those of `y` every chunk would have the worst loss.
            label, kind = scorer.pos_label, kind_of_type(getattr(parts.y, "dtype", None))
            other = {"texts": numbers.Number, "numbers": str}.get(kind, ())
            if isinstance(label, other) and not scorer.is_curve:
                raise ValueError(
                    f"scoring={scorer.name!r}: pos_label={label!r} is no label of y, which holds "
                    f"{kind}. Use make_scorer({scorer.public_scorer._score_func.__name__}, "
                    "pos_label=...)."
                )
        guarantee = self.promise(n_samples, parts.n_validation)
        self.mechanism.refuse_scorer(scorer)
        self.mechanism.warn_if_score_is_noisy(**self.noise_sizes)
        # The metric of a chunk is a single loss, with or without groups.
        self.scorer = scorer if parts.groups is None or self.by_metric else scorer.for_groups()
        return guarantee

    def try_publicly(self):
        """Warn of tiny chunks and of failures on synthetic rows; refuse too large noise."""
        searcher, parts, k = self.searcher, self.parts, self.n_chunks
        if parts.n_samples < _FEW_ROWS * k:
            warn_caller(
                f"n_chunks={k} cuts {parts.n_samples} rows, or groups of rows, into chunks of "
                f"{parts.n_samples // k}: models of so few choose nearly at random. Take fewer "
                "chunks or protect more records. Models of hundreds of rows train well.",
                SkdpboWarning,
            )
        fit_params = self.routed(parts.X, self.params, counted=parts.groups is None)
        # Failures on protected rows silently cost the worst loss; here they can be reported.
        trial = self.candidates, parts.X, parts.y, self.scorer, fit_params
        for failure in dry_run(searcher.estimator, *trial):
            warn_caller(failure, DryRunWarning)
        self.evaluator = (ChunkMetricTraining if self.by_metric else ChunkTraining)(
            estimator=searcher.estimator,
            rows=ChunkedRows(**vars(parts), chunks=chunk_positions(parts.n_samples, k)),
            fit_params=fit_params,
            scorer=self.scorer,
            excess_bound=self.chunks.excess_bound,
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
            verbose=searcher.verbose,
        )
        problem = self.candidates, self.evaluator, noise_source(searcher.random_state), self.space
        # Depends on sizes alone; refuses too much noise.
        self.mechanism.start(SearchProblem(*problem), False)

    def run(self, charge):
        """Protected: train every candidate on every chunk and release a choice."""
        labels = is_classifier(self.searcher.estimator)
        charge()
        opened = in_isolation(self.parts.opened, labels)
        self.evaluator.rows = replace(self.evaluator.rows, **vars(opened))  # with the same chunks
        chosen = self.mechanism.search_unguided()
        columns = getattr(opened.X, "shape", ())[1:]  # public, like the whole schema
        n_features = {"n_features_in_": columns[0]} if columns else {}
        return replace(chosen, attributes=chosen.attributes | n_features)


def _refuse_schema(estimator, n_chunks, parts):
    """Raise if types, numbers of columns or numbers of rows (or groups) cannot be fitted."""
    n_samples, (X, y, X_val, y_val) = parts.n_samples, parts.containers
    if n_samples < n_chunks:
        raise ValueError(
            f"Found array with n_samples={n_samples} while n_chunks={n_chunks} needs at least one "
            "row, or group of rows, for each chunk, and hundreds to train well."
        )
    refuse_complex(X=X, y=y, X_val=X_val, y_val=y_val)
    shape, kind = public_shape(X), getattr(getattr(X, "dtype", None), "kind", "O")
    if shape is not None and len(shape) == 1 and kind in "biuf":
        raise ValueError("Expected 2D array, got 1D array instead.")
    if shape is not None and 0 in shape[1:]:
        # With groups the number of rows is secret; scikit-learn's tests want it where it is not.
        found = f" (shape={shape})" if parts.groups is None else ""
        raise ValueError(f"Found array with 0 feature(s){found} while a minimum of 1 is required.")
    if y is None and get_tags(estimator).target_tags.required:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    if len(getattr(y, "shape", ())) > 2:
        raise ValueError(f"y must have one or two dimensions, got {len(y.shape)}.")
    if X_val is not None:
        check_schema(X_val, y_val, X, y, public=False)
