"""Calls on protected rows of which nothing but the result leaves."""
