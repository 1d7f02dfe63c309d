"""Codes, families, refresh and access tokens: what a login gives to a client."""
