"""Adding money, from a link."""
