"""Which kinds a user wants by email."""
