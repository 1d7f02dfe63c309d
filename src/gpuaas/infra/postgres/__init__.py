"""PostgreSQL: pools, transactions, the one statement that finishes a change, migrations."""
