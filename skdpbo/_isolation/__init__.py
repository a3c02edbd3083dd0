"""Isolated calls on protected rows: no output, warning or side effect leaves, only the result."""
