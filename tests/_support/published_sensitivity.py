"""Sensitivity of the kernel release as Honkela and Melkas print it."""

import math


def published_sensitivity(k_norm, y_norm, ratio=1.0):
    """Eq. (6): valid everywhere, and attained only where R_y^2 <= 2 c R_k^2."""
    c = ratio
    return math.sqrt(y_norm**4 / (2 * c) + 2 * y_norm**2 * k_norm**2 + 2 * c * k_norm**4)
