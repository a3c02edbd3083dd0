"""Budgets that releases are charged to before they touch protected data."""
