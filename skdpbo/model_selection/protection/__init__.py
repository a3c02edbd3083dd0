"""Protections of a search: validation records, chunks and private models."""
