"""Money of payments that operators give back: alone up to a limit, by two above it."""
