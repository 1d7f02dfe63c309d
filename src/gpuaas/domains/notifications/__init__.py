"""What people are told: the notifications they read, by email what matters while they are away, and links that do one
thing."""
