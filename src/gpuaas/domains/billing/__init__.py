"""Money: the ledger, what meters owe, and what was used."""
