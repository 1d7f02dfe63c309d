"""What happened, as other parts hear of it: event types by stream."""
