"""Allocations that are stopped and started again: by their people, or for money."""
