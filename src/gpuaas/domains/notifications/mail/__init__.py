"""Mail: queued with the notification, sent by the worker, at least once."""
