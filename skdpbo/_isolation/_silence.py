"""Suppressed output of the process while user code runs on protected rows."""

import logging
import os
import random
import sys
import threading
import warnings
from contextvars import copy_context
from functools import partial
from types import SimpleNamespace
from weakref import finalize

import numpy as np
from joblib import parallel_config
from joblib.memory import MemorizedFunc, NotMemorizedFunc

from skdpbo._attempt import attempt
from skdpbo._parameters import warn_caller
from skdpbo._reentrant_lock import ReentrantLock
from skdpbo.exceptions import VoidGuaranteeWarning

# Re-entrant: the garbage collector may end a block in the midst of another.
_ALL_LEVELS = sys.maxsize  # of logging, which knows levels above CRITICAL
_PROCESS = SimpleNamespace(lock=ReentrantLock(), silence=None)
_PROCESS.lock.free_in_forks()


class nothing_leaves:  # noqa: N801
    """Drop what estimators print, log and warn of, and write no files for parallel work.

    Output could reveal records or the number of trials. The global random generators, which
    estimators may use, are restored and not seeded: other threads may draw noise from them. Output
    that compiled code writes to the terminal directly is not suppressed. Warning filters may belong
    to a context (free-threaded Python), which a block does not change: record warnings inside it.

    The streams belong to the process: the first block silences them, the last restores them. An
    interrupt may keep a block from being left; it then ends when the interrupt's traceback is
    freed. If the caller has restored the streams before, later blocks silence them again.
    """

    _silence = _config = _late_end = None

    def __enter__(self):
        self._key = object()
        try:
            with _PROCESS.lock:
                silence = _standing()
                if silence is None or not silence.holds():
                    silence = _PROCESS.silence = _Silence(outer=silence)
                self._silence = silence
                silence.blocks.add(self._key)
                # No __del__: Python would drop an interrupt that comes there.
                self._late_end = finalize(self, _end, silence, self._key, late=True)
                silence.start()
            # Parallel work inside would otherwise write large arrays to disk for its workers.
            self._config = parallel_config(max_nbytes=None)
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *exc_info):
        try:
            self._config.unregister()
        finally:
            self._leave()

    def _leave(self):
        _end(self._silence, self._key)
        if self._late_end is not None:
            self._late_end.detach()


def _standing():
    """Return the silence of the process, if any.

    If it has no block, an interrupt has kept it from ending. Noise may have been drawn since, which
    restored generators would repeat.
    """
    silence = _PROCESS.silence
    if silence is not None and not silence.blocks:
        silence.let_generators_go_on()
    return silence


def _end(silence, key, late=False):
    """End a block; the silence with its last one."""
    with _PROCESS.lock:
        _standing()
        if silence is not None:
            silence.late |= late
            silence.blocks.discard(key)
        while (last := _PROCESS.silence) is not None and not last.blocks:
            last.end()
            _PROCESS.silence = last.outer


class _Silence:
    """Silenced streams and logging of the process, and how to restore them.

    Parameters
    ----------
    outer : _Silence or None
        The previous one, whose streams the caller has replaced.
    """

    def __init__(self, outer):
        self.outer, self.blocks, self.late = outer, set(), False
        self._nowhere = self._filters = None
        self._undo = _Undo(), _Undo(), _Undo(), _Undo()

    def holds(self):
        """Whether streams and logging are still silenced."""
        is_silent = sys.stdout is sys.stderr is self._nowhere
        return is_silent and logging.root.manager.disable >= _ALL_LEVELS

    def start(self):
        """Silence the process, unless that is done, and note how to restore it."""
        if self._nowhere is not None:
            return
        self._nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        streams, filters, generators, caches = self._undo
        for kind in (MemorizedFunc, *MemorizedFunc.__subclasses__()):
            for name in _CACHED_CALLS & vars(kind).keys():
                caches.set(kind, name, _uncached(getattr(kind, name), name))
        generators.append((partial(random.setstate, random.getstate()), None))
        # A dict: the tuple is for MT19937 alone, and asking for it warns with another source.
        state = np.random.get_state(legacy=False)  # noqa: NPY002
        generators.append((partial(np.random.set_state, state), None))
        # Also the original streams, from which code that redirects output restores its own.
        for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
            streams.set(sys, name, self._nowhere)
        for owner, hook, value in _hooks():
            streams.set(owner, hook, value)
        manager = logging.root.manager
        undo = partial(logging.disable, manager.disable)
        streams.append((undo, lambda: manager.disable >= _ALL_LEVELS))
        logging.disable(_ALL_LEVELS)
        # ``logging.warning`` configures a root logger without handlers with the current stderr, and
        # code that configures logging closes the handlers that it finds.
        streams.set(logging.root, "handlers", [logging.NullHandler()])
        streams.set(logging.root, "level", logging.root.level)
        # Recorded, that is, not shown: threads that reset the filters let some warnings pass. In a
        # context of its own, as filters may belong to a context and the last block may end in
        # another one than the first.
        recorder = warnings.catch_warnings(record=True, action="ignore")
        context = copy_context()
        filters.set(warnings, "filters", warnings.filters[:])  # of threads whose context is empty
        undo = partial(attempt, context.run, recorder.__exit__)  # which raises if not entered
        filters.append((undo, None))
        context.run(recorder.__enter__)
        self._filters = warnings.filters

    def let_generators_go_on(self):
        """Do not restore the generators at the end."""
        self._undo[2].clear()

    def end(self):
        """Restore everything; after a late end, only what is unchanged since, and no generator.

        Generators have advanced by then: restored, they would repeat noise.
        """
        streams, filters, generators, caches = self._undo
        caches.close()
        if self.late:  # the cached normal deviate may be one of a public seed
            state = np.random.get_state(legacy=False)  # noqa: NPY002
            np.random.set_state(state | {"has_gauss": 0})  # noqa: NPY002
        else:
            generators.close()
        # An enclosing block may have ended meanwhile and restored its own filters.
        if not self.late or warnings.filters is self._filters:
            filters.close()
        streams.close(self.late)
        if self._nowhere is not None:
            self._nowhere.close()


class _Undo(list):
    """Pairs of a step that restores a change, and a test whether the change is still in place.

    Unlike in an ExitStack, a step is listed before the change is made and until it is undone, so
    that an interrupt anywhere is safe; undoing a step twice does no harm.
    """

    def set(self, owner, name, value):
        """Set an attribute, and note how to restore it."""
        undo = partial(setattr, owner, name, getattr(owner, name))
        self.append((undo, lambda: getattr(owner, name) is value))
        setattr(owner, name, value)

    def close(self, late=False):
        """Undo all steps in reverse; if `late`, only changes that are still in place."""
        while self:
            undo, is_in_place = self[-1]
            if not late or is_in_place():
                undo()
            self.pop()


def _hooks():
    """Yield (owner, attribute, value) of other channels of output, with the value that silences.

    Errors in threads and finalizers; loggers, as one that no manager knows keeps its level, and
    code may enable all of them; autologging; notebooks.
    """
    yield logging.Logger, "handle", _drop  # calls the filters of the logger
    yield logging.Logger, "callHandlers", _drop
    yield threading, "excepthook", _drop
    yield sys, "unraisablehook", _drop
    # MLflow scores each fit on its training rows, and stores the scores.
    if (tracking := mlflow_autologging()) is not None:
        yield tracking, "_AUTOLOGGING_GLOBALLY_DISABLED", True
    # Progress bars and tables in a notebook are not written to a stream.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if (publisher := getattr(shell, "display_pub", None)) is not None:
        yield publisher, "publish", _drop


def mlflow_autologging():
    """Return MLflow's module of autologging, if it was imported and can be turned off."""
    tracking = sys.modules.get("mlflow.utils.autologging_utils")
    return tracking if hasattr(tracking, "_AUTOLOGGING_GLOBALLY_DISABLED") else None


def warn_if_tracked():
    """Warn that MLflow scores a pipeline of private steps on the rows that it is fitted to."""
    tracking = mlflow_autologging()
    if tracking is None or tracking._AUTOLOGGING_GLOBALLY_DISABLED:
        return
    if not tracking.autologging_is_disabled("sklearn"):
        warn_caller(
            "MLflow's autologging is on: as a step of a pipeline this estimator is scored on the "
            "protected rows, and the score is stored, without noise. Turn it off: "
            "mlflow.sklearn.autolog(disable=True).",
            VoidGuaranteeWarning,
        )


def _drop(*args, **kwargs):
    """Show nothing."""


_CACHED_CALLS = {"__call__", "call", "call_and_shelve", "check_call_in_cache"}
# scikit-learn caches trainings, which have a memory on public rows alone: these stay cached.
_TRAININGS = "sklearn.pipeline", "sklearn.cluster."


def _uncached(cached, name):
    """Return a method that calls a memorized function without ``joblib.Memory``'s files.

    `cached` is the original method, or, after an interrupt, that of an unended silence.
    """

    def call(memorized, *args, **kwargs):
        function = memorized.func
        if str(function.__module__).startswith(_TRAININGS):
            return cached(memorized, *args, **kwargs)
        if name == "call":  # of a cached function, also in joblib 1.3
            return function(*args, **kwargs), {}
        return getattr(NotMemorizedFunc(function), name)(*args, **kwargs)

    return call
