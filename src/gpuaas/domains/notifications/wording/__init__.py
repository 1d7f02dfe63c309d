"""What each kind of notification says: pure functions from an event to words."""
