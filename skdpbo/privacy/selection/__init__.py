"""Accounting of private selection among a secret, random number of private candidates."""
