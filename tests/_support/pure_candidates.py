"""Largest epsilon of a pure candidate, by bisection of what a selection costs."""

from skdpbo.privacy import PrivacyGuarantee, selection_guarantee


def candidate_epsilon(epsilon, law, **how):
    """Largest pure epsilon of one candidate whose best of K is epsilon-DP, to the last digit."""
    low, high = 0.0, epsilon
    while low < (middle := (low + high) / 2) < high:
        trial = PrivacyGuarantee(epsilon=middle)
        fits = selection_guarantee(trial, law, delta=0.0, **how).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low
