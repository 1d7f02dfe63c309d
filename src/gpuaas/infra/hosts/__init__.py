"""Implementations of `ports.host`: what the agent runs on."""
