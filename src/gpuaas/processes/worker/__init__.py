"""The program that runs reactions to events, and timers."""
