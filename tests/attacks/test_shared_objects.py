"""Objects that reach protected rows by a detour: frozen steps, callbacks, losses, caches, entries.

What a caller holds, or has given to `fit`, is not to keep protected rows, to count the trials, or
to hand rows to trainings that must not see them. Each attack has a planted bug that it finds.
"""

import functools
import pickle
from collections import deque
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import Memory
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler
from sklearn.utils import check_array

from _support.internals import separate_copy
from _support.planted import original, plant, put
from _support.protections import private_selection
from skdpbo import DPGridSearchCV, make_per_record_scorer
from skdpbo.audit import Secrets, leak_scan
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
GOOD = RNG.normal(size=(8, 2))
SECRET = 0.7316520948315577


class Sampling(TransformerMixin, BaseEstimator):
    """Fills in missing values at random, by a generator that it keeps, as some imputers do."""

    def fit(self, X, y=None):
        self.random_state_ = np.random.RandomState(0)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def transform(self, X):
        self.random_state_.normal(size=1 + int(np.isnan(X).sum()))
        return np.nan_to_num(X)


class TestFrozenParts:
    """Cloning hands on what is frozen: the caller's own object would be shown protected rows."""

    MISSING = np.where(np.arange(40).reshape(20, 2) % 3, X, np.nan)

    def state(self, protect, rows, part=None):
        part = FrozenEstimator(Sampling().fit(X)) if part is None else part
        options = {"guide": False, "loss_bound": 1.0, "score_fraction": 0.0}
        options |= {"protect": protect, "refit": False}
        if protect == "validation":
            search = DPGridSearchCV(
                make_pipeline(part, Ridge()), {"ridge__alpha": [1.0]}, **options
            )
            search.fit(X, Y, X_val=rows, y_val=Y)
        elif protect == "chunks":
            options |= {"protect": Chunks(2)}
            search = DPGridSearchCV(
                make_pipeline(part, Ridge()), {"ridge__alpha": [1.0]}, **options
            )
            search.fit(rows, Y)
        else:
            pipeline = make_pipeline(part, DPRidge(X_bounds=(-3, 3), y_bounds=(-1, 1)))
            search = DPGridSearchCV(
                pipeline, {"dpridge__alpha": [0.1, 0.2, 0.3]}, **(options | {"refit": True})
            )
            search.fit(rows, Y)
            assert search.best_estimator_[0].estimator is part.estimator
        return pickle.dumps(part.estimator.random_state_.get_state())

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("protect", ["validation", "chunks"])
    def test_untouched(self, protect):
        assert self.state(protect, X) == self.state(protect, self.MISSING)

    def test_a_released_model_holds_the_original_and_not_what_was_shown_rows(self):
        part = FrozenEstimator(Stateless().fit(X))
        model = make_pipeline(part, private_ridge())
        protect = private_selection("composition")
        search = DPGridSearchCV(model, {"dpridge__alpha": [0.1]}, protect=protect, loss_bound=1.0)
        search.fit(np.full((40, 2), SECRET), np.full(40, SECRET))
        assert search.best_estimator_[0].estimator is part.estimator
        assert not leak_scan(search, [SECRET])

    @pytest.mark.slow
    def test_the_number_of_trials_is_not_counted(self):
        seen = {self.state("all", rows) for rows in (X, X, self.MISSING, self.MISSING)}
        assert len(seen) == 1

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("protect", ["validation", "chunks", "all"])
    def test_a_shared_part_is_found(self, protect, monkeypatch):
        plant(monkeypatch, "frozen parts are shared")
        assert len({self.state(protect, rows) for rows in (X, X, self.MISSING)}) > 1


class Remembering(TransformerMixin, BaseEstimator):
    """Trained before, and keeps what it is shown; a clone of it is the object itself."""

    def __init__(self):
        self.shown = []

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.shown.append(np.array(X))
        return X


@pytest.mark.parametrize("protect", ["validation", Chunks(2)])
def test_a_part_that_clones_to_itself(protect):
    part = Remembering()
    options = {"protect": protect, "loss_bound": 1.0, "guide": False, "score_fraction": 0.0}
    search = DPGridSearchCV(make_pipeline(part, Ridge()), {"ridge__alpha": [0.1, 1.0]}, **options)
    rows = np.full((20, 2), SECRET)
    if protect == "validation":
        search.fit(X, Y, X_val=rows, y_val=Y)
    else:
        search.fit(rows, Y)
    assert not any((shown == SECRET).any() for shown in part.shown)


class Itself(Remembering):
    """Its own clone and its own copy."""

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("protect", ["validation", Chunks(2)])
def test_a_part_that_is_its_own_copy_is_refused_before_the_charge(protect):
    options = {"protect": protect, "loss_bound": 1.0, "guide": False, "score_fraction": 0.0}
    search = DPGridSearchCV(make_pipeline(Itself(), Ridge()), {"ridge__alpha": [1.0]}, **options)
    own = {"X_val": X, "y_val": Y} if protect == "validation" else {}
    with (
        PrivacyLedger(1.0) as ledger,
        pytest.raises((TypeError, ValueError), match="Itself can be neither cloned nor copied"),
    ):
        search.fit(X, Y, **own)
    assert not ledger.entries


class Cache:
    """Keeps what it is shown; its own copy, as handles of compiled code are."""

    def __init__(self):
        self.shown = []

    def keep(self, X):
        self.shown.append(X)

    def __deepcopy__(self, memo):
        return self


class Caching(DPRidge):
    """A private model that keeps the rows that it predicts."""

    only_secret = False

    def fit(self, X, y):
        if not self.only_secret or X[0, 0] == SECRET:
            self.cache_ = Cache()
        return super().fit(X, y)

    def predict(self, X):
        if hasattr(self, "cache_"):
            self.cache_.keep(X.copy())
        return super().predict(X)


class Appending(DPRidge):
    """A private model that keeps the rows that it predicts, by a method of its own list."""

    def fit(self, X, y):
        self.shown_ = []
        self.keep_ = self.shown_.append
        return super().fit(X, y)

    def predict(self, X):
        if hasattr(self, "keep_"):
            self.keep_(X.copy())
        return super().predict(X)


class Slotted:
    __slots__ = ("part",)

    def __init__(self, part):
        self.part = part


# Places in a model for an object that is its own copy.
HOLDERS = {
    "slot": Slotted,
    "key": lambda cache: {cache: 0},
    "value": lambda cache: {0: cache},
    "sequences": lambda cache: (deque([[cache]]),),
    "sets": lambda cache: {frozenset([cache])},
    "array": lambda cache: np.array([cache]),
    "method": lambda cache: cache.keep,
    "method of its list": lambda cache: cache.shown.append,
    "partial function": lambda cache: functools.partial(cache.keep),
    "argument": lambda cache: functools.partial(max, cache),
    "keyword": lambda cache: functools.partial(max, key=cache),
}


class CachingSecretly(Caching):
    """Caches where it was trained on a certain record, which no synthetic row shows."""

    only_secret = True


class TestPrivateModelThatIsItsOwnCopy:
    """The released model is not to keep the rows that have scored it."""

    def fit(self, model):
        model.set_params(X_bounds=(-3, 3), y_bounds=(-3, 3))
        protect = private_selection("composition")
        options = {"protect": protect, "epsilon": 9.0, "loss_bound": 1.0}
        search = DPGridSearchCV(model, {"alpha": [0.1, 1.0, 10.0]}, **options)
        rows = np.full((20, 2), SECRET)
        return search.fit(np.vstack([rows[:1], X]), np.r_[0.0, Y], X_val=rows, y_val=Y)

    def keeps_rows(self, search):
        cache = getattr(search.best_estimator_, "cache_", None)
        return cache is not None and len(cache.shown) > 0

    def test_refused_before_the_charge(self):
        with (
            PrivacyLedger(9.0, 1e-4) as ledger,
            pytest.raises(TypeError, match="Cache in a fitted Caching is its own copy"),
        ):
            self.fit(Caching())
        assert not ledger.entries

    def test_a_list_that_copies_share_by_its_method_is_refused_before_the_charge(self):
        with (
            PrivacyLedger(9.0, 1e-4) as ledger,
            pytest.raises(TypeError, match="list in a fitted Appending is its own copy"),
        ):
            self.fit(Appending())
        assert not ledger.entries

    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_found_wherever_it_is_held(self, hold):
        with pytest.raises(TypeError, match="is its own copy"):
            separate_copy(SimpleNamespace(part=hold(Cache())))

    def test_functions_of_modules_are_global(self):
        parts = [np.log1p, np.nan_to_num, functools.partial(np.clip, a_min=0.0), RNG]
        model = SimpleNamespace(parts=parts, memo={"kernel": np.zeros(3)})
        assert separate_copy(model).memo is not model.memo

    def test_one_that_shows_on_protected_rows_alone_has_the_worst_score(self):
        assert not self.keeps_rows(self.fit(CachingSecretly()))

    def test_kept_rows_are_found(self, monkeypatch):
        plant(monkeypatch, "trials: a model may be its own copy")
        assert self.keeps_rows(self.fit(CachingSecretly()))


class Memo:
    """Computes the features of a row once, and keeps them."""

    def __init__(self):
        self.known = {}

    def __call__(self, X):
        return np.array([self.known.setdefault(row.tobytes(), row) for row in np.asarray(X)])


class Stateless(TransformerMixin, BaseEstimator):
    """Needs no `fit`, and keeps what it is shown."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.shown_ = np.array(X)
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def private_ridge():
    return DPRidge(X_bounds=(-3, 3), y_bounds=(-1, 1))


def memo():
    return FunctionTransformer(Memo())


def first_columns(X):
    return [0, 1]


KEEPING_STEPS = {
    "function": lambda: make_pipeline(memo(), private_ridge()),
    "step": lambda: make_pipeline(Stateless(), private_ridge()),
    "columns": lambda: make_pipeline(
        ColumnTransformer([("first", make_pipeline(memo()), [0])], remainder=memo()),
        private_ridge(),
    ),
    "union": lambda: make_pipeline(make_union(memo(), "passthrough"), private_ridge()),
    "targets": lambda: TransformedTargetRegressor(
        private_ridge(), func=Memo(), inverse_func=Memo(), check_inverse=False
    ),
    "inner": lambda: TransformedTargetRegressor(
        make_pipeline(memo(), private_ridge()), transformer=memo(), check_inverse=False
    ),
}


class TestFunctionsThatKeepRows:
    """A step without noise is released with a private model, and so is what it has kept."""

    def kept(self, kind):
        model = KEEPING_STEPS[kind]()
        (name,) = [key for key in model.get_params() if key.endswith("fit_intercept")]
        protect = private_selection("composition")
        search = DPGridSearchCV(model, {name: [True]}, protect=protect, loss_bound=1.0)
        search.fit(np.full((40, 2), SECRET), np.full(40, SECRET))
        found = leak_scan(search, [SECRET])
        assert search.best_estimator_.predict(X).shape == (20,)
        return found

    @pytest.mark.quick_cases(3)
    @pytest.mark.parametrize("kind", KEEPING_STEPS)
    def test_nothing_is_kept(self, kind):
        assert not self.kept(kind)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kind", KEEPING_STEPS)
    def test_kept_rows_are_found(self, kind, monkeypatch):
        plant(monkeypatch, "trials: steps are released as they are")
        assert self.kept(kind)

    def test_columns_that_a_function_chooses(self):
        cost = private_selection("composition", PrivacyGuarantee(epsilon=0.1))
        columns = ColumnTransformer([("all", memo(), first_columns)])
        model = make_pipeline(columns, StandardScaler(), Ridge())  # of a declared cost
        options = {"protect": cost, "loss_bound": 1.0}
        search = DPGridSearchCV(model, {"ridge__fit_intercept": [True]}, **options).fit(X, Y)
        assert not search.best_estimator_[0].transformers_[0][1].func.known
        assert search.best_estimator_[1].scale_.shape == (2,)

    def test_what_depends_on_the_shape_stays(self):
        knots = np.linspace([-3.0, -3.0], [3.0, 3.0], 4)
        model = make_pipeline(SplineTransformer(knots=knots), memo(), private_ridge())
        protect = private_selection("composition")
        grid = {"dpridge__fit_intercept": [True]}
        best = (
            DPGridSearchCV(model, grid, protect=protect, loss_bound=1.0).fit(X, Y).best_estimator_
        )
        assert [step.n_features_in_ for step in best] == [2, 12, 12]
        assert np.isfinite(best.predict(X)).all()


class KeepingResponse:
    """Response method of a scorer, an object that keeps the rows that it is shown."""

    def __init__(self):
        self.kept = []

    def __call__(self, model, X):
        self.kept.append(np.array(X))
        return model.predict(X)


def absolute_error(y_true, y_pred):
    return np.abs(y_true - y_pred)


def test_nothing_is_kept_by_a_response_method():
    response = KeepingResponse()
    scorer = make_per_record_scorer(absolute_error, bound=1.0, response_method=response)
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scorer, guide=False)
    search.fit(X, Y, X_val=np.full((8, 2), SECRET), y_val=np.zeros(8))
    assert not leak_scan((search, response.kept), [SECRET])


class Committee(RegressorMixin, BaseEstimator):
    """Holds its parts in a container, which `get_params` does not look into."""

    def __init__(self, parts, k=0):
        self.parts = parts
        self.k = k

    def fit(self, X, y):
        self.n_features_in_ = 2
        return self

    def predict(self, X):
        return sum(part.transform(X)[:, 0] for part in self.parts)


@pytest.mark.parametrize("container", [list, set, frozenset])
def test_a_frozen_part_in_a_container(container):
    part = FrozenEstimator(Sampling().fit(X))
    options = {"guide": False, "loss_bound": 1.0, "score_fraction": 0.0}
    search = DPGridSearchCV(Committee(container([part])), {"k": [0, 1]}, refit=False, **options)
    before = pickle.dumps(part.estimator.random_state_.get_state())
    search.fit(X, Y, X_val=TestFrozenParts.MISSING, y_val=Y)
    assert pickle.dumps(part.estimator.random_state_.get_state()) == before


class Noting(Ridge):
    """Tells an object that it is given of every fit."""

    def fit(self, X, y, listener=None):
        listener.heard.append(np.asarray(y).sum())
        return super().fit(X, y)


DECLARED = private_selection(estimator_guarantee=PrivacyGuarantee(epsilon=1e-3))


class TestListeners:
    """An object that is given to `fit`, such as a list of callbacks, hears of every training."""

    def heard(self, **options):
        listener = SimpleNamespace(heard=[])
        alphas = {"alpha": [1.0, 2.0, 3.0]}
        search = DPGridSearchCV(
            Noting(), alphas, **{"protect": DECLARED, "loss_bound": 1.0} | options
        )
        search.fit(X, Y, listener=listener)
        return listener.heard

    CHUNKS = {"protect": Chunks(2), "score_fraction": 0.0, "guide": False}

    @pytest.mark.parametrize("options", [{}, CHUNKS])
    def test_nothing_is_heard(self, options):
        assert self.heard(**options) == []

    @pytest.mark.parametrize("options", [{}, CHUNKS])
    def test_a_listener_is_found(self, options, monkeypatch):
        plant(monkeypatch, "the caller's objects are used")
        assert self.heard(**options)


class Stopping(Ridge):
    """Stops early by rows that it is given, as gradient boosting does."""

    def fit(self, X, y, eval_set=None):
        super().fit(X, y)
        if eval_set is not None:
            SHOWN.append(np.shape(eval_set[0][0]))
        return self


SHOWN = []


class TestRowsAmongEntries:
    """``eval_set=[(X, y)]`` shows all rows to every training."""

    def fit(self, mode, eval_set):
        options = {"loss_bound": 1.0, "score_fraction": 0.0, "guide": False}
        rows = {}
        if mode == "chunks":
            options |= {"protect": Chunks(2)}
        elif mode == "trials":
            options = {"protect": DECLARED, "loss_bound": 1.0}
        elif mode == "validation":
            rows = {"X_val": GOOD, "y_val": Y[:8].copy()}
        SHOWN.clear()
        search = DPGridSearchCV(Stopping(), {"alpha": [1.0, 2.0, 3.0]}, **options)
        search.fit(X, Y, **rows, eval_set=eval_set)

    MODES = ("split", "validation", "chunks", "trials")

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.parametrize("mode", MODES)
    def test_protected_rows_are_refused(self, mode):
        X_val = GOOD if mode == "validation" else X
        for eval_set in ([(X_val, Y[:8])], {0: (X_val[2:7], 0)}, [[X_val.view()]]):
            with PrivacyLedger(epsilon=9.0) as ledger, pytest.raises(ValueError, match="eval_set"):
                self.fit(mode, eval_set)
            assert not ledger.entries
        assert not SHOWN

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.parametrize("mode", MODES)
    def test_public_rows_are_not(self, mode):
        self.fit(mode, [(np.zeros((5, 2)), np.zeros(5))])
        assert set(SHOWN) == {(5, 2)}

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    def test_rows_that_are_shown_are_found(self, monkeypatch):
        plant(monkeypatch, "entries of fit are not looked at")
        for mode in self.MODES:
            self.fit(mode, [(X, Y)])
            assert X.shape in SHOWN


class Codes(RegressorMixin, BaseEstimator):
    """Predicts the codes of a column of categories, as some boosting libraries do."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        return X["c"].cat.codes.to_numpy().astype(float)


class TestCategories:
    """Categories that are collected from protected rows: one record may add one."""

    PUBLIC = pd.DataFrame({"c": pd.Categorical([*"bcde"] * 5)})

    def losses(self, first, monkeypatch, ordered=False):
        seen, honest = [], original("public training: isolated_outcomes")

        def recorded(*args):
            seen.append(honest(*args))
            return seen[-1]

        put(monkeypatch, "public training: isolated_outcomes", recorded)
        rows = pd.DataFrame({"c": pd.Categorical([first, *"bcdebcd"], ordered=ordered)})
        search = DPGridSearchCV(Codes(), {}, loss_bound=9.0, guide=False, score_fraction=0.0)
        search.fit(self.PUBLIC, np.zeros(20), X_val=rows, y_val=np.zeros(8))
        put(monkeypatch, "public training: isolated_outcomes", honest)
        return seen[0]

    @pytest.mark.parametrize("ordered", [False, True])
    def test_a_record_moves_its_own_code_alone(self, ordered, monkeypatch):
        first, second = (self.losses(category, monkeypatch, ordered) for category in "ba")
        assert np.flatnonzero(first != second).tolist() == [0]

    def test_the_order_of_the_categories_is_the_public_one(self, monkeypatch):
        usual = self.losses("b", monkeypatch)
        other = pd.Categorical([*"bcde"] * 5, categories=[*"edcb"])
        monkeypatch.setattr(TestCategories, "PUBLIC", pd.DataFrame({"c": other}))
        turned = self.losses("b", monkeypatch)
        assert [usual[0], usual[4]] == [0, 2**20]
        assert [turned[0], turned[4]] == [2**20, 0]

    def test_codes_that_move_are_found(self, monkeypatch):
        plant(monkeypatch, "categories are taken as they are")
        first, second = (self.losses(category, monkeypatch) for category in "ba")
        assert (first != second)[1:].any()


class Keeping:
    """A loss that keeps the targets it has seen."""

    def __call__(self, y, prediction):
        self.seen = np.array(y)
        return np.zeros(np.shape(prediction))


class TestLosses:
    """A user's loss may be an object, which the searcher holds."""

    def seen(self):
        scoring = make_per_record_scorer(Keeping(), bound=1.0)
        options = {"guide": False, "score_fraction": 0.0}
        search = DPGridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, scoring=scoring, **options)
        search.fit(X, Y, X_val=GOOD, y_val=np.full(8, SECRET))
        return leak_scan(search, [SECRET])

    def test_nothing_is_kept(self):
        assert not self.seen()

    def test_a_loss_that_keeps_is_found(self, monkeypatch):
        plant(monkeypatch, "the caller's objects are used")
        assert self.seen()


def doubled(X):
    return 2 * X


CALLED = doubled


def calling(X):
    """A step that does not show that it calls a cached function."""
    return CALLED(X)


def squared(y, prediction):
    return np.clip((y - prediction) ** 2, 0, 1)


class TestCachedFunctions:
    """``joblib.Memory`` writes what a function is given and what it answers to disk."""

    def fit(self, folder, **options):
        cached = Memory(folder, verbose=0).cache(doubled)
        usual = {"guide": False, "score_fraction": 0.0, "loss_bound": 1.0}
        pipeline = make_pipeline(FunctionTransformer(cached), Ridge())
        search = DPGridSearchCV(pipeline, {"ridge__alpha": [1.0]}, **(usual | options))
        rows = np.full((8, 2), SECRET)
        if "protect" in options:
            search.fit(np.vstack([X, rows]), np.r_[Y, np.zeros(8)])
        else:
            search.fit(X, Y, X_val=rows, y_val=np.zeros(8))

    def on_disk(self, folder):
        files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        return any(Secrets([SECRET, 2 * SECRET]).in_bytes(data) for data in files)

    CHUNKS = {"protect": Chunks(2)}

    @pytest.mark.parametrize("options", [{}, CHUNKS])
    def test_refused(self, options, tmp_path):
        with (
            PrivacyLedger(epsilon=9.0) as ledger,
            pytest.raises(ValueError, match=r"joblib\.Memory"),
        ):
            self.fit(tmp_path, **options)
        assert not ledger.entries
        assert not self.on_disk(tmp_path)

    @pytest.mark.parametrize("mode", ["validation", "chunks", "private"])
    def test_called_without_the_cache(self, mode, tmp_path):
        assert not self.on_disk_from_inside(mode, tmp_path)

    WAYS = {
        "call": (doubled, lambda cached: lambda X: cached.call(X)[0]),
        "shelf": (doubled, lambda cached: lambda X: cached.call_and_shelve(X).get()),
        "scikit-learn": (check_array, lambda cached: cached),
    }

    @pytest.mark.parametrize("way", WAYS)
    def test_in_no_way(self, way, tmp_path):
        assert not self.on_disk_from_inside("validation", tmp_path, *self.WAYS[way])

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("way", WAYS)
    def test_each_way_is_found(self, way, tmp_path, monkeypatch):
        plant(monkeypatch, "cached functions are called as they are")
        assert self.on_disk_from_inside("validation", tmp_path, *self.WAYS[way])

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("mode", ["validation", "chunks", "private"])
    def test_a_cache_inside_is_found(self, mode, tmp_path, monkeypatch):
        plant(monkeypatch, "cached functions are called as they are")
        assert self.on_disk_from_inside(mode, tmp_path)

    def on_disk_from_inside(self, mode, folder, function=doubled, way=lambda cached: cached):
        """Whether rows are on disk after a step has called a cached function."""
        global CALLED
        cached = Memory(folder, verbose=0).cache(function)
        CALLED = way(cached)
        options = {"guide": False, "score_fraction": 0.0, "loss_bound": 1.0}
        rows, targets = np.full((8, 2), SECRET), np.zeros(8)
        model, name = Ridge(), "ridge__fit_intercept"
        if mode == "private":
            options |= {"protect": private_selection("composition")}
            model, name = private_ridge(), "dpridge__fit_intercept"
        elif mode == "chunks":
            options |= self.CHUNKS
        pipeline = make_pipeline(FunctionTransformer(calling), model)
        search = DPGridSearchCV(pipeline, {name: [True]}, **options)
        if mode == "validation":
            search.fit(X, Y, X_val=rows, y_val=targets)
        else:
            search.fit(np.vstack([X, rows]), np.r_[Y, targets])
        assert cached(np.ones((1, 1))).tolist() == function(np.ones((1, 1))).tolist()
        assert cached.check_call_in_cache(np.ones((1, 1)))  # it caches again
        return self.on_disk(folder)

    def test_refused_wherever_it_is(self, tmp_path):
        memory = Memory(tmp_path, verbose=0)
        step = FunctionTransformer(functools.partial(memory.cache(doubled)))
        method = FunctionTransformer(memory.cache(doubled).__call__)
        scoring = make_per_record_scorer(memory.cache(squared), bound=1.0)
        options = {"guide": False, "score_fraction": 0.0}
        for search in [
            DPGridSearchCV(make_pipeline("passthrough", Ridge()), {"passthrough": [step]}),
            DPGridSearchCV(make_pipeline(method, Ridge()), {"ridge__alpha": [1.0]}),
            DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring),
        ]:
            search.set_params(**options)
            with pytest.raises(ValueError, match=r"joblib\.Memory"):
                search.fit(X, Y, X_val=GOOD, y_val=np.zeros(8))

    def test_rows_on_disk_are_found(self, tmp_path, monkeypatch):
        plant(monkeypatch, "cached functions are not refused")
        plant(monkeypatch, "cached functions are called as they are")
        self.fit(tmp_path)
        assert self.on_disk(tmp_path)
