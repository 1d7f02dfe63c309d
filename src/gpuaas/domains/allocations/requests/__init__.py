"""Asking for GPUs: what may be asked for, what it would cost, and the answer at once: reserved, queued or why not."""
