"""Nodes: enrolled machines, what they are asked to do, how they are."""
