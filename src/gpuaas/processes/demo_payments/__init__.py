"""The program that stands in for a payment provider: the same HTTP API and webhooks, a page of its own, no money."""
