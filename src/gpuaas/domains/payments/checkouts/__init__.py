"""A payment, from the wish to the money: its row, its page at the provider, its deadlines."""
