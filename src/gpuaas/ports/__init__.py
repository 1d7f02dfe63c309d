"""What we ask of others, as small Protocols."""
