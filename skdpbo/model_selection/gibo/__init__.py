"""Descent along private gradients, for `DPGIBOSearchCV`."""
