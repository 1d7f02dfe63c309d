"""Logins of the built-in issuer: an address, a name and a password."""
