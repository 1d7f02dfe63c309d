"""Prints `contracts/` from the code: what we promise, where others can read it and a change of it is seen."""
