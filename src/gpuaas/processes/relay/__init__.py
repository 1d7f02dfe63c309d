"""The program that carries events from the outbox to NATS."""
