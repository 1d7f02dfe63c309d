-- Holds ------------------------------------------------------------------------------------------------------------
CREATE FUNCTION ledger_available(org uuid, wanted_currency text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    account uuid := ledger_account(org, 'tenant', wanted_currency, 0::smallint);
BEGIN
    RETURN coalesce((ledger_head(account)).balance_micros, 0) - ledger_held(account)
           - (SELECT floor_micros FROM ledger_accounts WHERE id = account);
END $$;

-- Set money aside. The same key answers with the hold it made.
CREATE FUNCTION ledger_hold_take(hold uuid, hold_key text, org uuid, hold_currency text, amount bigint, subject uuid,
                                 why text, until timestamptz) RETURNS SETOF ledger_holds
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    known ledger_holds;
    available bigint;
BEGIN
    PERFORM ledger_enter(org);
    SELECT * INTO known FROM ledger_holds WHERE key = hold_key;
    IF FOUND THEN
        IF (known.org_id, known.currency, known.subject_id) IS DISTINCT FROM (org, hold_currency, subject) THEN
            RAISE EXCEPTION 'the key was used for another hold'
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'ledger_key_reused';
        END IF;
        RETURN NEXT known;
        RETURN;
    END IF;
    available := ledger_available(org, hold_currency);
    IF amount > available THEN
        RAISE EXCEPTION 'the balance does not allow it' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_floor',
            DETAIL = available::text;
    END IF;
    RETURN QUERY INSERT INTO ledger_holds (id, org_id, account_id, currency, key, amount_micros, subject_id, reason, due_at)
        VALUES (hold, org, ledger_account(org, 'tenant', hold_currency, 0::smallint), hold_currency, hold_key, amount,
                subject, why, until)
        RETURNING *;
END $$;

-- The hold, locked after its account, if it is open and not over; else what it has become is said.
CREATE FUNCTION ledger_hold_open(hold uuid) RETURNS ledger_holds LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_hold ledger_holds;
BEGIN
    SELECT * INTO found_hold FROM ledger_holds WHERE id = hold AND visible_org(org_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such hold' USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM ledger_enter(found_hold.org_id);
    SELECT * INTO found_hold FROM ledger_holds WHERE id = hold FOR UPDATE;
    RETURN found_hold;
END $$;
CREATE FUNCTION ledger_hold_refuse(hold ledger_holds) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF hold.state <> 'open' OR hold.due_at <= clock_timestamp() THEN
        RAISE EXCEPTION 'the hold is over' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_hold_over',
            DETAIL = CASE WHEN hold.state = 'open' THEN 'expired' ELSE hold.state END;
    END IF;
END $$;

-- At least this amount, at least until then: both are where the hold ends up, so asking twice is asking once.
CREATE FUNCTION ledger_hold_extend(hold uuid, amount bigint, until timestamptz) RETURNS SETOF ledger_holds
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    was ledger_holds := ledger_hold_open(hold);
    available bigint;
BEGIN
    PERFORM ledger_hold_refuse(was);
    IF amount > was.amount_micros THEN
        available := ledger_available(was.org_id, was.currency);
        IF amount - was.amount_micros > available THEN
            RAISE EXCEPTION 'the balance does not allow it'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_floor', DETAIL = available::text;
        END IF;
    END IF;
    RETURN QUERY UPDATE ledger_holds SET amount_micros = greatest(amount_micros, amount), due_at = greatest(due_at, until)
        WHERE id = hold RETURNING *;
END $$;

-- Charge what was set aside, or a part of it. `last`: the rest is free again; otherwise it stays set aside.
CREATE FUNCTION ledger_hold_capture(hold uuid, posted_kind text, posted_key text, amount bigint, counter text, last boolean,
                                    why text, who text, correlation text)
RETURNS TABLE (transaction_id uuid, balance_micros bigint, replayed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    was ledger_holds := ledger_hold_open(hold);
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_keys k WHERE k.kind = posted_kind AND k.key = posted_key) THEN
        PERFORM ledger_hold_refuse(was);
        IF amount NOT BETWEEN 1 AND was.amount_micros - was.captured_micros THEN
            RAISE EXCEPTION 'more than is left of the hold' USING ERRCODE = 'check_violation',
                CONSTRAINT = 'ledger_hold_exceeded', DETAIL = (was.amount_micros - was.captured_micros)::text;
        END IF;
        UPDATE ledger_holds h SET captured_micros = captured_micros + amount,
            state = CASE WHEN last THEN 'captured' ELSE state END,
            state_since = CASE WHEN last THEN clock_timestamp() ELSE state_since END,
            due_at = CASE WHEN last THEN NULL ELSE due_at END
        WHERE h.id = hold;
    END IF;
    RETURN QUERY SELECT * FROM ledger_post(posted_kind, posted_key, was.org_id, was.currency, ARRAY['tenant', counter],
                                           ARRAY[-amount, amount], was.subject_id, why, NULL, who, correlation);
END $$;

-- Give back what is left. A hold that is over already stays what it is.
CREATE FUNCTION ledger_hold_void(hold uuid) RETURNS SETOF ledger_holds
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    was ledger_holds := ledger_hold_open(hold);
BEGIN
    RETURN QUERY UPDATE ledger_holds SET due_at = NULL, state_since = clock_timestamp(), state = 'voided'
        WHERE id = hold AND state = 'open' RETURNING *;
    IF NOT FOUND THEN
        RETURN NEXT was;
    END IF;
END $$;

-- Those whose time is over: they do not count any more, and this says so.
CREATE FUNCTION ledger_holds_expire(most integer) RETURNS SETOF ledger_holds
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT is_platform() THEN
        RAISE EXCEPTION 'only the platform ends holds' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY UPDATE ledger_holds SET due_at = NULL, state_since = clock_timestamp(), state = 'expired'
        WHERE id = ANY(ARRAY(SELECT id FROM ledger_holds WHERE state = 'open' AND due_at <= clock_timestamp()
                             ORDER BY due_at LIMIT least(most, 1000) FOR UPDATE SKIP LOCKED))
        RETURNING *;
END $$;

-- How far below zero an organisation may go. What it uses already cannot be taken away; more can be given at any time, also
-- to who owes more than that by what he used.
CREATE FUNCTION ledger_floor_set(org uuid, wanted_currency text, lowest bigint) RETURNS SETOF ledger_accounts
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    account uuid;
    was bigint;
    available bigint;
BEGIN
    IF NOT is_platform() THEN
        RAISE EXCEPTION 'only the platform gives credit' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM ledger_enter(org);
    account := ledger_account(org, 'tenant', wanted_currency, 0::smallint);
    was := (SELECT floor_micros FROM ledger_accounts WHERE id = account);
    available := ledger_available(org, wanted_currency) + was - lowest;
    IF available < 0 AND lowest > was THEN
        RAISE EXCEPTION 'the credit is in use' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_floor',
            DETAIL = available::text;
    END IF;
    RETURN QUERY UPDATE ledger_accounts SET floor_micros = lowest WHERE id = account RETURNING *;
END $$;

REVOKE ALL ON FUNCTION ledger_account_stays, ledger_account_sealed, ledger_seal, ledger_shift, ledger_body, ledger_hash, ledger_link, ledger_head,
    ledger_head_before, ledger_enter,
    ledger_shard, ledger_account, ledger_leg, ledger_words, ledger_held, ledger_post, ledger_replay, ledger_reverse, ledger_post_many, ledger_available,
    ledger_hold_take, ledger_hold_open, ledger_hold_refuse, ledger_hold_extend, ledger_hold_capture, ledger_hold_void,
    ledger_holds_expire, ledger_floor_set FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger_body, ledger_hash, ledger_seal, ledger_head, ledger_head_before, ledger_held, ledger_post,
    ledger_reverse, ledger_post_many, ledger_hold_take,
    ledger_hold_extend, ledger_hold_capture, ledger_hold_void, ledger_holds_expire, ledger_floor_set TO :app;

SELECT ensure_partitions(parent, now() - interval '1 month', 2)
    FROM unnest(ARRAY['ledger_transactions', 'ledger_entries']) AS parent;
