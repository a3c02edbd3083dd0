"""Public rows in DPGIBOSearchCV: formulas, scales, warnings and whole fits."""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from _support.internals import (
    PublicChanges,
    PublicGradient,
    SafeEnd,
    clipped_rows,
    precise_clip,
    public_limit,
    roughness,
    squared_error,
)
from _support.planted import original, plant, put
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV
from skdpbo.exceptions import FlatLossWarning, LowBoundWarning, NoisyGradientWarning
from skdpbo.model_selection import Descent, GradientSurrogate
from skdpbo.privacy import PrivacyLedger

RNG = np.random.RandomState(0)
UNITS = 1000


@pytest.fixture(autouse=True)
def same_rows_in_any_order_of_the_tests():
    RNG.seed(0)


class Slopes(RegressorMixin, BaseEstimator):
    """Predicts its parameters, so that the best ones are the means of the targets."""

    def __init__(self, a=0.5, b=0.5, step=0.0):
        self.a = a
        self.b = b
        self.step = step

    def fit(self, X, y):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        value = np.where(np.asarray(X)[:, 0] > 0, self.a, self.b)
        if not self.step:
            return value
        # A step of each row at its own place
        return np.floor(value / self.step + np.asarray(X)[:, 1]) * self.step


SPACE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}


def rows(n, mean_a, mean_b, noise=0.05):
    X = np.column_stack([np.where(np.arange(n) % 2, 1.0, -1.0), RNG.uniform(size=n)])
    y = np.where(X[:, 0] > 0, mean_a, mean_b) + noise * RNG.normal(size=n)
    return X, y


def fitted(public, protected, estimator=None, **params):
    how = {"n_iter": 5, "loss_bound": 1.0, "epsilon": 20.0, "cv": 3, "refit": False} | params
    search = DPGIBOSearchCV(Slopes() if estimator is None else estimator, SPACE, **how)
    return search.fit(*public, X_val=protected[0], y_val=protected[1])


class TestFormulas:
    def test_error_of_independent_rows(self):
        values = RNG.normal(size=(3000, 4)) * [1.0, 2.0, 3.0, 4.0]
        error = squared_error(values, np.arange(3000) % 300)
        assert error * 3000 == pytest.approx(np.array([1.0, 4.0, 9.0, 16.0]), rel=0.2)

    def test_error_of_folds_that_differ(self):
        values = RNG.normal(size=(3000, 4))
        folds = np.arange(3000) % 5
        shifted = values + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])[folds][:, None]
        assert squared_error(shifted, folds) == pytest.approx(0.5, rel=0.1)  # 2.5 / 5

    def test_clipped_rows(self):
        found = np.linalg.norm(
            clipped_rows(np.array([[3.0, 4.0], [0.0, 0.1], [0, 0]]), 0.5), axis=1
        )
        assert found == pytest.approx([0.5, 0.1, 0.0])

    def test_clip_against_noise(self):
        gradients = RNG.normal(size=(500, 3)) * RNG.pareto(2.0, size=(500, 1)) + [0.5, 0, 0]
        quiet, loud = (precise_clip(gradients, noise) for noise in (0.0, 5.0))
        assert quiet == pytest.approx(np.linalg.norm(gradients, axis=1).max())
        assert loud < quiet / 4
        assert precise_clip(np.zeros((5, 2)), 1.0) is None

    @pytest.mark.parametrize(("kind", "exponent"), [("smooth", 1.0), ("steps", 0.5), ("noise", 0)])
    def test_roughness(self, kind, exponent):
        x, h = RNG.uniform(size=4000), 0.02
        shape = {
            "smooth": lambda far: 1e6 * (x + far) ** 2,
            "steps": lambda far: 1e6 * (x + far > 0.5),
            "noise": lambda far: 1e6 * RNG.normal(size=4000),
        }[kind]
        found = roughness(shape(0.0), [shape(h)], [shape(2 * h)])
        assert found == pytest.approx(exponent, abs=0.15)

    def test_flat_is_not_smooth(self):
        assert roughness(np.ones(5), np.ones((2, 5)), np.ones((2, 5))) == 0.0

    def measured(self, noise_scale, n_protected, n_public=400):
        losses = UNITS // 2 + RNG.randint(-100, 100, size=(1, n_public))
        public = PublicGradient(
            lambda points: list(losses),
            np.arange(n_public) % 4,
            units=UNITS,
            n_protected=n_protected,
        )
        public.add(np.zeros((1, 1)), 1)
        found = public.combined(np.ones((1, 1)), np.array([7.0]), noise_scale, 1e9)
        return found[0], losses.mean() / UNITS, public.weights[-1]

    def test_without_noise_and_with_many_records_the_released_gradient_counts(self):
        found, _, weight = self.measured(1e-12, 10**9)
        assert found == pytest.approx(7.0, abs=1e-3)
        assert weight < 1e-5

    def test_with_all_noise_the_public_gradient_counts(self):
        found, public, weight = self.measured(1e9, 1000)
        assert found == pytest.approx(public, abs=1e-3)
        assert weight == pytest.approx(1.0)

    def test_the_weights_are_the_precisions(self):
        """As many records, no noise: half each, but for folds that differ by chance."""
        _, _, weight = self.measured(1e-12, 400)
        assert 0.2 < weight <= 0.5 + 1e-9

    def test_uncertain_coordinates_move_little_and_count_as_chance(self):
        """Steps of the length of the trust; chance is half the error over the gradient."""
        losses = UNITS // 2 + RNG.randint(-100, 100, size=(2, 400))
        losses[0] += 300
        public = PublicGradient(
            lambda points: list(losses), np.arange(400) % 4, units=UNITS, n_protected=400
        )
        public.add(np.zeros((2, 1)), 2)
        gradient = public.combined(np.diag([1.0, 1e-3]), np.array([0.8, 5.0]), 1e9, 1e9)
        assert gradient == pytest.approx([losses[0].mean() / UNITS, losses[1].mean() / UNITS / 1e3])
        assert public.trust[0] > 0.99
        public.moved(np.array([-0.1, 0.0]))
        rows = np.outer(losses[0] / UNITS, [1.0, 0.0]) + np.outer(losses[1] / UNITS, [0, 1e-3])
        error = squared_error(rows, np.arange(400) % 4)
        assert public.optimism == pytest.approx([0.0, 0.05 * error[0] / gradient[0]])
        assert public.trust**2 == pytest.approx(gradient**2 / (gradient**2 + error))

    def test_clipping_of_gradients_is_undone_by_public_rows(self):
        losses = np.array([[100] * 300 + [900] * 100])
        public = PublicGradient(
            lambda points: list(losses), np.arange(400) % 4, units=UNITS, n_protected=10**9
        )
        public.add(np.zeros((1, 1)), 1)
        found = public.combined(np.ones((1, 1)), np.array([0.15]), 1e-9, 0.2)
        # Clipped to .2 the mean is .125, unclipped .3
        assert found == pytest.approx([0.15 + 0.3 - 0.125], abs=1e-6)


class TestEnd:
    SIZES = {"units": UNITS, "n_protected": 4000}

    def changes(self, n=500):
        one, two = RNG.normal(-5.0, 10.0, size=n), RNG.normal(5.0, 10.0, size=n)
        return np.rint([np.zeros(n), one, two]).astype(int)

    def seen(self, changes, limit, epsilon, **sizes):
        folds = np.arange(changes.shape[1]) % 5
        with pytest.MonkeyPatch.context() as patch:
            put(patch, "safe end: public_limit", lambda *args, **how: limit)
            return PublicChanges(changes, folds, epsilon=epsilon, **self.SIZES | sizes)

    def test_limit_holds_what_matters(self):
        changes = self.changes()
        changes[1, 0] = 900  # one record of 500
        quiet = public_limit(changes, epsilon=1e6, **self.SIZES)
        loud = public_limit(changes, epsilon=1e-3, **self.SIZES)
        assert quiet == math.ceil(np.ptp(changes[:, 0]) / 2)  # around that record's middle
        assert 1 <= loud < 20

    def test_offsets_grow_with_the_noise(self):
        changes = self.changes()
        offsets = [
            self.seen(changes, 100, epsilon=epsilon).end_offsets() for epsilon in (1e9, 0.1, 1e-3)
        ]
        for start, one, two in offsets:
            assert start == 0
            assert one < 0 < two
        ones = [-one for _, one, _ in offsets]
        assert ones == sorted(ones)
        # Without noise a public record says as much as a protected one.
        public = -changes[1].sum()
        assert ones[0] <= public * 1.0001 + 1
        assert ones[0] == pytest.approx(public, rel=0.7)

    def test_chance_and_margin_speak_for_the_start(self):
        seen = self.seen(self.changes(), 100, epsilon=1e-3)
        plain = seen.end_offsets()
        sceptical = seen.end_offsets(np.array([0.0, 3.0, 3.0]), margin=1.0)
        assert sceptical[0] == plain[0] == 0
        assert all(one > other for one, other in zip(sceptical[1:], plain[1:], strict=True))
        enough = seen.end_offsets(np.array([0.0, 50.0, 50.0]))
        assert min(enough[1:]) > 0

    def test_clipping_is_undone_by_public_rows(self):
        """Next to no protected weight is left: offsets have the order of unclipped means."""
        changes = np.zeros((3, 500), dtype=int)
        changes[1, :50] = -100  # fewer records, but more of a change
        changes[2, :100] = -10
        _, one, two = self.seen(changes, 10, epsilon=1e-6).end_offsets()
        assert one < two < 0

    def test_public_rows_undo_the_clipping_of_the_totals(self):
        """The same rows, as protected ones: clipped totals and offsets are the unclipped totals."""
        changes = self.changes()
        kept = SafeEnd(None, UNITS, 1.0).relative(list(changes), 8)
        clipped = np.mean(kept, axis=1)
        # No other part is left.
        seen = self.seen(changes, 8, epsilon=1e12, n_protected=10**12)
        offsets = np.array(seen.end_offsets()) / 10**12
        found = clipped - clipped[0] + offsets
        assert found == pytest.approx(changes.mean(axis=1), abs=1e-6)
        assert np.abs(offsets[1:]).min() > 0.1

    def test_reused_rows_count_less(self):
        """Without noise the margin is of the protected rows; without budget twice the public."""
        changes = self.changes()
        for epsilon, factor in ((1e9, 1.0), (1e-4, 2.0)):
            seen = self.seen(changes, 100, epsilon=epsilon)
            plain, once, twice = (
                seen.end_offsets(margin=margin, reused=reused)[1]
                for margin, reused in ((0.0, 1.0), (1.0, 1.0), (1.0, 2.0))
            )
            assert (twice - plain) / (once - plain) == pytest.approx(factor, rel=0.1)

    def guesses(self, epsilon, variance, mean=-3.0):
        seen = self.seen(self.rows, 100, epsilon=epsilon)
        return seen.guess_offsets(np.array([mean]), np.array([variance]), margin=1.0)

    def test_guesses_need_precise_protected_rows(self):
        """A less certain candidate has to be better; without budget there are no guesses."""
        self.rows = self.changes()
        (sure,), (unsure,), (worse,) = (
            self.guesses(1e3, *given) for given in ((0.0,), (25.0,), (0.0, 30.0))
        )
        assert sure < unsure
        assert sure < worse
        visited = self.seen(self.rows, 100, epsilon=1e3).end_offsets(margin=1.0)[1]
        assert self.guesses(1e3, 0.0, self.rows[1].mean()) == [visited]
        assert self.guesses(0.01, 0.0) == []

    def test_no_change_no_offset(self):
        none = np.zeros((3, 50), dtype=int)
        assert self.seen(none, 1, epsilon=1.0).end_offsets() == [0, 0, 0]


class TestFit:
    @pytest.mark.slow
    def test_a_large_budget_follows_the_protected_rows(self):
        search = fitted(rows(60, 0.5, 0.5, 0.3), rows(4000, 0.8, 0.3), epsilon=200.0, n_iter=15)
        assert search.best_params_ == pytest.approx({"a": 0.8, "b": 0.3}, abs=0.1)
        assert search.descent_.public_weights.mean() < 0.1
        assert search.n_splits_ == 3

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyScoreWarning")
    def test_no_budget_is_the_public_search(self):
        search = fitted(rows(300, 0.8, 0.3), rows(1000, 0.1, 0.9), epsilon=1e-6)
        assert search.best_params_ == pytest.approx({"a": 0.8, "b": 0.3}, abs=0.1)
        assert search.descent_.public_weights.min() > 0.99

    def test_public_start_is_the_best_public_candidate(self):
        search = fitted(rows(200, 0.8, 0.3), rows(2000, 0.8, 0.3), end_fraction=0.0)
        scores, params = search.cv_results_["mean_test_score"], search.cv_results_["params"]
        n_public = len(params) - len(search.descent_.trajectory) - 1
        assert n_public == 32
        assert params[0] == {"a": 0.5, "b": 0.5}  # the estimator's own
        best = params[int(scores[:n_public].argmax())]
        assert params[n_public] == pytest.approx(best)
        assert search.best_index_ >= n_public

    def test_protected_rows_choose_the_start(self):
        """Among the eight best of the public search, with a large budget one of the best on them.

        Losses that differ by .01 are 20 largest losses of a record apart, and the noise of the
        choice has less than .01 of one: it errs with a probability below exp(-1000).
        """
        rng = np.random.RandomState(5)
        X = np.column_stack([np.where(np.arange(2040) % 2, 1.0, -1.0), rng.uniform(size=2040)])
        y = np.where(X[:, 0] > 0, 0.6, 0.5) + 0.3 * rng.normal(size=2040)
        y[40:] -= 0.4 * (X[40:, 0] > 0)
        search = fitted((X[:40], y[:40]), (X[40:], y[40:]), epsilon=1e4, n_iter=1)
        params, scores = search.cv_results_["params"], search.cv_results_["mean_test_score"]
        n_public = len(params) - len(search.descent_.trajectory) - 1
        best = [params[k] for k in np.argsort(-scores[:n_public], kind="stable")[:8]]

        def loss(found):
            errors = Slopes(**found).fit(X, y).predict(X[40:]) - y[40:]
            return np.minimum(np.square(errors), 1.0).mean()

        losses = [loss(found) for found in best]
        assert loss(params[n_public]) < min(losses) + 0.01
        assert loss(best[0]) > min(losses) + 0.01  # that of the public search alone

    @pytest.mark.slow
    def test_both_choices_have_a_margin(self, monkeypatch):
        """The best public candidate and the start, which they compare with, are preferred."""
        offsets, seen = original("safe end: PublicChanges.end_offsets"), []

        def listening(changes, *others, **how):
            found = offsets(changes, *others, **how)
            seen.append(np.subtract(found, offsets(changes, *others, **how | {"margin": 0.0})))
            return found

        put(monkeypatch, "safe end: PublicChanges.end_offsets", listening)
        fitted(rows(200, 0.8, 0.3), rows(1000, 0.8, 0.3))
        assert [len(margins) for margins in seen] == [8, 6]
        for first, *others in seen:
            assert first == 0
            assert min(others) > 0

    @pytest.mark.slow
    def test_the_surrogate_of_the_scores_has_a_say(self, monkeypatch):
        """With precise protected rows candidates that no public fold has seen take part."""
        chosen, sizes = original("trajectory search: SafeEnd.release"), []

        def listening(end, losses, points, *others, **how):
            sizes.append((len(losses), len(points), len(how["offsets"])))
            return chosen(end, losses, points, *others, **how)

        put(monkeypatch, "trajectory search: SafeEnd.release", listening)
        for epsilon in (1000.0, 0.01):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted(rows(200, 0.8, 0.3), rows(1000, 0.8, 0.3), epsilon=epsilon, n_iter=4)
        assert sizes[0] == (48,) * 3
        assert sizes[2] == (8,) * 3

    @pytest.mark.slow
    def test_expected_changes_are_losses(self, monkeypatch):
        """Candidates that have been tried, given as untried: their scores become their losses."""
        guesses, seen = original("safe end: PublicChanges.guess_offsets"), []

        def listening(public, means, variances, **how):
            seen.append((public.changes.mean(axis=1), means))
            return guesses(public, means, variances, **how)

        def tried(search, n):
            best = np.argsort(-search._proposer.scores, kind="stable")[:8]
            candidates = [search._problem.candidates[search._proposer.visited[k]] for k in best]
            return candidates, search._proposer.scores[best], np.zeros(8)

        put(monkeypatch, "safe end: PublicChanges.guess_offsets", listening)
        put(monkeypatch, "public best: PublicBest.promising", tried)
        fitted(rows(198, 0.8, 0.3), rows(1000, 0.8, 0.3), epsilon=1000.0, n_iter=2)
        ((changes, means),) = seen
        assert changes[1:].any()
        np.testing.assert_allclose(means, changes, rtol=0, atol=0.5)  # integer losses

    def starts(self):
        public = rows(60, 0.8, 0.3, 0.3)
        for protected in (rows(1000, 0.1, 0.9), rows(1000, 0.9, 0.1)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield fitted(public, protected, epsilon=1e-6, n_iter=1).descent_.trajectory[0]

    @pytest.mark.slow
    def test_without_budget_protected_rows_choose_no_start(self, monkeypatch):
        """The noise is 10^6 times what opposite rows change; public scores decide."""
        first, second = self.starts()
        assert first.tolist() == second.tolist()
        plant(monkeypatch, "gibo: the start is the best on the protected rows")
        first, second = self.starts()
        assert np.abs(first - second).max() > 0.05

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(("epsilon", "follows"), [(1e-6, "public"), (1e5, "released")])
    def test_length_scale_is_that_of_both_gradients(self, epsilon, follows, monkeypatch):
        """Fitted to the public gradients without a budget, to the released ones with all of it."""
        fit, seen = original("gibo settings: fit_length_scale_to_gradients"), []

        def listening(thetas, gradients, *others, **how):
            seen.append(np.array(gradients))
            return fit(thetas, gradients, *others, **how)

        put(monkeypatch, "gibo settings: fit_length_scale_to_gradients", listening)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = fitted(
                rows(200, 0.8, 0.3), rows(1000, 0.3, 0.8), epsilon=epsilon, init=[0.6, 0.6],
                surrogate=GradientSurrogate(fit_length_scale=True), descent=Descent(clip=100.0),
            )  # fmt: skip
        assert [len(gradients) for gradients in seen] == [3]
        # Public targets are above .6 for "a" and below for "b"; protected ones the other way round.
        first = seen[0][0]
        assert (first[0] < 0 < first[1]) == (follows == "public")
        noise = np.abs(search.descent_.gradients[:3]).max()
        assert np.abs(first).max() < 5.0
        assert (noise > 100.0) == (follows == "public")

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
    def test_early_end_at_the_minimum(self):
        """A descent from the minimum ends early; one from a corner takes more steps."""
        public, protected = rows(60, 0.5, 0.5, 0.3), rows(1000, 0.5, 0.5, 0.3)
        how = {"descent": Descent(patience=2, averaging=0.5), "n_iter": 12, "random_state": 0}
        near, far = (fitted(public, protected, init=[start, start], **how) for start in (0.5, 0.02))
        assert len(near.descent_.gradients) == len(near.descent_.trajectory) - 1 < 12
        assert len(far.descent_.gradients) > 2
        assert near.best_params_ == near.cv_results_["params"][near.best_index_]
        # The steps that are taken have the budgets that were planned; the rest is not spent.
        assert near.privacy_ == far.privacy_
        scales = [found.descent_.noise_scales / found.descent_.clips for found in (near, far)]
        n_both = min(map(len, scales))
        assert scales[0][:n_both] == pytest.approx(scales[1][:n_both])

    def test_own_parameters_without_a_guide(self):
        public, protected = rows(20, 0.5, 0.5), rows(2000, 0.5, 0.5)
        own = Slopes(a=0.9, b=0.2)
        search = fitted(public, protected, own, guide=False)
        assert search.cv_results_["params"][0] == pytest.approx({"a": 0.9, "b": 0.2})
        outside = fitted(public, protected, Slopes(a=1.9), guide=False)
        assert outside.cv_results_["params"][0] == {"a": 0.5, "b": 0.5}

    def test_a_given_start_needs_no_public_search(self):
        search = fitted(rows(60, 0.5, 0.5), rows(2000, 0.5, 0.5), init=[0.25, 0.75])
        assert len(search.cv_results_["params"]) == 7
        assert search.cv_results_["params"][0] == {"a": 0.25, "b": 0.75}


class TestWarnings:
    def reported(self, category, estimator=None, search=None, **params):
        public, protected = rows(150, 0.6, 0.4, 0.2), rows(3000, 0.6, 0.4, 0.2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if search is None:
                fitted(public, protected, estimator, n_iter=1, **params)
            else:
                search.fit(*public, X_val=protected[0], y_val=protected[1])
        return [str(w.message) for w in caught if issubclass(w.category, category)]

    @pytest.mark.slow
    def test_smooth_loss_is_followed_in_silence(self):
        assert self.reported(FlatLossWarning) == []

    @pytest.mark.parametrize("estimator", [Slopes(step=0.3)])
    def test_steps_are_reported(self, estimator):
        (text,) = self.reported(FlatLossWarning, estimator)
        assert "DPBayesSearchCV" in text

    def test_no_change_is_reported_before_the_charge(self):
        with PrivacyLedger(epsilon=100.0, delta=1e-3) as ledger, warnings.catch_warnings():
            warnings.simplefilter("error", FlatLossWarning)
            with pytest.raises(FlatLossWarning):
                fitted(rows(150, 0.6, 0.4), rows(3000, 0.6, 0.4), Slopes(step=1e9))
        assert ledger.entries == ()

    def test_not_without_public_rows(self):
        assert self.reported(FlatLossWarning, Slopes(step=0.3), guide=False) == []

    def test_a_low_bound_is_reported(self):
        (text,) = self.reported(LowBoundWarning, loss_bound=0.02)
        assert "loss_bound" in text
        assert self.reported(LowBoundWarning, loss_bound=1.0) == []

    @pytest.mark.parametrize("kind", [DPGridSearchCV, DPBayesSearchCV])
    @pytest.mark.parametrize(("bound", "times"), [(0.02, 1), (1.0, 0)])
    def test_of_every_searcher(self, kind, bound, times):
        search = kind(Slopes(), {"a": [0.5, 0.6], "b": [0.4]}, loss_bound=bound, cv=3)
        assert len(self.reported(LowBoundWarning, search=search)) == times


def test_protected_rows_decide_no_scale():
    """Clipping norm, rate and public start are the same whatever the protected rows are."""
    public = rows(100, 0.6, 0.4, 0.2)
    found = []
    for protected in (rows(500, 0.9, 0.1), rows(500, 0.1, 0.9)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoisyGradientWarning)
            search = fitted(public, protected, n_iter=2, end_fraction=0.0)
        # the second step's clip is that of the first
        found.append((*search.descent_.clips, *search.descent_.trajectory[0]))
    assert found[0] == found[1]
    assert all(math.isfinite(value) for value in found[0])
