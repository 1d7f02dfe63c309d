"""The proof of the books: the three equations, put together from all domains that know a side, and every hash."""
