"""Keeping an allocation, from a link."""
