"""The plan of a private selection over private models."""

from types import SimpleNamespace

import pytest

from _support.internals import _calibrated_plan
from skdpbo.privacy import PrivacyGuarantee


@pytest.mark.parametrize("excess", [2.0**-52, 1e-12, 1e-6])
def test_a_total_above_epsilon_is_refused_by_the_last_bit(excess):
    class Rule:
        publishes_scores = True
        n_candidates = 2

        def trial_mu(self, epsilon, delta):
            return 0.1

        def total(self, trial, delta):
            return PrivacyGuarantee(epsilon=self.epsilon, delta=1e-5)

    costs = SimpleNamespace(
        kind="gaussian", trial=lambda budget: PrivacyGuarantee(epsilon=0.1, mechanism="a mean")
    )
    rule = Rule()
    rule.epsilon = 1.0
    assert _calibrated_plan(rule, costs, [], 1.0, 1e-5).guarantee.epsilon == 1.0
    rule.epsilon = 1.0 + excess
    with pytest.raises(ValueError, match="does not fit"):
        _calibrated_plan(rule, costs, [], 1.0, 1e-5)
