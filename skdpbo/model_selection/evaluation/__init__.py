"""Training and scoring of candidates on protected rows, in isolation."""
