DROP VIEW invariant_01_balance_is_sum, invariant_02_transactions_balance, invariant_02_one_key_one_transaction,
    invariant_03_floors, invariant_03_reversed_once, invariant_14_holds_end, invariant_14_adjustments_end,
    invariant_34_ledger_months_ahead;
DROP FUNCTION ledger_floor_set, ledger_holds_expire, ledger_hold_void, ledger_hold_capture, ledger_hold_extend,
    ledger_hold_refuse, ledger_hold_open, ledger_hold_take, ledger_available, ledger_post_many, ledger_reverse, ledger_replay, ledger_post,
    ledger_held, ledger_leg, ledger_words, ledger_account, ledger_shard, ledger_enter, ledger_head_before, ledger_head;
DROP AGGREGATE ledger_chain (bytea, bytea, uuid, bigint, bigint, bigint);
DROP FUNCTION ledger_link, ledger_hash, ledger_body, ledger_shift;
DROP FUNCTION ledger_seal;
DROP TABLE ledger_adjustments, ledger_holds, ledger_keys, ledger_entries, ledger_transactions, ledger_accounts;
DROP FUNCTION ledger_account_stays, ledger_account_sealed;
