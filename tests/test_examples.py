"""Printed lines of examples say what their text claims; the gallery runs all examples.

``SKDPBO_GALLERY`` names the sources of a built gallery, docs/auto_examples. What its run of an
example has printed, with warnings as errors as well, is read there then.
"""

import functools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from _support.internals import Chunks, excess_cap, excess_sensitivity

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"(\d\.\d+)"


# Hidden packages are not found. (A None in sys.modules would mislead scikit-learn.)
LAUNCHER = """
import runpy, sys
class Hidden:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden)
runpy.run_path({path!r}, run_name="__main__")
"""


@functools.cache
def run(path, *, without=frozenset()):
    """Return what a script prints, with warnings as errors and some packages hidden."""
    code = LAUNCHER.format(path=str(path), hidden=tuple(without))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PRINTED = re.compile(
    r"^\.\. rst-class:: sphx-glr-script-out\n\n \.\. code-block:: none\n((?:\n|  .*\n)+)", re.M
)


def printed_by(name):
    """Return what an example prints."""
    if "SKDPBO_GALLERY" not in os.environ:
        return run(ROOT / "examples" / f"{name}.py")
    page = Path(os.environ["SKDPBO_GALLERY"], f"{name}.rst").read_text("utf-8")
    return "\n".join(textwrap.dedent(block).strip("\n") for block in PRINTED.findall(page)) + "\n"


@pytest.fixture(scope="module")
def quickstart():
    # Run-time dependencies only: what the README's first command installs.
    hidden = frozenset({"matplotlib", "pandas", "opendp", "dp_accounting", "hypothesis", "mpmath"})
    return run(ROOT / "examples" / "1_quickstart" / "plot_quickstart.py", without=hidden)


@pytest.mark.slow
def test_quickstart_reveals_the_diagnosis_from_grid_search(quickstart):
    published = re.search(rf"GridSearchCV publishes +{NUMBER}", quickstart).group(1)
    guesses = re.findall(rf"^if patient 0 is (\w+) +{NUMBER} *(<-.*)?$", quickstart, re.M)
    assert len(guesses) == 2
    assert [bool(mark) for _, guess, mark in guesses] == [g == published for _, g, _ in guesses]
    assert sum(bool(mark) for _, _, mark in guesses) == 1
    assert re.search(r"best_score_ reveals [1-6] of 6 patients, cv_results_ 6 of 6", quickstart)


@pytest.mark.slow
def test_quickstart_releases_with_a_promise(quickstart):
    assert re.search(r"skdpbo publishes  C = \d", quickstart)
    assert re.search(r"score = [01]\.\d{3}$", quickstart, re.M)
    promise = r"^The release is \(epsilon=1, delta=0\)-differentially private .* proved, assuming:"
    assert re.search(promise, quickstart, re.M)
    assert "at most 73% after skdpbo, 100% after GridSearchCV" in quickstart
    runs = re.findall(r"^if patient 0 is \w+ +((?:[01]\.\d{3} ?){5})$", quickstart, re.M)
    assert len(runs) == 2
    assert re.search(r"^refused: DPBayesSearchCV of \w+: .*nothing was charged", quickstart, re.M)


@pytest.mark.slow
def test_quickstart_is_honest_about_its_noise(quickstart):
    assert "score: 0.038 with 369 protected rows" in quickstart
    chosen, best = re.search(r"chosen (\S+), best (\S+)$", quickstart, re.M).groups()
    # The mechanism loses more than k rows with probability below 12 exp(-0.45 k), 2e-7 for 40;
    # the public prior may shift the choice by a few rows more.
    assert float(best) - 45 / 369 <= float(chosen) <= float(best)


@pytest.mark.slow
def test_honkela_melkas_default_has_half_the_error_and_honest_bands():
    # Differences of 10 standard errors and more.
    printed = printed_by("3_papers/plot_honkela_melkas")
    line = r"paper ([\d.]+), default ([\d.]+)   coverage: paper ([\d.]+), default ([\d.]+)"
    rows = np.array(re.findall(line, printed), dtype=float)
    assert len(rows) == 3
    assert (rows[:, 1] < 0.75 * rows[:, 0]).all()
    assert (rows[:, 3] > 0.9).all()
    assert (rows[:, 2] < 0.9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("journey", "stated"),
    [
        ("1_public_rows", "epsilon=1, delta=0"),
        ("2_classifier", "0.611994-GDP"),
        ("3_curve", "0.719117-GDP"),
    ],
)
def test_a_journey_ends_with_a_sentence_and_what_an_attacker_sees(journey, stated):
    name = f"1_quickstart/plot_journey_{journey}"
    assert "# The attacker's view\n" in (ROOT / "examples" / f"{name}.py").read_text("utf-8")
    printed = printed_by(name)
    assert re.search(rf"^The release is .*{stated}.* proved, assuming:", printed, re.M)


@pytest.mark.slow
def test_the_journey_of_public_rows_bounds_the_loss_of_its_choice():
    printed = printed_by("1_quickstart/plot_journey_1_public_rows")
    assert 0 < float(re.search(r"factor e\^([\d.]+)", printed).group(1)) <= 0.9


@pytest.mark.slow
def test_audit_example_refutes_the_three_mistakes_and_the_last_digits():
    # The noise of the means is seeded; that of the lattice passes with probability 1 - 1e-6.
    printed = printed_by("2_how_to/plot_audit_your_own")
    verdicts = dict(re.findall(r"^(\w+) +epsilon >= [\d.]+: (.+)$", printed, re.M))
    refuted = {name for name, verdict in verdicts.items() if verdict == "REFUTED"}
    assert refuted == {"forgot_to_clip", "range_from_data", "half_the_noise"}
    assert verdicts["textbook"] == "not refuted"
    digits = dict(re.findall(r"^(\w+) +last digits alone: epsilon >= ([\d.]+)$", printed, re.M))
    assert float(digits["textbook"]) > 1 >= float(digits["on_lattice"])
    assert re.search(r"^leaks: \[Leak\(.*range_", printed, re.M)
    assert "without range_: []" in printed


@pytest.mark.slow
def test_team_budget_keeps_a_crash_and_refuses_what_does_not_fit():
    printed = printed_by("2_how_to/plot_team_budget")
    assert "exit status 9; 8 charges, the last one DPGridSearchCV" in printed
    assert re.search(r"^refused: DPSparseGPRegressor: .*nothing was charged", printed, re.M)
    sums = re.search(r"composed ([\d.]+), added ([\d.]+), budget ([\d.]+)", printed).groups()
    composed, added, budget = map(float, sums)
    assert composed < budget < added


@pytest.mark.slow
def test_public_rows_of_another_population_mislead_unless_they_are_switched_off():
    # Without the prior a search misses depth 1 with probability 4e-4; four of twelve would have to.
    printed = printed_by("2_how_to/plot_public_and_private_rows")
    means = re.findall(r"^prior_weight=(\S+) +mean exact score ([\d.]+)", printed, re.M)
    assert [name for name, _ in means] == ["'auto'", "0"]
    assert float(means[1][1]) > float(means[0][1]) + 0.05


@pytest.mark.slow
def test_more_epsilon_helps_unless_chunks_are_too_small():
    printed = printed_by("2_how_to/plot_every_record")
    rows = re.findall(r"^ *(\d+) chunks ((?:[\d.]+ ?)+)$", printed, re.M)
    quality = {int(k): [float(value) for value in values.split()] for k, values in rows}
    assert quality[5] == sorted(quality[5])
    assert quality[20] == sorted(quality[20])
    assert quality[200] == sorted(quality[200], reverse=True)
    assert all(few <= more for few, more in zip(quality[5], quality[20], strict=True))


@pytest.mark.parametrize("n_chunks", [5, 20, 200])
def test_the_example_without_public_rows_computes_the_law_of_the_search(n_chunks):
    # Its lines: R = (6000 - 6000 // k) // 20, sensitivity R + 2 (k - 1).
    cap = excess_cap(1, Chunks(n_chunks).excess_bound, n_chunks, 6000, None)
    assert cap == (6000 - 6000 // n_chunks) // 20
    assert excess_sensitivity(1, cap, n_chunks, None) == cap + 2 * (n_chunks - 1)
