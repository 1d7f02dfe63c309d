"""Payment providers: Stripe, by its own library, and none."""
