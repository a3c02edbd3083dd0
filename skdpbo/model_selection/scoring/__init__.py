"""Per-record losses and the scorers built on them."""
