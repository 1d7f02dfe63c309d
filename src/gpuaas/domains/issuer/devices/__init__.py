"""Logins of machines without a browser (RFC 8628)."""
