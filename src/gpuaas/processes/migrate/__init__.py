"""Brings the database to a migration, forward or back."""
