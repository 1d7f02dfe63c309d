"""Certificates of nodes: the authority that signs them, what was issued, and who holds one."""
