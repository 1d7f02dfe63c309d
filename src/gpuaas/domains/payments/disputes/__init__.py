"""Payments that a bank takes back on its customer's word: set aside while the banks decide, taken when we lose."""
