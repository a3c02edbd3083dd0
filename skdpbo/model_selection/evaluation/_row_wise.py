"""Steps that are verified to transform and predict each row from that row alone.

A guarantee is "proved" if every step of the estimator is on this list, else "conditional" on the
named steps. A class is on the list if its code was read and if it passes the differential check of
``tests/model_selection/evaluation/test_row_wise.py``: the output for a row is the same to the bit
in every batch of one size, whatever the other rows are. Exact classes only: a subclass, or the
class of a later scikit-learn, may do more.
"""

import inspect
import numbers
import os
import re
import sys

import numpy as np
import sklearn
from joblib import Memory
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer

from skdpbo._isolation._estimator_parts import is_estimator
from skdpbo.model_selection._sklearn import puts_out_frames, with_params

# The last minor version of scikit-learn whose classes were read and checked.
LAST_READ = 1, 9
# Public module: names of its verified classes.
VERIFIED = {
    "sklearn.calibration": "CalibratedClassifierCV",
    "sklearn.cluster": "Birch FeatureAgglomeration KMeans MiniBatchKMeans",
    "sklearn.compose": "ColumnTransformer TransformedTargetRegressor",
    "sklearn.cross_decomposition": "CCA PLSCanonical PLSRegression PLSSVD",
    "sklearn.decomposition": (
        "DictionaryLearning FactorAnalysis FastICA IncrementalPCA KernelPCA "
        "LatentDirichletAllocation MiniBatchDictionaryLearning PCA SparseCoder TruncatedSVD"
    ),
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble": (
        "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor "
        "ExtraTreesClassifier ExtraTreesRegressor GradientBoostingClassifier "
        "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
        "RandomForestClassifier RandomForestRegressor RandomTreesEmbedding StackingClassifier "
        "StackingRegressor VotingClassifier VotingRegressor"
    ),
    "sklearn.feature_extraction": "DictVectorizer FeatureHasher",
    "sklearn.feature_extraction.text": (
        "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer"
    ),
    "sklearn.feature_selection": (
        "GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe "
        "SelectKBest SelectPercentile SequentialFeatureSelector VarianceThreshold"
    ),
    "sklearn.frozen": "FrozenEstimator",
    "sklearn.gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "sklearn.gaussian_process.kernels": (
        "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Matern "
        "PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel"
    ),
    "sklearn.impute": "MissingIndicator SimpleImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": (
        "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler"
    ),
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model": (
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor HuberRegressor Lars "
        "LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression "
        "LogisticRegression LogisticRegressionCV MultiTaskElasticNet MultiTaskElasticNetCV "
        "MultiTaskLasso MultiTaskLassoCV OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV "
        "PassiveAggressiveClassifier PassiveAggressiveRegressor Perceptron PoissonRegressor "
        "QuantileRegressor RANSACRegressor Ridge RidgeCV RidgeClassifier RidgeClassifierCV "
        "SGDClassifier SGDRegressor TheilSenRegressor TweedieRegressor"
    ),
    "sklearn.manifold": "Isomap LocallyLinearEmbedding",
    "sklearn.model_selection": (
        "FixedThresholdClassifier GridSearchCV RandomizedSearchCV TunedThresholdClassifierCV"
    ),
    "sklearn.multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
    "sklearn.multioutput": (
        "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain"
    ),
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.neighbors": (
        "KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer NearestCentroid "
        "NeighborhoodComponentsAnalysis RadiusNeighborsClassifier RadiusNeighborsRegressor "
        "RadiusNeighborsTransformer"
    ),
    "sklearn.neural_network": "BernoulliRBM MLPClassifier MLPRegressor",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing": (
        "Binarizer FunctionTransformer KBinsDiscretizer MaxAbsScaler MinMaxScaler Normalizer "
        "OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer "
        "RobustScaler SplineTransformer StandardScaler TargetEncoder"
    ),
    "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
    "sklearn.semi_supervised": "LabelPropagation LabelSpreading SelfTrainingClassifier",
    "sklearn.svm": "LinearSVC LinearSVR NuSVC NuSVR SVC SVR",
    "sklearn.tree": (
        "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"
    ),
    "skdpbo.gaussian_process": "DPSparseGPClassifier DPSparseGPRegressor",
    "skdpbo.linear_model": "DPLogisticRegression DPRidge",
    "skdpbo.model_selection": (
        "DPBayesSearchCV DPGIBOSearchCV DPGridSearchCV DPRandomizedSearchCV"
    ),
    "skdpbo.preprocessing": "DPMinMaxScaler DPOneHotEncoder DPSimpleImputer DPStandardScaler",
}
# Objects and functions that are parameters of steps and are called in a fit alone.
_OF_FITS = {
    "sklearn.compose": "make_column_selector",
    "sklearn.feature_selection": (
        "chi2 f_classif f_regression mutual_info_classif mutual_info_regression r_regression"
    ),
    "sklearn.model_selection": (
        "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut LeavePGroupsOut LeavePOut "
        "PredefinedSplit RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold "
        "StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit"
    ),
}
# Options with which a verified class is not row-wise: it draws while it predicts, reads files that
# rows share, or breaks ties by the number of rows.
_UNSAFE = {
    "CountVectorizer": {"input": ("file", "filename")},
    "DummyClassifier": {"strategy": ("stratified", "uniform")},
    "Isomap": {"metric": ("hamming",)},
    "HashingVectorizer": {"input": ("file", "filename")},
    "TfidfVectorizer": {"input": ("file", "filename")},
}
# The same for the values that a search inside the estimator tries.
_UNSAFE_TEXTS = {"precomputed", "file", "filename", "hamming", "stratified", "uniform"}
_SPACES = ("param_grid", "param_distributions", "search_spaces")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, slice, range)
_HOMES, _FIT_HOMES = (
    {name: module for module, names in table.items() for name in names.split()}
    for table in (VERIFIED, _OF_FITS)
)
_TYPES = (bool, int, float, complex, str, bytes, np.generic)
FRAMES = "frames of Python objects, as by set_output, of"


def unverified_steps(estimator, candidates=(), objects=False):
    """Return the names of the steps that are not verified to treat each row by itself.

    Parameters
    ----------
    estimator : estimator
        Not fitted, or frozen.
    candidates : iterable of dict, default=()
        Parameters that it will be given. Numbers do not change the steps.
    objects : bool, default=False
        Whether the rows hold Python objects. If a step puts them into a frame, the type of a column
        depends on all rows: next to texts alone None becomes NaN, next to a number it stays None.

    Returns
    -------
    names : tuple of str
        Each names a class and its place, and the parameter at fault if the class itself is
        verified; empty if every step is verified.
    """
    models, seen = [estimator], set()
    for params in candidates:
        changes = {k: v for k, v in params.items() if not isinstance(v, numbers.Number)}
        # Texts by value, as many candidates repeat them; objects by identity, as some do not hash.
        mark = tuple((k, v if type(v) is str else id(v)) for k, v in changes.items())
        if changes and mark not in seen:
            seen.add(mark)
            models.append(with_params(estimator, changes))
    names = [name for model in models for name, _ in unverified_parts(model)]
    names += [f"{FRAMES} {name}" for model in models if objects for name in framed_steps(model)]
    return tuple(dict.fromkeys(names))


def framed_steps(step, path=""):
    """Yield the names of steps whose output is a frame."""
    # The first entry is the step itself; get_params of a frozen estimator leaves out its parts.
    for key, part in {"": step, **step.get_params()}.items():
        if is_estimator(part):
            place = f"{path}{key}__" if key else path
            if puts_out_frames(part):
                yield step_name(part, place)
            if type(part) is FrozenEstimator:
                yield from framed_steps(part.estimator, f"{place}estimator__")


def row_wise_assumption(names):
    """Return the text of the assumption that a guarantee makes on unverified steps.

    Parameters
    ----------
    names : tuple of str
        Of `unverified_steps`, not empty.
    """
    later = f" (scikit-learn {sklearn.__version__} is later than {'.'.join(map(str, LAST_READ))})"
    return (
        "each row is transformed and predicted from that row alone, and one training leaves "
        "nothing behind for another or for the caller, by steps that are not verified"
        f"{later * _is_later()}: {', '.join(names)}"
    )


def _is_later():
    """Whether scikit-learn is later than the version whose classes were read."""
    return tuple(map(int, re.findall(r"\d+", sklearn.__version__)[:2])) > LAST_READ


def unverified_parts(step, path="", seen=None):
    """Return (name, step) for every step that is not verified, the inner and fitted ones included.

    Parameters
    ----------
    step : estimator
        Fitted or not.
    path : str, default=""
        Prefix of its parameters among those of the whole estimator.
    seen : set of int, default=None
        Ids of the steps already visited; updated in place.
    """
    seen = set() if seen is None else seen
    if id(step) in seen:  # steps may hold each other
        return []
    seen.add(id(step))
    # Looked up first: only the module of a known class is trustworthy.
    verified = _is_among(_HOMES, type(step)) and not (
        _is_later() and type(step).__module__.startswith("sklearn.")
    )
    params = step.get_params(deep=False)
    found = [] if verified else [(step_name(step, path), step)]
    for key, value in params.items():
        if verified and not _is_harmless(step, key, value):
            found.append((f"{key} of {step_name(step, path)}", step))
        found += _unverified_among({key: value}, path, seen)
    # Fitted parts of verified steps are clones of their parameters, or the step's own classes.
    fitted = {}
    if found:
        fitted = {key: value for key, value in vars(step).items() if key not in params}
    elif type(step) is FrozenEstimator:
        fitted, path = vars(step.estimator), f"{path}estimator__"
    return [*found, *_unverified_among(fitted, path, seen)]


def _unverified_among(attributes, path, seen):
    for key, value in attributes.items():
        listed = value if isinstance(value, list | tuple) else ()
        named = [i for i in listed if isinstance(i, tuple) and len(i) > 1 and type(i[0]) is str]
        for part in _not_plain(value):
            if is_estimator(part):  # by its name in a list of (name, estimator, ...)
                names = [item[0] for item in named if any(of_item is part for of_item in item)]
                place = f"{path}{names[0] if names else key}__"
                yield from unverified_parts(part, place, seen)


def _is_harmless(step, key, value):
    """Whether a value of a verified class's parameter, apart from estimators, is verified too."""
    if type(value) is str:
        unsafe = _UNSAFE.get(type(step).__name__, {}).get(key, ())
        return value not in ("precomputed", *unsafe)
    if isinstance(value, np.ufunc):
        # numpy's own functions of each number, with no further arguments
        name = value.__name__
        known = getattr(np, name, None) is value
        further = getattr(step, "kw_args", None) or getattr(step, "inv_kw_args", None)
        return known and value.signature is None and value.nin == 1 and not further
    if key == "random_state" and type(value) is np.random.RandomState:
        return True
    if key == "memory" and type(value) is Memory:  # of trainings, as with a path
        return value.backend == "local"
    if key == "transformer" and is_estimator(value):  # of a TransformedTargetRegressor
        # Its inverse with indicators depends on whether a whole column is missing.
        parts = [value, *value.get_params().values()]
        return not any(type(part) is SimpleImputer for part in parts)
    if key in _SPACES and _UNSAFE_TEXTS & set(_texts(value)):
        return False
    parts = [part for part in _not_plain(value) if not is_estimator(part)]
    if not all(map(callable, parts)):
        return False
    # A function is verified if it is the default of the class, as it was read with the class.
    default = inspect.signature(type(step)).parameters.get(key) if parts else None
    return all(default is not None and default.default is part for part in parts)


def _not_plain(value):
    """Yield what is neither a number, a text nor a container of those."""
    if type(value) in _PLAIN or isinstance(value, np.generic | np.dtype):
        return
    elif type(value) in (list, tuple, set, frozenset, dict):
        parts = [*value.values(), *value] if isinstance(value, dict) else value
        if not {type(part) for part in parts} <= {*_PLAIN}:
            for part in parts:
                yield from _not_plain(part)
    elif type(value) is np.ndarray:
        if value.dtype.kind == "O":
            yield from _not_plain(list(value.flat))
    elif isinstance(value, type):
        if value is not object and not issubclass(value, _TYPES):
            yield value
    elif not (
        sparse.issparse(value)
        or type(value).__module__.startswith(("pandas.", "scipy.stats."))
        or _is_among(_FIT_HOMES, value)
        or _is_among(_FIT_HOMES, type(value))
    ):
        yield value


def _texts(value):
    """Yield the texts among the values of a space."""
    if type(value) is str:
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _is_among(homes, thing):
    """Whether a class or function is the one of its name in the module of a table."""
    name = getattr(thing, "__name__", "")
    if name not in homes or getattr(sys.modules.get(homes[name]), name, None) is not thing:
        return False
    # It must also be written in its package: scikit-learn-intelex replaces classes of
    # scikit-learn, and cuml.accel even gives its classes the names of scikit-learn's modules.
    package = homes[name].partition(".")[0]
    if str(thing.__module__).partition(".")[0] != package:
        return False
    code = getattr(thing.__init__ if isinstance(thing, type) else thing, "__code__", None)
    folder = os.path.dirname(sys.modules[package].__file__)
    return code is None or code.co_filename.startswith(folder + os.sep)


def step_name(step, path):
    """Return the class of a step and, unless it is the whole estimator, its place."""
    kind = type(step).__name__
    return f"{kind} (step {path.removesuffix('__')!r})" if path else kind
