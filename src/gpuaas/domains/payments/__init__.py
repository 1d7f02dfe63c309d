"""Payments: money that organisations pay in at a provider, and that goes back.

    checkouts     a payment, from the wish to the money
    refunds       what operators give back
    disputes      what banks take back
    settlement    what the provider's objects do to our money, each thing once, however we hear of it
    webhooks      what the provider tells us by itself
    reconciling   what the provider's lists say, against our books

Always holds: the provider is asked outside of transactions, after what is wanted was written down, with a key made of
its id; a notice is stored before it is acted on; an object of the provider does one thing to the ledger once (the wall
is payment_effects), by whichever of notice, answer and list it is heard of first, in any order."""
