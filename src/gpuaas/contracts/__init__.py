"""The source of our promises: types without behaviour. `make gen` prints them into `contracts/` at the root."""
