"""What the machinery is made of: `postgres` and `http` for everybody, the rest chosen by programs."""
