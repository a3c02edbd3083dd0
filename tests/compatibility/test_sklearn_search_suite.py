"""scikit-learn's own tests of its searchers, run with `DPGridSearchCV` as `GridSearchCV`.

How it is counted: by name of test function in the installed file; a function passes if each of its
parametrisations that is not skipped passes. What does not pass as it stands is run once more
with metrics without bounded sensitivity swapped for the nearest bounded one; passing then is
passing. It is *refused* if, as it stands, the searcher refuses with a privacy reason (a metric
without bounded sensitivity, a callable refit). Everything else is listed below, with the reason.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REASON = re.compile("differential privacy|noise|bounded")
# Of the functions that use the searcher and of all: 48 and 62 of 80, as shares, because the
# number of functions in the file grows from version to version.
PASSED, PASSED_OR_REFUSED = 48 / 80, 62 / 80
SCRIPT = Path(__file__).parent / "run_search_suite.py"

FEWER_ROWS = "some of the rows are protected, so that numbers of rows or folds differ"
TRAINED_ON_FEWER = "compares a model or score with one trained on the protected rows as well"
CV_OF_ALL = "its cv holds positions among all rows; here cv splits the public rows"
PAIRWISE = "the columns of a precomputed kernel stand for all rows, of which only some train"

LISTED = {
    "test_search_cv_results_none_param": FEWER_ROWS,
    "test_search_callbacks_receive_sample_weight": FEWER_ROWS,
    "test_grid_search_one_grid_point": TRAINED_ON_FEWER,
    "test_grid_search_with_multioutput_data": TRAINED_ON_FEWER,
    "test_search_cv_using_minimal_compatible_estimator": TRAINED_ON_FEWER,
    "test_custom_run_search": "compares cv_results_ under R2, which has no bounded sensitivity",
    "test_grid_search_cv_splits_consistency": CV_OF_ALL,
    "test_search_cv_sample_weight_equivalence": CV_OF_ALL,
    "test_grid_search_precomputed_kernel": PAIRWISE,
    "test_search_cv_pairwise_property_equivalence_of_precomputed": PAIRWISE,
    "test_grid_search_cv_results_multimetric": "several metrics and refit=False: none decides, and "
    "a private choice needs one that does",
    "test_grid_search_correct_score_results": TRAINED_ON_FEWER,
    "test_gridsearch_nd": "targets of three dimensions, for which there is no loss of a record",
}


def run_suite(output, *arguments):
    """Outcomes of the parametrisations, from a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(output), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(output.read_text("utf-8"))


def by_function(runs):
    functions = {}
    for run in runs:
        functions.setdefault(run["function"], []).append(run)
    return functions


def passes(runs):
    return all(run["outcome"] != "failed" for run in runs)


def is_refused(runs):
    return all(run["refusal"] for run in runs if run["outcome"] == "failed")


def uses_searcher(runs):
    return any(run["searcher"] for run in runs)


def count(functions, swapped, names):
    """Names sorted into {"passed", "skipped", "refused", "rest"}."""
    verdicts = {"passed": set(), "skipped": set(), "refused": set(), "rest": set()}
    for name in names:
        runs = functions[name]
        if all(run["outcome"] == "skipped" for run in runs):
            verdict = "skipped"
        elif passes(runs) or (name in swapped and passes(swapped[name])):
            verdict = "passed"
        else:
            verdict = "refused" if is_refused(runs) else "rest"
        verdicts[verdict].add(name)
    return verdicts


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    functions = by_function(run_suite(folder / "plain.json"))
    failed = sorted(name for name, runs in functions.items() if not passes(runs))
    swapped = by_function(run_suite(folder / "swapped.json", "--swap", *failed))
    return functions, swapped


@pytest.mark.slow
@pytest.mark.parametrize("only_users", [False, True], ids=["all functions", "that use it"])
def test_scikit_learns_own_tests(suite, only_users):
    functions, swapped = suite
    names = [name for name, runs in functions.items() if not only_users or uses_searcher(runs)]
    verdicts = count(functions, swapped, names)
    summary = {verdict: len(found) for verdict, found in verdicts.items()}
    print(f"{len(names)} functions: {summary}")
    print({verdict: sorted(found) for verdict, found in verdicts.items() if verdict != "passed"})
    assert len(verdicts["passed"]) >= PASSED * len(names), summary
    assert len(verdicts["passed"] | verdicts["refused"]) >= PASSED_OR_REFUSED * len(names), summary


@pytest.mark.slow
def test_what_does_not_pass_is_listed_with_its_reason(suite):
    verdicts = count(*suite, suite[0])
    unlisted = {
        name: [run["error"] for run in suite[0][name] if run["error"]]
        for name in verdicts["rest"] - set(LISTED)
    }
    assert not unlisted
    stale = set(LISTED) & (verdicts["passed"] | verdicts["refused"])
    assert not stale


@pytest.mark.slow
def test_refusals_state_a_privacy_reason(suite):
    functions = suite[0]
    for name in count(*suite, functions)["refused"]:
        reasons = [run["refusal"] for run in functions[name] if run["refusal"]]
        assert all(REASON.search(reason) for reason in reasons), (name, reasons)


def test_the_count_sees_a_failure():
    failed = {"outcome": "failed", "refusal": None, "searcher": True}
    passed = {"outcome": "passed", "refusal": None, "searcher": True}
    refused = {"outcome": "failed", "refusal": "no noise", "searcher": True}
    functions = {"a": [passed, failed], "b": [passed], "c": [passed, refused], "d": [refused]}
    verdicts = count(functions, {"a": [failed], "c": [failed], "d": [passed]}, functions)
    assert verdicts == {"passed": {"b", "d"}, "skipped": set(), "refused": {"c"}, "rest": {"a"}}
