"""Per-record losses, the scorers built on them, and the resolution of `scoring`."""
