"""Audit: who did what, append-only, sealed into a hash chain whose heads are signed."""
