"""One folder per program; each main reads the settings, picks implementations and lists the parts."""
