"""Browsers that are logged in at the built-in issuer."""
