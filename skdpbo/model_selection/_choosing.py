"""Base of the searchers that choose among candidates: grid, randomized and Bayesian search."""

from typing import ClassVar

from sklearn.utils.metaestimators import available_if

from skdpbo.model_selection._base import NO_MODEL, BasePrivateSearchCV, Fitted
from skdpbo.model_selection._private_choice import ADD_REMOVE, NEIGHBOURS, PrivateChoice
from skdpbo.model_selection._search_mechanism import ListChoice
from skdpbo.model_selection._sklearn import BaseSearchCV, StrOptions
from skdpbo.model_selection.evaluation._chunks import Chunks
from skdpbo.model_selection.private_training._estimators import has_private_part
from skdpbo.model_selection.private_training._selection_rules import PrivateSelection
from skdpbo.model_selection.protection._chunked import ChunkedProtection
from skdpbo.model_selection.protection._private_models import PrivateModelsProtection
from skdpbo.model_selection.protection._score_share import SCORE_SHARES
from skdpbo.model_selection.protection._validation import ValidationProtection


def _of_the_model(name):
    """Return scikit-learn's method, made absent from a search that releases no model."""
    inherited = vars(BaseSearchCV)[name]

    def is_available(searcher):
        if searcher._releases_no_model():
            raise AttributeError(f"{name} is not available: {NO_MODEL}")
        # scikit-learn's check whether the winner, or the unfitted estimator, has the method.
        try:
            return inherited.__get__(searcher, type(searcher)) is not None
        except AttributeError as error:  # `available_if` repeats the outer message
            raise (error.__cause__ or error) from None

    # Absent, as scikit-learn's meta-estimators test with `hasattr`.
    return available_if(is_available)(getattr(BaseSearchCV, name))


class BaseChoiceSearchCV(BasePrivateSearchCV):
    """Base class of the searchers with `protect`, `mechanism` and `guide`."""

    _parameter_constraints: ClassVar[dict] = {
        **BasePrivateSearchCV._parameter_constraints,
        "mechanism": [StrOptions(set(PrivateChoice.SELECTIONS))],
        "score_fraction": [
            *BasePrivateSearchCV._parameter_constraints["score_fraction"],
            StrOptions({"auto"}),
        ],
        "protect": [StrOptions({"validation", "all"}), Chunks, PrivateSelection],
        "neighbours": [StrOptions(set(NEIGHBOURS))],
        "guide": ["boolean"],
    }

    def _mechanism(self, guided=True, score_fraction=None):
        """Return the mechanism of the search; here a choice from a list."""
        share = self._score_share() if score_fraction is None else score_fraction
        return ListChoice(PrivateChoice(self.mechanism, self.epsilon, share, self.neighbours))

    def _score_share(self):
        """Return the share of the score in the budget."""
        return SCORE_SHARES[0] if isinstance(self.score_fraction, str) else self.score_fraction

    def _protection(self):
        protect = self.protect
        if isinstance(protect, str) and protect == "validation":
            return ValidationProtection(self, *self._candidates())
        # From here on every record is protected.
        if self.neighbours == ADD_REMOVE:
            raise ValueError(
                'neighbours="add-remove" is for protect="validation": the split into parts and the '
                "training depend on the number of records."
            )
        if self.halving is not None:
            raise ValueError(
                'halving is for protect="validation": without public rows there is nothing to drop '
                "candidates by, and halving on protected rows costs more than it saves."
            )
        space, candidates = self._candidates()
        if isinstance(protect, str):
            # From parameters alone, not from records. Candidates may hold private estimators.
            private = has_private_part(self.estimator, candidates)
            protect = PrivateSelection() if private else Chunks()
        chunked = isinstance(protect, Chunks)
        kind = ChunkedProtection if chunked else PrivateModelsProtection
        return kind(self, space, candidates, protect)

    predict = _of_the_model("predict")
    predict_proba = _of_the_model("predict_proba")
    predict_log_proba = _of_the_model("predict_log_proba")
    decision_function = _of_the_model("decision_function")
    score = _of_the_model("score")
    score_samples = _of_the_model("score_samples")
    transform = _of_the_model("transform")
    inverse_transform = _of_the_model("inverse_transform")

    def _releases_no_model(self):
        """Whether a fit with these parameters trains on protected rows without noise."""
        if not isinstance(self.protect, str):
            return isinstance(self.protect, Chunks)
        # Before a fit, private estimators among the values of the space are not considered.
        candidates = vars(self).get("cv_results_", {"params": ()})["params"]
        return self.protect == "all" and not has_private_part(self.estimator, candidates)

    def __sklearn_tags__(self):
        """Return the tags of the estimator; without a model those of one without predictions."""
        tags = super().__sklearn_tags__()
        if self._releases_no_model():
            tags.estimator_type = tags.classifier_tags = tags.regressor_tags = None
            # A record that cannot be read has the worst loss and is not an error.
            tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    @Fitted
    def n_features_in_(self):
        """Number of columns: of the model, or set by a fit without a model."""
        return super().n_features_in_  # scikit-learn's property, hidden by this name
