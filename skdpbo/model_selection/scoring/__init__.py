"""Per-record losses, the scorers built on them, and what a `scoring` means."""
