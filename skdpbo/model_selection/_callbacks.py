"""Tasks of scikit-learn's callback protocol (>= 1.9). Callbacks are shown public data only."""

__all__ = ["begin_task", "end_task"]


def begin_task(parent, estimator, **description):
    """Open a task under `parent` and return its context; None where the protocol is absent."""
    if parent is None:
        return None
    return parent.subcontext(**description).call_on_fit_task_begin(estimator=estimator)


def end_task(context, estimator):
    """Close a task that `begin_task` has opened."""
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator)
