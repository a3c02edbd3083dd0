"""Numbers that an object shows: for tests that a secret number is among none of them."""

import re

import numpy as np

__all__ = ["numbers_in"]


def numbers_in(value, depth=0):
    """All numbers, lengths and shapes in an object and in what it holds, and all texts' numbers."""
    if depth > 6 or isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
        return set()
    if isinstance(value, str):
        return {int(text) for text in re.findall(r"\d+", value)}
    if isinstance(value, int | np.integer):
        return {int(value)}
    if isinstance(value, np.ndarray):
        inner = value.tolist() if value.dtype.kind in "Oiu" else []
        return set(value.shape) | numbers_in(inner, depth + 1)
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list | tuple | set):
        return {len(value)}.union(*(numbers_in(item, depth + 1) for item in value))
    state = dict(getattr(value, "__dict__", {}))
    state.pop("tree_", None)
    return numbers_in(state, depth + 1) | numbers_in(str(value), depth + 1)
