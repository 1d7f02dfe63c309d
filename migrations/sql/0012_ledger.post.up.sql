-- Instants and ids -------------------------------------------------------------------------------------------------
-- By how much an id made here and now is behind the newest one: one made with that shift comes right after it. Measured
-- by an id, not by the clock: after the clock stepped back a connection's ids go on from where they were, and shifting
-- them by what the clock lost would carry each posting as far again into the future, soon past the last month there is.
CREATE FUNCTION ledger_shift(newest uuid, mine uuid) RETURNS interval LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN newest IS NULL OR newest < mine THEN interval '0'
                ELSE uuid_extract_timestamp(newest) - uuid_extract_timestamp(mine) + interval '2 milliseconds' END;

-- What is hashed. Each text is printed as JSON prints it, so that no two transactions have the same bytes.
CREATE FUNCTION ledger_body(id uuid, at timestamptz, kind text, key text, org_id uuid, currency text, subject_id uuid,
                            reason text, reverses_id uuid, actor text, correlation_id text)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
    RETURN convert_to(json_build_array(id, extract(epoch FROM at), kind, key, org_id, currency, subject_id, reason,
                                       reverses_id, actor, correlation_id)::text, 'UTF8');
CREATE FUNCTION ledger_hash(before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint)
RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN sha256(coalesce(before, ''::bytea) || body || uuid_send(account_id) || int8send(number) || int8send(amount)
                  || int8send(balance));
-- The same along many entries of one account: the state is the hash so far.
CREATE FUNCTION ledger_link(so_far bytea, before bytea, body bytea, account_id uuid, number bigint, amount bigint,
                            balance bigint) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ledger_hash(coalesce(so_far, before), body, account_id, number, amount, balance);
CREATE AGGREGATE ledger_chain(bytea, bytea, uuid, bigint, bigint, bigint) (sfunc = ledger_link, stype = bytea);

-- The last entry of an account: a recent one if there is one, else the newest of all. Whatever the statistics say, the
-- way there is the account's index, from its end.
CREATE FUNCTION ledger_head(account uuid) RETURNS ledger_entries LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    found_entry ledger_entries;
    recent uuid := uuidv7(interval '-2 days');
BEGIN
    SELECT * INTO found_entry FROM ledger_entries e
    WHERE e.account_id = account AND e.transaction_id >= recent ORDER BY e.transaction_id DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT * INTO found_entry FROM ledger_entries e
        WHERE e.account_id = account AND e.transaction_id < recent ORDER BY e.transaction_id DESC LIMIT 1;
    END IF;
    RETURN found_entry;
END $$;

-- The last entry before an id: what an account was at an instant.
CREATE FUNCTION ledger_head_before(account uuid, bound uuid) RETURNS ledger_entries LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    found_entry ledger_entries;
BEGIN
    SELECT * INTO found_entry FROM ledger_entries e
    WHERE e.account_id = account AND e.transaction_id < bound ORDER BY e.transaction_id DESC LIMIT 1;
    RETURN found_entry;
END $$;

-- Whose turn it is: one writer at a time in an organisation's accounts; of the platform's shards each writer takes one
-- that is free, so that nobody waits there unless there are more writers than shards.
CREATE FUNCTION ledger_enter(org uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the ledger is written in read committed transactions: only they see what was written while they waited'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF org IS NULL THEN
        IF NOT is_platform() THEN
            RAISE EXCEPTION 'only the platform posts without an organisation' USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN;
    END IF;
    IF visible_org(org) IS NOT TRUE THEN
        RAISE EXCEPTION 'not the organisation this connection works for' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(org, 12));
END $$;
CREATE FUNCTION ledger_shard() RETURNS smallint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine integer := pg_backend_pid() % 32;
BEGIN
    FOR i IN 0..31 LOOP
        IF pg_try_advisory_xact_lock(1279607117, (mine + i) % 32) THEN
            RETURN (mine + i) % 32;
        END IF;
    END LOOP;
    PERFORM pg_advisory_xact_lock(1279607117, mine);
    RETURN mine;
END $$;
CREATE FUNCTION ledger_account(org uuid, wanted_kind text, wanted_currency text, wanted_shard smallint)
RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_id uuid;
BEGIN
    IF org IS NULL THEN
        SELECT id INTO found_id FROM ledger_accounts
        WHERE org_id IS NULL AND kind = wanted_kind AND currency = wanted_currency AND shard = wanted_shard;
    ELSE
        SELECT id INTO found_id FROM ledger_accounts
        WHERE org_id = org AND kind = 'tenant' AND currency = wanted_currency AND shard = 0;
    END IF;
    IF found_id IS NULL THEN
        INSERT INTO ledger_accounts (org_id, kind, currency, shard) VALUES (org, wanted_kind, wanted_currency, wanted_shard)
        ON CONFLICT ON CONSTRAINT ledger_accounts_one DO NOTHING;
        SELECT id INTO found_id FROM ledger_accounts
        WHERE org_id IS NOT DISTINCT FROM org AND kind = wanted_kind AND currency = wanted_currency AND shard = wanted_shard;
    END IF;
    RETURN found_id;
END $$;
-- What is written is bounded, and there is a key.
CREATE FUNCTION ledger_words(kind text, key text, reason text, actor text, correlation_id text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (length(kind) BETWEEN 1 AND 40 AND length(key) BETWEEN 1 AND 200 AND length(reason) <= 500
        AND length(actor) <= 400 AND length(correlation_id) <= 200) IS NOT TRUE THEN
        RAISE EXCEPTION 'a word is missing or too long' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_words';
    END IF;
END $$;
-- The account of a leg and its last entry; zeros for one without.
CREATE FUNCTION ledger_leg(org uuid, leg_kind text, leg_currency text, free_shard smallint) RETURNS ledger_entries
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    account uuid := ledger_account(org, leg_kind, leg_currency, CASE WHEN org IS NULL THEN free_shard ELSE 0 END::smallint);
    head ledger_entries := ledger_head(account);
BEGIN
    head.account_id := account;
    head.number := coalesce(head.number, 0);
    head.balance_micros := coalesce(head.balance_micros, 0);
    RETURN head;
END $$;
CREATE FUNCTION ledger_held(account uuid) RETURNS bigint LANGUAGE sql STABLE
    RETURN (SELECT coalesce(sum(amount_micros - captured_micros), 0)::bigint FROM ledger_holds
            WHERE account_id = account AND state = 'open' AND due_at > clock_timestamp());

-- Post: the one way by which money moves. Legs are kinds of accounts ('tenant' is the organisation's own, and first), each
-- once.
-- A key that was used for the same posting answers with it; used for another one, it is refused. Floors bind what is asked
-- for, not what was used: that is owed, whatever the balance.
CREATE FUNCTION ledger_post(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[],
                            amounts bigint[], subject uuid, why text, reverses uuid, who text, correlation text)
RETURNS TABLE (transaction_id uuid, balance_micros bigint, replayed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    size integer := cardinality(legs);
    total numeric := amounts[1] + amounts[2];
    recent uuid := uuidv7(interval '-2 days');
    free_shard smallint;
    one_id uuid;
    one_number bigint;
    one_balance bigint;
    one_hash bytea;
    two_id uuid;
    two_number bigint;
    two_balance bigint;
    two_hash bytea;
    others ledger_entries[];
    other ledger_entries;
    spare bigint;
    newest uuid;
    new_id uuid := uuidv7();
    new_at timestamptz;
    body bytea;
BEGIN
    FOR i IN 3..size LOOP
        total := total + amounts[i];
    END LOOP;
    IF (size BETWEEN 2 AND 16 AND size = cardinality(amounts) AND total = 0 AND 0 <> ALL(amounts)
        AND (legs[1] = 'tenant') = (org IS NOT NULL) AND 'tenant' <> ALL(legs[2:])) IS NOT TRUE THEN
        RAISE EXCEPTION 'a transaction has 2 to 16 legs that sum to zero, that of its organisation first'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_legs';
    END IF;
    PERFORM ledger_words(posted_kind, posted_key, why, who, correlation), ledger_enter(org);
    free_shard := ledger_shard();
    SELECT t.id, th.number, th.balance_micros, th.hash, p.id, ph.number, ph.balance_micros, ph.hash,
           greatest(th.transaction_id, ph.transaction_id),
           CASE WHEN amounts[1] < 0 AND posted_kind <> 'usage' THEN th.balance_micros + amounts[1] - t.floor_micros END
    INTO one_id, one_number, one_balance, one_hash, two_id, two_number, two_balance, two_hash, newest, spare
    FROM ledger_accounts t
    CROSS JOIN ledger_accounts p
    LEFT JOIN LATERAL (SELECT * FROM ledger_entries e WHERE e.account_id = t.id AND e.transaction_id >= recent
                       ORDER BY e.transaction_id DESC LIMIT 1) AS th ON true
    LEFT JOIN LATERAL (SELECT * FROM ledger_entries e WHERE e.account_id = p.id AND e.transaction_id >= recent
                       ORDER BY e.transaction_id DESC LIMIT 1) AS ph ON true
    WHERE t.org_id = org AND t.kind = 'tenant' AND t.currency = posted_currency AND t.shard = 0
      AND p.org_id IS NULL AND p.kind = legs[2] AND p.currency = posted_currency AND p.shard = free_shard;
    IF one_number IS NULL OR two_number IS NULL THEN -- of an account that is new, was still for days, or no organisation's
        SELECT l.account_id, l.number, l.balance_micros, l.hash, l.transaction_id
        INTO one_id, one_number, one_balance, one_hash, newest
        FROM ledger_leg(org, legs[1], posted_currency, free_shard) AS l;
        SELECT l.account_id, l.number, l.balance_micros, l.hash, greatest(newest, l.transaction_id)
        INTO two_id, two_number, two_balance, two_hash, newest
        FROM ledger_leg(NULL, legs[2], posted_currency, free_shard) AS l;
        IF amounts[1] < 0 AND legs[1] = 'tenant' AND posted_kind <> 'usage' THEN
            spare := one_balance + amounts[1] - (SELECT floor_micros FROM ledger_accounts WHERE id = one_id);
        END IF;
    END IF;
    FOR i IN 3..size LOOP
        others[i] := ledger_leg(NULL, legs[i], posted_currency, free_shard);
        newest := greatest(newest, (others[i]).transaction_id);
    END LOOP;
    IF new_id <= newest THEN -- made while it waited for its turn
        new_id := uuidv7();
        IF new_id <= newest THEN -- or the clock stepped back
            new_id := uuidv7(ledger_shift(newest, new_id));
        END IF;
    END IF;
    INSERT INTO ledger_keys (kind, key, transaction_id) VALUES (posted_kind, posted_key, new_id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM ledger_replay(posted_kind, posted_key, org, posted_currency, legs, amounts, reverses);
        RETURN;
    END IF;
    IF spare IS NOT NULL THEN
        spare := spare - ledger_held(one_id);
        IF spare < 0 THEN
            RAISE EXCEPTION 'the balance does not allow it' USING ERRCODE = 'check_violation',
                CONSTRAINT = 'ledger_floor', DETAIL = (spare - amounts[1])::text;
        END IF;
    END IF;
    new_at := uuid_extract_timestamp(new_id);
    body := ledger_body(new_id, new_at, posted_kind, posted_key, org, posted_currency, subject, why, reverses, who,
                        correlation);
    INSERT INTO ledger_transactions (id, at, kind, key, org_id, currency, subject_id, reason, reverses_id, actor,
                                     correlation_id)
    VALUES (new_id, new_at, posted_kind, posted_key, org, posted_currency, subject, why, reverses, who, correlation);
    INSERT INTO ledger_entries (account_id, transaction_id, org_id, number, amount_micros, balance_micros, hash)
    VALUES (one_id, new_id, org, one_number + 1, amounts[1], one_balance + amounts[1],
            ledger_hash(one_hash, body, one_id, one_number + 1, amounts[1], one_balance + amounts[1])),
           (two_id, new_id, NULL, two_number + 1, amounts[2], two_balance + amounts[2],
            ledger_hash(two_hash, body, two_id, two_number + 1, amounts[2], two_balance + amounts[2]));
    FOR i IN 3..size LOOP
        other := others[i];
        INSERT INTO ledger_entries (account_id, transaction_id, org_id, number, amount_micros, balance_micros, hash)
        VALUES (other.account_id, new_id, NULL, other.number + 1, amounts[i], other.balance_micros + amounts[i],
                ledger_hash(other.hash, body, other.account_id, other.number + 1, amounts[i],
                            other.balance_micros + amounts[i]));
    END LOOP;
    transaction_id := new_id;
    balance_micros := CASE WHEN org IS NOT NULL THEN one_balance + amounts[1] END;
    replayed := false;
    RETURN NEXT;
END $$;

-- What was posted under a key, if it was the same posting.
CREATE FUNCTION ledger_replay(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[],
                              amounts bigint[], reverses uuid)
RETURNS TABLE (transaction_id uuid, balance_micros bigint, replayed boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    known ledger_transactions;
    was jsonb;
    asked jsonb;
BEGIN
    SELECT t.* INTO STRICT known FROM ledger_keys k JOIN ledger_transactions t ON t.id = k.transaction_id
    WHERE k.kind = posted_kind AND k.key = posted_key;
    SELECT jsonb_object_agg(a.kind, e.amount_micros) INTO was
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id WHERE e.transaction_id = known.id;
    SELECT jsonb_object_agg(leg, amount) INTO asked FROM unnest(legs, amounts) AS u (leg, amount);
    IF (known.org_id, known.currency, known.reverses_id, was) IS DISTINCT FROM (org, posted_currency, reverses, asked) THEN
        RAISE EXCEPTION 'the key was used for another posting'
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'ledger_key_reused';
    END IF;
    RETURN QUERY SELECT known.id, (SELECT e.balance_micros FROM ledger_entries e
                                   WHERE e.transaction_id = known.id AND e.org_id IS NOT NULL), true;
END $$;

-- Undo all legs of a transaction. Its id is the key, so that it is undone once.
CREATE FUNCTION ledger_reverse(reversed uuid, why text, who text, correlation text)
RETURNS TABLE (transaction_id uuid, balance_micros bigint, replayed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    was ledger_transactions;
BEGIN
    SELECT t.* INTO was FROM ledger_transactions t WHERE t.id = reversed AND visible_org(t.org_id);
    IF was.id IS NULL OR was.reverses_id IS NOT NULL THEN
        RAISE EXCEPTION 'nothing that can be reversed' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_reversible';
    END IF;
    RETURN QUERY SELECT p.* FROM (
        SELECT array_agg(a.kind ORDER BY a.kind <> 'tenant', a.kind) AS kinds,
               array_agg(-e.amount_micros ORDER BY a.kind <> 'tenant', a.kind) AS amounts
        FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id WHERE e.transaction_id = reversed
    ) AS legs CROSS JOIN LATERAL ledger_post('reversal', reversed::text, was.org_id, was.currency, legs.kinds, legs.amounts,
                                             was.subject_id, why, reversed, who, correlation) AS p;
END $$;

-- The same for many postings of one kind, each of an organisation against one kind of the platform's accounts, in one
-- go. What an organisation's balance does not allow is refused for it as a whole: `transaction_id` is null there.
-- Usage is never refused.
CREATE FUNCTION ledger_post_many(posted_kind text, posted_currency text, counter text, orgs uuid[], keys text[],
                                 amounts bigint[], subjects uuid[], reasons text[], who text, correlation text)
RETURNS TABLE (place integer, transaction_id uuid, replayed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    size integer := cardinality(orgs);
    free_shard smallint;
    platform_id uuid;
    head ledger_entries;
BEGIN
    IF size IS NULL OR size NOT BETWEEN 1 AND 10000 OR counter = 'tenant'
       OR (cardinality(keys), cardinality(amounts), cardinality(subjects), cardinality(reasons)) <> (size, size, size, size)
       OR array_position(orgs, NULL) IS NOT NULL OR 0 = ANY(amounts) OR array_position(amounts, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'a batch has 1 to 10000 postings, each with an organisation and an amount'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_legs';
    END IF;
    IF (SELECT count(DISTINCT o) FROM unnest(orgs) AS o) > 1000 THEN
        RAISE EXCEPTION 'a batch has at most 1000 organisations' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_legs';
    END IF;
    PERFORM ledger_words(posted_kind, k, r, who, correlation) FROM unnest(keys, reasons) AS u (k, r);
    -- In one order for everybody, so that two batches never wait for each other in a circle.
    PERFORM ledger_enter(o) FROM (SELECT DISTINCT o FROM unnest(orgs) AS o ORDER BY o) AS ordered;
    free_shard := ledger_shard();
    platform_id := ledger_account(NULL, counter, posted_currency, free_shard);
    head := ledger_head(platform_id);
    PERFORM ledger_account(o, 'tenant', posted_currency, 0::smallint) FROM (SELECT DISTINCT o FROM unnest(orgs) AS o) AS one;
    IF EXISTS (SELECT FROM unnest(orgs, keys, amounts) AS u (org_id, key, amount)
               JOIN ledger_keys k ON k.kind = posted_kind AND k.key = u.key
               JOIN ledger_transactions t ON t.id = k.transaction_id
               LEFT JOIN ledger_entries e ON e.transaction_id = t.id AND e.org_id = u.org_id
               WHERE e.amount_micros IS DISTINCT FROM u.amount OR t.currency <> posted_currency) THEN
        RAISE EXCEPTION 'a key was used for another posting'
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'ledger_key_reused';
    END IF;
    RETURN QUERY
    WITH tenants AS MATERIALIZED (
        SELECT a.org_id, a.id AS account_id, a.floor_micros + ledger_held(a.id) AS lowest, coalesce(h.number, 0) AS number,
               coalesce(h.balance_micros, 0) AS balance, h.hash, h.transaction_id AS newest
        FROM (SELECT DISTINCT o FROM unnest(orgs) AS o) AS one
        JOIN ledger_accounts a ON a.org_id = one.o AND a.kind = 'tenant' AND a.currency = posted_currency
        CROSS JOIN LATERAL ledger_head(a.id) AS h
    ), began AS MATERIALIZED (
        SELECT ledger_shift(greatest((SELECT newest FROM tenants ORDER BY newest DESC NULLS LAST LIMIT 1),
                                     head.transaction_id), uuidv7()) AS shift
    ), asked AS MATERIALIZED (
        SELECT u.place::integer AS place, u.org_id, u.key, u.amount, u.subject_id, u.reason, k.transaction_id AS known
        FROM unnest(orgs, keys, amounts, subjects, reasons)
             WITH ORDINALITY AS u (org_id, key, amount, subject_id, reason, place)
        LEFT JOIN ledger_keys k ON k.kind = posted_kind AND k.key = u.key
    ), refused AS MATERIALIZED (
        SELECT org_id FROM (
            SELECT a.org_id, a.amount, h.lowest,
                   h.balance + sum(a.amount) OVER (PARTITION BY a.org_id ORDER BY a.place) AS after
            FROM asked a JOIN tenants h ON h.org_id = a.org_id WHERE a.known IS NULL
        ) AS running WHERE amount < 0 AND after < lowest AND posted_kind <> 'usage' GROUP BY org_id
    ), fresh AS MATERIALIZED (
        SELECT *, uuid_extract_timestamp(id) AS at FROM (
            SELECT o.*, uuidv7(b.shift) AS id FROM (SELECT * FROM asked ORDER BY place) AS o CROSS JOIN began b
            WHERE o.known IS NULL AND NOT EXISTS (SELECT FROM refused r WHERE r.org_id = o.org_id)
            OFFSET 0
        ) AS made
    ), told AS (
        INSERT INTO ledger_transactions (id, at, kind, key, org_id, currency, subject_id, reason, reverses_id, actor,
                                         correlation_id)
        SELECT id, at, posted_kind, key, org_id, posted_currency, subject_id, reason, NULL, who, correlation FROM fresh
    ), keyed AS (
        INSERT INTO ledger_keys (kind, key, transaction_id) SELECT posted_kind, key, id FROM fresh
    ), legs AS MATERIALIZED (
        SELECT f.id, f.org_id, h.account_id, h.hash AS before, f.amount,
               h.number + row_number() OVER mine AS number, (h.balance + sum(f.amount) OVER mine)::bigint AS balance,
               ledger_body(f.id, f.at, posted_kind, f.key, f.org_id, posted_currency, f.subject_id, f.reason, NULL, who,
                           correlation) AS body
        FROM fresh f JOIN tenants h ON h.org_id = f.org_id
        WINDOW mine AS (PARTITION BY f.org_id ORDER BY f.id)
    ), both_legs AS (
        SELECT id, org_id, account_id, number, amount, balance, before, body FROM legs
        UNION ALL
        SELECT id, NULL, platform_id, coalesce(head.number, 0) + row_number() OVER (ORDER BY id), -amount,
               (coalesce(head.balance_micros, 0) - sum(amount) OVER (ORDER BY id))::bigint, head.hash, body
        FROM legs
    ), entered AS (
        INSERT INTO ledger_entries (account_id, transaction_id, org_id, number, amount_micros, balance_micros, hash)
        SELECT account_id, id, org_id, number, amount, balance,
               ledger_chain(before, body, account_id, number, amount, balance) OVER (PARTITION BY account_id ORDER BY id)
        FROM both_legs
    )
    SELECT a.place, coalesce(a.known, f.id), a.known IS NOT NULL
    FROM asked a LEFT JOIN fresh f ON f.place = a.place ORDER BY a.place;
END $$;
