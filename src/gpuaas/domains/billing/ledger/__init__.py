"""The ledger: what organisations have, what is set aside of it, and why it changed.

Other parts use the verbs in `service`:

    post(tx, Posting(kind, key, org_id, legs, …))   money moves; once per kind and key, whoever asks again
    post_many(tx, kind, [Charge(…), …], counter=…)  the same for up to 10,000 charges in one statement
    reverse(tx, transaction_id, reason=…)           undo a transaction, once
    hold_take(tx, HoldWanted(…))                    set money aside; once per key
    hold_extend(tx, hold_id, amount_micros=…, until=…)  at least so much, at least until then
    hold_capture(tx, hold_id, Capture(…))           charge what was set aside, or a part of it
    hold_void(tx, hold_id)                          give back what is left; a second time changes nothing
    balance_at(tx, org_id, at=…)                    what an organisation has, or had at an instant

Subjects are ids of whatever is charged for: nothing here knows what they are. Every verb that takes money raises
`Conflict(balance_too_low)` if balance and credit line, less what is set aside, do not cover it, unless it is usage,
which is owed; the transaction is then of no further use, as after any fault. Of one organisation, writers take turns
until they commit: post last, and where one transaction posts for several organisations one by one, in the order of
their ids."""
