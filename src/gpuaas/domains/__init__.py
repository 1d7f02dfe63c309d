"""The business, one folder per noun; `service.py` is a domain's only door for the others."""
