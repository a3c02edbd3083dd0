"""
Ten parties, one noise
======================

Ten hospitals want the total of their counts. If each added the noise of the discrete Laplace
mechanism, the total would have ten times the variance that privacy needs. But this noise is a sum
of independent integer shares, one from each party. With shares the total has exactly the noise of
one release, and no party knows it.

The shares protect the total, not the single answers. These must be added where nobody sees them, by
another program (secure aggregation).
"""

# %%
# A share
# -------
# Discrete Laplace noise is the difference of two geometric variables, and a geometric variable is
# the sum of n Polya variables of shape 1/n, with P(k) proportional to c(k) exp(-k epsilon / B),
# c(k) = (1/n) (1 + 1/n) ... (k - 1 + 1/n) / k!. A geometric k is accepted with probability c(k), a
# product of fractions: everything is exact, in integers.

import secrets

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from skdpbo.mechanisms import DiscreteLaplace

PARTIES = 10


def polya(mechanism, n_parties):
    while True:
        k = int(mechanism.release(0))  # geometric, if it is not negative
        # c(k) is the product of ((j - 1) n + 1) / (j n) over j = 1, ..., k
        fractions = (((j - 1) * n_parties + 1, j * n_parties) for j in range(1, k + 1))
        if k >= 0 and all(secrets.randbelow(below) < top for top, below in fractions):
            return k


def with_share(count, mechanism, n_parties=PARTIES):
    """The count of a party, with its share of the noise."""
    return count + polya(mechanism, n_parties) - polya(mechanism, n_parties)


# %%
# The total
# ---------
# Each party knows its own count alone. Many releases, only to show the law of the noise.

mechanism = DiscreteLaplace(epsilon=0.5, sensitivity=1)
counts = [113, 98, 120, 87, 141, 105, 99, 76, 130, 102]
n_releases = 300


def answers_of(count):
    return [with_share(count, mechanism) for _ in range(n_releases)]


answers = Parallel(n_jobs=2)(delayed(answers_of)(count) for count in counts)
totals = np.sum(answers, axis=0)  # the secure aggregation's part
alone = np.array([mechanism.release(sum(counts)) for _ in range(n_releases)])
each = np.sum([[mechanism.release(c) for _ in range(n_releases)] for c in counts], axis=0)
for name, released in (("shares", totals), ("one release", alone), ("noise of each", each)):
    print(f"{name:14} standard deviation {np.std(released - sum(counts)):.1f}")

plt.hist([totals - sum(counts), alone - sum(counts)], bins=np.arange(-12.5, 13), density=True)
plt.legend(["sum of ten shares", "one release"])
plt.xlabel("noise of the total")

# %%
# If parties drop out, their shares are missing: make the shares for the number of parties that
# surely answer, and of which nobody tells its share; more noise does no harm.
