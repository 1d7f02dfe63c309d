"""The typed client of the API: used by the command line, by programs that stand outside the server, and by tests.

Verbs (`identity`, `policy`, `fleet`, `inventory` …) make a `Call`, a value; `Api` sends it."""
