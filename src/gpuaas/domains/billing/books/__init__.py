"""The books as a whole: what all accounts of a kind hold, the equations between them, and the proof that no row was
changed."""
