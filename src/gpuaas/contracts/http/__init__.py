"""What travels over HTTP: request and response types, one file per domain."""
