"""What the payment provider tells us by itself: stored as it came, then acted on once."""
