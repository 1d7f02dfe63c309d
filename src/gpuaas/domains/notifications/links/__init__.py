"""One-click links: a page that says what will happen, and a button that does it once."""
