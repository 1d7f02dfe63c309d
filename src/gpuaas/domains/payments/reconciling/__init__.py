"""The provider's own lists against our books: lost notices are made good, what differs is written down."""
