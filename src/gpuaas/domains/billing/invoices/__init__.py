"""Paper: statements of any time on demand, and a numbered invoice for each month, made once and kept."""
