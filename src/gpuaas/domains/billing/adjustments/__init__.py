"""Balances changed by hand, and transactions undone: by one operator up to a limit, by two above it."""
