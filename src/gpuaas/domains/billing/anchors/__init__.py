"""The ledger tied to the audit log: its last entries, written down where a signature keeps them."""
