"""Published releases and transforms, kept as baselines."""
