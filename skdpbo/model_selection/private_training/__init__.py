"""Private selection among estimators that are private themselves."""
