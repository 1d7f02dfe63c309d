"""Certificates of sanitisation: what was cleaned after a release, how, and what showed it, signed."""
