"""The built-in certificate authority, and TLS contexts made from what it issues."""
