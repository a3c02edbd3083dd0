"""Losses of validation rows by models that a descent trains privately. Protected.

Nothing leaves a training but the losses, which go into a gradient with noise, and of the last one
the model.
"""

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_isolation, run_isolated
from skdpbo.model_selection.private_training._trial_score import losses_of
from skdpbo.model_selection.private_training._trials import TrialRandomness, trained_model
from skdpbo.model_selection.rows._protected import ProtectedRows

__all__ = ["DescentTrainings"]


class DescentTrainings:
    """Evaluator of a descent: every model is trained anew, with noise of its own.

    Parameters
    ----------
    plan : DescentPlan
    scorer : PerRecordScorer
    n_losses : int
        Number of the rows, or groups, that score; public.
    source : RandomSource
    **parallel
        `n_jobs` and `pre_dispatch`, as in joblib.
    """

    def __init__(self, plan, scorer, n_losses, source, **parallel):
        self.scorer, self.n_losses = scorer, n_losses
        self._plan, self._parallel = plan, parallel
        self._randomness = TrialRandomness(source)
        self._n_trained, self._last = 0, ()
        self._data = None

    def __reduce__(self):
        raise TypeError("rows of protected records are not pickled")

    def open(self, data):
        """Take the `TrialData`; after the charge."""
        self._data = data

    def losses(self, candidates, *, none_may_be_left):
        """Train a model for each candidate; return rows of losses. Protected.

        Parameters
        ----------
        candidates : list of dict
            Released.
        none_may_be_left : bool
            Not used: why a training failed is protected, and every record then has the worst loss.
        """
        # Counted before anything is trained: a training that fails has been paid for, too.
        self._n_trained += len(candidates)
        if self._n_trained > self._plan.n_trainings:
            raise RuntimeError("more trainings were asked for than have been paid for.")
        models = [self._model(params, self._plan.budget) for params in candidates]
        numbers = range(self._n_trained - len(models), self._n_trained)
        randomness = self._randomness.of(numbers)
        tasks = [(model, self._data, *own) for model, own in zip(models, randomness, strict=True)]
        return run_isolated(_losses_of_training, tasks, **self._parallel)

    def totals(self, candidates, *, none_may_be_left):
        """Return the total loss of the last model, in a list. Protected."""
        (params,) = candidates
        losses = in_isolation(
            losses_of, self.last_model(params), ProtectedRows(*self._data.rows), self.scorer
        )
        return [int(losses.sum())]

    def can_end(self, params):
        """Whether the model that is released may have these released parameters.

        Not where its cost is not what has been stated. That of the start is.
        """
        return self._plan.last is None or self._model(params, self._plan.last) is not None

    def last_model(self, params):
        """Return the model that is released, None if its training failed; trained once.

        Parameters
        ----------
        params : dict
            Released.
        """
        if not self._last:
            plan = self._plan
            # The number after those of all trials: no stream of randomness is used twice.
            (own,) = self._randomness.of([plan.n_trainings])
            model = self._model(params, plan.last)
            self._last = (in_isolation(_trained, model, self._data, *own),)
        return self._last[0]

    def _model(self, params, budget):
        """Return what is trained, None where its cost is not known: a function of `params`."""
        return self._plan.model(params, budget, groups=self._data.rows[3] is not None)


def _trained(model, *task):
    """Protected: return the trained model, None if its training failed."""
    return None if model is None else attempt(trained_model, model, *task)[0]


def _losses_of_training(model, data, seeded, sequence):
    """Protected: return the losses of the validation rows by a model trained now."""
    model = _trained(model, data, seeded, sequence)
    return losses_of(model, ProtectedRows(*data.rows), data.scorer)
