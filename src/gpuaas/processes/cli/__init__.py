"""The command line: every program of ours, and the client of the API."""
