-- Printed by `make gen` from the migrations. Never edited.

CREATE FUNCTION public.ensure_metric_days(first timestamp with time zone, days integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    day timestamptz;
    part text;
    made integer := 0;

BEGIN
    IF days NOT BETWEEN 0 AND 400 THEN
        RAISE EXCEPTION 'too many days: %', days;
    END IF;
    FOR i IN 0..days LOOP
        day := (date_trunc('day', first AT TIME ZONE 'UTC') + make_interval(days => i)) AT TIME ZONE 'UTC';
        part := format('node_metrics_p%s', to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD'));
        IF to_regclass(part) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF node_metrics FOR VALUES FROM (%L) TO (%L)', part, day,
                           (day AT TIME ZONE 'UTC' + interval '1 day') AT TIME ZONE 'UTC');
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;

END $$;

CREATE FUNCTION public.ensure_partitions(parent text, key_from timestamp with time zone, months integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    month timestamptz;
    made integer := 0;
    part text;

BEGIN
    IF parent NOT IN ('outbox', 'inbox', 'audit_log', 'audit_seals', 'node_health', 'ledger_transactions', 'ledger_entries',
                      'usage') OR months NOT BETWEEN 0 AND 36 THEN
        RAISE EXCEPTION 'not a partitioned table, or too many months: % %', parent, months;
    END IF;
    FOR i IN 0..months LOOP
        month := date_trunc('month', key_from AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => i);
        part := format('%s_p%s', parent, to_char(month AT TIME ZONE 'UTC', 'YYYYMM'));
        IF to_regclass(part) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, parent,
                           floor_id(month),
                           floor_id((date_trunc('month', month AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC'));
            -- Rows of what is append-only are kept by their parent's trigger; emptying a month has to be refused by its own.
            IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = parent::regclass AND tgname = parent || '_keep_all') THEN
                EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
                               part || '_keep_all', part);
            END IF;
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;

END $$;

CREATE FUNCTION public.floor_id(at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((lpad(to_hex((floor((EXTRACT(epoch FROM at) * (1000)::numeric)))::bigint), 12, '0'::text) || '70008000000000000000'::text))::uuid;

CREATE FUNCTION public.invoice_sum_of(kind text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE kind WHEN 'top_up'::text THEN 'paid_in'::text WHEN 'usage'::text THEN 'used'::text WHEN 'usage_credit'::text THEN 'used_back'::text WHEN 'credit'::text THEN 'given'::text WHEN 'refund'::text THEN 'refunded'::text ELSE 'corrected'::text END;

CREATE FUNCTION public.is_platform() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN COALESCE((current_setting('app.org_id'::text, true) = '*'::text), false);

CREATE FUNCTION public.ledger_account(org uuid, wanted_kind text, wanted_currency text, wanted_shard smallint) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.ledger_account_sealed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.seal := ledger_seal(NEW);
    RETURN NEW;

END $$;

CREATE FUNCTION public.ledger_account_stays() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.id, OLD.org_id, OLD.kind, OLD.currency, OLD.shard, OLD.seal)
                            IS NOT DISTINCT FROM (NEW.id, NEW.org_id, NEW.kind, NEW.currency, NEW.shard, NEW.seal) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'accounts of the ledger stay' USING ERRCODE = 'insufficient_privilege';

END $$;

CREATE FUNCTION public.ledger_available(org uuid, wanted_currency text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    account uuid := ledger_account(org, 'tenant', wanted_currency, 0::smallint);

BEGIN
    RETURN coalesce((ledger_head(account)).balance_micros, 0) - ledger_held(account)
           - (SELECT floor_micros FROM ledger_accounts WHERE id = account);

END $$;

CREATE FUNCTION public.ledger_body(id uuid, at timestamp with time zone, kind text, key text, org_id uuid, currency text, subject_id uuid, reason text, reverses_id uuid, actor text, correlation_id text) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN convert_to((json_build_array(id, EXTRACT(epoch FROM at), kind, key, org_id, currency, subject_id, reason, reverses_id, actor, correlation_id))::text, 'UTF8'::name);

CREATE FUNCTION public.ledger_enter(org uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE TABLE public.ledger_accounts (
    id uuid DEFAULT uuidv7() NOT NULL,
    org_id uuid,
    kind text NOT NULL,
    currency text NOT NULL,
    shard smallint DEFAULT 0 NOT NULL,
    floor_micros bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    seal bytea DEFAULT '\x'::bytea NOT NULL,
    CONSTRAINT ledger_accounts_check CHECK (((kind = 'tenant'::text) = (org_id IS NOT NULL))),
    CONSTRAINT ledger_accounts_check1 CHECK (((org_id IS NULL) OR (shard = 0))),
    CONSTRAINT ledger_accounts_check2 CHECK (((org_id IS NOT NULL) OR (floor_micros = 0))),
    CONSTRAINT ledger_accounts_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT ledger_accounts_floor_micros_check CHECK (((floor_micros >= '-1000000000000000'::bigint) AND (floor_micros <= 0))),
    CONSTRAINT ledger_accounts_kind_check CHECK ((kind = ANY (ARRAY['tenant'::text, 'revenue'::text, 'clearing'::text, 'credits'::text, 'adjustments'::text, 'refunds'::text, 'uncollectible'::text]))),
    CONSTRAINT ledger_accounts_shard_check CHECK (((shard >= 0) AND (shard <= 31)))
);

ALTER TABLE ONLY public.ledger_accounts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ledger_accounts IS 'tenant: one account for each organisation and currency; the platform''s are nobody''s';

CREATE FUNCTION public.ledger_floor_set(org uuid, wanted_currency text, lowest bigint) RETURNS SETOF public.ledger_accounts
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_hash(before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN sha256((((((COALESCE(before, '\x'::bytea) || body) || uuid_send(account_id)) || int8send(number)) || int8send(amount)) || int8send(balance)));

CREATE TABLE public.ledger_entries (
    account_id uuid NOT NULL,
    transaction_id uuid NOT NULL,
    org_id uuid,
    number bigint NOT NULL,
    amount_micros bigint NOT NULL,
    balance_micros bigint NOT NULL,
    hash bytea NOT NULL
)
PARTITION BY RANGE (transaction_id);

ALTER TABLE ONLY public.ledger_entries FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ledger_entries IS 'tenant: the legs of transactions, each with the balance after it; append-only';

CREATE FUNCTION public.ledger_head(account uuid) RETURNS public.ledger_entries
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_sort TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

CREATE FUNCTION public.ledger_head_before(account uuid, bound uuid) RETURNS public.ledger_entries
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_sort TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    found_entry ledger_entries;

BEGIN
    SELECT * INTO found_entry FROM ledger_entries e
    WHERE e.account_id = account AND e.transaction_id < bound ORDER BY e.transaction_id DESC LIMIT 1;
    RETURN found_entry;

END $$;

CREATE TABLE public.ledger_holds (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    account_id uuid NOT NULL,
    currency text NOT NULL,
    key text NOT NULL,
    amount_micros bigint NOT NULL,
    captured_micros bigint DEFAULT 0 NOT NULL,
    subject_id uuid,
    reason text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    state_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT ledger_holds_amount_micros_check CHECK (((amount_micros >= 1) AND (amount_micros <= '1000000000000000'::bigint))),
    CONSTRAINT ledger_holds_check CHECK (((captured_micros >= 0) AND (captured_micros <= amount_micros))),
    CONSTRAINT ledger_holds_check1 CHECK (((state = 'open'::text) = (due_at IS NOT NULL))),
    CONSTRAINT ledger_holds_key_check CHECK (((length(key) >= 1) AND (length(key) <= 200))),
    CONSTRAINT ledger_holds_reason_check CHECK ((length(reason) <= 500)),
    CONSTRAINT ledger_holds_state_check CHECK ((state = ANY (ARRAY['open'::text, 'captured'::text, 'voided'::text, 'expired'::text])))
);

ALTER TABLE ONLY public.ledger_holds FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ledger_holds IS 'tenant: money set aside, until it is charged, given back or its time is over';

CREATE FUNCTION public.ledger_held(account uuid) RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT (COALESCE(sum((ledger_holds.amount_micros - ledger_holds.captured_micros)), (0)::numeric))::bigint AS "coalesce" FROM public.ledger_holds WHERE ((ledger_holds.account_id = ledger_held.account) AND (ledger_holds.state = 'open'::text) AND (ledger_holds.due_at > clock_timestamp())));

CREATE FUNCTION public.ledger_hold_capture(hold uuid, posted_kind text, posted_key text, amount bigint, counter text, last boolean, why text, who text, correlation text) RETURNS TABLE(transaction_id uuid, balance_micros bigint, replayed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_hold_extend(hold uuid, amount bigint, until timestamp with time zone) RETURNS SETOF public.ledger_holds
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_hold_open(hold uuid) RETURNS public.ledger_holds
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.ledger_hold_refuse(hold public.ledger_holds) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF hold.state <> 'open' OR hold.due_at <= clock_timestamp() THEN
        RAISE EXCEPTION 'the hold is over' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_hold_over',
            DETAIL = CASE WHEN hold.state = 'open' THEN 'expired' ELSE hold.state END;
    END IF;

END $$;

CREATE FUNCTION public.ledger_hold_take(hold uuid, hold_key text, org uuid, hold_currency text, amount bigint, subject uuid, why text, until timestamp with time zone) RETURNS SETOF public.ledger_holds
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_hold_void(hold uuid) RETURNS SETOF public.ledger_holds
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    was ledger_holds := ledger_hold_open(hold);

BEGIN
    RETURN QUERY UPDATE ledger_holds SET due_at = NULL, state_since = clock_timestamp(), state = 'voided'
        WHERE id = hold AND state = 'open' RETURNING *;
    IF NOT FOUND THEN
        RETURN NEXT was;
    END IF;

END $$;

CREATE FUNCTION public.ledger_holds_expire(most integer) RETURNS SETOF public.ledger_holds
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
    IF NOT is_platform() THEN
        RAISE EXCEPTION 'only the platform ends holds' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY UPDATE ledger_holds SET due_at = NULL, state_since = clock_timestamp(), state = 'expired'
        WHERE id = ANY(ARRAY(SELECT id FROM ledger_holds WHERE state = 'open' AND due_at <= clock_timestamp()
                             ORDER BY due_at LIMIT least(most, 1000) FOR UPDATE SKIP LOCKED))
        RETURNING *;

END $$;

CREATE FUNCTION public.ledger_leg(org uuid, leg_kind text, leg_currency text, free_shard smallint) RETURNS public.ledger_entries
    LANGUAGE plpgsql
    AS $$
DECLARE
    account uuid := ledger_account(org, leg_kind, leg_currency, CASE WHEN org IS NULL THEN free_shard ELSE 0 END::smallint);
    head ledger_entries := ledger_head(account);

BEGIN
    head.account_id := account;
    head.number := coalesce(head.number, 0);
    head.balance_micros := coalesce(head.balance_micros, 0);
    RETURN head;

END $$;

CREATE FUNCTION public.ledger_link(so_far bytea, before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN public.ledger_hash(COALESCE(so_far, before), body, account_id, number, amount, balance);

CREATE FUNCTION public.ledger_post(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[], amounts bigint[], subject uuid, why text, reverses uuid, who text, correlation text) RETURNS TABLE(transaction_id uuid, balance_micros bigint, replayed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_sort TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

CREATE FUNCTION public.ledger_post_many(posted_kind text, posted_currency text, counter text, orgs uuid[], keys text[], amounts bigint[], subjects uuid[], reasons text[], who text, correlation text) RETURNS TABLE(place integer, transaction_id uuid, replayed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_replay(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[], amounts bigint[], reverses uuid) RETURNS TABLE(transaction_id uuid, balance_micros bigint, replayed boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
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

CREATE FUNCTION public.ledger_reverse(reversed uuid, why text, who text, correlation text) RETURNS TABLE(transaction_id uuid, balance_micros bigint, replayed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

CREATE FUNCTION public.ledger_seal(account public.ledger_accounts) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(convert_to((json_build_array((account).id, (account).org_id, (account).kind, (account).currency, (account).shard))::text, 'UTF8'::name));

CREATE FUNCTION public.ledger_shard() RETURNS smallint
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.ledger_shift(newest uuid, mine uuid) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN ((newest IS NULL) OR (newest < mine)) THEN '00:00:00'::interval ELSE ((uuid_extract_timestamp(newest) - uuid_extract_timestamp(mine)) + '00:00:00.002'::interval) END;

CREATE FUNCTION public.ledger_words(kind text, key text, reason text, actor text, correlation_id text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF (length(kind) BETWEEN 1 AND 40 AND length(key) BETWEEN 1 AND 200 AND length(reason) <= 500
        AND length(actor) <= 400 AND length(correlation_id) <= 200) IS NOT TRUE THEN
        RAISE EXCEPTION 'a word is missing or too long' USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_words';
    END IF;

END $$;

CREATE TABLE public.meters (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    sku_id uuid NOT NULL,
    gpus integer NOT NULL,
    price_id uuid NOT NULL,
    micros_per_hour bigint NOT NULL,
    currency text NOT NULL,
    asked_by text NOT NULL,
    asked_by_id uuid,
    opened_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    close_reason text DEFAULT ''::text NOT NULL,
    billed_number integer DEFAULT 0 NOT NULL,
    billed_until timestamp with time zone NOT NULL,
    billed_seconds bigint DEFAULT 0 NOT NULL,
    billed_micros bigint DEFAULT 0 NOT NULL,
    settled_at timestamp with time zone,
    CONSTRAINT meters_asked_by_check CHECK ((length(asked_by) <= 400)),
    CONSTRAINT meters_check CHECK ((closed_at >= opened_at)),
    CONSTRAINT meters_check1 CHECK (((settled_at IS NULL) OR (closed_at IS NOT NULL))),
    CONSTRAINT meters_close_reason_check CHECK ((length(close_reason) <= 200)),
    CONSTRAINT meters_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT meters_gpus_check CHECK (((gpus >= 1) AND (gpus <= 4096))),
    CONSTRAINT meters_micros_per_hour_check CHECK (((micros_per_hour >= 0) AND (micros_per_hour <= '100000000000000'::bigint)))
)
WITH (fillfactor='60');

ALTER TABLE ONLY public.meters FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.meters IS 'tenant: what is charged by the usable second, at which price, from when to when';

CREATE FUNCTION public.meter_close(subject uuid, at timestamp with time zone, why text) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    known meters;
    ends timestamptz;

BEGIN
    SELECT * INTO known FROM meter_enter(subject);
    ends := greatest(known.opened_at, least(at, clock_timestamp()));
    IF known.closed_at IS NULL OR ends < known.closed_at THEN
        UPDATE meters SET closed_at = ends, close_reason = why, settled_at = NULL WHERE id = known.id;
    END IF;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.meter_enter(subject uuid) RETURNS SETOF public.meters
    LANGUAGE plpgsql
    AS $$
DECLARE
    org uuid;

BEGIN
    SELECT org_id INTO org FROM meters WHERE subject_id = subject;
    IF org IS NOT NULL THEN
        PERFORM ledger_enter(org);
        RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;
    END IF;

END $$;

CREATE FUNCTION public.pause_seconds(opened timestamp with time zone, until timestamp with time zone, pause_from timestamp with time zone, pause_until timestamp with time zone) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN GREATEST((EXTRACT(epoch FROM LEAST(pause_until, until)) - EXTRACT(epoch FROM GREATEST(pause_from, opened))), (0)::numeric);

CREATE TABLE public.meter_pauses (
    meter_id uuid NOT NULL,
    org_id uuid NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone,
    reason text NOT NULL,
    CONSTRAINT meter_pauses_check CHECK ((until_at >= from_at)),
    CONSTRAINT meter_pauses_reason_check CHECK ((length(reason) <= 200))
);

ALTER TABLE ONLY public.meter_pauses FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.meter_pauses IS 'tenant: when a meter stood still, and why; never two at once';

CREATE FUNCTION public.meter_lost(meter uuid, opened timestamp with time zone, until timestamp with time zone) RETURNS numeric
    LANGUAGE sql STABLE
    RETURN (SELECT sum(public.pause_seconds(meter_lost.opened, meter_lost.until, p.from_at, p.until_at)) AS sum FROM public.meter_pauses p WHERE (p.meter_id = meter_lost.meter));

CREATE FUNCTION public.meter_open(meter uuid, org uuid, project uuid, subject uuid, sku uuid, gpu_number integer, price uuid, rate bigint, of_currency text, by_name text, by_id uuid, at timestamp with time zone) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    began timestamptz := least(at, clock_timestamp());

BEGIN
    PERFORM ledger_enter(org);
    INSERT INTO meters (id, org_id, project_id, subject_id, sku_id, gpus, price_id, micros_per_hour, currency, asked_by,
                        asked_by_id, opened_at, billed_until)
    VALUES (meter, org, project, subject, sku, gpu_number, price, rate, of_currency, by_name, by_id, began, began)
    ON CONFLICT ON CONSTRAINT meters_one_of_subject DO NOTHING;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.meter_owed(rate bigint, seconds bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((rate / 3600) * seconds) + (((rate % (3600)::bigint) * seconds) / 3600));

CREATE FUNCTION public.meter_pause(subject uuid, at timestamp with time zone, why text, because text DEFAULT 'fault'::text) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    known meters;
    began timestamptz;
    later timestamptz;

BEGIN
    SELECT * INTO known FROM meter_enter(subject);
    began := greatest(known.opened_at, least(at, clock_timestamp()));
    IF known.id IS NOT NULL AND NOT EXISTS (
        SELECT FROM meter_causes c WHERE c.meter_id = known.id AND c.cause = because AND c.from_at <= began
        AND (c.until_at IS NULL OR began < c.until_at OR began = c.from_at))
    THEN
        SELECT min(from_at) INTO later FROM meter_causes
        WHERE meter_id = known.id AND cause = because AND from_at > began;
        IF later IS NULL THEN
            INSERT INTO meter_causes (meter_id, org_id, cause, from_at, reason)
            VALUES (known.id, known.org_id, because, began, why);
        ELSE
            UPDATE meter_causes SET from_at = began WHERE meter_id = known.id AND cause = because AND from_at = later;
        END IF;
        PERFORM meter_stand(known);
    END IF;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.meter_pause_later(subject uuid, by_seconds bigint) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    known meters;

BEGIN
    SELECT * INTO known FROM meter_enter(subject);
    UPDATE meter_causes SET from_at = least(from_at + make_interval(secs => by_seconds), clock_timestamp())
    WHERE meter_id = known.id AND cause = 'fault' AND until_at IS NULL AND by_seconds > 0;
    IF FOUND THEN
        PERFORM meter_stand(known);
    END IF;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.meter_resume(subject uuid, at timestamp with time zone, because text DEFAULT 'fault'::text) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    known meters;
    ends timestamptz := least(at, clock_timestamp());

BEGIN
    SELECT * INTO known FROM meter_enter(subject);
    UPDATE meter_causes SET until_at = ends
    WHERE meter_id = known.id AND cause = because AND until_at IS NULL AND from_at <= ends;
    IF FOUND THEN
        PERFORM meter_stand(known);
    END IF;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.meter_seconds(opened timestamp with time zone, until timestamp with time zone, lost numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (GREATEST(floor(((EXTRACT(epoch FROM until) - EXTRACT(epoch FROM opened)) - COALESCE(lost, (0)::numeric))), (0)::numeric))::bigint;

CREATE FUNCTION public.meter_stand(known public.meters) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM meter_pauses WHERE meter_id = known.id;
    INSERT INTO meter_pauses (meter_id, org_id, from_at, until_at, reason)
    SELECT known.id, known.org_id, c.alone_from, c.until_at, c.reason FROM (
        SELECT until_at, reason, greatest(from_at, max(coalesce(until_at, 'infinity')) OVER (
                   ORDER BY from_at, cause ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS alone_from
        FROM meter_causes WHERE meter_id = known.id
    ) AS c WHERE c.alone_from < coalesce(c.until_at, 'infinity');
    UPDATE meters SET settled_at = NULL WHERE id = known.id AND settled_at IS NOT NULL;

END $$;

CREATE FUNCTION public.month_of(at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (date_trunc('month'::text, (at AT TIME ZONE 'UTC'::text)) AT TIME ZONE 'UTC'::text);

CREATE FUNCTION public.org_stays() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(NEW.id, 12)); -- the ledger's turn, whoever may delete it
    IF EXISTS (SELECT FROM ledger_accounts a WHERE a.org_id = NEW.id AND a.kind = 'tenant'
               AND coalesce((ledger_head(a.id)).balance_micros, 0) <> 0)
       OR EXISTS (SELECT FROM meters m WHERE m.org_id = NEW.id AND m.settled_at IS NULL)
    THEN
        RAISE EXCEPTION 'the organisation has money, or owes some'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'orgs_without_money';
    END IF;
    RETURN NEW;

END $$;

CREATE TABLE public.payments (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    provider text NOT NULL,
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    state text DEFAULT 'created'::text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    asked_by text NOT NULL,
    asked_by_id uuid NOT NULL,
    asked_key text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    session_id text,
    intent_id text,
    url text DEFAULT ''::text NOT NULL,
    refunded_micros bigint DEFAULT 0 NOT NULL,
    disputed_micros bigint DEFAULT 0 NOT NULL,
    dispute text DEFAULT ''::text NOT NULL,
    failure text DEFAULT ''::text NOT NULL,
    transaction_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    paid_at timestamp with time zone,
    taken_micros bigint,
    taken_currency text DEFAULT ''::text NOT NULL,
    taken_session text,
    taken_intent text,
    accept_by text DEFAULT ''::text NOT NULL,
    accept_by_id uuid,
    accept_reason text DEFAULT ''::text NOT NULL,
    CONSTRAINT payments_accept_reason_check CHECK ((length(accept_reason) <= 500)),
    CONSTRAINT payments_amount_micros_check CHECK (((amount_micros >= 1) AND (amount_micros <= '1000000000000000'::bigint))),
    CONSTRAINT payments_check CHECK (((state = ANY (ARRAY['created'::text, 'open'::text])) = (due_at IS NOT NULL))),
    CONSTRAINT payments_check1 CHECK (((state = ANY (ARRAY['succeeded'::text, 'partially_refunded'::text, 'refunded'::text, 'disputed'::text])) = (transaction_id IS NOT NULL))),
    CONSTRAINT payments_check2 CHECK (((state <> 'open'::text) OR (session_id IS NOT NULL))),
    CONSTRAINT payments_check3 CHECK (((refunded_micros >= 0) AND (refunded_micros <= amount_micros))),
    CONSTRAINT payments_check4 CHECK (((disputed_micros >= 0) AND (disputed_micros <= amount_micros))),
    CONSTRAINT payments_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT payments_dispute_check CHECK ((dispute = ANY (ARRAY[''::text, 'opened'::text, 'won'::text, 'lost'::text]))),
    CONSTRAINT payments_failure_check CHECK ((length(failure) <= 500)),
    CONSTRAINT payments_intent_id_check CHECK (((length(intent_id) >= 1) AND (length(intent_id) <= 255))),
    CONSTRAINT payments_provider_check CHECK (((length(provider) >= 1) AND (length(provider) <= 40))),
    CONSTRAINT payments_session_id_check CHECK (((length(session_id) >= 1) AND (length(session_id) <= 255))),
    CONSTRAINT payments_state_check CHECK ((state = ANY (ARRAY['created'::text, 'open'::text, 'succeeded'::text, 'partially_refunded'::text, 'refunded'::text, 'disputed'::text, 'failed'::text, 'expired'::text, 'failed_reconcile'::text]))),
    CONSTRAINT payments_taken_currency_check CHECK ((length(taken_currency) <= 10)),
    CONSTRAINT payments_taken_intent_check CHECK (((length(taken_intent) >= 1) AND (length(taken_intent) <= 255))),
    CONSTRAINT payments_taken_micros_check CHECK (((taken_micros >= 0) AND (taken_micros <= '1000000000000000'::bigint))),
    CONSTRAINT payments_taken_session_check CHECK (((length(taken_session) >= 1) AND (length(taken_session) <= 255))),
    CONSTRAINT payments_url_check CHECK ((length(url) <= 4000))
);

ALTER TABLE ONLY public.payments FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.payments IS 'tenant: what an organisation pays in, from the wish to the money and back';

CREATE FUNCTION public.payment_accept(accepted uuid, posted uuid) RETURNS SETOF public.payments
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
    UPDATE payments SET state = 'succeeded', state_since = now(), amount_micros = taken_micros, currency = taken_currency,
        session_id = taken_session, intent_id = coalesce(taken_intent, intent_id), failure = '', transaction_id = posted,
        paid_at = now()
    WHERE id = accepted AND state = 'failed_reconcile' AND taken_micros > 0 RETURNING *
$$;

CREATE FUNCTION public.policy_overrides_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    UPDATE policy_revision SET revision = revision + 1;
    RETURN NULL;

END $$;

CREATE FUNCTION public.project_spent(project uuid, of_currency text, since timestamp with time zone, till timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT (COALESCE(sum((public.meter_owed(m.micros_per_hour, c.usable) - public.meter_owed(m.micros_per_hour, c.before))), (0)::numeric))::bigint AS "coalesce" FROM (((public.meters m CROSS JOIN LATERAL (SELECT GREATEST(project_spent.since, m.opened_at) AS from_at, LEAST(m.closed_at, project_spent.till) AS until_at) e) LEFT JOIN LATERAL (SELECT sum(public.pause_seconds(m.opened_at, e.until_at, p_1.from_at, p_1.until_at)) AS lost, sum(public.pause_seconds(m.opened_at, e.from_at, p_1.from_at, p_1.until_at)) AS lost_before FROM public.meter_pauses p_1 WHERE (p_1.meter_id = m.id)) p ON (true)) CROSS JOIN LATERAL (SELECT public.meter_seconds(m.opened_at, e.until_at, p.lost) AS usable, public.meter_seconds(m.opened_at, e.from_at, p.lost_before) AS before OFFSET 0) c) WHERE ((m.project_id = project_spent.project) AND (m.currency = project_spent.of_currency) AND (m.opened_at < project_spent.till) AND ((m.closed_at IS NULL) OR (m.closed_at > project_spent.since))));

CREATE FUNCTION public.project_stays() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM allocations WHERE project_id = NEW.id AND state NOT IN ('released', 'failed')) THEN
        RAISE EXCEPTION 'the project has live allocations'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'projects_without_allocations';
    END IF;
    RETURN NEW;

END $$;

CREATE FUNCTION public.prune_metric_days(before timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    part record;
    dropped integer := 0;

BEGIN
    IF before > now() - interval '1 day' THEN
        RAISE EXCEPTION 'may not prune samples before %', before;
    END IF;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'node_metrics'::regclass
          AND to_date(right(c.relname, 8), 'YYYYMMDD') + interval '1 day' <= before AT TIME ZONE 'UTC'
    LOOP
        EXECUTE format('DROP TABLE %I', part.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;

END $$;

CREATE FUNCTION public.prune_partitions(parent text, before timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    part record;
    dropped integer := 0;

BEGIN
    IF parent NOT IN ('outbox', 'inbox', 'node_health') OR before > now() - interval '7 days' THEN
        RAISE EXCEPTION 'may not prune % before %', parent, before;
    END IF;
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass
          AND to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month' <= before AT TIME ZONE 'UTC'
    LOOP
        EXECUTE format('DROP TABLE %I', part.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;

END $$;

CREATE FUNCTION public.queue_line(sku uuid, half_life_seconds double precision, longest integer) RETURNS TABLE(id uuid, org_id uuid, gpu_count integer, node_count integer, priority integer, lease_seconds integer, waiting_since timestamp with time zone, used_gpu_seconds double precision)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE sight text := coalesce(current_setting('app.org_id', true), '');

BEGIN
    PERFORM set_config('app.org_id', '*', true);
    RETURN QUERY
        WITH waiting AS (
            SELECT a.* FROM allocations a WHERE a.sku_id = sku AND a.state = 'requested' ORDER BY a.id LIMIT longest
        ), used AS (
            SELECT h.org_id, sum(half_life_seconds / ln(2) * (
                power(2, -extract(epoch FROM now() - coalesce(h.ended_at, now()))::double precision / half_life_seconds)
                - power(2, -extract(epoch FROM now() - h.held_at)::double precision / half_life_seconds))) AS gpu_seconds
            FROM slot_holds h JOIN slots s ON s.id = h.slot_id
            WHERE h.org_id IN (SELECT w.org_id FROM waiting w) AND s.sku_id = sku
              AND (h.ended_at IS NULL OR h.ended_at > now() - make_interval(secs => 20 * half_life_seconds))
            GROUP BY h.org_id
        )
        SELECT w.id, w.org_id, w.gpu_count, w.node_count, w.priority, w.lease_seconds, w.created_at,
               coalesce(u.gpu_seconds, 0)::double precision
        FROM waiting w LEFT JOIN used u ON u.org_id = w.org_id;
    PERFORM set_config('app.org_id', sight, true);

END $$;

CREATE FUNCTION public.queue_waits(sku uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE sight text := coalesce(current_setting('app.org_id', true), ''); waits boolean;

BEGIN
    PERFORM set_config('app.org_id', '*', true);
    waits := EXISTS (SELECT FROM allocations a WHERE a.sku_id = sku AND a.state = 'requested');
    PERFORM set_config('app.org_id', sight, true);
    RETURN waits;

END $$;

CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';

END $$;

CREATE FUNCTION public.sku_leases(sku uuid, longest integer) RETURNS TABLE(node_id uuid, numa integer, gpus bigint, state text, expires_at timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE sight text := coalesce(current_setting('app.org_id', true), '');

BEGIN
    PERFORM set_config('app.org_id', '*', true);
    RETURN QUERY
        SELECT s.node_id, s.numa, count(*), a.state,
               coalesce(a.expires_at, now() + make_interval(secs => a.lease_seconds)) AS ends
        FROM slots s JOIN slot_holds h ON h.slot_id = s.id AND h.ended_at IS NULL JOIN allocations a ON a.id = h.allocation_id
        WHERE s.sku_id = sku AND s.held GROUP BY s.node_id, s.numa, a.id ORDER BY ends LIMIT longest;
    PERFORM set_config('app.org_id', sight, true);

END $$;

CREATE FUNCTION public.slot_held() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
BEGIN
    UPDATE slots SET held = (NEW.ended_at IS NULL),
        dirty = CASE NEW.state WHEN 'quarantined' THEN true WHEN 'clean' THEN false ELSE dirty END
    WHERE id = NEW.slot_id AND held IS DISTINCT FROM (NEW.ended_at IS NULL);
    RETURN NULL;

END $$;

CREATE FUNCTION public.slots_claim(claimant uuid, of_org uuid, wanted uuid[], needed integer, lease_seconds integer, patient boolean) RETURNS TABLE(slot_id uuid, hold_id uuid, node_id uuid, serial text, held_at timestamp with time zone)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE got uuid[]; homes uuid[];

BEGIN
    BEGIN
        homes := ARRAY(SELECT DISTINCT s.node_id FROM slots s WHERE s.id = ANY(wanted));
        PERFORM FROM nodes n WHERE n.id = ANY(homes) ORDER BY n.id FOR SHARE;
        homes := ARRAY(SELECT home FROM unnest(homes) AS home CROSS JOIN LATERAL (
            SELECT FROM sellable_nodes v WHERE v.id = home
            AND v.seen_at >= now() - make_interval(secs => lease_seconds) OFFSET 0) AS sold);
        IF patient THEN
            got := ARRAY(SELECT s.id FROM slots s
                WHERE s.id = ANY(wanted) AND s.present AND NOT s.held AND s.node_id = ANY(homes)
                  AND NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL)
                ORDER BY array_position(wanted, s.id) LIMIT needed FOR NO KEY UPDATE OF s);
        ELSE
            got := ARRAY(SELECT s.id FROM slots s
                WHERE s.id = ANY(wanted) AND s.present AND NOT s.held AND s.node_id = ANY(homes)
                  AND NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL)
                ORDER BY array_position(wanted, s.id) LIMIT needed FOR NO KEY UPDATE OF s SKIP LOCKED);
        END IF;
        IF cardinality(got) < needed THEN
            RAISE EXCEPTION 'not enough of the wanted slots' USING ERRCODE = 'GP001';
        END IF;
        RETURN QUERY
            INSERT INTO slot_holds AS h (id, org_id, allocation_id, slot_id, node_id, serial)
            SELECT uuidv7(), of_org, claimant, s.id, s.node_id, s.serial FROM slots s WHERE s.id = ANY(got)
            RETURNING h.slot_id, h.id, h.node_id, h.serial, h.held_at;
    EXCEPTION WHEN SQLSTATE 'GP001' THEN
        RETURN QUERY SELECT s.id, NULL::uuid, s.node_id, s.serial, now() FROM slots s WHERE s.id = ANY(got);
    END;

END $$;

CREATE FUNCTION public.usage_accrue(after_org uuid, after_meter uuid, most integer, billed_before timestamp with time zone, who text, correlation text) RETURNS TABLE(last_org uuid, last_meter uuid, looked integer, posted integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT is_platform() THEN
        RAISE EXCEPTION 'only the platform charges everybody' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT * FROM usage_post(after_org, after_meter, most, NULL, least(billed_before, clock_timestamp()), NULL,
                                          who, correlation);

END $$;

CREATE FUNCTION public.usage_id(of_transaction uuid) RETURNS uuid
    LANGUAGE sql
    RETURN CASE WHEN (of_transaction IS NULL) THEN uuidv7() ELSE (("left"((of_transaction)::text, 13) || substr((uuidv7())::text, 14)))::uuid END;

CREATE FUNCTION public.usage_post(after_org uuid, after_meter uuid, most integer, of_meter uuid, billed_before timestamp with time zone, now_at timestamp with time zone, who text, correlation text) RETURNS TABLE(last_org uuid, last_meter uuid, looked integer, posted integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    orgs uuid[];
    ids uuid[];

BEGIN
    SELECT array_agg(DISTINCT org_id), array_agg(id ORDER BY org_id, id) INTO orgs, ids FROM (
        SELECT org_id, id, dense_rank() OVER (ORDER BY org_id) AS place FROM (
            SELECT m.org_id, m.id FROM meters m
            WHERE m.settled_at IS NULL AND (m.org_id, m.id) > (after_org, after_meter)
              AND (of_meter IS NULL OR m.id = of_meter) AND (m.billed_until < billed_before OR m.closed_at IS NOT NULL)
            ORDER BY m.org_id, m.id LIMIT least(most, 10000)
        ) AS next_ones
    ) AS placed WHERE place <= 1000;
    looked := coalesce(cardinality(ids), 0);
    posted := 0;
    IF looked = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    last_meter := ids[looked];
    last_org := (SELECT m.org_id FROM meters m WHERE m.id = last_meter);
    -- In one order for everybody. What is read after this is what everybody before has written.
    PERFORM ledger_enter(o) FROM (SELECT o FROM unnest(orgs) AS o ORDER BY o) AS ordered;
    now_at := coalesce(now_at, clock_timestamp());
    WITH looked_at AS MATERIALIZED (
        -- An end that is known holds, even if the clock has stepped back before it since.
        SELECT m.*, coalesce(m.closed_at, greatest(now_at, m.billed_until)) AS counts_until
        FROM meters m WHERE m.id = ANY(ids) AND m.settled_at IS NULL
    ), lost AS MATERIALIZED (
        SELECT l.id, sum(pause_seconds(l.opened_at, l.counts_until, p.from_at, p.until_at)) AS seconds
        FROM looked_at l JOIN meter_pauses p ON p.meter_id = l.id GROUP BY l.id
    ), rated AS MATERIALIZED (
        SELECT r.*, meter_owed(r.micros_per_hour, r.usable) - r.billed_micros AS micros,
               r.usable - r.billed_seconds AS seconds
        FROM (SELECT l.*, meter_seconds(l.opened_at, l.counts_until, lost.seconds) AS usable
              FROM looked_at l LEFT JOIN lost ON lost.id = l.id OFFSET 0) AS r
    ), charges AS MATERIALIZED (
        SELECT currency, org_id, sum(micros)::bigint AS micros, count(*) AS meters,
               (array_agg(id || ':' || billed_number + 1 ORDER BY id))[1] AS key,
               CASE WHEN count(*) = 1 THEN min(subject_id::text)::uuid END AS subject_id
        FROM rated WHERE micros > 0 GROUP BY currency, org_id
    ), credits AS MATERIALIZED (
        SELECT currency, org_id, -micros AS micros, id || ':' || billed_number + 1 AS key, subject_id,
               'usable for ' || usable || ' seconds, not for ' || billed_seconds || ': '
               || CASE WHEN closed_at < billed_until THEN 'it ended before what was charged (' || close_reason || ')'
                       ELSE 'it was out of order meanwhile (' || coalesce((SELECT p.reason FROM meter_pauses p
                                 WHERE p.meter_id = rated.id ORDER BY p.from_at DESC LIMIT 1), '') || ')' END AS reason
        FROM rated WHERE micros < 0
    ), charged AS MATERIALIZED (
        SELECT b.currency, b.orgs[p.place] AS org_id, p.transaction_id
        FROM (SELECT currency, array_agg(org_id ORDER BY org_id) AS orgs, array_agg(key ORDER BY org_id) AS keys,
                     array_agg(-micros ORDER BY org_id) AS amounts, array_agg(subject_id ORDER BY org_id) AS subjects,
                     array_agg('use of ' || meters || CASE meters WHEN 1 THEN ' allocation' ELSE ' allocations' END
                               ORDER BY org_id) AS reasons
              FROM charges GROUP BY currency) AS b
        CROSS JOIN LATERAL ledger_post_many('usage', b.currency, 'revenue', b.orgs, b.keys, b.amounts, b.subjects, b.reasons,
                                            who, correlation) AS p
    ), credited AS MATERIALIZED (
        SELECT b.subjects[p.place] AS subject_id, p.transaction_id
        FROM (SELECT currency, array_agg(org_id ORDER BY key) AS orgs, array_agg(key ORDER BY key) AS keys,
                     array_agg(micros ORDER BY key) AS amounts, array_agg(subject_id ORDER BY key) AS subjects,
                     array_agg(left(reason, 500) ORDER BY key) AS reasons
              FROM credits GROUP BY currency) AS b
        CROSS JOIN LATERAL ledger_post_many('usage_credit', b.currency, 'revenue', b.orgs, b.keys, b.amounts, b.subjects,
                                            b.reasons, who, correlation) AS p
    ), noted AS (
        INSERT INTO usage (id, org_id, meter_id, number, from_at, until_at, seconds, micros, transaction_id)
        SELECT usage_id(CASE WHEN r.micros > 0 THEN c.transaction_id ELSE d.transaction_id END), r.org_id, r.id,
               r.billed_number + 1, r.billed_until, r.counts_until, r.seconds, r.micros,
               CASE WHEN r.micros > 0 THEN c.transaction_id ELSE d.transaction_id END
        FROM rated r
        LEFT JOIN charged c ON r.micros > 0 AND c.currency = r.currency AND c.org_id = r.org_id
        LEFT JOIN credited d ON r.micros < 0 AND d.subject_id = r.subject_id
        WHERE r.micros <> 0 OR r.seconds <> 0
    ), moved AS (
        UPDATE meters m SET billed_number = m.billed_number + (r.micros <> 0 OR r.seconds <> 0)::integer,
            billed_until = CASE WHEN r.micros <> 0 OR r.seconds <> 0 THEN r.counts_until ELSE m.billed_until END,
            billed_seconds = m.billed_seconds + r.seconds, billed_micros = m.billed_micros + r.micros,
            settled_at = CASE WHEN m.closed_at IS NOT NULL THEN clock_timestamp() END
        FROM rated r WHERE m.id = r.id AND (r.micros <> 0 OR r.seconds <> 0 OR m.closed_at IS NOT NULL)
    )
    SELECT count(*) FILTER (WHERE micros <> 0 OR seconds <> 0) INTO posted FROM rated;
    RETURN NEXT;

END $$;

CREATE FUNCTION public.usage_settle(subject uuid, who text, correlation text) RETURNS SETOF public.meters
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
    known meters;

BEGIN
    SELECT * INTO known FROM meter_enter(subject);
    IF known.id IS NOT NULL THEN
        PERFORM usage_post('00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', 1, known.id,
                           'infinity', NULL, who, correlation);
    END IF;
    RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;

END $$;

CREATE FUNCTION public.visible_actor(who uuid) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (current_setting('app.org_id'::text, true) = '*'::text) THEN true ELSE (who = (NULLIF(current_setting('app.actor_id'::text, true), ''::text))::uuid) END;

CREATE FUNCTION public.visible_org(org uuid) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (current_setting('app.org_id'::text, true) = '*'::text) THEN true ELSE (org = (NULLIF(current_setting('app.org_id'::text, true), ''::text))::uuid) END;

CREATE AGGREGATE public.ledger_chain(bytea, bytea, uuid, bigint, bigint, bigint) (
    SFUNC = public.ledger_link,
    STYPE = bytea
);

CREATE TABLE public.action_links (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    user_id uuid NOT NULL,
    action text NOT NULL,
    subject_id uuid,
    detail text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    outcome text DEFAULT ''::text NOT NULL,
    CONSTRAINT action_links_action_check CHECK (((length(action) >= 3) AND (length(action) <= 60))),
    CONSTRAINT action_links_detail_check CHECK ((length(detail) <= 200)),
    CONSTRAINT action_links_outcome_check CHECK ((length(outcome) <= 500))
);

ALTER TABLE ONLY public.action_links FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.action_links IS 'tenant: one-click links: for whom, what they do, until when, and whether it was done';

CREATE TABLE public.agent_artifact_parts (
    artifact_id uuid NOT NULL,
    number integer NOT NULL,
    digest text NOT NULL,
    size integer NOT NULL,
    CONSTRAINT agent_artifact_parts_number_check CHECK ((number >= 1)),
    CONSTRAINT agent_artifact_parts_size_check CHECK ((size > 0))
);

COMMENT ON TABLE public.agent_artifact_parts IS 'platform: the parts an agent''s version was uploaded in, in order';

CREATE TABLE public.agent_artifacts (
    id uuid NOT NULL,
    version text NOT NULL,
    digest text NOT NULL,
    size bigint NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT agent_artifacts_check CHECK (((state = 'uploading'::text) = (due_at IS NOT NULL))),
    CONSTRAINT agent_artifacts_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
    CONSTRAINT agent_artifacts_size_check CHECK ((size > 0)),
    CONSTRAINT agent_artifacts_state_check CHECK ((state = ANY (ARRAY['uploading'::text, 'published'::text, 'retired'::text]))),
    CONSTRAINT agent_artifacts_version_check CHECK (((length(version) >= 1) AND (length(version) <= 60)))
);

COMMENT ON TABLE public.agent_artifacts IS 'platform: versions of the agent that nodes may be told to become';

CREATE TABLE public.allocation_proofs (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    allocation_id uuid NOT NULL,
    node_id uuid NOT NULL,
    task_id uuid NOT NULL,
    serials text[] NOT NULL,
    passed boolean NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY public.allocation_proofs FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.allocation_proofs IS 'tenant: health reports of exactly the GPUs of an allocation; append-only';

CREATE TABLE public.allocation_timeline (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    allocation_id uuid NOT NULL,
    phase text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    actor text NOT NULL,
    correlation_id text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT allocation_timeline_phase_check CHECK (((length(phase) >= 1) AND (length(phase) <= 60)))
);

ALTER TABLE ONLY public.allocation_timeline FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.allocation_timeline IS 'tenant: what happened to an allocation, in order; append-only';

CREATE TABLE public.allocations (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    name text NOT NULL,
    sku_id uuid NOT NULL,
    gpu_count integer NOT NULL,
    node_count integer NOT NULL,
    isolation text NOT NULL,
    price_id uuid NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    requested_by text NOT NULL,
    requested_by_id uuid,
    ssh_keys text[] NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    placement text DEFAULT ''::text NOT NULL,
    connection_sealed bytea,
    lease_seconds integer NOT NULL,
    active_at timestamp with time zone,
    expires_at timestamp with time zone,
    ends_at timestamp with time zone,
    expiry_warned_at timestamp with time zone,
    idle_since timestamp with time zone,
    idle_warned_at timestamp with time zone,
    reclaim_at timestamp with time zone,
    degraded_since timestamp with time zone,
    degraded_reason text DEFAULT ''::text NOT NULL,
    stop_reason text DEFAULT ''::text NOT NULL,
    stopped_by text DEFAULT ''::text NOT NULL,
    stop_requested_at timestamp with time zone,
    stop_due_at timestamp with time zone,
    stop_unpaid boolean DEFAULT false NOT NULL,
    stop_after timestamp with time zone,
    release_requested_at timestamp with time zone,
    release_reason text DEFAULT ''::text NOT NULL,
    released_by text DEFAULT ''::text NOT NULL,
    forced boolean DEFAULT false NOT NULL,
    force_attempts integer DEFAULT 0 NOT NULL,
    force_after timestamp with time zone,
    ended_at timestamp with time zone,
    failure_code text DEFAULT ''::text NOT NULL,
    failure text DEFAULT ''::text NOT NULL,
    correlation_id text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT allocations_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['released'::text, 'failed'::text])))),
    CONSTRAINT allocations_check1 CHECK (((stop_reason <> ''::text) OR (state <> ALL (ARRAY['stopping'::text, 'stopped'::text, 'starting'::text])))),
    CONSTRAINT allocations_gpu_count_check CHECK (((gpu_count >= 1) AND (gpu_count <= 64))),
    CONSTRAINT allocations_isolation_check CHECK ((isolation = ANY (ARRAY['user-revoke'::text, 'full-reimage'::text]))),
    CONSTRAINT allocations_lease_seconds_check CHECK ((lease_seconds > 0)),
    CONSTRAINT allocations_name_check CHECK (((length(name) >= 1) AND (length(name) <= 63))),
    CONSTRAINT allocations_node_count_check CHECK (((node_count >= 1) AND (node_count <= 64))),
    CONSTRAINT allocations_priority_check CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT allocations_state_check CHECK ((state = ANY (ARRAY['requested'::text, 'provisioning'::text, 'active'::text, 'stopping'::text, 'stopped'::text, 'starting'::text, 'releasing'::text, 'released'::text, 'failed'::text, 'release_failed'::text]))),
    CONSTRAINT allocations_stop_reason_check CHECK ((stop_reason = ANY (ARRAY[''::text, 'user'::text, 'balance'::text, 'budget'::text])))
);

ALTER TABLE ONLY public.allocations FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.allocations IS 'tenant: GPUs asked for, held and given back';

CREATE TABLE public.audit_checkpoints (
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL
);

COMMENT ON TABLE public.audit_checkpoints IS 'platform: signed heads of the audit chain; append-only';

CREATE TABLE public.audit_head (
    only_row boolean DEFAULT true NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_head_only_row_check CHECK (only_row)
);

COMMENT ON TABLE public.audit_head IS 'platform: the last link of the audit chain, where the next one is attached';

CREATE TABLE public.audit_log (
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    action text NOT NULL,
    operation text NOT NULL,
    actor_kind text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    org_id uuid,
    project_id uuid,
    subject_id uuid,
    correlation_id text NOT NULL,
    client_ip text NOT NULL,
    details jsonb NOT NULL
)
PARTITION BY RANGE (id);

ALTER TABLE ONLY public.audit_log FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.audit_log IS 'tenant: who did what; append-only';

CREATE TABLE public.audit_seals (
    audit_id uuid NOT NULL,
    seq bigint NOT NULL,
    version smallint NOT NULL,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL
)
PARTITION BY RANGE (audit_id);

COMMENT ON TABLE public.audit_seals IS 'platform: the hash chain over the audit log; append-only';

CREATE TABLE public.audit_unsealed (
    audit_id uuid NOT NULL
);

COMMENT ON TABLE public.audit_unsealed IS 'platform: audit rows the sealer has not yet linked into the chain';

CREATE TABLE public.bootstrap_tokens (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    token_hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    certificate_id uuid,
    CONSTRAINT bootstrap_tokens_check CHECK ((expires_at <= (created_at + '01:00:00'::interval))),
    CONSTRAINT bootstrap_tokens_check1 CHECK (((used_at IS NULL) OR (revoked_at IS NULL))),
    CONSTRAINT bootstrap_tokens_token_hash_check CHECK ((octet_length(token_hash) = 32))
);

COMMENT ON TABLE public.bootstrap_tokens IS 'platform: by which a machine becomes a node, once; stored as hashes';

CREATE TABLE public.budget_marks (
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    currency text NOT NULL,
    month date NOT NULL,
    of_limit text NOT NULL,
    percent smallint NOT NULL,
    limit_micros bigint NOT NULL,
    spent_micros bigint NOT NULL,
    reached_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    CONSTRAINT budget_marks_check CHECK (((of_limit = 'hard'::text) = (due_at IS NOT NULL))),
    CONSTRAINT budget_marks_month_check CHECK ((EXTRACT(day FROM month) = (1)::numeric)),
    CONSTRAINT budget_marks_of_limit_check CHECK ((of_limit = ANY (ARRAY['soft'::text, 'hard'::text]))),
    CONSTRAINT budget_marks_percent_check CHECK (((percent >= 1) AND (percent <= 100)))
);

ALTER TABLE ONLY public.budget_marks FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.budget_marks IS 'tenant: how much of a budget was spent in a month, once for each that is told';

CREATE TABLE public.budgets (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    currency text NOT NULL,
    soft_micros bigint,
    hard_micros bigint,
    set_by text NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT budgets_check CHECK (((soft_micros IS NOT NULL) OR (hard_micros IS NOT NULL))),
    CONSTRAINT budgets_check1 CHECK ((soft_micros <= hard_micros)),
    CONSTRAINT budgets_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT budgets_hard_micros_check CHECK (((hard_micros >= 1) AND (hard_micros <= '1000000000000000'::bigint))),
    CONSTRAINT budgets_set_by_check CHECK ((length(set_by) <= 400)),
    CONSTRAINT budgets_soft_micros_check CHECK (((soft_micros >= 1) AND (soft_micros <= '1000000000000000'::bigint)))
);

ALTER TABLE ONLY public.budgets FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.budgets IS 'tenant: what projects may spend in a month';

CREATE TABLE public.certificate_authorities (
    id uuid NOT NULL,
    kind text NOT NULL,
    parent_id uuid,
    subject text NOT NULL,
    certificate bytea NOT NULL,
    fingerprint bytea NOT NULL,
    key_sealed bytea,
    not_before timestamp with time zone NOT NULL,
    not_after timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone,
    distrusted_at timestamp with time zone,
    CONSTRAINT certificate_authorities_check CHECK (((kind = 'root'::text) = (parent_id IS NULL))),
    CONSTRAINT certificate_authorities_check1 CHECK ((not_before < not_after)),
    CONSTRAINT certificate_authorities_fingerprint_check CHECK ((octet_length(fingerprint) = 32)),
    CONSTRAINT certificate_authorities_kind_check CHECK ((kind = ANY (ARRAY['root'::text, 'intermediate'::text, 'cross'::text])))
);

COMMENT ON TABLE public.certificate_authorities IS 'platform: certificates of our authorities; their keys are sealed with the master key';

CREATE TABLE public.certificates (
    id uuid NOT NULL,
    kind text NOT NULL,
    node_id uuid,
    authority_id uuid NOT NULL,
    serial text NOT NULL,
    fingerprint bytea NOT NULL,
    public_key_hash bytea NOT NULL,
    certificate bytea NOT NULL,
    not_before timestamp with time zone NOT NULL,
    not_after timestamp with time zone NOT NULL,
    issued_at timestamp with time zone DEFAULT now() NOT NULL,
    used_at timestamp with time zone,
    superseded_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_reason text DEFAULT ''::text NOT NULL,
    CONSTRAINT certificates_check CHECK (((kind = 'node'::text) = (node_id IS NOT NULL))),
    CONSTRAINT certificates_check1 CHECK ((not_before < not_after)),
    CONSTRAINT certificates_fingerprint_check CHECK ((octet_length(fingerprint) = 32)),
    CONSTRAINT certificates_kind_check CHECK ((kind = ANY (ARRAY['node'::text, 'server'::text]))),
    CONSTRAINT certificates_public_key_hash_check CHECK ((octet_length(public_key_hash) = 32)),
    CONSTRAINT certificates_serial_check CHECK ((serial ~ '^[0-9a-f]{32}$'::text))
);

COMMENT ON TABLE public.certificates IS 'platform: every certificate that was issued, what replaced or revoked it';

CREATE TABLE public.consumer_progress (
    consumer text NOT NULL,
    checked_through uuid NOT NULL,
    complete_through uuid NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.consumer_progress IS 'platform: up to which event the auditor has found each consumer complete';

CREATE TABLE public.data_keys (
    id uuid NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone
);

COMMENT ON TABLE public.data_keys IS 'platform: keys that seal sensitive fields, themselves sealed with the master key';

CREATE TABLE public.dead_letters (
    id uuid NOT NULL,
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    event_name text NOT NULL,
    org_id uuid,
    correlation_id text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    note text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dead_letters_attempts_check CHECK ((attempts > 0)),
    CONSTRAINT dead_letters_state_check CHECK ((state = ANY (ARRAY['open'::text, 'replaying'::text, 'resolved'::text, 'discarded'::text])))
);

COMMENT ON TABLE public.dead_letters IS 'platform: events a consumer could not handle, with the reason';

CREATE TABLE public.delivery_attempts (
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    attempts integer NOT NULL,
    last_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT delivery_attempts_attempts_check CHECK ((attempts > 0))
);

COMMENT ON TABLE public.delivery_attempts IS 'platform: how often a consumer has failed on an event it has not handled yet';

CREATE TABLE public.emails (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    org_id uuid NOT NULL,
    notification_id uuid NOT NULL,
    kind text NOT NULL,
    to_address text NOT NULL,
    content jsonb NOT NULL,
    state text DEFAULT 'queued'::text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    lease_until timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text DEFAULT ''::text NOT NULL,
    CONSTRAINT emails_check CHECK (((due_at IS NOT NULL) = (state = ANY (ARRAY['queued'::text, 'not_configured'::text])))),
    CONSTRAINT emails_kind_check CHECK (((length(kind) >= 3) AND (length(kind) <= 60))),
    CONSTRAINT emails_last_error_check CHECK ((length(last_error) <= 500)),
    CONSTRAINT emails_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'not_configured'::text, 'sent'::text, 'failed'::text]))),
    CONSTRAINT emails_to_address_check CHECK ((length(to_address) <= 320))
);

ALTER TABLE ONLY public.emails FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.emails IS 'actor: mail to be sent, and what became of it';

CREATE TABLE public.flow_attempts (
    run_id uuid NOT NULL,
    fence bigint NOT NULL,
    number integer NOT NULL,
    direction text NOT NULL,
    step text NOT NULL,
    outcome text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    worker text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT flow_attempts_direction_check CHECK ((direction = ANY (ARRAY['forward'::text, 'undoing'::text]))),
    CONSTRAINT flow_attempts_outcome_check CHECK ((outcome = ANY (ARRAY['passed'::text, 'waits'::text, 'again'::text, 'failed'::text])))
);

COMMENT ON TABLE public.flow_attempts IS 'platform: what each step of a run came to, each time';

CREATE TABLE public.flow_runs (
    id uuid NOT NULL,
    kind text NOT NULL,
    version integer NOT NULL,
    subject_id uuid NOT NULL,
    org_id uuid,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    step text NOT NULL,
    passed text[] DEFAULT '{}'::text[] NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    memo jsonb DEFAULT '{}'::jsonb NOT NULL,
    lease_owner text DEFAULT ''::text NOT NULL,
    lease_until timestamp with time zone,
    fence bigint DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone NOT NULL,
    wakes bigint DEFAULT 0 NOT NULL,
    error_code text DEFAULT ''::text NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    cancel_requested_at timestamp with time zone,
    cancel_reason text DEFAULT ''::text NOT NULL,
    correlation_id text NOT NULL,
    traceparent text NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT flow_runs_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT flow_runs_check CHECK (((ended_at IS NULL) = (state = ANY (ARRAY['forward'::text, 'undoing'::text])))),
    CONSTRAINT flow_runs_state_check CHECK ((state = ANY (ARRAY['forward'::text, 'undoing'::text, 'done'::text, 'undone'::text, 'surrendered'::text]))),
    CONSTRAINT flow_runs_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY public.flow_runs FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.flow_runs IS 'tenant: stories under way, and how they ended; without an organisation they are the platform''s';

CREATE TABLE public.gpu_faults (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    serial text NOT NULL,
    kind text NOT NULL,
    code text NOT NULL,
    detail text NOT NULL,
    at timestamp with time zone NOT NULL,
    told_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT gpu_faults_kind_check CHECK ((kind = ANY (ARRAY['application'::text, 'resettable'::text, 'hardware'::text])))
);

COMMENT ON TABLE public.gpu_faults IS 'platform: faults of GPUs as drivers told of them, each once; pruned by age';

CREATE TABLE public.gpu_quotas (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid,
    gpu_model text NOT NULL,
    gpus integer NOT NULL,
    set_by text NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT gpu_quotas_gpus_check CHECK (((gpus >= 0) AND (gpus <= 1000000)))
);

ALTER TABLE ONLY public.gpu_quotas FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.gpu_quotas IS 'tenant: how many GPUs of a model an organisation or a project may hold, where that differs from the policy';

CREATE TABLE public.idempotency_keys (
    actor_id uuid NOT NULL,
    key text NOT NULL,
    operation text NOT NULL,
    request_hash bytea NOT NULL,
    status smallint,
    body bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_keys_key_check CHECK (((length(key) >= 1) AND (length(key) <= 200)))
);

ALTER TABLE ONLY public.idempotency_keys FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.idempotency_keys IS 'actor: the answer already given to a request, without its secrets';

CREATE TABLE public.inbox (
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    handled_at timestamp with time zone DEFAULT now() NOT NULL
)
PARTITION BY RANGE (event_id);

COMMENT ON TABLE public.inbox IS 'platform: which consumer has handled which event, once';

CREATE VIEW public.invariant_01_balance_is_sum WITH (security_invoker='true') AS
 SELECT ((('account '::text || account_id) || ' entry '::text) || number) AS subject,
    ((
        CASE
            WHEN (number <> (before_number + 1)) THEN ('its number follows '::text || before_number)
            ELSE (((((('its balance is '::text || balance_micros) || ', but '::text) || before_balance) || ' and '::text) || amount_micros) || ' are not'::text)
        END || ', in transaction '::text) || transaction_id) AS problem
   FROM ( SELECT ledger_entries.account_id,
            ledger_entries.transaction_id,
            ledger_entries.number,
            ledger_entries.amount_micros,
            ledger_entries.balance_micros,
            lag(ledger_entries.number, 1, (0)::bigint) OVER along AS before_number,
            lag(ledger_entries.balance_micros, 1, (0)::bigint) OVER along AS before_balance
           FROM public.ledger_entries
          WINDOW along AS (PARTITION BY ledger_entries.account_id ORDER BY ledger_entries.transaction_id)) entries
  WHERE ((number <> (before_number + 1)) OR (balance_micros <> (before_balance + amount_micros)));

COMMENT ON VIEW public.invariant_01_balance_is_sum IS 'the balance of an account is the sum of its entries, at any instant';

CREATE TABLE public.ledger_keys (
    kind text NOT NULL,
    key text NOT NULL,
    transaction_id uuid NOT NULL
);

COMMENT ON TABLE public.ledger_keys IS 'platform: which transaction was posted under which key, once; append-only';

CREATE TABLE public.ledger_transactions (
    id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    org_id uuid,
    currency text NOT NULL,
    subject_id uuid,
    reason text NOT NULL,
    reverses_id uuid,
    actor text NOT NULL,
    correlation_id text NOT NULL
)
PARTITION BY RANGE (id);

ALTER TABLE ONLY public.ledger_transactions FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ledger_transactions IS 'tenant: why money moved, once; append-only';

CREATE VIEW public.invariant_02_one_key_one_transaction WITH (security_invoker='true') AS
 SELECT ((('key '::text || COALESCE(k.kind, t.kind)) || ' '::text) || COALESCE(k.key, t.key)) AS subject,
        CASE
            WHEN (t.id IS NULL) THEN (('its transaction '::text || k.transaction_id) || ' is not there'::text)
            ELSE (('transaction '::text || t.id) || ' is not the one the key stands for'::text)
        END AS problem
   FROM (public.ledger_keys k
     FULL JOIN public.ledger_transactions t ON ((t.id = k.transaction_id)))
  WHERE ((k.key IS NULL) OR (t.id IS NULL) OR ((k.kind <> t.kind) OR (k.key <> t.key)));

COMMENT ON VIEW public.invariant_02_one_key_one_transaction IS 'each transaction was posted under one key, each key for one transaction';

CREATE VIEW public.invariant_02_transactions_balance WITH (security_invoker='true') AS
 SELECT ('transaction '::text || COALESCE(t.id, e.transaction_id)) AS subject,
        CASE
            WHEN (t.id IS NULL) THEN 'has entries, but is not there'::text
            WHEN ((e.legs IS NULL) OR (e.legs < 2)) THEN (('has '::text || COALESCE(e.legs, (0)::bigint)) || ' legs'::text)
            WHEN (e.total <> (0)::numeric) THEN ('sums to '::text || e.total)
            ELSE 'has legs in an account of another currency or organisation, or in none'::text
        END AS problem
   FROM (public.ledger_transactions t
     FULL JOIN ( SELECT e_1.transaction_id,
            count(*) AS legs,
            sum(e_1.amount_micros) AS total,
            min(a.currency) AS currency,
            bool_and(((a.id IS NOT NULL) AND (NOT (a.org_id IS DISTINCT FROM e_1.org_id)))) AS placed,
            count(DISTINCT a.currency) AS currencies,
            (min((e_1.org_id)::text))::uuid AS org_id
           FROM (public.ledger_entries e_1
             LEFT JOIN public.ledger_accounts a ON ((a.id = e_1.account_id)))
          GROUP BY e_1.transaction_id) e ON ((e.transaction_id = t.id)))
  WHERE ((t.id IS NULL) OR (e.legs IS NULL) OR (e.legs < 2) OR (e.total <> (0)::numeric) OR (NOT e.placed) OR (e.currencies <> 1) OR (e.currency <> t.currency) OR (e.org_id IS DISTINCT FROM t.org_id));

COMMENT ON VIEW public.invariant_02_transactions_balance IS 'each transaction sums to zero in its currency and has two legs or more';

CREATE VIEW public.invariant_03_floors WITH (security_invoker='true') AS
 SELECT ('organisation '::text || a.org_id) AS subject,
    ((((((('has '::text || COALESCE(h.balance_micros, (0)::bigint)) || ' with '::text) || held.micros) || ' set aside, and may not fall below '::text) || a.floor_micros) || ' '::text) || a.currency) AS problem
   FROM ((public.ledger_accounts a
     LEFT JOIN LATERAL ( SELECT e.balance_micros
           FROM public.ledger_entries e
          WHERE (e.account_id = a.id)
          ORDER BY e.transaction_id DESC
         LIMIT 1) h ON (true))
     CROSS JOIN LATERAL ( SELECT COALESCE(sum((ledger_holds.amount_micros - ledger_holds.captured_micros)), (0)::numeric) AS micros
           FROM public.ledger_holds
          WHERE ((ledger_holds.account_id = a.id) AND (ledger_holds.state = 'open'::text) AND (ledger_holds.due_at > clock_timestamp()))) held)
  WHERE ((a.kind = 'tenant'::text) AND (((COALESCE(h.balance_micros, (0)::bigint))::numeric - held.micros) < (a.floor_micros)::numeric) AND (NOT (EXISTS ( SELECT
           FROM (public.ledger_entries u
             JOIN public.ledger_transactions t ON (((t.id = u.transaction_id) AND (t.kind = 'usage'::text))))
          WHERE ((u.account_id = a.id) AND (u.amount_micros < 0) AND (NOT (EXISTS ( SELECT
                   FROM (public.ledger_entries o
                     JOIN public.ledger_transactions ot ON ((ot.id = o.transaction_id)))
                  WHERE ((o.account_id = a.id) AND (o.number > u.number) AND (o.amount_micros < 0) AND (ot.kind <> 'usage'::text))))) AND (NOT (EXISTS ( SELECT
                   FROM public.ledger_holds n
                  WHERE ((n.account_id = a.id) AND (n.state = 'open'::text) AND (n.created_at > (t.at + '00:00:00.001'::interval)))))))))));

COMMENT ON VIEW public.invariant_03_floors IS 'no account, less what is set aside of it, is below its floor but for what was used';

CREATE VIEW public.invariant_03_reversed_once WITH (security_invoker='true') AS
 SELECT ('transaction '::text || t.reverses_id) AS subject,
    (('reversed '::text || count(*)) || ' times'::text) AS problem
   FROM public.ledger_transactions t
  WHERE (t.reverses_id IS NOT NULL)
  GROUP BY t.reverses_id
 HAVING (count(*) > 1)
UNION ALL
 SELECT ('transaction '::text || t.id) AS subject,
    ('does not undo the legs of '::text || t.reverses_id) AS problem
   FROM public.ledger_transactions t
  WHERE ((t.reverses_id IS NOT NULL) AND (EXISTS ( SELECT a.kind,
            sum(e.amount_micros) AS sum
           FROM (public.ledger_entries e
             JOIN public.ledger_accounts a ON ((a.id = e.account_id)))
          WHERE (e.transaction_id = ANY (ARRAY[t.id, t.reverses_id]))
          GROUP BY a.kind
         HAVING (sum(e.amount_micros) <> (0)::numeric))));

COMMENT ON VIEW public.invariant_03_reversed_once IS 'a transaction is reversed at most once, as a whole';

CREATE TABLE public.slot_holds (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    allocation_id uuid NOT NULL,
    slot_id uuid NOT NULL,
    node_id uuid NOT NULL,
    serial text NOT NULL,
    state text DEFAULT 'held'::text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    held_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT slot_holds_check CHECK (((ended_at IS NULL) = (state = ANY (ARRAY['held'::text, 'cleaning'::text])))),
    CONSTRAINT slot_holds_state_check CHECK ((state = ANY (ARRAY['held'::text, 'cleaning'::text, 'unused'::text, 'clean'::text, 'quarantined'::text])))
);

ALTER TABLE ONLY public.slot_holds FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.slot_holds IS 'tenant: which allocation holds which GPU, and how it was given back';

CREATE TABLE public.slots (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    serial text NOT NULL,
    gpu_index integer NOT NULL,
    address text NOT NULL,
    vendor text NOT NULL,
    model text NOT NULL,
    memory_bytes bigint NOT NULL,
    numa integer NOT NULL,
    iommu_group integer NOT NULL,
    nvme_address text,
    fabric_address text,
    present boolean NOT NULL,
    first_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    sku_id uuid NOT NULL,
    held boolean DEFAULT false NOT NULL,
    dirty boolean DEFAULT false NOT NULL,
    CONSTRAINT slots_gpu_index_check CHECK (((gpu_index >= 0) AND (gpu_index <= 63)))
);

COMMENT ON TABLE public.slots IS 'platform: one per GPU of a node, as its agent found it';

CREATE VIEW public.invariant_04_one_holder WITH (security_invoker='true') AS
 SELECT (slot_holds.slot_id)::text AS subject,
    (('held '::text || count(*)) || ' times at once'::text) AS problem
   FROM public.slot_holds
  WHERE (slot_holds.ended_at IS NULL)
  GROUP BY slot_holds.slot_id
 HAVING (count(*) > 1)
UNION ALL
 SELECT (s.id)::text AS subject,
    (('the slot says held = '::text || s.held) || ', its holds say otherwise'::text) AS problem
   FROM public.slots s
  WHERE (s.held IS DISTINCT FROM (EXISTS ( SELECT
           FROM public.slot_holds h
          WHERE ((h.slot_id = s.id) AND (h.ended_at IS NULL)))));

COMMENT ON VIEW public.invariant_04_one_holder IS 'no slot is held by two allocations';

CREATE VIEW public.invariant_05_deposits_of_live WITH (security_invoker='true') AS
 SELECT ('hold '::text || h.id) AS subject,
    (((((h.amount_micros - h.captured_micros) || ' micro-units are set aside for allocation '::text) || a.id) || ', which is '::text) || a.state) AS problem
   FROM (public.ledger_holds h
     JOIN public.allocations a ON ((a.id = h.subject_id)))
  WHERE ((h.state = 'open'::text) AND (h.due_at > clock_timestamp()) AND (a.state = ANY (ARRAY['requested'::text, 'released'::text, 'failed'::text, 'release_failed'::text])));

COMMENT ON VIEW public.invariant_05_deposits_of_live IS 'money is set aside only for what lives';

CREATE VIEW public.invariant_05_live_have_holds AS
SELECT
    NULL::text AS subject,
    NULL::text AS problem;

COMMENT ON VIEW public.invariant_05_live_have_holds IS 'a live allocation has its holds, and no hold is without one';

CREATE VIEW public.invariant_06_active_is_proven WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    'active without a passed health report of exactly its GPUs'::text AS problem
   FROM public.allocations a
  WHERE ((state = 'active'::text) AND (( SELECT COALESCE(array_agg(h.serial ORDER BY h.serial), '{}'::text[]) AS "coalesce"
           FROM public.slot_holds h
          WHERE ((h.allocation_id = a.id) AND (h.ended_at IS NULL))) IS DISTINCT FROM ( SELECT COALESCE(array_agg(DISTINCT s.s ORDER BY s.s), '{}'::text[]) AS "coalesce"
           FROM public.allocation_proofs p,
            LATERAL unnest(p.serials) s(s)
          WHERE ((p.allocation_id = a.id) AND p.passed))));

COMMENT ON VIEW public.invariant_06_active_is_proven IS 'an active allocation has a passed health report of exactly its slots';

CREATE VIEW public.invariant_07_active_is_metered WITH (security_invoker='true') AS
 SELECT ('allocation '::text || a.id) AS subject,
    ((('is '::text || a.state) || ', and '::text) ||
        CASE
            WHEN (m.id IS NULL) THEN 'has no meter'::text
            WHEN (a.state = 'active'::text) THEN ('its meter has ended at '::text || m.closed_at)
            ELSE 'its meter goes on'::text
        END) AS problem
   FROM (public.allocations a
     LEFT JOIN public.meters m ON ((m.subject_id = a.id)))
  WHERE (((a.state = 'active'::text) AND ((m.id IS NULL) OR (m.closed_at IS NOT NULL))) OR ((m.closed_at IS NULL) AND (m.id IS NOT NULL) AND (a.state = ANY (ARRAY['requested'::text, 'provisioning'::text, 'releasing'::text, 'released'::text, 'failed'::text, 'release_failed'::text]))))
UNION ALL
 SELECT ('allocation '::text || a.id) AS subject,
    (('is '::text || a.state) || ' for want of money, and its meter goes on'::text) AS problem
   FROM (public.allocations a
     JOIN public.meters m ON ((m.subject_id = a.id)))
  WHERE ((a.state = ANY (ARRAY['stopping'::text, 'stopped'::text, 'starting'::text])) AND ((a.stop_reason = ANY (ARRAY['balance'::text, 'budget'::text])) OR a.stop_unpaid) AND (m.closed_at IS NULL) AND (NOT (EXISTS ( SELECT
           FROM public.meter_pauses p
          WHERE ((p.meter_id = m.id) AND (p.until_at IS NULL))))));

COMMENT ON VIEW public.invariant_07_active_is_metered IS 'an active allocation has an open meter, one stopped for money has one that stands, one that is given back has none';

CREATE TABLE public.sku_prices (
    id uuid NOT NULL,
    sku_id uuid NOT NULL,
    currency text NOT NULL,
    micros_per_gpu_hour bigint NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    set_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT sku_prices_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT sku_prices_micros_per_gpu_hour_check CHECK (((micros_per_gpu_hour >= 0) AND (micros_per_gpu_hour <= '1000000000000'::bigint)))
);

COMMENT ON TABLE public.sku_prices IS 'platform: prices of SKUs over time; append-only';

CREATE VIEW public.invariant_07_billed_is_usable WITH (security_invoker='true') AS
 SELECT ('meter '::text || m.id) AS subject,
    ((((((('billed '::text || m.billed_seconds) || ' seconds and '::text) || m.billed_micros) || ' micro-units, but it was usable for '::text) || m.usable) || ' seconds, which cost '::text) || public.meter_owed(m.micros_per_hour, m.usable)) AS problem
   FROM ( SELECT meters.id,
            meters.org_id,
            meters.project_id,
            meters.subject_id,
            meters.sku_id,
            meters.gpus,
            meters.price_id,
            meters.micros_per_hour,
            meters.currency,
            meters.asked_by,
            meters.asked_by_id,
            meters.opened_at,
            meters.closed_at,
            meters.close_reason,
            meters.billed_number,
            meters.billed_until,
            meters.billed_seconds,
            meters.billed_micros,
            meters.settled_at,
            public.meter_seconds(meters.opened_at, meters.closed_at, public.meter_lost(meters.id, meters.opened_at, meters.closed_at)) AS usable
           FROM public.meters
          WHERE (meters.settled_at IS NOT NULL)) m
  WHERE ((m.billed_seconds <> m.usable) OR (m.billed_micros <> public.meter_owed(m.micros_per_hour, m.usable)))
UNION ALL
 SELECT ('meter '::text || m.id) AS subject,
    'its price is not that of its price version'::text AS problem
   FROM (public.meters m
     JOIN public.sku_prices p ON ((p.id = m.price_id)))
  WHERE ((m.micros_per_hour <> (p.micros_per_gpu_hour * m.gpus)) OR (m.currency <> p.currency) OR (m.sku_id <> p.sku_id));

COMMENT ON VIEW public.invariant_07_billed_is_usable IS 'of what has ended, the usable seconds were billed, at their price, no others';

CREATE TABLE public.usage (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    meter_id uuid NOT NULL,
    number integer NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone NOT NULL,
    seconds bigint NOT NULL,
    micros bigint NOT NULL,
    transaction_id uuid,
    CONSTRAINT usage_check CHECK (((transaction_id IS NULL) = (micros = 0))),
    CONSTRAINT usage_number_check CHECK ((number > 0))
)
PARTITION BY RANGE (id);

ALTER TABLE ONLY public.usage FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.usage IS 'tenant: seconds charged, window by window, with their transaction; append-only';

CREATE VIEW public.invariant_07_none_twice WITH (security_invoker='true') AS
 SELECT ('meter '::text || u.meter_id) AS subject,
    ((((((('usage '::text || u.number) || ' begins at '::text) || u.from_at) || ' after usage '::text) || u.before_number) || ' until '::text) || u.before_until) AS problem
   FROM ( SELECT u_1.meter_id,
            u_1.number,
            u_1.from_at,
            lag(u_1.number, 1, 0) OVER along AS before_number,
            lag(u_1.until_at, 1, m.opened_at) OVER along AS before_until
           FROM (public.usage u_1
             JOIN public.meters m ON (((m.id = u_1.meter_id) AND (m.org_id = u_1.org_id))))
          WINDOW along AS (PARTITION BY u_1.org_id, u_1.meter_id ORDER BY u_1.number, u_1.id)) u
  WHERE ((u.number <> (u.before_number + 1)) OR (u.from_at <> u.before_until))
UNION ALL
 SELECT ('meter '::text || COALESCE(m.id, u.meter_id)) AS subject,
    ((((((('says it was billed '::text || COALESCE(m.billed_micros, (0)::bigint)) || ' for '::text) || COALESCE(m.billed_seconds, (0)::bigint)) || ' seconds, its usage says '::text) || COALESCE(u.micros, (0)::numeric)) || ' for '::text) || COALESCE(u.seconds, (0)::numeric)) AS problem
   FROM (public.meters m
     FULL JOIN ( SELECT usage.org_id,
            usage.meter_id,
            sum(usage.seconds) AS seconds,
            sum(usage.micros) AS micros,
            max(usage.number) AS number
           FROM public.usage
          GROUP BY usage.org_id, usage.meter_id) u ON (((u.meter_id = m.id) AND (u.org_id = m.org_id))))
  WHERE (((COALESCE(m.billed_seconds, (0)::bigint))::numeric <> COALESCE(u.seconds, (0)::numeric)) OR ((COALESCE(m.billed_micros, (0)::bigint))::numeric <> COALESCE(u.micros, (0)::numeric)) OR (COALESCE(m.billed_number, 0) <> COALESCE(u.number, 0)));

COMMENT ON VIEW public.invariant_07_none_twice IS 'no second is billed twice: windows follow each other and sum to what the meter says';

CREATE TABLE public.meter_causes (
    meter_id uuid NOT NULL,
    org_id uuid NOT NULL,
    cause text NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone,
    reason text NOT NULL,
    CONSTRAINT meter_causes_cause_check CHECK ((cause = ANY (ARRAY['fault'::text, 'stop'::text]))),
    CONSTRAINT meter_causes_check CHECK ((until_at >= from_at)),
    CONSTRAINT meter_causes_reason_check CHECK ((length(reason) <= 200))
);

ALTER TABLE ONLY public.meter_causes FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.meter_causes IS 'tenant: from when to when each cause kept a meter from running';

CREATE VIEW public.invariant_07_pauses_apart WITH (security_invoker='true') AS
 SELECT ('meter '::text || p.meter_id) AS subject,
    ('two pauses at once, at '::text || p.next_from) AS problem
   FROM ( SELECT meter_pauses.meter_id,
            meter_pauses.until_at,
            lead(meter_pauses.from_at) OVER (PARTITION BY meter_pauses.meter_id ORDER BY meter_pauses.from_at) AS next_from
           FROM public.meter_pauses) p
  WHERE (p.next_from < COALESCE(p.until_at, 'infinity'::timestamp with time zone))
UNION ALL
 SELECT ('meter '::text || m.id) AS subject,
    ((('its pauses last '::text || COALESCE(p.lasted, (0)::numeric)) || ' seconds until now, what caused them '::text) || COALESCE(c.lasted, (0)::numeric)) AS problem
   FROM ((public.meters m
     LEFT JOIN ( SELECT meter_pauses.meter_id,
            sum(EXTRACT(epoch FROM (COALESCE(meter_pauses.until_at, now()) - meter_pauses.from_at))) AS lasted
           FROM public.meter_pauses
          WHERE (meter_pauses.from_at < now())
          GROUP BY meter_pauses.meter_id) p ON ((p.meter_id = m.id)))
     LEFT JOIN ( SELECT ranges.meter_id,
            ( SELECT sum(EXTRACT(epoch FROM (upper(r.r) - lower(r.r)))) AS sum
                   FROM unnest(ranges.together) r(r)) AS lasted
           FROM ( SELECT meter_causes.meter_id,
                    range_agg(tstzrange(meter_causes.from_at, COALESCE(meter_causes.until_at, now()))) AS together
                   FROM public.meter_causes
                  WHERE (meter_causes.from_at < now())
                  GROUP BY meter_causes.meter_id) ranges) c ON ((c.meter_id = m.id)))
  WHERE (COALESCE(p.lasted, (0)::numeric) <> COALESCE(c.lasted, (0)::numeric));

COMMENT ON VIEW public.invariant_07_pauses_apart IS 'a meter stands still once at a time, as long as anything causes it';

CREATE VIEW public.invariant_08_usage_is_posted WITH (security_invoker='true') AS
 SELECT ('transaction '::text || COALESCE(u.transaction_id, t.id)) AS subject,
        CASE
            WHEN (t.id IS NULL) THEN 'usage names it, but it is not there'::text
            WHEN (u.transaction_id IS NULL) THEN 'it charges for usage, but no usage names it'::text
            ELSE ((('it moves '::text || t.amount_micros) || ', its usage is '::text) || u.micros)
        END AS problem
   FROM (( SELECT usage.transaction_id,
            sum(usage.micros) AS micros,
            (min((usage.org_id)::text))::uuid AS org_id,
            count(DISTINCT usage.org_id) AS orgs
           FROM public.usage
          WHERE (usage.transaction_id IS NOT NULL)
          GROUP BY usage.transaction_id) u
     FULL JOIN ( SELECT t_1.id,
            t_1.org_id,
            e.amount_micros
           FROM (public.ledger_transactions t_1
             LEFT JOIN public.ledger_entries e ON (((e.transaction_id = t_1.id) AND (e.org_id = t_1.org_id))))
          WHERE (t_1.kind = ANY (ARRAY['usage'::text, 'usage_credit'::text]))) t ON ((t.id = u.transaction_id)))
  WHERE ((t.id IS NULL) OR (u.transaction_id IS NULL) OR (u.orgs <> 1) OR (u.org_id <> t.org_id) OR ((t.amount_micros)::numeric IS DISTINCT FROM (- u.micros)));

COMMENT ON VIEW public.invariant_08_usage_is_posted IS 'every usage row has its ledger transaction, and every such transaction its usage';

CREATE TABLE public.sanitisation_certificates (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    allocation_id uuid NOT NULL,
    node_id uuid NOT NULL,
    serials text[] NOT NULL,
    key_id text NOT NULL,
    envelope text NOT NULL,
    issued_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY public.sanitisation_certificates FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.sanitisation_certificates IS 'tenant: signed statements of how GPUs were cleaned after a release; append-only';

CREATE VIEW public.invariant_09_released_is_clean WITH (security_invoker='true') AS
 SELECT (a.id)::text AS subject,
    ((('released, and GPU '::text || h.serial) || ' is '::text) || h.state) AS problem
   FROM (public.allocations a
     JOIN public.slot_holds h ON ((h.allocation_id = a.id)))
  WHERE ((a.state = 'released'::text) AND (h.state <> ALL (ARRAY['clean'::text, 'quarantined'::text])))
UNION ALL
 SELECT (h.id)::text AS subject,
    'said to be clean, without a certificate that says how'::text AS problem
   FROM public.slot_holds h
  WHERE ((h.state = 'clean'::text) AND (NOT (EXISTS ( SELECT
           FROM public.sanitisation_certificates c
          WHERE ((c.allocation_id = h.allocation_id) AND (c.node_id = h.node_id) AND (h.serial = ANY (c.serials)))))))
UNION ALL
 SELECT (h.id)::text AS subject,
    'given back as unused, though somebody had an account on it'::text AS problem
   FROM (public.slot_holds h
     JOIN public.allocations a ON ((a.id = h.allocation_id)))
  WHERE ((h.state = 'unused'::text) AND (a.active_at IS NOT NULL));

COMMENT ON VIEW public.invariant_09_released_is_clean IS 'a released GPU is clean with evidence, or in quarantine';

CREATE VIEW public.invariant_10_cleaning_ends WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('cleaning since '::text || state_since) || ', and should not be since '::text) || due_at) AS problem
   FROM public.slot_holds
  WHERE ((state = 'cleaning'::text) AND (due_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_10_cleaning_ends IS 'cleaning lasts no longer than its deadline';

CREATE TABLE public.outbox (
    id uuid NOT NULL,
    stream text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    org_id uuid,
    subject_id uuid,
    actor text NOT NULL,
    correlation_id text NOT NULL,
    traceparent text NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    published_at timestamp with time zone
)
PARTITION BY RANGE (id);

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.outbox IS 'tenant: events, written with the change they tell of';

CREATE VIEW public.invariant_11_inbox_complete WITH (security_invoker='true') AS
 SELECT ((p.consumer || ' '::text) || o.id) AS subject,
    ((('the consumer is not known to have handled event '::text || o.name) || ' of '::text) || o.created_at) AS problem
   FROM (public.consumer_progress p
     CROSS JOIN LATERAL ( SELECT outbox.id,
            outbox.name,
            outbox.created_at
           FROM public.outbox
          WHERE ((outbox.id > p.checked_through) AND (outbox.id < public.floor_id((now() - '00:02:00'::interval))) AND (outbox.created_at < (now() - '00:02:00'::interval)))
          ORDER BY outbox.id
         LIMIT 1) o);

COMMENT ON VIEW public.invariant_11_inbox_complete IS 'every consumer has handled every event of its within 120 seconds';

CREATE VIEW public.invariant_11_outbox_drains WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('event '::text || name) || ' waits to be published since '::text) || created_at) AS problem
   FROM public.outbox
  WHERE ((published_at IS NULL) AND (created_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_11_outbox_drains IS 'every event is published within 60 seconds while the bus is up';

CREATE VIEW public.invariant_12_one_outcome WITH (security_invoker='true') AS
 SELECT ((actor_id || ' '::text) || key) AS subject,
    'the key is stored without its request, status or answer'::text AS problem
   FROM public.idempotency_keys
  WHERE ((status IS NULL) OR (body IS NULL) OR (octet_length(request_hash) <> 32));

COMMENT ON VIEW public.invariant_12_one_outcome IS 'one idempotency key has one request and one outcome';

CREATE VIEW public.invariant_13_flows_go_on WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((((kind || ' waits at '::text) || step) || ' for a worker since '::text) || GREATEST(next_at, lease_until)) AS problem
   FROM public.flow_runs
  WHERE ((state = ANY (ARRAY['forward'::text, 'undoing'::text])) AND (next_at < (now() - '00:01:00'::interval)) AND ((lease_until IS NULL) OR (lease_until < (now() - '00:01:00'::interval))));

COMMENT ON VIEW public.invariant_13_flows_go_on IS 'no unfinished flow is left alone for over 60 seconds';

CREATE TABLE public.ledger_adjustments (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    reverses_id uuid,
    reason text NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    proposed_by text NOT NULL,
    proposed_by_id uuid NOT NULL,
    decided_by text DEFAULT ''::text NOT NULL,
    decided_by_id uuid,
    decision text DEFAULT ''::text NOT NULL,
    transaction_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ledger_adjustments_amount_micros_check CHECK ((amount_micros <> 0)),
    CONSTRAINT ledger_adjustments_check CHECK (((state = 'proposed'::text) = (due_at IS NOT NULL))),
    CONSTRAINT ledger_adjustments_check1 CHECK (((state = 'posted'::text) = (transaction_id IS NOT NULL))),
    CONSTRAINT ledger_adjustments_decision_check CHECK ((length(decision) <= 500)),
    CONSTRAINT ledger_adjustments_four_eyes CHECK (((state <> 'posted'::text) OR (decided_by_id <> proposed_by_id))),
    CONSTRAINT ledger_adjustments_reason_check CHECK (((length(reason) >= 3) AND (length(reason) <= 500))),
    CONSTRAINT ledger_adjustments_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'posted'::text, 'rejected'::text, 'expired'::text])))
);

ALTER TABLE ONLY public.ledger_adjustments FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ledger_adjustments IS 'tenant: balances changed by hand, who asked for it and who agreed';

CREATE VIEW public.invariant_14_adjustments_end WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ('the adjustment is proposed and should not be since '::text || due_at) AS problem
   FROM public.ledger_adjustments
  WHERE ((state = 'proposed'::text) AND (due_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_14_adjustments_end IS 'no proposed adjustment is past its end by over 60 seconds';

CREATE VIEW public.invariant_14_allocations_move WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('the allocation is '::text || state) || ' and should not be since '::text) || due_at) AS problem
   FROM public.allocations
  WHERE ((state = ANY (ARRAY['requested'::text, 'provisioning'::text, 'stopping'::text, 'stopped'::text, 'starting'::text, 'releasing'::text])) AND ((due_at IS NULL) OR (due_at < (now() - '00:01:00'::interval))));

COMMENT ON VIEW public.invariant_14_allocations_move IS 'no allocation is past the deadline of its state by over 60 seconds';

CREATE VIEW public.invariant_14_artifacts_move WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('the artifact is '::text || state) || ' and should not be since '::text) || due_at) AS problem
   FROM public.agent_artifacts
  WHERE (due_at < (now() - '00:01:00'::interval));

COMMENT ON VIEW public.invariant_14_artifacts_move IS 'no upload of an agent''s version is past its deadline by over 60 seconds';

CREATE VIEW public.invariant_14_dead_letters_move WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ('the replay should have ended by '::text || (state_since + '00:05:00'::interval)) AS problem
   FROM public.dead_letters
  WHERE ((state = 'replaying'::text) AND (state_since < (now() - '00:06:00'::interval)));

COMMENT ON VIEW public.invariant_14_dead_letters_move IS 'no dead letter is past the deadline of its state by over 60 seconds';

CREATE VIEW public.invariant_14_emails_end WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('the email is '::text || state) || ' and should not be since '::text) || due_at) AS problem
   FROM public.emails
  WHERE (due_at < (now() - '00:01:00'::interval));

COMMENT ON VIEW public.invariant_14_emails_end IS 'no email waits past its end by over 60 seconds';

CREATE VIEW public.invariant_14_flows_move WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((((kind || ' is at '::text) || step) || ' and should not be since '::text) || due_at) AS problem
   FROM public.flow_runs
  WHERE ((state = ANY (ARRAY['forward'::text, 'undoing'::text])) AND (due_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_14_flows_move IS 'no step of a flow is past its deadline by over 60 seconds';

CREATE VIEW public.invariant_14_holds_end WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ('the hold is open and should not be since '::text || due_at) AS problem
   FROM public.ledger_holds
  WHERE ((state = 'open'::text) AND (due_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_14_holds_end IS 'no hold on money is past its end by over 60 seconds';

CREATE TABLE public.payment_refunds (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    reason text NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    failure text DEFAULT ''::text NOT NULL,
    asked_by text NOT NULL,
    asked_by_id uuid NOT NULL,
    decided_by text DEFAULT ''::text NOT NULL,
    decided_by_id uuid,
    decision text DEFAULT ''::text NOT NULL,
    hold_id uuid,
    provider_refund_id text,
    transaction_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT payment_refunds_amount_micros_check CHECK ((amount_micros > 0)),
    CONSTRAINT payment_refunds_check CHECK (((state = ANY (ARRAY['proposed'::text, 'requested'::text])) = (due_at IS NOT NULL))),
    CONSTRAINT payment_refunds_check1 CHECK (((state <> 'succeeded'::text) OR (transaction_id IS NOT NULL))),
    CONSTRAINT payment_refunds_decision_check CHECK ((length(decision) <= 500)),
    CONSTRAINT payment_refunds_failure_check CHECK ((length(failure) <= 500)),
    CONSTRAINT payment_refunds_four_eyes CHECK (((decided_by_id <> asked_by_id) OR (state = 'rejected'::text))),
    CONSTRAINT payment_refunds_provider_refund_id_check CHECK (((length(provider_refund_id) >= 1) AND (length(provider_refund_id) <= 255))),
    CONSTRAINT payment_refunds_reason_check CHECK (((length(reason) >= 3) AND (length(reason) <= 500))),
    CONSTRAINT payment_refunds_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'requested'::text, 'succeeded'::text, 'failed'::text, 'rejected'::text, 'expired'::text])))
);

ALTER TABLE ONLY public.payment_refunds FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.payment_refunds IS 'tenant: money of payments that goes back, who asked for it and who agreed';

CREATE TABLE public.webhook_events (
    id uuid NOT NULL,
    event_id text NOT NULL,
    type text NOT NULL,
    object_id text NOT NULL,
    body bytea NOT NULL,
    state text DEFAULT 'stored'::text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    intent_id text,
    detail text DEFAULT ''::text NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT webhook_events_body_check CHECK ((octet_length(body) <= 262144)),
    CONSTRAINT webhook_events_check CHECK (((state = 'waiting'::text) = (due_at IS NOT NULL))),
    CONSTRAINT webhook_events_detail_check CHECK ((length(detail) <= 500)),
    CONSTRAINT webhook_events_event_id_check CHECK (((length(event_id) >= 1) AND (length(event_id) <= 255))),
    CONSTRAINT webhook_events_object_id_check CHECK ((length(object_id) <= 255)),
    CONSTRAINT webhook_events_state_check CHECK ((state = ANY (ARRAY['stored'::text, 'waiting'::text, 'acted'::text, 'ignored'::text]))),
    CONSTRAINT webhook_events_type_check CHECK ((length(type) <= 255))
);

COMMENT ON TABLE public.webhook_events IS 'platform: what the payment provider told us, word for word, and whether it was acted on';

CREATE VIEW public.invariant_14_payments_move WITH (security_invoker='true') AS
 SELECT ('payment '::text || payments.id) AS subject,
    ((('is '::text || payments.state) || ' and should not be since '::text) || payments.due_at) AS problem
   FROM public.payments
  WHERE (payments.due_at < (now() - '00:01:00'::interval))
UNION ALL
 SELECT ('refund '::text || payment_refunds.id) AS subject,
    ((('is '::text || payment_refunds.state) || ' and should not be since '::text) || payment_refunds.due_at) AS problem
   FROM public.payment_refunds
  WHERE (payment_refunds.due_at < (now() - '00:01:00'::interval))
UNION ALL
 SELECT ('webhook '::text || webhook_events.id) AS subject,
    ('waits and should not since '::text || webhook_events.due_at) AS problem
   FROM public.webhook_events
  WHERE (webhook_events.due_at < (now() - '00:01:00'::interval));

COMMENT ON VIEW public.invariant_14_payments_move IS 'no payment, refund or notice of the provider is past its deadline by over 60 seconds';

CREATE TABLE public.standings (
    org_id uuid NOT NULL,
    currency text NOT NULL,
    state text DEFAULT 'good'::text NOT NULL,
    state_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    counting_since timestamp with time zone,
    told smallint DEFAULT 0 NOT NULL,
    entered_micros bigint DEFAULT 0 NOT NULL,
    paused_until timestamp with time zone,
    paused_by text DEFAULT ''::text NOT NULL,
    pause_reason text DEFAULT ''::text NOT NULL,
    CONSTRAINT standings_check CHECK (((due_at IS NULL) OR (state = ANY (ARRAY['empty'::text, 'stopped'::text])))),
    CONSTRAINT standings_check1 CHECK (((due_at IS NULL) = (counting_since IS NULL))),
    CONSTRAINT standings_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT standings_pause_reason_check CHECK ((length(pause_reason) <= 500)),
    CONSTRAINT standings_paused_by_check CHECK ((length(paused_by) <= 400)),
    CONSTRAINT standings_state_check CHECK ((state = ANY (ARRAY['good'::text, 'low'::text, 'empty'::text, 'stopped'::text, 'released'::text]))),
    CONSTRAINT standings_told_check CHECK (((told >= 0) AND (told <= 2)))
);

ALTER TABLE ONLY public.standings FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.standings IS 'tenant: on which rung an organisation stands in a currency; none: good';

CREATE VIEW public.invariant_14_standings_move WITH (security_invoker='true') AS
 SELECT ('organisation '::text || org_id) AS subject,
    ((((('is '::text || state) || ' in '::text) || currency) || ' and should not be since '::text) || due_at) AS problem
   FROM public.standings
  WHERE (due_at < (now() - '00:01:00'::interval));

COMMENT ON VIEW public.invariant_14_standings_move IS 'no standing is past its deadline by over 60 seconds';

CREATE TABLE public.tasks (
    id uuid NOT NULL,
    born bigint NOT NULL,
    node_id uuid NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    subject_id uuid,
    arguments jsonb NOT NULL,
    deadline_seconds integer NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone NOT NULL,
    sequence bigint,
    envelope text,
    key_id text,
    issued_at timestamp with time zone,
    expires_at timestamp with time zone,
    delivered_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    cancel_told_at timestamp with time zone,
    reported_at timestamp with time zone,
    reported_by uuid,
    reported_outcome text,
    report_hash bytea,
    reason text DEFAULT ''::text NOT NULL,
    code text DEFAULT ''::text NOT NULL,
    result jsonb,
    log text DEFAULT ''::text NOT NULL,
    correlation_id text NOT NULL,
    traceparent text NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tasks_check CHECK (((sequence IS NULL) = (envelope IS NULL))),
    CONSTRAINT tasks_check1 CHECK (((report_hash IS NULL) = (reported_by IS NULL))),
    CONSTRAINT tasks_deadline_seconds_check CHECK (((deadline_seconds >= 1) AND (deadline_seconds <= 600))),
    CONSTRAINT tasks_log_check CHECK ((length(log) <= 65536)),
    CONSTRAINT tasks_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'ready'::text, 'delivered'::text, 'running'::text, 'done'::text, 'failed'::text, 'refused'::text, 'cancelled'::text, 'timed_out'::text, 'expired'::text])))
);

COMMENT ON TABLE public.tasks IS 'platform: what nodes were asked to do, signed, and what came of it';

CREATE VIEW public.invariant_14_tasks_move WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((('the task is '::text || state) || ' and should not be since '::text) || due_at) AS problem
   FROM public.tasks
  WHERE ((state = ANY (ARRAY['queued'::text, 'ready'::text, 'delivered'::text, 'running'::text])) AND (due_at < (now() - '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_14_tasks_move IS 'no task is past the deadline of its state by over 60 seconds';

CREATE VIEW public.invariant_15_one_result WITH (security_invoker='true') AS
 SELECT (tasks.id)::text AS subject,
    ((('its result is from node '::text || tasks.reported_by) || ', but it was given to '::text) || tasks.node_id) AS problem
   FROM public.tasks
  WHERE (tasks.reported_by <> tasks.node_id)
UNION ALL
 SELECT (tasks.id)::text AS subject,
    (('it is '::text || tasks.state) || ' without a result'::text) AS problem
   FROM public.tasks
  WHERE ((tasks.state = ANY (ARRAY['done'::text, 'failed'::text, 'refused'::text])) AND (tasks.report_hash IS NULL))
UNION ALL
 SELECT (tasks.id)::text AS subject,
    'it has a result and was never handed over'::text AS problem
   FROM public.tasks
  WHERE ((tasks.report_hash IS NOT NULL) AND (tasks.delivered_at IS NULL))
UNION ALL
 SELECT (tasks.id)::text AS subject,
    ('it has a result and is still '::text || tasks.state) AS problem
   FROM public.tasks
  WHERE ((tasks.report_hash IS NOT NULL) AND (tasks.state = ANY (ARRAY['queued'::text, 'ready'::text, 'delivered'::text, 'running'::text])))
UNION ALL
 SELECT (tasks.id)::text AS subject,
    'it was handed over without being signed'::text AS problem
   FROM public.tasks
  WHERE ((tasks.delivered_at IS NOT NULL) AND (tasks.envelope IS NULL));

COMMENT ON VIEW public.invariant_15_one_result IS 'a task has at most one accepted result, from the node it was given to';

CREATE TABLE public.task_sequences (
    node_id uuid NOT NULL,
    last_issued bigint DEFAULT 0 NOT NULL,
    accepted bigint DEFAULT 0 NOT NULL,
    CONSTRAINT task_sequences_accepted_check CHECK ((accepted >= 0)),
    CONSTRAINT task_sequences_last_issued_check CHECK ((last_issued >= 0))
);

COMMENT ON TABLE public.task_sequences IS 'platform: the last number given to a task of a node, and the last its agent has proven to know';

CREATE VIEW public.invariant_15_task_sequence WITH (security_invoker='true') AS
 SELECT (t.node_id)::text AS subject,
    (((((('tasks '::text || min(t.sequence)) || ' to '::text) || max(t.sequence)) || ' are '::text) || count(*)) || ': some number is missing'::text) AS problem
   FROM public.tasks t
  WHERE (t.sequence IS NOT NULL)
  GROUP BY t.node_id
 HAVING (count(*) <> ((max(t.sequence) - min(t.sequence)) + 1))
UNION ALL
 SELECT (q.node_id)::text AS subject,
    ((('the last number given out is '::text || q.last_issued) || ', the highest task''s is '::text) || last.sequence) AS problem
   FROM (public.task_sequences q
     CROSS JOIN LATERAL ( SELECT max(t.sequence) AS sequence
           FROM public.tasks t
          WHERE (t.node_id = q.node_id)) last)
  WHERE ((last.sequence > q.last_issued) OR ((last.sequence < q.last_issued) AND (last.sequence IS NOT NULL)))
UNION ALL
 SELECT (q.node_id)::text AS subject,
    (('the agent is said to know task '::text || q.accepted) || ', which was never issued'::text) AS problem
   FROM public.task_sequences q
  WHERE (q.accepted > q.last_issued);

COMMENT ON VIEW public.invariant_15_task_sequence IS 'the numbers of a node''s tasks have no gap';

CREATE TABLE public.payment_effects (
    object_id text NOT NULL,
    effect text NOT NULL,
    org_id uuid NOT NULL,
    payment_id uuid NOT NULL,
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    transaction_id uuid,
    source text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT payment_effects_amount_micros_check CHECK ((amount_micros >= 0)),
    CONSTRAINT payment_effects_check CHECK (((effect <> 'paid'::text) OR (transaction_id IS NOT NULL))),
    CONSTRAINT payment_effects_check1 CHECK (((effect <> 'refunded'::text) OR (transaction_id IS NOT NULL))),
    CONSTRAINT payment_effects_effect_check CHECK ((effect = ANY (ARRAY['paid'::text, 'refunded'::text, 'refund_failed'::text, 'dispute_opened'::text, 'dispute_closed'::text]))),
    CONSTRAINT payment_effects_object_id_check CHECK (((length(object_id) >= 1) AND (length(object_id) <= 255))),
    CONSTRAINT payment_effects_source_check CHECK ((source = ANY (ARRAY['notice'::text, 'answer'::text, 'reconciliation'::text])))
);

ALTER TABLE ONLY public.payment_effects FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.payment_effects IS 'tenant: what each object of the provider did to the money here, once; append-only';

CREATE VIEW public.invariant_16_one_effect WITH (security_invoker='true') AS
 SELECT ('payment '::text || p.id) AS subject,
    (((((((('is '::text || p.state) || ' with '::text) || e.paid) || ' credits, and '::text) || p.refunded_micros) || ' refunded where '::text) || e.refunded) || ' went back'::text) AS problem
   FROM (public.payments p
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (payment_effects.effect = 'paid'::text)) AS paid,
            count(*) FILTER (WHERE ((payment_effects.effect = 'paid'::text) AND (payment_effects.amount_micros = p.amount_micros) AND (payment_effects.transaction_id = p.transaction_id))) AS exactly,
            COALESCE(sum(
                CASE payment_effects.effect
                    WHEN 'refunded'::text THEN payment_effects.amount_micros
                    WHEN 'refund_failed'::text THEN (- payment_effects.amount_micros)
                    ELSE NULL::bigint
                END), (0)::numeric) AS refunded
           FROM public.payment_effects
          WHERE (payment_effects.payment_id = p.id)) e)
  WHERE ((e.paid <> ((p.transaction_id IS NOT NULL))::integer) OR (e.exactly <> e.paid) OR (e.refunded <> (p.refunded_micros)::numeric))
UNION ALL
 SELECT ((('effect '::text || e.effect) || ' of '::text) || e.object_id) AS subject,
    ((((('was of '::text || e.amount_micros) || ', but transaction '::text) || e.transaction_id) || ' moved '::text) || COALESCE(l.micros, (0)::numeric)) AS problem
   FROM (public.payment_effects e
     LEFT JOIN LATERAL ( SELECT sum(n.amount_micros) AS micros
           FROM (public.ledger_entries n
             JOIN public.ledger_accounts a ON ((a.id = n.account_id)))
          WHERE ((n.transaction_id = e.transaction_id) AND (a.kind = 'clearing'::text))) l ON (true))
  WHERE ((e.transaction_id IS NOT NULL) AND (COALESCE(l.micros, (0)::numeric) <> ((
        CASE
            WHEN (e.effect = ANY (ARRAY['paid'::text, 'refund_failed'::text])) THEN '-1'::integer
            ELSE 1
        END * e.amount_micros))::numeric))
UNION ALL
 SELECT ('transaction '::text || payment_effects.transaction_id) AS subject,
    (('is the effect of '::text || count(*)) || ' objects of the provider'::text) AS problem
   FROM public.payment_effects
  WHERE (payment_effects.transaction_id IS NOT NULL)
  GROUP BY payment_effects.transaction_id
 HAVING (count(*) > 1);

COMMENT ON VIEW public.invariant_16_one_effect IS 'one effect for each notice of the payment provider and each change of a payment';

CREATE VIEW public.invariant_19_audit_chain WITH (security_invoker='true') AS
 SELECT ('audit row '::text || a.id) AS subject,
    'not sealed 60 seconds after it was written'::text AS problem
   FROM public.audit_log a
  WHERE (((a.at < (now() - '00:01:00'::interval)) OR (a.id < public.floor_id((now() - '00:01:00'::interval)))) AND (NOT (EXISTS ( SELECT
           FROM public.audit_seals s
          WHERE (s.audit_id = a.id)))))
UNION ALL
 SELECT ('audit row '::text || a.id) AS subject,
    ('dated in the future: '::text || a.at) AS problem
   FROM public.audit_log a
  WHERE (a.at > (now() + '00:01:00'::interval))
UNION ALL
 SELECT ('audit row '::text || u.audit_id) AS subject,
    'waits to be sealed, but is gone'::text AS problem
   FROM public.audit_unsealed u
  WHERE (NOT (EXISTS ( SELECT
           FROM public.audit_log a
          WHERE (a.id = u.audit_id))))
UNION ALL
 SELECT ('audit row '::text || u.audit_id) AS subject,
    'waits to be sealed, but is sealed already'::text AS problem
   FROM public.audit_unsealed u
  WHERE (EXISTS ( SELECT
           FROM public.audit_seals s
          WHERE (s.audit_id = u.audit_id)))
UNION ALL
 SELECT ('checkpoint '::text || c.seq) AS subject,
    'no link of the chain has this number and hash'::text AS problem
   FROM public.audit_checkpoints c
  WHERE (NOT (EXISTS ( SELECT
           FROM public.audit_seals s
          WHERE ((s.seq = c.seq) AND (s.hash = c.hash)))))
UNION ALL
 SELECT ('link '::text || h.seq) AS subject,
    'the head of the chain is not its last link'::text AS problem
   FROM (public.audit_head h
     CROSS JOIN LATERAL ( SELECT links.seq,
            links.hash
           FROM ( SELECT s.seq,
                    s.hash
                   FROM public.audit_seals s
                UNION ALL
                 SELECT 0,
                    sha256('\x6770756161732e61756469742e67656e65736973'::bytea) AS sha256) links
          ORDER BY links.seq DESC
         LIMIT 1) last)
  WHERE ((h.seq IS DISTINCT FROM last.seq) OR (h.hash IS DISTINCT FROM last.hash));

COMMENT ON VIEW public.invariant_19_audit_chain IS 'the audit chain holds: every row sealed, every seal with its row, heads signed';

CREATE VIEW public.invariant_20_certificates_signed_while_valid WITH (security_invoker='true') AS
 SELECT ('certificate '::text || c.serial) AS subject,
    (('signed by authority '::text || a.id) || ' outside of its time'::text) AS problem
   FROM (public.certificates c
     JOIN public.certificate_authorities a ON ((a.id = c.authority_id)))
  WHERE ((c.issued_at < (a.not_before - '00:01:00'::interval)) OR (c.not_after > a.not_after) OR (c.issued_at > (LEAST(a.not_after, a.retired_at, a.distrusted_at) + '00:01:00'::interval)))
UNION ALL
 SELECT ('certificate '::text || certificates.serial) AS subject,
    'accepted outside of its time'::text AS problem
   FROM public.certificates
  WHERE ((certificates.used_at < (certificates.not_before - '00:01:00'::interval)) OR (certificates.used_at > (LEAST(certificates.not_after, certificates.revoked_at) + '00:01:00'::interval)))
UNION ALL
 SELECT ('authority '::text || a.id) AS subject,
    (('signed by authority '::text || p.id) || ' outside of its time'::text) AS problem
   FROM (public.certificate_authorities a
     JOIN public.certificate_authorities p ON ((p.id = a.parent_id)))
  WHERE ((a.created_at > (LEAST(p.not_after, p.distrusted_at) + '00:01:00'::interval)) OR (a.not_after > p.not_after));

COMMENT ON VIEW public.invariant_20_certificates_signed_while_valid IS 'no certificate is signed or accepted outside of the validity of its keys';

CREATE TABLE public.signing_keys (
    key_id text NOT NULL,
    purpose text NOT NULL,
    public_jwk jsonb NOT NULL,
    private_sealed bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    signs_from timestamp with time zone DEFAULT now() NOT NULL,
    signs_until timestamp with time zone,
    valid_until timestamp with time zone,
    CONSTRAINT signing_keys_purpose_check CHECK ((purpose = ANY (ARRAY['issuer'::text, 'audit'::text, 'sanitisation'::text])))
);

COMMENT ON TABLE public.signing_keys IS 'platform: signing keys by purpose, private parts sealed';

CREATE VIEW public.invariant_20_signed_while_valid WITH (security_invoker='true') AS
 SELECT ('checkpoint '::text || c.seq) AS subject,
    (('signed by key '::text || c.key_id) || ' outside of its time'::text) AS problem
   FROM (public.audit_checkpoints c
     LEFT JOIN public.signing_keys k ON (((k.key_id = c.key_id) AND (k.purpose = 'audit'::text))))
  WHERE ((k.key_id IS NULL) OR (c.at < (k.signs_from - '00:01:00'::interval)) OR (c.at > (k.signs_until + '00:01:00'::interval)));

COMMENT ON VIEW public.invariant_20_signed_while_valid IS 'nothing is signed by a key outside of its validity';

CREATE TABLE public.task_keys (
    key_id text NOT NULL,
    public_key text NOT NULL,
    statement text,
    valid_from timestamp with time zone DEFAULT now() NOT NULL,
    valid_until timestamp with time zone
);

COMMENT ON TABLE public.task_keys IS 'platform: public keys tasks are signed with, each but the first vouched for by the one before';

CREATE VIEW public.invariant_20_tasks_signed_while_valid WITH (security_invoker='true') AS
 SELECT (t.id)::text AS subject,
    (('signed by '::text || t.key_id) || ' outside of its validity'::text) AS problem
   FROM (public.tasks t
     JOIN public.task_keys k USING (key_id))
  WHERE ((t.issued_at < (k.valid_from - '00:01:00'::interval)) OR (t.issued_at > (k.valid_until + '00:01:00'::interval)))
UNION ALL
 SELECT (t.id)::text AS subject,
    'it may be followed for longer than ten minutes'::text AS problem
   FROM public.tasks t
  WHERE (t.expires_at > (t.issued_at + '00:10:00'::interval));

COMMENT ON VIEW public.invariant_20_tasks_signed_while_valid IS 'no task is signed by a key outside of its validity, nor for longer than ten minutes';

CREATE TABLE public.orphans (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    allocation_id uuid,
    detail text DEFAULT ''::text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    told_at timestamp with time zone,
    task_id uuid,
    ended_at timestamp with time zone,
    CONSTRAINT orphans_kind_check CHECK ((kind = ANY (ARRAY['account'::text, 'lease'::text, 'missing_account'::text, 'missing_lease'::text, 'usage'::text])))
);

COMMENT ON TABLE public.orphans IS 'platform: differences between what agents observe and what the books say';

CREATE VIEW public.invariant_21_books_are_real WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    ((((((kind || ' '::text) || name) || ' on node '::text) || node_id) || ' since '::text) || first_seen_at) AS problem
   FROM public.orphans
  WHERE ((ended_at IS NULL) AND (first_seen_at < (now() - '00:02:00'::interval)));

COMMENT ON VIEW public.invariant_21_books_are_real IS 'what agents observe is what the books say, within one sweep';

CREATE TABLE public.org_members (
    org_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT org_members_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'viewer'::text, 'billing'::text])))
);

ALTER TABLE ONLY public.org_members FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.org_members IS 'tenant: roles of people in organisations';

CREATE TABLE public.orgs (
    id uuid NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    personal_of uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone
);

ALTER TABLE ONLY public.orgs FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.orgs IS 'tenant: organisations; id is the org_id';

CREATE VIEW public.invariant_30_org_has_owner WITH (security_invoker='true') AS
 SELECT (id)::text AS subject,
    (('the organisation '::text || name) || ' has no owner'::text) AS problem
   FROM public.orgs o
  WHERE ((deleted_at IS NULL) AND (NOT (EXISTS ( SELECT
           FROM public.org_members m
          WHERE ((m.org_id = o.id) AND (m.role = 'owner'::text))))));

COMMENT ON VIEW public.invariant_30_org_has_owner IS 'every live organisation has an owner';

CREATE TABLE public.projects (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    cost_centre text DEFAULT ''::text NOT NULL,
    CONSTRAINT projects_cost_centre_check CHECK ((length(cost_centre) <= 100))
);

ALTER TABLE ONLY public.projects FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.projects IS 'tenant: projects';

CREATE VIEW public.invariant_31_deleted_orgs_are_empty WITH (security_invoker='true') AS
 SELECT (p.id)::text AS subject,
    ('the project lives in the deleted organisation '::text || o.name) AS problem
   FROM (public.projects p
     JOIN public.orgs o ON ((o.id = p.org_id)))
  WHERE ((o.deleted_at IS NOT NULL) AND (p.deleted_at IS NULL));

COMMENT ON VIEW public.invariant_31_deleted_orgs_are_empty IS 'no project lives in a deleted organisation';

CREATE TABLE public.project_members (
    org_id uuid NOT NULL,
    project_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT project_members_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text, 'viewer'::text, 'billing'::text])))
);

ALTER TABLE ONLY public.project_members FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.project_members IS 'tenant: further roles of an organisation''s members in one project';

CREATE VIEW public.invariant_32_project_members_belong WITH (security_invoker='true') AS
 SELECT ((project_id || ' '::text) || user_id) AS subject,
    'a member of the project, not of its organisation'::text AS problem
   FROM public.project_members m
  WHERE ((NOT (EXISTS ( SELECT
           FROM public.org_members o
          WHERE ((o.org_id = m.org_id) AND (o.user_id = m.user_id))))) OR (NOT (EXISTS ( SELECT
           FROM public.projects p
          WHERE ((p.id = m.project_id) AND (p.org_id = m.org_id))))));

COMMENT ON VIEW public.invariant_32_project_members_belong IS 'who is in a project is in its organisation';

CREATE TABLE public.service_account_keys (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    service_account_id uuid NOT NULL,
    key_hash bytea NOT NULL,
    hint text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);

ALTER TABLE ONLY public.service_account_keys FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.service_account_keys IS 'tenant: hashed, expiring keys of service accounts';

CREATE TABLE public.service_accounts (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    project_id uuid,
    name text NOT NULL,
    role text NOT NULL,
    allowed_operations text[] NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT service_accounts_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text, 'viewer'::text, 'billing'::text])))
);

ALTER TABLE ONLY public.service_accounts FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.service_accounts IS 'tenant: machine identities with a role and an allow-list';

CREATE VIEW public.invariant_33_no_orphaned_keys WITH (security_invoker='true') AS
 SELECT (k.id)::text AS subject,
    ('a live key of the deleted service account '::text || a.name) AS problem
   FROM (public.service_account_keys k
     JOIN public.service_accounts a ON ((a.id = k.service_account_id)))
  WHERE ((a.deleted_at IS NOT NULL) AND (k.revoked_at IS NULL) AND (k.expires_at > now()));

COMMENT ON VIEW public.invariant_33_no_orphaned_keys IS 'a deleted service account has no live key';

CREATE VIEW public.invariant_34_ledger_months_ahead WITH (security_invoker='true') AS
 SELECT ((parent.parent || '_p'::text) || months.month) AS subject,
    'the partition of that month is missing: its rows would be refused'::text AS problem
   FROM unnest(ARRAY['ledger_transactions'::text, 'ledger_entries'::text]) parent(parent),
    LATERAL ( SELECT to_char(((now() AT TIME ZONE 'UTC'::text) + ((i.i)::double precision * '1 mon'::interval)), 'YYYYMM'::text) AS month
           FROM generate_series(0, 1) i(i)) months
  WHERE (to_regclass(((parent.parent || '_p'::text) || months.month)) IS NULL);

COMMENT ON VIEW public.invariant_34_ledger_months_ahead IS 'the ledger has its partitions for this month and the next';

CREATE VIEW public.invariant_34_months_ahead WITH (security_invoker='true') AS
 SELECT ((parent.parent || '_p'::text) || months.month) AS subject,
    'the partition of that month is missing: its rows would be refused'::text AS problem
   FROM unnest(ARRAY['outbox'::text, 'inbox'::text, 'audit_log'::text, 'audit_seals'::text]) parent(parent),
    LATERAL ( SELECT to_char(((now() AT TIME ZONE 'UTC'::text) + ((i.i)::double precision * '1 mon'::interval)), 'YYYYMM'::text) AS month
           FROM generate_series(0, 1) i(i)) months
  WHERE (to_regclass(((parent.parent || '_p'::text) || months.month)) IS NULL);

COMMENT ON VIEW public.invariant_34_months_ahead IS 'tables cut by month have their partitions for this month and the next';

CREATE VIEW public.invariant_34_usage_months_ahead WITH (security_invoker='true') AS
 SELECT ('usage_p'::text || month) AS subject,
    'the partition of that month is missing: its rows would be refused'::text AS problem
   FROM ( SELECT to_char(((now() AT TIME ZONE 'UTC'::text) + ((i.i)::double precision * '1 mon'::interval)), 'YYYYMM'::text) AS month
           FROM generate_series(0, 1) i(i)) months
  WHERE (to_regclass(('usage_p'::text || month)) IS NULL);

COMMENT ON VIEW public.invariant_34_usage_months_ahead IS 'usage has its partitions for this month and the next';

CREATE VIEW public.invariant_35_token_used_once WITH (security_invoker='true') AS
 SELECT (t.id)::text AS subject,
    (('used at '::text || t.used_at) || ', after it had expired'::text) AS problem
   FROM public.bootstrap_tokens t
  WHERE (t.used_at > t.expires_at)
UNION ALL
 SELECT (t.id)::text AS subject,
    'used for a certificate of another node'::text AS problem
   FROM (public.bootstrap_tokens t
     JOIN public.certificates c ON ((c.id = t.certificate_id)))
  WHERE (c.node_id <> t.node_id);

COMMENT ON VIEW public.invariant_35_token_used_once IS 'a bootstrap token makes its own node, once, before it expires';

CREATE TABLE public.node_heartbeats (
    node_id uuid NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    liveness text NOT NULL,
    liveness_since timestamp with time zone NOT NULL,
    boot_id text NOT NULL,
    agent_version text NOT NULL,
    next_sequence bigint NOT NULL,
    generation bigint NOT NULL,
    accounts text[] NOT NULL,
    leases jsonb DEFAULT '{}'::jsonb NOT NULL,
    usage jsonb DEFAULT '{}'::jsonb NOT NULL,
    usage_signature text DEFAULT ''::text NOT NULL,
    usage_before jsonb DEFAULT '{}'::jsonb NOT NULL,
    silent_from timestamp with time zone,
    CONSTRAINT node_heartbeats_liveness_check CHECK ((liveness = ANY (ARRAY['online'::text, 'unknown'::text, 'lost'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05');

COMMENT ON TABLE public.node_heartbeats IS 'platform: what each agent said last, and when';

CREATE TABLE public.nodes (
    id uuid NOT NULL,
    name text NOT NULL,
    region text NOT NULL,
    sku_id uuid NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    cordoned boolean DEFAULT false NOT NULL,
    drained boolean DEFAULT false NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    differences text[] DEFAULT '{}'::text[] NOT NULL,
    inspected_at timestamp with time zone,
    topology jsonb,
    host_healthy boolean,
    host_detail text DEFAULT ''::text NOT NULL,
    checked_at timestamp with time zone,
    quarantine_reason text,
    quarantine_detail text DEFAULT ''::text NOT NULL,
    quarantined_at timestamp with time zone,
    returned_at timestamp with time zone,
    enrolled_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT nodes_check CHECK (((quarantine_reason IS NULL) = (quarantined_at IS NULL))),
    CONSTRAINT nodes_labels_check CHECK ((jsonb_typeof(labels) = 'object'::text)),
    CONSTRAINT nodes_name_check CHECK (((length(name) >= 1) AND (length(name) <= 63))),
    CONSTRAINT nodes_state_check CHECK ((state = ANY (ARRAY['enrolling'::text, 'active'::text, 'disabled'::text, 'removed'::text])))
);

COMMENT ON TABLE public.nodes IS 'platform: the machines, what is wanted of them and what was found on them';

CREATE VIEW public.invariant_36_live_nodes_speak WITH (security_invoker='true') AS
 SELECT (h.node_id)::text AS subject,
    ('online, and silent since '::text || h.seen_at) AS problem
   FROM (public.node_heartbeats h
     JOIN public.nodes n ON ((n.id = h.node_id)))
  WHERE ((n.state = 'active'::text) AND (h.liveness = 'online'::text) AND (h.seen_at < (now() - '00:11:00'::interval)));

COMMENT ON VIEW public.invariant_36_live_nodes_speak IS 'no node is noted as online beyond the longest lease there can be';

CREATE TABLE public.slot_quarantines (
    id uuid NOT NULL,
    slot_id uuid NOT NULL,
    node_id uuid NOT NULL,
    serial text NOT NULL,
    reason text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    evidence jsonb DEFAULT '{}'::jsonb NOT NULL,
    strike boolean NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    return_task_id uuid,
    ended_at timestamp with time zone
);

COMMENT ON TABLE public.slot_quarantines IS 'platform: which GPU was not to be sold, why, and since when; kept, because strikes are counted here';

CREATE VIEW public.invariant_37_one_gpu_one_node WITH (security_invoker='true') AS
 SELECT (s.id)::text AS subject,
    (((('node '::text || o.node_id) || ' claims the GPU '::text) || s.serial) || ' as well, and it is on sale'::text) AS problem
   FROM (((public.slots s
     JOIN public.nodes n ON (((n.id = s.node_id) AND (n.state = 'active'::text))))
     JOIN public.slots o ON (((o.serial = s.serial) AND (o.node_id <> s.node_id) AND o.present)))
     JOIN public.nodes m ON (((m.id = o.node_id) AND (m.state = 'active'::text))))
  WHERE (s.present AND (NOT (EXISTS ( SELECT
           FROM public.slot_quarantines q
          WHERE ((q.slot_id = s.id) AND (q.ended_at IS NULL))))));

COMMENT ON VIEW public.invariant_37_one_gpu_one_node IS 'a GPU that two nodes claim to have is in quarantine on both';

CREATE VIEW public.invariant_37_slots_of_nodes WITH (security_invoker='true') AS
 SELECT (s.id)::text AS subject,
    'a slot of a node that does not exist'::text AS problem
   FROM public.slots s
  WHERE (NOT (EXISTS ( SELECT
           FROM public.nodes n
          WHERE (n.id = s.node_id))))
UNION ALL
 SELECT (q.id)::text AS subject,
    'a quarantine of a slot that is not of its node and serial number'::text AS problem
   FROM public.slot_quarantines q
  WHERE (NOT (EXISTS ( SELECT
           FROM public.slots s
          WHERE ((s.id = q.slot_id) AND (s.node_id = q.node_id) AND (s.serial = q.serial)))));

COMMENT ON VIEW public.invariant_37_slots_of_nodes IS 'every slot is of a node, every quarantine of a slot';

CREATE VIEW public.invariant_38_standing_is_balance WITH (security_invoker='true') AS
 SELECT ('organisation '::text || org_id) AS subject,
    (((((((((('is '::text || state) || ' since '::text) || COALESCE((state_since)::text, 'ever'::text)) || ', and for over a minute '::text) || LEAST(now_micros, then_micros)) || ' to '::text) || GREATEST(now_micros, then_micros)) || ' '::text) || currency) || ' could be spent'::text) AS problem
   FROM ( SELECT w.org_id,
            w.currency,
            COALESCE(s.state, 'good'::text) AS state,
            s.state_since,
            COALESCE(b.burning, (0)::numeric) AS burning,
            (((COALESCE(h.balance_micros, (0)::bigint) - COALESCE(a.floor_micros, (0)::bigint)))::numeric - COALESCE(b.unposted_now, (0)::numeric)) AS now_micros,
            ((((COALESCE(h.balance_micros, (0)::bigint) - COALESCE(a.floor_micros, (0)::bigint)))::numeric - COALESCE(b.unposted_then, (0)::numeric)) - COALESCE(recent.micros, (0)::numeric)) AS then_micros
           FROM (((((( SELECT meters.org_id,
                    meters.currency
                   FROM public.meters
                  WHERE (meters.settled_at IS NULL)
                UNION
                 SELECT standings.org_id,
                    standings.currency
                   FROM public.standings
                  WHERE (standings.state <> 'good'::text)) w
             LEFT JOIN public.standings s ON (((s.org_id = w.org_id) AND (s.currency = w.currency))))
             LEFT JOIN public.ledger_accounts a ON (((a.org_id = w.org_id) AND (a.kind = 'tenant'::text) AND (a.currency = w.currency))))
             LEFT JOIN LATERAL ( SELECT e.balance_micros
                   FROM public.ledger_entries e
                  WHERE (e.account_id = a.id)
                  ORDER BY e.transaction_id DESC
                 LIMIT 1) h ON (true))
             LEFT JOIN LATERAL ( SELECT sum(e.amount_micros) AS micros
                   FROM (public.ledger_entries e
                     JOIN public.ledger_transactions t ON ((t.id = e.transaction_id)))
                  WHERE ((e.account_id = a.id) AND (e.transaction_id >= uuidv7('-00:01:00'::interval)) AND (t.kind <> 'usage'::text))) recent ON (true))
             LEFT JOIN LATERAL ( SELECT sum((public.meter_owed(m.micros_per_hour, c.usable) - m.billed_micros)) AS unposted_now,
                    sum((public.meter_owed(m.micros_per_hour, c.usable_then) - m.billed_micros)) AS unposted_then,
                    sum(m.micros_per_hour) FILTER (WHERE ((m.closed_at IS NULL) AND (m.opened_at < (now() - '00:01:00'::interval)) AND (p.lately IS NOT TRUE))) AS burning
                   FROM (((public.meters m
                     CROSS JOIN LATERAL ( SELECT LEAST(m.closed_at, now()) AS now_at,
                            GREATEST(m.opened_at, LEAST(m.closed_at, (now() - '00:01:00'::interval))) AS then_at) u)
                     LEFT JOIN LATERAL ( SELECT sum(public.pause_seconds(m.opened_at, u.now_at, p_1.from_at, p_1.until_at)) AS lost,
                            sum(public.pause_seconds(m.opened_at, u.then_at, p_1.from_at, p_1.until_at)) AS lost_then,
                            bool_or((COALESCE(p_1.until_at, 'infinity'::timestamp with time zone) > (now() - '00:01:00'::interval))) AS lately
                           FROM public.meter_pauses p_1
                          WHERE (p_1.meter_id = m.id)) p ON (true))
                     CROSS JOIN LATERAL ( SELECT public.meter_seconds(m.opened_at, u.now_at, p.lost) AS usable,
                            public.meter_seconds(m.opened_at, u.then_at, p.lost_then) AS usable_then
                         OFFSET 0) c)
                  WHERE ((m.org_id = w.org_id) AND (m.currency = w.currency) AND (m.settled_at IS NULL))) b ON (true))
          WHERE (COALESCE(s.state_since, '-infinity'::timestamp with time zone) < (now() - '00:01:00'::interval))) f
  WHERE (((state = ANY (ARRAY['good'::text, 'low'::text])) AND (GREATEST(now_micros, then_micros) <= (0)::numeric) AND ((state = 'low'::text) OR (burning > (0)::numeric) OR (GREATEST(now_micros, then_micros) < (0)::numeric))) OR ((state = ANY (ARRAY['empty'::text, 'stopped'::text, 'released'::text])) AND (LEAST(now_micros, then_micros) > (0)::numeric)));

COMMENT ON VIEW public.invariant_38_standing_is_balance IS 'no rung contradicts what can be spent for over a minute';

CREATE TABLE public.invoices (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    currency text NOT NULL,
    month date NOT NULL,
    year integer NOT NULL,
    serial integer NOT NULL,
    opening_micros bigint NOT NULL,
    paid_in_micros bigint NOT NULL,
    used_micros bigint NOT NULL,
    used_back_micros bigint NOT NULL,
    given_micros bigint NOT NULL,
    refunded_micros bigint NOT NULL,
    corrected_micros bigint NOT NULL,
    closing_micros bigint NOT NULL,
    document text NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    CONSTRAINT invoices_check CHECK ((issued_at >= ((month + '1 mon'::interval) AT TIME ZONE 'UTC'::text))),
    CONSTRAINT invoices_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT invoices_month_check CHECK ((month = (date_trunc('month'::text, (month)::timestamp without time zone))::date)),
    CONSTRAINT invoices_serial_check CHECK ((serial > 0)),
    CONSTRAINT invoices_sum CHECK ((((((((opening_micros + paid_in_micros) + used_micros) + used_back_micros) + given_micros) + refunded_micros) + corrected_micros) = closing_micros))
);

ALTER TABLE ONLY public.invoices FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.invoices IS 'tenant: a month''s invoice of an organisation and currency, as it was issued; append-only';

CREATE VIEW public.invariant_39_invoices_are_the_ledger WITH (security_invoker='true') AS
 SELECT ((('invoice '::text || i.year) || '-'::text) || i.serial) AS subject,
    ((('it says '::text || (ROW(i.opening_micros, i.paid_in_micros, i.used_micros, i.used_back_micros, i.given_micros, i.refunded_micros, i.corrected_micros, i.closing_micros))::text) || ', the ledger '::text) || (ROW(l.opening, l.paid_in, l.used, l.used_back, l.given, l.refunded, l.corrected, l.closing))::text) AS problem
   FROM (((public.invoices i
     CROSS JOIN LATERAL ( SELECT public.floor_id(((i.month)::timestamp without time zone AT TIME ZONE 'UTC'::text)) AS low,
            public.floor_id(((i.month + '1 mon'::interval) AT TIME ZONE 'UTC'::text)) AS high) bounds)
     LEFT JOIN public.ledger_accounts a ON (((a.org_id = i.org_id) AND (a.kind = 'tenant'::text) AND (a.currency = i.currency))))
     CROSS JOIN LATERAL ( SELECT (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'paid_in'::text)), (0)::numeric))::bigint AS paid_in,
            (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'used'::text)), (0)::numeric))::bigint AS used,
            (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'used_back'::text)), (0)::numeric))::bigint AS used_back,
            (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'given'::text)), (0)::numeric))::bigint AS given,
            (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'refunded'::text)), (0)::numeric))::bigint AS refunded,
            (COALESCE(sum(e.amount_micros) FILTER (WHERE (public.invoice_sum_of(t.kind) = 'corrected'::text)), (0)::numeric))::bigint AS corrected,
            COALESCE(( SELECT o.balance_micros
                   FROM public.ledger_entries o
                  WHERE ((o.account_id = a.id) AND (o.transaction_id < bounds.low))
                  ORDER BY o.transaction_id DESC
                 LIMIT 1), (0)::bigint) AS opening,
            COALESCE(( SELECT o.balance_micros
                   FROM public.ledger_entries o
                  WHERE ((o.account_id = a.id) AND (o.transaction_id < bounds.high))
                  ORDER BY o.transaction_id DESC
                 LIMIT 1), (0)::bigint) AS closing
           FROM (public.ledger_entries e
             JOIN public.ledger_transactions t ON ((t.id = e.transaction_id)))
          WHERE ((e.account_id = a.id) AND (e.transaction_id >= bounds.low) AND (e.transaction_id < bounds.high))) l)
  WHERE ((i.opening_micros <> l.opening) OR (i.paid_in_micros <> l.paid_in) OR (i.used_micros <> l.used) OR (i.used_back_micros <> l.used_back) OR (i.given_micros <> l.given) OR (i.refunded_micros <> l.refunded) OR (i.corrected_micros <> l.corrected) OR (i.closing_micros <> l.closing));

COMMENT ON VIEW public.invariant_39_invoices_are_the_ledger IS 'the sums of an invoice are those of the ledger in its month';

CREATE VIEW public.invariant_39_invoices_have_no_gaps WITH (security_invoker='true') AS
 SELECT ((('invoice '::text || year) || '-'::text) || serial) AS subject,
    ('the one before it is '::text || before_serial) AS problem
   FROM ( SELECT invoices.year,
            invoices.serial,
            lag(invoices.serial, 1, 0) OVER (PARTITION BY invoices.year ORDER BY invoices.serial) AS before_serial
           FROM public.invoices) i
  WHERE (serial <> (before_serial + 1));

COMMENT ON VIEW public.invariant_39_invoices_have_no_gaps IS 'the numbers of a year''s invoices follow each other';

CREATE TABLE public.invitations (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    token_hash bytea NOT NULL,
    invited_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'viewer'::text, 'billing'::text])))
);

ALTER TABLE ONLY public.invitations FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.invitations IS 'tenant: invitations into an organisation';

CREATE TABLE public.invoice_files (
    invoice_id uuid NOT NULL,
    org_id uuid NOT NULL,
    form text NOT NULL,
    digest text NOT NULL,
    size integer NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT invoice_files_digest_check CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT invoice_files_form_check CHECK ((form = ANY (ARRAY['pdf'::text, 'csv'::text]))),
    CONSTRAINT invoice_files_size_check CHECK ((size > 0))
);

ALTER TABLE ONLY public.invoice_files FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.invoice_files IS 'tenant: files of invoices that are kept in the store of objects; append-only';

CREATE TABLE public.issuer_access_tokens (
    jti text NOT NULL,
    family_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone
);

COMMENT ON TABLE public.issuer_access_tokens IS 'platform: which live access tokens follow from a family, to deny them with it';

CREATE TABLE public.issuer_accounts (
    id uuid NOT NULL,
    email text NOT NULL,
    email_verified boolean NOT NULL,
    name text NOT NULL,
    password_hash text NOT NULL,
    password_version integer DEFAULT 1 NOT NULL,
    must_change boolean NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    password_changed_at timestamp with time zone DEFAULT now() NOT NULL,
    last_login_at timestamp with time zone,
    CONSTRAINT issuer_accounts_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
    CONSTRAINT issuer_accounts_name_check CHECK (((length(name) >= 1) AND (length(name) <= 120))),
    CONSTRAINT issuer_accounts_password_version_check CHECK ((password_version > 0))
);

COMMENT ON TABLE public.issuer_accounts IS 'platform: logins of the built-in issuer';

CREATE TABLE public.issuer_codes (
    code_hash bytea NOT NULL,
    client_id text NOT NULL,
    redirect_uri text NOT NULL,
    account_id uuid NOT NULL,
    session_id uuid NOT NULL,
    scopes text[] NOT NULL,
    nonce text,
    code_challenge text NOT NULL,
    auth_time timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    family_id uuid
);

COMMENT ON TABLE public.issuer_codes IS 'platform: authorization codes, each good for one use';

CREATE TABLE public.issuer_device_codes (
    device_hash bytea NOT NULL,
    user_code text NOT NULL,
    client_id text NOT NULL,
    scopes text[] NOT NULL,
    requested_from text NOT NULL,
    state text NOT NULL,
    state_since timestamp with time zone DEFAULT now() NOT NULL,
    interval_seconds integer NOT NULL,
    polled_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    account_id uuid,
    session_id uuid,
    auth_time timestamp with time zone,
    family_id uuid,
    CONSTRAINT issuer_device_codes_check CHECK (((state = ANY (ARRAY['pending'::text, 'denied'::text])) OR ((account_id IS NOT NULL) AND (auth_time IS NOT NULL)))),
    CONSTRAINT issuer_device_codes_interval_seconds_check CHECK (((interval_seconds >= 1) AND (interval_seconds <= 3600))),
    CONSTRAINT issuer_device_codes_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'used'::text]))),
    CONSTRAINT issuer_device_codes_user_code_check CHECK ((user_code ~ '^[BCDFGHJKLMNPQRSTVWXZ]{8}$'::text))
);

COMMENT ON TABLE public.issuer_device_codes IS 'platform: logins of machines without a browser, waiting for a person';

CREATE TABLE public.issuer_families (
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    client_id text NOT NULL,
    session_id uuid,
    scopes text[] NOT NULL,
    auth_time timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    end_reason text DEFAULT ''::text NOT NULL
);

COMMENT ON TABLE public.issuer_families IS 'platform: logins of clients, with all tokens that follow from one';

CREATE TABLE public.issuer_key_marks (
    single boolean DEFAULT true NOT NULL,
    marked_at timestamp with time zone NOT NULL,
    CONSTRAINT issuer_key_marks_single_check CHECK (single)
);

COMMENT ON TABLE public.issuer_key_marks IS 'platform: when all replicas were last told to read the issuer''s keys again';

CREATE TABLE public.issuer_login_attempts (
    email_hash bytea NOT NULL,
    failures integer NOT NULL,
    locked_until timestamp with time zone NOT NULL,
    last_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT issuer_login_attempts_failures_check CHECK ((failures > 0))
);

COMMENT ON TABLE public.issuer_login_attempts IS 'platform: failed logins in a row, and until when the next has to wait';

CREATE TABLE public.issuer_refresh_tokens (
    token_hash bytea NOT NULL,
    family_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    used_at timestamp with time zone,
    successor bytea
);

COMMENT ON TABLE public.issuer_refresh_tokens IS 'platform: refresh tokens, each good for one use; used ones are kept to see reuse';

CREATE TABLE public.issuer_sessions (
    id uuid NOT NULL,
    token_hash bytea NOT NULL,
    account_id uuid NOT NULL,
    auth_time timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);

COMMENT ON TABLE public.issuer_sessions IS 'platform: browsers that are logged in; the cookie is stored as a hash';

CREATE TABLE public.login_states (
    state_hash bytea NOT NULL,
    code_verifier bytea NOT NULL,
    nonce text NOT NULL,
    redirect_uri text NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.login_states IS 'platform: logins that were started and not yet finished; the verifier is sealed';

CREATE VIEW public.meter_burn WITH (security_invoker='true') AS
 SELECT m.org_id,
    m.currency,
    count(*) FILTER (WHERE ((m.closed_at IS NULL) AND (m.micros_per_hour > 0))) AS running,
    (COALESCE(sum(m.micros_per_hour) FILTER (WHERE (m.closed_at IS NULL)), (0)::numeric))::bigint AS open_micros_per_hour,
    (COALESCE(sum(m.micros_per_hour) FILTER (WHERE ((m.closed_at IS NULL) AND (p.still IS NOT TRUE))), (0)::numeric))::bigint AS micros_per_hour,
    (sum((public.meter_owed(m.micros_per_hour, c.usable) - m.billed_micros)))::bigint AS unposted_micros
   FROM (((public.meters m
     CROSS JOIN LATERAL ( SELECT LEAST(m.closed_at, GREATEST(clock_timestamp(), m.billed_until)) AS until_at
         OFFSET 0) u)
     LEFT JOIN LATERAL ( SELECT sum(public.pause_seconds(m.opened_at, u.until_at, p_1.from_at, p_1.until_at)) AS lost,
            bool_or((p_1.until_at IS NULL)) AS still
           FROM public.meter_pauses p_1
          WHERE (p_1.meter_id = m.id)) p ON (true))
     CROSS JOIN LATERAL ( SELECT public.meter_seconds(m.opened_at, u.until_at, p.lost) AS usable
         OFFSET 0) c)
  WHERE (m.settled_at IS NULL)
  GROUP BY m.org_id, m.currency;

CREATE TABLE public.node_health (
    id uuid NOT NULL,
    node_id uuid NOT NULL,
    serial text NOT NULL,
    kind text NOT NULL,
    good boolean NOT NULL,
    code text NOT NULL,
    detail text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT node_health_kind_check CHECK ((kind = ANY (ARRAY['check'::text, 'load_check'::text, 'fault'::text, 'quarantined'::text, 'returned'::text])))
)
PARTITION BY RANGE (id);

COMMENT ON TABLE public.node_health IS 'platform: the history of each GPU''s and host''s health; dropped by the month';

CREATE TABLE public.node_metrics (
    node_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    "values" jsonb NOT NULL
)
PARTITION BY RANGE (at);

COMMENT ON TABLE public.node_metrics IS 'platform: samples of hosts and GPUs; dropped by the day';

CREATE TABLE public.notification_preferences (
    user_id uuid NOT NULL,
    kind text NOT NULL,
    email text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT notification_preferences_email_check CHECK ((email = ANY (ARRAY['always'::text, 'offline'::text, 'never'::text]))),
    CONSTRAINT notification_preferences_kind_check CHECK (((length(kind) >= 3) AND (length(kind) <= 60)))
);

ALTER TABLE ONLY public.notification_preferences FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.notification_preferences IS 'actor: which kinds a user wants by email; those not named are as the catalogue says';

CREATE TABLE public.notifications (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    org_id uuid NOT NULL,
    event_id uuid NOT NULL,
    kind text NOT NULL,
    severity text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    subject_id uuid,
    link_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    read_at timestamp with time zone,
    CONSTRAINT notifications_body_check CHECK ((length(body) <= 4000)),
    CONSTRAINT notifications_kind_check CHECK (((length(kind) >= 3) AND (length(kind) <= 60))),
    CONSTRAINT notifications_severity_check CHECK ((severity = ANY (ARRAY['info'::text, 'warning'::text, 'critical'::text]))),
    CONSTRAINT notifications_title_check CHECK (((length(title) >= 1) AND (length(title) <= 200)))
);

ALTER TABLE ONLY public.notifications FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.notifications IS 'actor: what a user was told, and whether he has read it';

CREATE TABLE public.payment_customers (
    org_id uuid NOT NULL,
    customer_id text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT payment_customers_customer_id_check CHECK (((length(customer_id) >= 1) AND (length(customer_id) <= 255)))
);

ALTER TABLE ONLY public.payment_customers FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.payment_customers IS 'tenant: how the payment provider calls an organisation';

CREATE TABLE public.payment_differences (
    id uuid NOT NULL,
    kind text NOT NULL,
    object_id text NOT NULL,
    payment_id uuid,
    currency text NOT NULL,
    ours_micros bigint NOT NULL,
    theirs_micros bigint NOT NULL,
    detail text NOT NULL,
    found_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    settled_at timestamp with time zone,
    CONSTRAINT payment_differences_detail_check CHECK ((length(detail) <= 500)),
    CONSTRAINT payment_differences_kind_check CHECK ((kind = ANY (ARRAY['amount'::text, 'not_ours'::text, 'not_there'::text, 'stuck'::text])))
);

COMMENT ON TABLE public.payment_differences IS 'platform: where the payment provider and our books differ, since when and until when';

CREATE TABLE public.payment_reconciliations (
    id uuid NOT NULL,
    began_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    checkouts integer NOT NULL,
    refunds integer NOT NULL,
    disputes integer NOT NULL,
    healed integer NOT NULL,
    differences integer NOT NULL
);

COMMENT ON TABLE public.payment_reconciliations IS 'platform: when the provider''s lists were compared with our books, and what came of it';

CREATE TABLE public.payment_statement_sums (
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    objects bigint NOT NULL,
    CONSTRAINT payment_statement_sums_objects_check CHECK ((objects > 0))
);

COMMENT ON TABLE public.payment_statement_sums IS 'platform: by currency, the sum of what the provider said so long ago that it is not kept';

CREATE TABLE public.payment_statements (
    object_id text NOT NULL,
    kind text NOT NULL,
    payment_id uuid,
    currency text NOT NULL,
    amount_micros bigint NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT payment_statements_kind_check CHECK ((kind = ANY (ARRAY['checkout'::text, 'refund'::text, 'dispute'::text])))
);

COMMENT ON TABLE public.payment_statements IS 'platform: what the payment provider says it took (above zero) and gave back (below)';

CREATE VIEW public.payment_sides WITH (security_invoker='true') AS
 WITH last AS (
         SELECT max(payment_reconciliations.began_at) AS at
           FROM public.payment_reconciliations
        ), theirs AS (
         SELECT said.currency,
            sum(said.amount_micros) AS micros
           FROM ( SELECT payment_statements.currency,
                    payment_statements.amount_micros
                   FROM public.payment_statements
                UNION ALL
                 SELECT payment_statement_sums.currency,
                    payment_statement_sums.amount_micros
                   FROM public.payment_statement_sums) said
          GROUP BY said.currency
        ), ours AS (
         SELECT e.currency,
            (- sum(n.amount_micros)) AS micros
           FROM ((public.payment_effects e
             JOIN public.ledger_entries n ON ((n.transaction_id = e.transaction_id)))
             JOIN public.ledger_accounts a ON (((a.id = n.account_id) AND (a.kind = 'clearing'::text))))
          WHERE ((e.at < ( SELECT last.at
                   FROM last)) OR (EXISTS ( SELECT
                   FROM public.payment_statements s
                  WHERE (s.object_id = e.object_id))))
          GROUP BY e.currency
        )
 SELECT COALESCE(t.currency, o.currency) AS currency,
    (COALESCE(t.micros, (0)::numeric))::bigint AS provider_micros,
    (COALESCE(o.micros, (0)::numeric))::bigint AS ledger_micros,
    ( SELECT last.at
           FROM last) AS as_of
   FROM (theirs t
     FULL JOIN ours o ON ((o.currency = t.currency)));

COMMENT ON VIEW public.payment_sides IS 'what the payment provider says it took for us, and what the ledger says';

CREATE TABLE public.policy_overrides (
    key text NOT NULL,
    org_id uuid,
    project_id uuid,
    value jsonb NOT NULL,
    guardrail boolean NOT NULL,
    set_from text NOT NULL,
    set_by uuid,
    set_by_name text NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    reason text NOT NULL,
    CONSTRAINT policy_overrides_check CHECK (((project_id IS NULL) OR (org_id IS NOT NULL))),
    CONSTRAINT policy_overrides_key_check CHECK (((length(key) >= 1) AND (length(key) <= 100))),
    CONSTRAINT policy_overrides_reason_check CHECK (((length(reason) >= 3) AND (length(reason) <= 500))),
    CONSTRAINT policy_overrides_set_from_check CHECK ((set_from = ANY (ARRAY['global'::text, 'org'::text, 'project'::text]))),
    CONSTRAINT policy_overrides_value_check CHECK ((jsonb_typeof(value) = ANY (ARRAY['number'::text, 'boolean'::text, 'string'::text])))
);

ALTER TABLE ONLY public.policy_overrides FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.policy_overrides IS 'tenant: values of policies by place; those without an organisation hold for all';

CREATE TABLE public.policy_revision (
    only_row boolean DEFAULT true NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT policy_revision_only_row_check CHECK (only_row)
);

COMMENT ON TABLE public.policy_revision IS 'platform: grows with every change of a policy, so that readers know when to look';

CREATE VIEW public.proof_allocations WITH (security_invoker='true') AS
 SELECT a.id AS allocation_id,
    a.org_id,
        CASE
            WHEN (m.id IS NULL) THEN (0)::bigint
            ELSE public.meter_seconds(m.opened_at, LEAST(m.closed_at, statement_timestamp()), gaps.seconds)
        END AS metered_seconds,
    public.meter_seconds(held.from_at, held.until_at, (gaps.known_seconds + tail.seconds)) AS occupied_seconds
   FROM ((((public.allocations a
     LEFT JOIN public.meters m ON ((m.subject_id = a.id)))
     CROSS JOIN LATERAL ( SELECT COALESCE(( SELECT max(p.at) AS max
                   FROM public.allocation_proofs p
                  WHERE ((p.allocation_id = a.id) AND p.passed AND (p.at <= a.active_at))), a.active_at) AS from_at,
            COALESCE(a.release_requested_at, a.ended_at, statement_timestamp()) AS until_at) held)
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(g.seconds), (0)::numeric) AS seconds,
            COALESCE(sum(g.seconds) FILTER (WHERE g.known), (0)::numeric) AS known_seconds
           FROM ( SELECT public.pause_seconds(m.opened_at, LEAST(m.closed_at, statement_timestamp()), s.from_at, s.until_at) AS seconds,
                    (EXISTS ( SELECT
                           FROM public.allocation_timeline t
                          WHERE ((t.allocation_id = a.id) AND (t.phase = ANY (ARRAY['degraded'::text, 'not_charged'::text, 'charged_again'::text, 'stop'::text, 'stopped'::text, 'started'::text])) AND (t.at >= s.from_at) AND (t.at <= (COALESCE(s.until_at, 'infinity'::timestamp with time zone) + '00:01:00'::interval))))) AS known
                   FROM public.meter_pauses s
                  WHERE (s.meter_id = m.id)) g) gaps)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN ((m.closed_at < held.until_at) AND (m.close_reason = 'the last sign of life of its node'::text)) THEN (EXTRACT(epoch FROM held.until_at) - EXTRACT(epoch FROM m.closed_at))
                    ELSE (0)::numeric
                END AS seconds) tail)
  WHERE (a.active_at IS NOT NULL)
UNION ALL
 SELECT m.subject_id AS allocation_id,
    m.org_id,
    public.meter_seconds(m.opened_at, LEAST(m.closed_at, statement_timestamp()), public.meter_lost(m.id, m.opened_at, LEAST(m.closed_at, statement_timestamp()))) AS metered_seconds,
    0 AS occupied_seconds
   FROM public.meters m
  WHERE (NOT (EXISTS ( SELECT
           FROM public.allocations a
          WHERE ((a.id = m.subject_id) AND (a.active_at IS NOT NULL)))));

COMMENT ON VIEW public.proof_allocations IS 'for how long each allocation was held and usable, and what its meter counts';

CREATE VIEW public.proof_clearing WITH (security_invoker='true') AS
 SELECT t.id AS transaction_id,
    t.kind,
    t.currency,
    (- e.amount_micros) AS micros
   FROM ((public.ledger_entries e
     JOIN public.ledger_accounts a ON (((a.id = e.account_id) AND (a.kind = 'clearing'::text))))
     JOIN public.ledger_transactions t ON ((t.id = e.transaction_id)))
  WHERE (NOT (EXISTS ( SELECT
           FROM public.payment_effects p
          WHERE (p.transaction_id = t.id))));

COMMENT ON VIEW public.proof_clearing IS 'money through the account of payment providers that no payment explains';

CREATE VIEW public.proof_meters WITH (security_invoker='true') AS
 SELECT m.id AS meter_id,
    m.org_id,
    m.currency,
    m.subject_id,
    COALESCE(u.seconds, (0)::bigint) AS seconds,
    (p.micros_per_gpu_hour * m.gpus) AS micros_per_hour,
    COALESCE(u.micros, (0)::bigint) AS charged_micros,
    public.meter_owed((p.micros_per_gpu_hour * m.gpus), COALESCE(u.seconds, (0)::bigint)) AS rated_micros
   FROM ((public.meters m
     JOIN public.sku_prices p ON ((p.id = m.price_id)))
     LEFT JOIN ( SELECT usage.org_id,
            usage.meter_id,
            (sum(usage.seconds))::bigint AS seconds,
            (sum(usage.micros))::bigint AS micros
           FROM public.usage
          GROUP BY usage.org_id, usage.meter_id) u ON (((u.org_id = m.org_id) AND (u.meter_id = m.id))));

COMMENT ON VIEW public.proof_meters IS 'what was charged for each meter, and what its seconds cost';

CREATE VIEW public.proof_payments WITH (security_invoker='true') AS
 SELECT p.id AS payment_id,
    t.id AS transaction_id,
    COALESCE(p.currency, t.currency) AS currency,
    COALESCE(p.amount_micros, (0)::bigint) AS paid_micros,
    COALESCE(t.amount_micros, (0)::bigint) AS credited_micros
   FROM (( SELECT payments.id,
            payments.org_id,
            payments.provider,
            payments.currency,
            payments.amount_micros,
            payments.state,
            payments.state_since,
            payments.due_at,
            payments.asked_by,
            payments.asked_by_id,
            payments.asked_key,
            payments.expires_at,
            payments.session_id,
            payments.intent_id,
            payments.url,
            payments.refunded_micros,
            payments.disputed_micros,
            payments.dispute,
            payments.failure,
            payments.transaction_id,
            payments.created_at,
            payments.paid_at,
            payments.taken_micros,
            payments.taken_currency,
            payments.taken_session,
            payments.taken_intent,
            payments.accept_by,
            payments.accept_by_id,
            payments.accept_reason
           FROM public.payments
          WHERE (payments.transaction_id IS NOT NULL)) p
     FULL JOIN ( SELECT t_1.id,
            t_1.currency,
            e.amount_micros
           FROM (public.ledger_transactions t_1
             JOIN public.ledger_entries e ON (((e.transaction_id = t_1.id) AND (e.org_id = t_1.org_id))))
          WHERE (t_1.kind = 'top_up'::text)) t ON ((t.id = p.transaction_id)));

COMMENT ON VIEW public.proof_payments IS 'what was paid in, and what the ledger credits for it';

CREATE TABLE public.rate_marks (
    lane text NOT NULL,
    subject text NOT NULL,
    next_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.rate_marks IS 'platform: strict rate lanes, exact across replicas';

CREATE TABLE public.refresh_claims (
    token_hash bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.refresh_claims IS 'platform: refresh tokens being exchanged, or just spent';

CREATE TABLE public.revoked_credentials (
    credential_id text NOT NULL,
    reason text NOT NULL,
    revoked_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.revoked_credentials IS 'platform: the deny-list; a row outlives the credential it names';

CREATE VIEW public.sellable_nodes WITH (security_invoker='true') AS
 SELECT n.id,
    n.name,
    n.sku_id,
    h.seen_at
   FROM (public.nodes n
     JOIN public.node_heartbeats h ON ((h.node_id = n.id)))
  WHERE ((n.state = 'active'::text) AND (NOT n.cordoned) AND (NOT n.drained) AND (n.quarantine_reason IS NULL) AND (n.inspected_at IS NOT NULL) AND n.host_healthy AND (n.differences = '{}'::text[]) AND (h.liveness = 'online'::text));

CREATE TABLE public.skus (
    id uuid NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    shape text NOT NULL,
    gpu_vendor text NOT NULL,
    gpu_model text NOT NULL,
    gpu_memory_bytes bigint NOT NULL,
    gpus_per_node integer NOT NULL,
    allowed_gpu_counts integer[] NOT NULL,
    whole_node_only boolean NOT NULL,
    needs_nvme boolean NOT NULL,
    needs_fabric boolean NOT NULL,
    region text NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT skus_allowed_gpu_counts_check CHECK (((cardinality(allowed_gpu_counts) >= 1) AND (cardinality(allowed_gpu_counts) <= 64))),
    CONSTRAINT skus_gpu_memory_bytes_check CHECK ((gpu_memory_bytes > 0)),
    CONSTRAINT skus_gpus_per_node_check CHECK (((gpus_per_node >= 1) AND (gpus_per_node <= 64))),
    CONSTRAINT skus_shape_check CHECK ((shape = ANY (ARRAY['baremetal'::text, 'gpu_slice'::text]))),
    CONSTRAINT skus_state_check CHECK ((state = ANY (ARRAY['active'::text, 'retired'::text])))
);

COMMENT ON TABLE public.skus IS 'platform: what is sold; every tenant reads it';

CREATE VIEW public.slots_in_use WITH (security_invoker='true') AS
 SELECT h.slot_id,
    h.node_id
   FROM (public.slot_holds h
     JOIN public.allocations a ON ((a.id = h.allocation_id)))
  WHERE ((h.ended_at IS NULL) AND (a.state <> 'release_failed'::text));

CREATE TABLE public.ssh_keys (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    algorithm text NOT NULL,
    public_key text NOT NULL,
    fingerprint text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY public.ssh_keys FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.ssh_keys IS 'actor: SSH public keys of a user';

CREATE TABLE public.task_phases (
    task_id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    name text NOT NULL,
    detail text NOT NULL,
    told_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE public.task_phases IS 'platform: the steps a running task told of';

ALTER TABLE public.tasks ALTER COLUMN born ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tasks_born_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.users (
    id uuid NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    email text NOT NULL,
    email_verified boolean NOT NULL,
    name text NOT NULL,
    platform_roles text[] DEFAULT '{}'::text[] NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_login_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT users_platform_roles_check CHECK ((platform_roles <@ ARRAY['platform-admin'::text, 'platform-auditor'::text])),
    CONSTRAINT users_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text]))),
    CONSTRAINT users_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 255)))
);

ALTER TABLE ONLY public.users FORCE ROW LEVEL SECURITY;

COMMENT ON TABLE public.users IS 'actor: people, one per subject of an issuer';

ALTER TABLE ONLY public.action_links
    ADD CONSTRAINT action_links_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.agent_artifact_parts
    ADD CONSTRAINT agent_artifact_parts_pkey PRIMARY KEY (artifact_id, number);

ALTER TABLE ONLY public.agent_artifacts
    ADD CONSTRAINT agent_artifacts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.allocation_proofs
    ADD CONSTRAINT allocation_proofs_once UNIQUE (task_id);

ALTER TABLE ONLY public.allocation_proofs
    ADD CONSTRAINT allocation_proofs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.allocation_timeline
    ADD CONSTRAINT allocation_timeline_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.allocations
    ADD CONSTRAINT allocations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_checkpoints
    ADD CONSTRAINT audit_checkpoints_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY public.audit_head
    ADD CONSTRAINT audit_head_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit_seals
    ADD CONSTRAINT audit_seals_pkey PRIMARY KEY (audit_id);

ALTER TABLE ONLY public.audit_unsealed
    ADD CONSTRAINT audit_unsealed_pkey PRIMARY KEY (audit_id);

ALTER TABLE ONLY public.bootstrap_tokens
    ADD CONSTRAINT bootstrap_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.bootstrap_tokens
    ADD CONSTRAINT bootstrap_tokens_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.budget_marks
    ADD CONSTRAINT budget_marks_pkey PRIMARY KEY (project_id, currency, month, of_limit, percent, limit_micros);

ALTER TABLE ONLY public.budgets
    ADD CONSTRAINT budgets_one UNIQUE (project_id, currency);

ALTER TABLE ONLY public.budgets
    ADD CONSTRAINT budgets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.certificate_authorities
    ADD CONSTRAINT certificate_authorities_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY public.certificate_authorities
    ADD CONSTRAINT certificate_authorities_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.certificates
    ADD CONSTRAINT certificates_authority_id_serial_key UNIQUE (authority_id, serial);

ALTER TABLE ONLY public.certificates
    ADD CONSTRAINT certificates_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY public.certificates
    ADD CONSTRAINT certificates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.consumer_progress
    ADD CONSTRAINT consumer_progress_pkey PRIMARY KEY (consumer);

ALTER TABLE ONLY public.data_keys
    ADD CONSTRAINT data_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dead_letters
    ADD CONSTRAINT dead_letters_consumer_event_id_key UNIQUE (consumer, event_id);

ALTER TABLE ONLY public.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.delivery_attempts
    ADD CONSTRAINT delivery_attempts_pkey PRIMARY KEY (consumer, event_id);

ALTER TABLE ONLY public.emails
    ADD CONSTRAINT emails_once UNIQUE (notification_id);

ALTER TABLE ONLY public.emails
    ADD CONSTRAINT emails_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.flow_attempts
    ADD CONSTRAINT flow_attempts_pkey PRIMARY KEY (run_id, fence, number);

ALTER TABLE ONLY public.flow_runs
    ADD CONSTRAINT flow_runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gpu_faults
    ADD CONSTRAINT gpu_faults_once UNIQUE (node_id, serial, code, at);

ALTER TABLE ONLY public.gpu_faults
    ADD CONSTRAINT gpu_faults_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.gpu_quotas
    ADD CONSTRAINT gpu_quotas_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (actor_id, key);

ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, event_id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.invoice_files
    ADD CONSTRAINT invoice_files_pkey PRIMARY KEY (invoice_id, form);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_number UNIQUE (year, serial);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_one_of_month UNIQUE (org_id, currency, month);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.issuer_access_tokens
    ADD CONSTRAINT issuer_access_tokens_pkey PRIMARY KEY (jti);

ALTER TABLE ONLY public.issuer_accounts
    ADD CONSTRAINT issuer_accounts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.issuer_codes
    ADD CONSTRAINT issuer_codes_pkey PRIMARY KEY (code_hash);

ALTER TABLE ONLY public.issuer_device_codes
    ADD CONSTRAINT issuer_device_codes_pkey PRIMARY KEY (device_hash);

ALTER TABLE ONLY public.issuer_device_codes
    ADD CONSTRAINT issuer_device_codes_user_code_key UNIQUE (user_code);

ALTER TABLE ONLY public.issuer_families
    ADD CONSTRAINT issuer_families_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.issuer_key_marks
    ADD CONSTRAINT issuer_key_marks_pkey PRIMARY KEY (single);

ALTER TABLE ONLY public.issuer_login_attempts
    ADD CONSTRAINT issuer_login_attempts_pkey PRIMARY KEY (email_hash);

ALTER TABLE ONLY public.issuer_refresh_tokens
    ADD CONSTRAINT issuer_refresh_tokens_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.issuer_sessions
    ADD CONSTRAINT issuer_sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.issuer_sessions
    ADD CONSTRAINT issuer_sessions_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.ledger_accounts
    ADD CONSTRAINT ledger_accounts_one UNIQUE NULLS NOT DISTINCT (org_id, kind, currency, shard);

ALTER TABLE ONLY public.ledger_accounts
    ADD CONSTRAINT ledger_accounts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ledger_adjustments
    ADD CONSTRAINT ledger_adjustments_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (account_id, transaction_id);

ALTER TABLE ONLY public.ledger_holds
    ADD CONSTRAINT ledger_holds_key UNIQUE (key);

ALTER TABLE ONLY public.ledger_holds
    ADD CONSTRAINT ledger_holds_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ledger_keys
    ADD CONSTRAINT ledger_keys_pkey PRIMARY KEY (kind, key);

ALTER TABLE ONLY public.ledger_transactions
    ADD CONSTRAINT ledger_transactions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.login_states
    ADD CONSTRAINT login_states_pkey PRIMARY KEY (state_hash);

ALTER TABLE ONLY public.meter_causes
    ADD CONSTRAINT meter_causes_pkey PRIMARY KEY (meter_id, cause, from_at);

ALTER TABLE ONLY public.meter_pauses
    ADD CONSTRAINT meter_pauses_pkey PRIMARY KEY (meter_id, from_at);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_one_of_subject UNIQUE (subject_id);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.node_health
    ADD CONSTRAINT node_health_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.node_heartbeats
    ADD CONSTRAINT node_heartbeats_pkey PRIMARY KEY (node_id);

ALTER TABLE ONLY public.node_metrics
    ADD CONSTRAINT node_metrics_pkey PRIMARY KEY (node_id, at);

ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notification_preferences
    ADD CONSTRAINT notification_preferences_pkey PRIMARY KEY (user_id, kind);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_once UNIQUE (event_id, user_id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.org_members
    ADD CONSTRAINT org_members_pkey PRIMARY KEY (org_id, user_id);

ALTER TABLE ONLY public.orgs
    ADD CONSTRAINT orgs_personal_of_key UNIQUE (personal_of);

ALTER TABLE ONLY public.orgs
    ADD CONSTRAINT orgs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.orphans
    ADD CONSTRAINT orphans_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payment_customers
    ADD CONSTRAINT payment_customers_customer_id_key UNIQUE (customer_id);

ALTER TABLE ONLY public.payment_customers
    ADD CONSTRAINT payment_customers_pkey PRIMARY KEY (org_id);

ALTER TABLE ONLY public.payment_differences
    ADD CONSTRAINT payment_differences_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payment_effects
    ADD CONSTRAINT payment_effects_pkey PRIMARY KEY (object_id, effect);

ALTER TABLE ONLY public.payment_reconciliations
    ADD CONSTRAINT payment_reconciliations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payment_refunds
    ADD CONSTRAINT payment_refunds_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payment_refunds
    ADD CONSTRAINT payment_refunds_provider_refund_id_key UNIQUE (provider_refund_id);

ALTER TABLE ONLY public.payment_statement_sums
    ADD CONSTRAINT payment_statement_sums_pkey PRIMARY KEY (currency);

ALTER TABLE ONLY public.payment_statements
    ADD CONSTRAINT payment_statements_pkey PRIMARY KEY (object_id);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_asked_once UNIQUE (asked_key);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_intent_id_key UNIQUE (intent_id);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_session_id_key UNIQUE (session_id);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_transaction_id_key UNIQUE (transaction_id);

ALTER TABLE ONLY public.policy_overrides
    ADD CONSTRAINT policy_overrides_one_place UNIQUE NULLS NOT DISTINCT (key, org_id, project_id);

ALTER TABLE ONLY public.policy_revision
    ADD CONSTRAINT policy_revision_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY public.project_members
    ADD CONSTRAINT project_members_pkey PRIMARY KEY (project_id, user_id);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.rate_marks
    ADD CONSTRAINT rate_marks_pkey PRIMARY KEY (lane, subject);

ALTER TABLE ONLY public.refresh_claims
    ADD CONSTRAINT refresh_claims_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.revoked_credentials
    ADD CONSTRAINT revoked_credentials_pkey PRIMARY KEY (credential_id);

ALTER TABLE ONLY public.sanitisation_certificates
    ADD CONSTRAINT sanitisation_certificates_one UNIQUE (allocation_id, node_id);

ALTER TABLE ONLY public.sanitisation_certificates
    ADD CONSTRAINT sanitisation_certificates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_account_keys
    ADD CONSTRAINT service_account_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY public.service_account_keys
    ADD CONSTRAINT service_account_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_org_id_id_key UNIQUE (org_id, id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY public.sku_prices
    ADD CONSTRAINT sku_prices_one_from UNIQUE (sku_id, currency, valid_from);

ALTER TABLE ONLY public.sku_prices
    ADD CONSTRAINT sku_prices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.skus
    ADD CONSTRAINT skus_name_key UNIQUE (name);

ALTER TABLE ONLY public.skus
    ADD CONSTRAINT skus_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.slot_holds
    ADD CONSTRAINT slot_holds_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.slot_quarantines
    ADD CONSTRAINT slot_quarantines_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_one_serial UNIQUE (node_id, serial);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ssh_keys
    ADD CONSTRAINT ssh_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ssh_keys
    ADD CONSTRAINT ssh_keys_user_id_fingerprint_key UNIQUE (user_id, fingerprint);

ALTER TABLE ONLY public.standings
    ADD CONSTRAINT standings_pkey PRIMARY KEY (org_id, currency);

ALTER TABLE ONLY public.task_keys
    ADD CONSTRAINT task_keys_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY public.task_phases
    ADD CONSTRAINT task_phases_pkey PRIMARY KEY (task_id, at, name);

ALTER TABLE ONLY public.task_sequences
    ADD CONSTRAINT task_sequences_pkey PRIMARY KEY (node_id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_one_number UNIQUE (node_id, sequence);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (org_id, meter_id, id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_issuer_subject_key UNIQUE (issuer, subject);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_once UNIQUE (event_id);

ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX agent_artifacts_one_version ON public.agent_artifacts USING btree (version) WHERE (state = 'published'::text);

CREATE INDEX allocation_proofs_by_allocation ON public.allocation_proofs USING btree (allocation_id);

CREATE INDEX allocation_timeline_by_allocation ON public.allocation_timeline USING btree (allocation_id, at, id);

CREATE INDEX allocations_by_org ON public.allocations USING btree (org_id, id DESC);

CREATE INDEX allocations_by_project ON public.allocations USING btree (project_id, id DESC);

CREATE INDEX allocations_due ON public.allocations USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX allocations_live ON public.allocations USING btree (state, id) WHERE (state <> ALL (ARRAY['released'::text, 'failed'::text]));

CREATE INDEX allocations_live_by_org ON public.allocations USING btree (org_id, project_id) WHERE (state <> ALL (ARRAY['released'::text, 'failed'::text]));

CREATE UNIQUE INDEX allocations_one_name ON public.allocations USING btree (project_id, name) WHERE (state <> ALL (ARRAY['released'::text, 'failed'::text]));

CREATE INDEX allocations_waiting ON public.allocations USING btree (sku_id, id) WHERE (state = 'requested'::text);

CREATE INDEX audit_log_by_actor ON ONLY public.audit_log USING btree (actor_id, id DESC);

CREATE INDEX audit_log_by_org ON ONLY public.audit_log USING btree (org_id, id DESC);

CREATE INDEX audit_log_by_subject ON ONLY public.audit_log USING btree (subject_id, id DESC);

CREATE INDEX audit_seals_by_seq ON ONLY public.audit_seals USING btree (seq);

CREATE INDEX bootstrap_tokens_by_end ON public.bootstrap_tokens USING btree (expires_at);

CREATE UNIQUE INDEX bootstrap_tokens_one_open ON public.bootstrap_tokens USING btree (node_id) WHERE ((used_at IS NULL) AND (revoked_at IS NULL));

CREATE INDEX budgets_by_org ON public.budgets USING btree (org_id, id DESC);

CREATE UNIQUE INDEX certificate_authorities_one_signs ON public.certificate_authorities USING btree (kind) WHERE ((retired_at IS NULL) AND (kind <> 'cross'::text));

CREATE INDEX certificates_by_end ON public.certificates USING btree (not_after);

CREATE INDEX certificates_by_node ON public.certificates USING btree (node_id, id);

CREATE INDEX certificates_by_revocation ON public.certificates USING btree (revoked_at) WHERE (revoked_at IS NOT NULL);

CREATE UNIQUE INDEX data_keys_one_current ON public.data_keys USING btree ((true)) WHERE (retired_at IS NULL);

CREATE INDEX dead_letters_waiting ON public.dead_letters USING btree (id) WHERE (state = ANY (ARRAY['open'::text, 'replaying'::text]));

CREATE INDEX emails_failed ON public.emails USING btree (state_since) WHERE (state = 'failed'::text);

CREATE INDEX emails_open ON public.emails USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX emails_to_send ON public.emails USING btree (next_at) WHERE (state = 'queued'::text);

CREATE INDEX flow_runs_by_subject ON public.flow_runs USING btree (subject_id, id DESC);

CREATE INDEX flow_runs_next ON public.flow_runs USING btree (next_at) WHERE (state = ANY (ARRAY['forward'::text, 'undoing'::text]));

CREATE UNIQUE INDEX flow_runs_one_open ON public.flow_runs USING btree (subject_id, kind) WHERE (state = ANY (ARRAY['forward'::text, 'undoing'::text]));

CREATE UNIQUE INDEX gpu_quotas_one ON public.gpu_quotas USING btree (org_id, project_id, gpu_model) NULLS NOT DISTINCT;

CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at);

CREATE UNIQUE INDEX invitations_one_open ON public.invitations USING btree (org_id, lower(email)) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));

CREATE INDEX invoices_by_org ON public.invoices USING btree (org_id, id DESC);

CREATE INDEX issuer_access_tokens_by_age ON public.issuer_access_tokens USING btree (expires_at);

CREATE INDEX issuer_access_tokens_by_family ON public.issuer_access_tokens USING btree (family_id);

CREATE UNIQUE INDEX issuer_accounts_one_email ON public.issuer_accounts USING btree (lower(email));

CREATE INDEX issuer_codes_by_age ON public.issuer_codes USING btree (expires_at);

CREATE INDEX issuer_device_codes_by_age ON public.issuer_device_codes USING btree (expires_at);

CREATE INDEX issuer_families_by_account ON public.issuer_families USING btree (account_id) WHERE (ended_at IS NULL);

CREATE INDEX issuer_families_by_age ON public.issuer_families USING btree (expires_at);

CREATE INDEX issuer_families_by_session ON public.issuer_families USING btree (session_id) WHERE (ended_at IS NULL);

CREATE INDEX issuer_login_attempts_by_age ON public.issuer_login_attempts USING btree (last_at);

CREATE INDEX issuer_refresh_tokens_by_family ON public.issuer_refresh_tokens USING btree (family_id);

CREATE INDEX issuer_refresh_tokens_by_use ON public.issuer_refresh_tokens USING btree (used_at) WHERE (used_at IS NOT NULL);

CREATE INDEX issuer_sessions_by_account ON public.issuer_sessions USING btree (account_id) WHERE (ended_at IS NULL);

CREATE INDEX issuer_sessions_by_age ON public.issuer_sessions USING btree (expires_at);

CREATE INDEX ledger_adjustments_by_org ON public.ledger_adjustments USING btree (org_id, id DESC);

CREATE INDEX ledger_adjustments_due ON public.ledger_adjustments USING btree (due_at) WHERE (state = 'proposed'::text);

CREATE UNIQUE INDEX ledger_adjustments_one_reversal ON public.ledger_adjustments USING btree (reverses_id) WHERE ((reverses_id IS NOT NULL) AND (state = ANY (ARRAY['proposed'::text, 'posted'::text])));

CREATE INDEX ledger_entries_of ON ONLY public.ledger_entries USING hash (transaction_id);

CREATE INDEX ledger_holds_by_org ON public.ledger_holds USING btree (org_id, id DESC);

CREATE INDEX ledger_holds_by_subject ON public.ledger_holds USING btree (subject_id) WHERE (subject_id IS NOT NULL);

CREATE INDEX ledger_holds_due ON public.ledger_holds USING btree (due_at) WHERE (state = 'open'::text);

CREATE INDEX ledger_holds_open ON public.ledger_holds USING btree (account_id, due_at) WHERE (state = 'open'::text);

CREATE INDEX ledger_transactions_by_subject ON ONLY public.ledger_transactions USING btree (subject_id, id) WHERE (subject_id IS NOT NULL);

CREATE INDEX ledger_transactions_reversing ON ONLY public.ledger_transactions USING btree (reverses_id) WHERE (reverses_id IS NOT NULL);

CREATE UNIQUE INDEX meter_causes_one_open ON public.meter_causes USING btree (meter_id, cause) WHERE (until_at IS NULL);

CREATE UNIQUE INDEX meter_pauses_one_open ON public.meter_pauses USING btree (meter_id) WHERE (until_at IS NULL);

CREATE INDEX meters_by_org ON public.meters USING btree (org_id, id DESC);

CREATE INDEX meters_of_project ON public.meters USING btree (project_id, closed_at);

CREATE INDEX meters_unsettled ON public.meters USING btree (org_id, id) WHERE (settled_at IS NULL);

CREATE INDEX node_health_by_node ON ONLY public.node_health USING btree (node_id, id DESC);

CREATE INDEX nodes_by_labels ON public.nodes USING gin (labels jsonb_path_ops);

CREATE UNIQUE INDEX nodes_one_name ON public.nodes USING btree (name) WHERE (state <> 'removed'::text);

CREATE INDEX notifications_of_user ON public.notifications USING btree (user_id, id DESC);

CREATE INDEX notifications_unread ON public.notifications USING btree (user_id, id DESC) WHERE (read_at IS NULL);

CREATE INDEX org_members_by_user ON public.org_members USING btree (user_id);

CREATE UNIQUE INDEX orgs_one_name ON public.orgs USING btree (name) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX orphans_one_open ON public.orphans USING btree (node_id, kind, name) WHERE (ended_at IS NULL);

CREATE INDEX outbox_unpublished ON ONLY public.outbox USING btree (id) WHERE (published_at IS NULL);

CREATE UNIQUE INDEX payment_differences_open ON public.payment_differences USING btree (kind, object_id) WHERE (settled_at IS NULL);

CREATE INDEX payment_effects_of ON public.payment_effects USING btree (payment_id);

CREATE INDEX payment_refunds_by_org ON public.payment_refunds USING btree (org_id, id DESC);

CREATE INDEX payment_refunds_due ON public.payment_refunds USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX payment_refunds_of ON public.payment_refunds USING btree (payment_id);

CREATE INDEX payment_statements_seen ON public.payment_statements USING btree (seen_at);

CREATE INDEX payments_by_org ON public.payments USING btree (org_id, id DESC);

CREATE INDEX payments_due ON public.payments USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX policy_overrides_by_org ON public.policy_overrides USING btree (org_id) WHERE (org_id IS NOT NULL);

CREATE INDEX project_members_by_user ON public.project_members USING btree (user_id);

CREATE INDEX projects_by_org ON public.projects USING btree (org_id, id) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX projects_one_name ON public.projects USING btree (org_id, name) WHERE (deleted_at IS NULL);

CREATE INDEX rate_marks_by_age ON public.rate_marks USING btree (next_at);

CREATE INDEX revoked_credentials_by_end ON public.revoked_credentials USING btree (expires_at);

CREATE INDEX service_account_keys_by_account ON public.service_account_keys USING btree (service_account_id);

CREATE UNIQUE INDEX service_accounts_one_name ON public.service_accounts USING btree (org_id, name) WHERE (deleted_at IS NULL);

CREATE INDEX slot_holds_by_allocation ON public.slot_holds USING btree (allocation_id);

CREATE INDEX slot_holds_by_node ON public.slot_holds USING btree (node_id) WHERE (ended_at IS NULL);

CREATE INDEX slot_holds_by_org ON public.slot_holds USING btree (org_id, ended_at);

CREATE UNIQUE INDEX slot_holds_one_open ON public.slot_holds USING btree (slot_id) WHERE (ended_at IS NULL);

CREATE INDEX slot_quarantines_by_node ON public.slot_quarantines USING btree (node_id) WHERE (ended_at IS NULL);

CREATE INDEX slot_quarantines_by_serial ON public.slot_quarantines USING btree (serial);

CREATE UNIQUE INDEX slot_quarantines_one_open ON public.slot_quarantines USING btree (slot_id) WHERE (ended_at IS NULL);

CREATE INDEX slots_by_serial ON public.slots USING btree (serial);

CREATE INDEX slots_free ON public.slots USING btree (sku_id, node_id, gpu_index) WHERE (present AND (NOT held));

CREATE INDEX standings_watched ON public.standings USING btree (org_id, currency) WHERE (state <> 'good'::text);

CREATE UNIQUE INDEX task_keys_one_first ON public.task_keys USING btree ((true)) WHERE (statement IS NULL);

CREATE INDEX tasks_by_node ON public.tasks USING btree (node_id, id DESC);

CREATE INDEX tasks_by_subject ON public.tasks USING btree (subject_id, id DESC) WHERE (subject_id IS NOT NULL);

CREATE INDEX tasks_due ON public.tasks USING btree (due_at) WHERE (state = ANY (ARRAY['queued'::text, 'ready'::text, 'delivered'::text, 'running'::text]));

CREATE INDEX tasks_to_claim ON public.tasks USING btree (node_id, sequence) WHERE (state = ANY (ARRAY['ready'::text, 'delivered'::text, 'running'::text]));

CREATE INDEX tasks_to_sign ON public.tasks USING btree (node_id, born) WHERE (state = 'queued'::text);

CREATE INDEX users_by_email ON public.users USING btree (lower(email));

CREATE INDEX webhook_events_due ON public.webhook_events USING btree (due_at) WHERE (state = 'waiting'::text);

CREATE INDEX webhook_events_waiting ON public.webhook_events USING btree (intent_id) WHERE (state = 'waiting'::text);

CREATE OR REPLACE VIEW public.invariant_05_live_have_holds WITH (security_invoker='true') AS
 SELECT (a.id)::text AS subject,
    ((((('it is '::text || a.state) || ' and holds '::text) || count(h.id)) || ' slots of '::text) || (a.gpu_count * a.node_count)) AS problem
   FROM (public.allocations a
     LEFT JOIN public.slot_holds h ON (((h.allocation_id = a.id) AND (h.ended_at IS NULL))))
  WHERE (a.state = ANY (ARRAY['provisioning'::text, 'active'::text, 'stopping'::text, 'stopped'::text, 'starting'::text, 'releasing'::text, 'release_failed'::text]))
  GROUP BY a.id
 HAVING (count(h.id) <> (a.gpu_count * a.node_count))
UNION ALL
 SELECT (h.id)::text AS subject,
    ('a hold of an allocation that is '::text || a.state) AS problem
   FROM (public.slot_holds h
     JOIN public.allocations a ON ((a.id = h.allocation_id)))
  WHERE ((h.ended_at IS NULL) AND (a.state = ANY (ARRAY['requested'::text, 'released'::text, 'failed'::text])));

CREATE TRIGGER allocation_proofs_keep BEFORE DELETE OR UPDATE ON public.allocation_proofs FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER allocation_proofs_keep_all BEFORE TRUNCATE ON public.allocation_proofs FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER allocation_timeline_keep BEFORE DELETE OR UPDATE ON public.allocation_timeline FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER allocation_timeline_keep_all BEFORE TRUNCATE ON public.allocation_timeline FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_checkpoints_keep BEFORE DELETE OR UPDATE ON public.audit_checkpoints FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_checkpoints_keep_all BEFORE TRUNCATE ON public.audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_log_keep BEFORE DELETE OR UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_log_keep_all BEFORE TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_seals_keep BEFORE DELETE OR UPDATE ON public.audit_seals FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER audit_seals_keep_all BEFORE TRUNCATE ON public.audit_seals FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER invoice_files_keep BEFORE DELETE OR UPDATE ON public.invoice_files FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER invoice_files_keep_all BEFORE TRUNCATE ON public.invoice_files FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER invoices_keep BEFORE DELETE OR UPDATE ON public.invoices FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER invoices_keep_all BEFORE TRUNCATE ON public.invoices FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_accounts_keep BEFORE DELETE OR UPDATE ON public.ledger_accounts FOR EACH ROW EXECUTE FUNCTION public.ledger_account_stays();

CREATE TRIGGER ledger_accounts_keep_all BEFORE TRUNCATE ON public.ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_accounts_seal BEFORE INSERT ON public.ledger_accounts FOR EACH ROW EXECUTE FUNCTION public.ledger_account_sealed();

CREATE TRIGGER ledger_entries_keep BEFORE DELETE OR UPDATE ON public.ledger_entries FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_entries_keep_all BEFORE TRUNCATE ON public.ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_keys_keep BEFORE DELETE OR UPDATE ON public.ledger_keys FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_keys_keep_all BEFORE TRUNCATE ON public.ledger_keys FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_transactions_keep BEFORE DELETE OR UPDATE ON public.ledger_transactions FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER ledger_transactions_keep_all BEFORE TRUNCATE ON public.ledger_transactions FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER orgs_stay BEFORE UPDATE OF deleted_at ON public.orgs FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION public.org_stays();

CREATE TRIGGER payment_effects_keep BEFORE DELETE OR UPDATE ON public.payment_effects FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER payment_effects_keep_all BEFORE TRUNCATE ON public.payment_effects FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER policy_overrides_changed AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON public.policy_overrides FOR EACH STATEMENT EXECUTE FUNCTION public.policy_overrides_changed();

CREATE TRIGGER projects_stay BEFORE UPDATE OF deleted_at ON public.projects FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION public.project_stays();

CREATE TRIGGER sanitisation_certificates_keep BEFORE DELETE OR UPDATE ON public.sanitisation_certificates FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER sanitisation_certificates_keep_all BEFORE TRUNCATE ON public.sanitisation_certificates FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER sku_prices_keep BEFORE DELETE OR UPDATE ON public.sku_prices FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER sku_prices_keep_all BEFORE TRUNCATE ON public.sku_prices FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER slot_holds_follow AFTER INSERT OR UPDATE OF ended_at ON public.slot_holds FOR EACH ROW EXECUTE FUNCTION public.slot_held();

CREATE TRIGGER usage_keep BEFORE DELETE OR UPDATE ON public.usage FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

CREATE TRIGGER usage_keep_all BEFORE TRUNCATE ON public.usage FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE ONLY public.action_links
    ADD CONSTRAINT action_links_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.action_links
    ADD CONSTRAINT action_links_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.agent_artifact_parts
    ADD CONSTRAINT agent_artifact_parts_artifact_id_fkey FOREIGN KEY (artifact_id) REFERENCES public.agent_artifacts(id);

ALTER TABLE ONLY public.allocation_proofs
    ADD CONSTRAINT allocation_proofs_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES public.allocations(id);

ALTER TABLE ONLY public.allocation_proofs
    ADD CONSTRAINT allocation_proofs_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.allocation_timeline
    ADD CONSTRAINT allocation_timeline_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES public.allocations(id);

ALTER TABLE ONLY public.allocations
    ADD CONSTRAINT allocations_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.allocations
    ADD CONSTRAINT allocations_price_id_fkey FOREIGN KEY (price_id) REFERENCES public.sku_prices(id);

ALTER TABLE ONLY public.allocations
    ADD CONSTRAINT allocations_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.allocations
    ADD CONSTRAINT allocations_sku_id_fkey FOREIGN KEY (sku_id) REFERENCES public.skus(id);

ALTER TABLE ONLY public.budget_marks
    ADD CONSTRAINT budget_marks_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.budget_marks
    ADD CONSTRAINT budget_marks_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.budgets
    ADD CONSTRAINT budgets_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.budgets
    ADD CONSTRAINT budgets_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.certificate_authorities
    ADD CONSTRAINT certificate_authorities_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES public.certificate_authorities(id);

ALTER TABLE ONLY public.certificates
    ADD CONSTRAINT certificates_authority_id_fkey FOREIGN KEY (authority_id) REFERENCES public.certificate_authorities(id);

ALTER TABLE ONLY public.emails
    ADD CONSTRAINT emails_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.emails
    ADD CONSTRAINT emails_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.flow_attempts
    ADD CONSTRAINT flow_attempts_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.flow_runs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.gpu_faults
    ADD CONSTRAINT gpu_faults_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.gpu_quotas
    ADD CONSTRAINT gpu_quotas_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.gpu_quotas
    ADD CONSTRAINT gpu_quotas_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.invoice_files
    ADD CONSTRAINT invoice_files_invoice_id_fkey FOREIGN KEY (invoice_id) REFERENCES public.invoices(id);

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.issuer_access_tokens
    ADD CONSTRAINT issuer_access_tokens_family_id_fkey FOREIGN KEY (family_id) REFERENCES public.issuer_families(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.issuer_codes
    ADD CONSTRAINT issuer_codes_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.issuer_accounts(id);

ALTER TABLE ONLY public.issuer_device_codes
    ADD CONSTRAINT issuer_device_codes_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.issuer_accounts(id);

ALTER TABLE ONLY public.issuer_families
    ADD CONSTRAINT issuer_families_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.issuer_accounts(id);

ALTER TABLE ONLY public.issuer_refresh_tokens
    ADD CONSTRAINT issuer_refresh_tokens_family_id_fkey FOREIGN KEY (family_id) REFERENCES public.issuer_families(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.issuer_sessions
    ADD CONSTRAINT issuer_sessions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.issuer_accounts(id);

ALTER TABLE ONLY public.ledger_accounts
    ADD CONSTRAINT ledger_accounts_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.ledger_adjustments
    ADD CONSTRAINT ledger_adjustments_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.ledger_holds
    ADD CONSTRAINT ledger_holds_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.ledger_accounts(id);

ALTER TABLE ONLY public.meter_causes
    ADD CONSTRAINT meter_causes_meter_id_fkey FOREIGN KEY (meter_id) REFERENCES public.meters(id);

ALTER TABLE ONLY public.meter_pauses
    ADD CONSTRAINT meter_pauses_meter_id_fkey FOREIGN KEY (meter_id) REFERENCES public.meters(id);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_price_id_fkey FOREIGN KEY (price_id) REFERENCES public.sku_prices(id);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id);

ALTER TABLE ONLY public.meters
    ADD CONSTRAINT meters_sku_id_fkey FOREIGN KEY (sku_id) REFERENCES public.skus(id);

ALTER TABLE public.node_health
    ADD CONSTRAINT node_health_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.node_heartbeats
    ADD CONSTRAINT node_heartbeats_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE public.node_metrics
    ADD CONSTRAINT node_metrics_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.notification_preferences
    ADD CONSTRAINT notification_preferences_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.notifications
    ADD CONSTRAINT notifications_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.org_members
    ADD CONSTRAINT org_members_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.org_members
    ADD CONSTRAINT org_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.orgs
    ADD CONSTRAINT orgs_personal_of_fkey FOREIGN KEY (personal_of) REFERENCES public.users(id);

ALTER TABLE ONLY public.orphans
    ADD CONSTRAINT orphans_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.payment_customers
    ADD CONSTRAINT payment_customers_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.payment_effects
    ADD CONSTRAINT payment_effects_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.payment_effects
    ADD CONSTRAINT payment_effects_payment_id_fkey FOREIGN KEY (payment_id) REFERENCES public.payments(id);

ALTER TABLE ONLY public.payment_refunds
    ADD CONSTRAINT payment_refunds_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.payment_refunds
    ADD CONSTRAINT payment_refunds_payment_id_fkey FOREIGN KEY (payment_id) REFERENCES public.payments(id);

ALTER TABLE ONLY public.payments
    ADD CONSTRAINT payments_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.policy_overrides
    ADD CONSTRAINT policy_overrides_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.policy_overrides
    ADD CONSTRAINT policy_overrides_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.projects(org_id, id);

ALTER TABLE ONLY public.project_members
    ADD CONSTRAINT project_members_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.projects(org_id, id);

ALTER TABLE ONLY public.project_members
    ADD CONSTRAINT project_members_org_id_user_id_fkey FOREIGN KEY (org_id, user_id) REFERENCES public.org_members(org_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_members
    ADD CONSTRAINT project_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.sanitisation_certificates
    ADD CONSTRAINT sanitisation_certificates_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES public.allocations(id);

ALTER TABLE ONLY public.sanitisation_certificates
    ADD CONSTRAINT sanitisation_certificates_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.service_account_keys
    ADD CONSTRAINT service_account_keys_org_id_service_account_id_fkey FOREIGN KEY (org_id, service_account_id) REFERENCES public.service_accounts(org_id, id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.service_accounts
    ADD CONSTRAINT service_accounts_org_id_project_id_fkey FOREIGN KEY (org_id, project_id) REFERENCES public.projects(org_id, id);

ALTER TABLE ONLY public.sku_prices
    ADD CONSTRAINT sku_prices_sku_id_fkey FOREIGN KEY (sku_id) REFERENCES public.skus(id);

ALTER TABLE ONLY public.slot_holds
    ADD CONSTRAINT slot_holds_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES public.allocations(id);

ALTER TABLE ONLY public.slot_holds
    ADD CONSTRAINT slot_holds_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.slot_holds
    ADD CONSTRAINT slot_holds_slot_id_fkey FOREIGN KEY (slot_id) REFERENCES public.slots(id);

ALTER TABLE ONLY public.slot_quarantines
    ADD CONSTRAINT slot_quarantines_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_sku_id_fkey FOREIGN KEY (sku_id) REFERENCES public.skus(id);

ALTER TABLE ONLY public.ssh_keys
    ADD CONSTRAINT ssh_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.standings
    ADD CONSTRAINT standings_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.orgs(id);

ALTER TABLE ONLY public.task_phases
    ADD CONSTRAINT task_phases_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_sequences
    ADD CONSTRAINT task_sequences_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_key_id_fkey FOREIGN KEY (key_id) REFERENCES public.task_keys(key_id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_node_id_fkey FOREIGN KEY (node_id) REFERENCES public.nodes(id);

ALTER TABLE public.action_links ENABLE ROW LEVEL SECURITY;

CREATE POLICY action_links_tenant ON public.action_links USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.allocation_proofs ENABLE ROW LEVEL SECURITY;

CREATE POLICY allocation_proofs_tenant ON public.allocation_proofs USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.allocation_timeline ENABLE ROW LEVEL SECURITY;

CREATE POLICY allocation_timeline_tenant ON public.allocation_timeline USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.allocations ENABLE ROW LEVEL SECURITY;

CREATE POLICY allocations_tenant ON public.allocations USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.audit_log ENABLE ROW LEVEL SECURITY;

CREATE POLICY audit_log_insert ON public.audit_log FOR INSERT WITH CHECK (((org_id IS NULL) OR public.visible_org(org_id)));

CREATE POLICY audit_log_read ON public.audit_log FOR SELECT USING ((public.is_platform() OR public.visible_org(org_id)));

ALTER TABLE public.budget_marks ENABLE ROW LEVEL SECURITY;

CREATE POLICY budget_marks_tenant ON public.budget_marks USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.budgets ENABLE ROW LEVEL SECURITY;

CREATE POLICY budgets_tenant ON public.budgets USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.emails ENABLE ROW LEVEL SECURITY;

CREATE POLICY emails_own ON public.emails USING (public.visible_actor(user_id)) WITH CHECK (public.visible_actor(user_id));

ALTER TABLE public.flow_runs ENABLE ROW LEVEL SECURITY;

CREATE POLICY flow_runs_ended ON public.flow_runs AS RESTRICTIVE FOR DELETE USING ((ended_at IS NOT NULL));

CREATE POLICY flow_runs_tenant ON public.flow_runs USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.gpu_quotas ENABLE ROW LEVEL SECURITY;

CREATE POLICY gpu_quotas_tenant ON public.gpu_quotas USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.idempotency_keys ENABLE ROW LEVEL SECURITY;

CREATE POLICY idempotency_keys_own ON public.idempotency_keys USING (public.visible_actor(actor_id)) WITH CHECK (public.visible_actor(actor_id));

ALTER TABLE public.invitations ENABLE ROW LEVEL SECURITY;

CREATE POLICY invitations_tenant ON public.invitations USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.invoice_files ENABLE ROW LEVEL SECURITY;

CREATE POLICY invoice_files_tenant ON public.invoice_files USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.invoices ENABLE ROW LEVEL SECURITY;

CREATE POLICY invoices_tenant ON public.invoices USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.ledger_accounts ENABLE ROW LEVEL SECURITY;

CREATE POLICY ledger_accounts_post ON public.ledger_accounts TO gpuaas_owner USING (true) WITH CHECK (true);

CREATE POLICY ledger_accounts_read ON public.ledger_accounts FOR SELECT USING (public.visible_org(org_id));

ALTER TABLE public.ledger_adjustments ENABLE ROW LEVEL SECURITY;

CREATE POLICY ledger_adjustments_own ON public.ledger_adjustments USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.ledger_entries ENABLE ROW LEVEL SECURITY;

CREATE POLICY ledger_entries_post ON public.ledger_entries TO gpuaas_owner USING (true) WITH CHECK (true);

CREATE POLICY ledger_entries_read ON public.ledger_entries FOR SELECT USING (public.visible_org(org_id));

ALTER TABLE public.ledger_holds ENABLE ROW LEVEL SECURITY;

CREATE POLICY ledger_holds_post ON public.ledger_holds TO gpuaas_owner USING (true) WITH CHECK (true);

CREATE POLICY ledger_holds_read ON public.ledger_holds FOR SELECT USING (public.visible_org(org_id));

ALTER TABLE public.ledger_transactions ENABLE ROW LEVEL SECURITY;

CREATE POLICY ledger_transactions_post ON public.ledger_transactions TO gpuaas_owner USING (true) WITH CHECK (true);

CREATE POLICY ledger_transactions_read ON public.ledger_transactions FOR SELECT USING (public.visible_org(org_id));

ALTER TABLE public.meter_causes ENABLE ROW LEVEL SECURITY;

CREATE POLICY meter_causes_tenant ON public.meter_causes USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.meter_pauses ENABLE ROW LEVEL SECURITY;

CREATE POLICY meter_pauses_tenant ON public.meter_pauses USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.meters ENABLE ROW LEVEL SECURITY;

CREATE POLICY meters_tenant ON public.meters USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.notification_preferences ENABLE ROW LEVEL SECURITY;

CREATE POLICY notification_preferences_own ON public.notification_preferences USING (public.visible_actor(user_id)) WITH CHECK (public.visible_actor(user_id));

ALTER TABLE public.notifications ENABLE ROW LEVEL SECURITY;

CREATE POLICY notifications_own ON public.notifications USING (public.visible_actor(user_id)) WITH CHECK (public.visible_actor(user_id));

ALTER TABLE public.org_members ENABLE ROW LEVEL SECURITY;

CREATE POLICY org_members_change ON public.org_members FOR UPDATE USING (public.visible_org(org_id));

CREATE POLICY org_members_read ON public.org_members FOR SELECT USING ((public.visible_org(org_id) OR public.visible_actor(user_id)));

CREATE POLICY org_members_remove ON public.org_members FOR DELETE USING (public.visible_org(org_id));

CREATE POLICY org_members_write ON public.org_members FOR INSERT WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.orgs ENABLE ROW LEVEL SECURITY;

CREATE POLICY orgs_change ON public.orgs FOR UPDATE USING (public.visible_org(id));

CREATE POLICY orgs_read ON public.orgs FOR SELECT USING ((public.visible_org(id) OR (EXISTS ( SELECT
   FROM public.org_members m
  WHERE ((m.org_id = orgs.id) AND public.visible_actor(m.user_id))))));

CREATE POLICY orgs_write ON public.orgs FOR INSERT WITH CHECK (public.visible_org(id));

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

CREATE POLICY outbox_insert ON public.outbox FOR INSERT WITH CHECK (((org_id IS NULL) OR public.visible_org(org_id)));

CREATE POLICY outbox_publish ON public.outbox FOR UPDATE USING (public.is_platform());

CREATE POLICY outbox_read ON public.outbox FOR SELECT USING ((public.is_platform() OR public.visible_org(org_id)));

ALTER TABLE public.payment_customers ENABLE ROW LEVEL SECURITY;

CREATE POLICY payment_customers_own ON public.payment_customers USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.payment_effects ENABLE ROW LEVEL SECURITY;

CREATE POLICY payment_effects_own ON public.payment_effects USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.payment_refunds ENABLE ROW LEVEL SECURITY;

CREATE POLICY payment_refunds_own ON public.payment_refunds USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.payments ENABLE ROW LEVEL SECURITY;

CREATE POLICY payments_own ON public.payments USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.policy_overrides ENABLE ROW LEVEL SECURITY;

CREATE POLICY policy_overrides_delete ON public.policy_overrides FOR DELETE USING (public.visible_org(org_id));

CREATE POLICY policy_overrides_insert ON public.policy_overrides FOR INSERT WITH CHECK (public.visible_org(org_id));

CREATE POLICY policy_overrides_read ON public.policy_overrides FOR SELECT USING (((org_id IS NULL) OR public.visible_org(org_id)));

CREATE POLICY policy_overrides_update ON public.policy_overrides FOR UPDATE USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.project_members ENABLE ROW LEVEL SECURITY;

CREATE POLICY project_members_own ON public.project_members FOR SELECT USING (public.visible_actor(user_id));

CREATE POLICY project_members_tenant ON public.project_members USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.projects ENABLE ROW LEVEL SECURITY;

CREATE POLICY projects_joined ON public.projects FOR SELECT USING ((EXISTS ( SELECT
   FROM public.project_members m
  WHERE ((m.project_id = projects.id) AND public.visible_actor(m.user_id)))));

CREATE POLICY projects_tenant ON public.projects USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.sanitisation_certificates ENABLE ROW LEVEL SECURITY;

CREATE POLICY sanitisation_certificates_tenant ON public.sanitisation_certificates USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.service_account_keys ENABLE ROW LEVEL SECURITY;

CREATE POLICY service_account_keys_tenant ON public.service_account_keys USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.service_accounts ENABLE ROW LEVEL SECURITY;

CREATE POLICY service_accounts_tenant ON public.service_accounts USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.slot_holds ENABLE ROW LEVEL SECURITY;

CREATE POLICY slot_holds_tenant ON public.slot_holds USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.ssh_keys ENABLE ROW LEVEL SECURITY;

CREATE POLICY ssh_keys_own ON public.ssh_keys USING (public.visible_actor(user_id)) WITH CHECK (public.visible_actor(user_id));

ALTER TABLE public.standings ENABLE ROW LEVEL SECURITY;

CREATE POLICY standings_tenant ON public.standings USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.usage ENABLE ROW LEVEL SECURITY;

CREATE POLICY usage_tenant ON public.usage USING (public.visible_org(org_id)) WITH CHECK (public.visible_org(org_id));

ALTER TABLE public.users ENABLE ROW LEVEL SECURITY;

CREATE POLICY users_change ON public.users FOR UPDATE USING (public.visible_actor(id));

CREATE POLICY users_visible ON public.users FOR SELECT USING ((public.visible_actor(id) OR (EXISTS ( SELECT
   FROM public.org_members m
  WHERE (m.user_id = users.id)))));

CREATE POLICY users_write ON public.users FOR INSERT WITH CHECK (public.visible_actor(id));

REVOKE ALL ON FUNCTION public.ensure_metric_days(first timestamp with time zone, days integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ensure_metric_days(first timestamp with time zone, days integer) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ensure_partitions(parent text, key_from timestamp with time zone, months integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ensure_partitions(parent text, key_from timestamp with time zone, months integer) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_account(org uuid, wanted_kind text, wanted_currency text, wanted_shard smallint) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_account_sealed() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_account_stays() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_available(org uuid, wanted_currency text) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_body(id uuid, at timestamp with time zone, kind text, key text, org_id uuid, currency text, subject_id uuid, reason text, reverses_id uuid, actor text, correlation_id text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_body(id uuid, at timestamp with time zone, kind text, key text, org_id uuid, currency text, subject_id uuid, reason text, reverses_id uuid, actor text, correlation_id text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_enter(org uuid) FROM PUBLIC;

GRANT SELECT ON TABLE public.ledger_accounts TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_floor_set(org uuid, wanted_currency text, lowest bigint) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_floor_set(org uuid, wanted_currency text, lowest bigint) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_hash(before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_hash(before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint) TO gpuaas_app;

GRANT SELECT ON TABLE public.ledger_entries TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_head(account uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_head(account uuid) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_head_before(account uuid, bound uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_head_before(account uuid, bound uuid) TO gpuaas_app;

GRANT SELECT ON TABLE public.ledger_holds TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_held(account uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_held(account uuid) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_hold_capture(hold uuid, posted_kind text, posted_key text, amount bigint, counter text, last boolean, why text, who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_hold_capture(hold uuid, posted_kind text, posted_key text, amount bigint, counter text, last boolean, why text, who text, correlation text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_hold_extend(hold uuid, amount bigint, until timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_hold_extend(hold uuid, amount bigint, until timestamp with time zone) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_hold_open(hold uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_hold_refuse(hold public.ledger_holds) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_hold_take(hold uuid, hold_key text, org uuid, hold_currency text, amount bigint, subject uuid, why text, until timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_hold_take(hold uuid, hold_key text, org uuid, hold_currency text, amount bigint, subject uuid, why text, until timestamp with time zone) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_hold_void(hold uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_hold_void(hold uuid) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_holds_expire(most integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_holds_expire(most integer) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_leg(org uuid, leg_kind text, leg_currency text, free_shard smallint) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_link(so_far bytea, before bytea, body bytea, account_id uuid, number bigint, amount bigint, balance bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_post(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[], amounts bigint[], subject uuid, why text, reverses uuid, who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_post(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[], amounts bigint[], subject uuid, why text, reverses uuid, who text, correlation text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_post_many(posted_kind text, posted_currency text, counter text, orgs uuid[], keys text[], amounts bigint[], subjects uuid[], reasons text[], who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_post_many(posted_kind text, posted_currency text, counter text, orgs uuid[], keys text[], amounts bigint[], subjects uuid[], reasons text[], who text, correlation text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_replay(posted_kind text, posted_key text, org uuid, posted_currency text, legs text[], amounts bigint[], reverses uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_reverse(reversed uuid, why text, who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_reverse(reversed uuid, why text, who text, correlation text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_seal(account public.ledger_accounts) FROM PUBLIC;

GRANT ALL ON FUNCTION public.ledger_seal(account public.ledger_accounts) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.ledger_shard() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_shift(newest uuid, mine uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.ledger_words(kind text, key text, reason text, actor text, correlation_id text) FROM PUBLIC;

GRANT SELECT ON TABLE public.meters TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_close(subject uuid, at timestamp with time zone, why text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.meter_close(subject uuid, at timestamp with time zone, why text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_enter(subject uuid) FROM PUBLIC;

GRANT SELECT ON TABLE public.meter_pauses TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_open(meter uuid, org uuid, project uuid, subject uuid, sku uuid, gpu_number integer, price uuid, rate bigint, of_currency text, by_name text, by_id uuid, at timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.meter_open(meter uuid, org uuid, project uuid, subject uuid, sku uuid, gpu_number integer, price uuid, rate bigint, of_currency text, by_name text, by_id uuid, at timestamp with time zone) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_pause(subject uuid, at timestamp with time zone, why text, because text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.meter_pause(subject uuid, at timestamp with time zone, why text, because text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_pause_later(subject uuid, by_seconds bigint) FROM PUBLIC;

GRANT ALL ON FUNCTION public.meter_pause_later(subject uuid, by_seconds bigint) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_resume(subject uuid, at timestamp with time zone, because text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.meter_resume(subject uuid, at timestamp with time zone, because text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.meter_stand(known public.meters) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.org_stays() FROM PUBLIC;

GRANT SELECT,INSERT ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(session_id) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(intent_id) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(url) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(refunded_micros) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(disputed_micros) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(dispute) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(failure) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(transaction_id) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(paid_at) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(taken_micros) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(taken_currency) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(taken_session) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(taken_intent) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(accept_by) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(accept_by_id) ON TABLE public.payments TO gpuaas_app;

GRANT UPDATE(accept_reason) ON TABLE public.payments TO gpuaas_app;

REVOKE ALL ON FUNCTION public.payment_accept(accepted uuid, posted uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.payment_accept(accepted uuid, posted uuid) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.prune_metric_days(before timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.prune_metric_days(before timestamp with time zone) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.prune_partitions(parent text, before timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.prune_partitions(parent text, before timestamp with time zone) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.queue_line(sku uuid, half_life_seconds double precision, longest integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.queue_line(sku uuid, half_life_seconds double precision, longest integer) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.queue_waits(sku uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.queue_waits(sku uuid) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.sku_leases(sku uuid, longest integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.sku_leases(sku uuid, longest integer) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.slot_held() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.slots_claim(claimant uuid, of_org uuid, wanted uuid[], needed integer, lease_seconds integer, patient boolean) FROM PUBLIC;

GRANT ALL ON FUNCTION public.slots_claim(claimant uuid, of_org uuid, wanted uuid[], needed integer, lease_seconds integer, patient boolean) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.usage_accrue(after_org uuid, after_meter uuid, most integer, billed_before timestamp with time zone, who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.usage_accrue(after_org uuid, after_meter uuid, most integer, billed_before timestamp with time zone, who text, correlation text) TO gpuaas_app;

REVOKE ALL ON FUNCTION public.usage_id(of_transaction uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.usage_post(after_org uuid, after_meter uuid, most integer, of_meter uuid, billed_before timestamp with time zone, now_at timestamp with time zone, who text, correlation text) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.usage_settle(subject uuid, who text, correlation text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.usage_settle(subject uuid, who text, correlation text) TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.action_links TO gpuaas_app;

GRANT UPDATE(used_at) ON TABLE public.action_links TO gpuaas_app;

GRANT UPDATE(outcome) ON TABLE public.action_links TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.agent_artifact_parts TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.agent_artifacts TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.allocation_proofs TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.allocation_timeline TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.allocations TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.audit_checkpoints TO gpuaas_app;

GRANT SELECT ON TABLE public.audit_head TO gpuaas_app;

GRANT UPDATE(seq) ON TABLE public.audit_head TO gpuaas_app;

GRANT UPDATE(hash) ON TABLE public.audit_head TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.audit_log TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.audit_seals TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.audit_unsealed TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.bootstrap_tokens TO gpuaas_app;

GRANT UPDATE(used_at) ON TABLE public.bootstrap_tokens TO gpuaas_app;

GRANT UPDATE(revoked_at) ON TABLE public.bootstrap_tokens TO gpuaas_app;

GRANT UPDATE(certificate_id) ON TABLE public.bootstrap_tokens TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.budget_marks TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.budgets TO gpuaas_app;

GRANT UPDATE(soft_micros) ON TABLE public.budgets TO gpuaas_app;

GRANT UPDATE(hard_micros) ON TABLE public.budgets TO gpuaas_app;

GRANT UPDATE(set_by) ON TABLE public.budgets TO gpuaas_app;

GRANT UPDATE(set_at) ON TABLE public.budgets TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.certificate_authorities TO gpuaas_app;

GRANT UPDATE(retired_at) ON TABLE public.certificate_authorities TO gpuaas_app;

GRANT UPDATE(distrusted_at) ON TABLE public.certificate_authorities TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.certificates TO gpuaas_app;

GRANT UPDATE(used_at) ON TABLE public.certificates TO gpuaas_app;

GRANT UPDATE(superseded_at) ON TABLE public.certificates TO gpuaas_app;

GRANT UPDATE(revoked_at) ON TABLE public.certificates TO gpuaas_app;

GRANT UPDATE(revoked_reason) ON TABLE public.certificates TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.consumer_progress TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.data_keys TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.dead_letters TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.delivery_attempts TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(next_at) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(lease_until) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(attempts) ON TABLE public.emails TO gpuaas_app;

GRANT UPDATE(last_error) ON TABLE public.emails TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.flow_attempts TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.flow_runs TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.gpu_faults TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.gpu_quotas TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.idempotency_keys TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.inbox TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_01_balance_is_sum TO gpuaas_app;

GRANT SELECT ON TABLE public.ledger_keys TO gpuaas_app;

GRANT SELECT ON TABLE public.ledger_transactions TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_02_one_key_one_transaction TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_02_transactions_balance TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_03_floors TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_03_reversed_once TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.slot_holds TO gpuaas_app;

GRANT SELECT ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(id) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(node_id) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(serial) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(gpu_index),UPDATE(gpu_index) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(address),UPDATE(address) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(vendor),UPDATE(vendor) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(model),UPDATE(model) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(memory_bytes),UPDATE(memory_bytes) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(numa),UPDATE(numa) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(iommu_group),UPDATE(iommu_group) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(nvme_address),UPDATE(nvme_address) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(fabric_address),UPDATE(fabric_address) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(present),UPDATE(present) ON TABLE public.slots TO gpuaas_app;

GRANT UPDATE(last_seen_at) ON TABLE public.slots TO gpuaas_app;

GRANT INSERT(sku_id) ON TABLE public.slots TO gpuaas_app;

GRANT UPDATE(dirty) ON TABLE public.slots TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_04_one_holder TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_05_deposits_of_live TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_05_live_have_holds TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_06_active_is_proven TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_07_active_is_metered TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.sku_prices TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_07_billed_is_usable TO gpuaas_app;

GRANT SELECT ON TABLE public.usage TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_07_none_twice TO gpuaas_app;

GRANT SELECT ON TABLE public.meter_causes TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_07_pauses_apart TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_08_usage_is_posted TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.sanitisation_certificates TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_09_released_is_clean TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_10_cleaning_ends TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.outbox TO gpuaas_app;

GRANT UPDATE(published_at) ON TABLE public.outbox TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_11_inbox_complete TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_11_outbox_drains TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_12_one_outcome TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_13_flows_go_on TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(decided_by) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(decided_by_id) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(decision) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT UPDATE(transaction_id) ON TABLE public.ledger_adjustments TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_adjustments_end TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_allocations_move TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_artifacts_move TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_dead_letters_move TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_emails_end TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_flows_move TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_holds_end TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(failure) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(decided_by) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(decided_by_id) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(decision) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(hold_id) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(provider_refund_id) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT UPDATE(transaction_id) ON TABLE public.payment_refunds TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.webhook_events TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.webhook_events TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.webhook_events TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.webhook_events TO gpuaas_app;

GRANT UPDATE(intent_id) ON TABLE public.webhook_events TO gpuaas_app;

GRANT UPDATE(detail) ON TABLE public.webhook_events TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_payments_move TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(due_at) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(counting_since) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(told) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(entered_micros) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(paused_until) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(paused_by) ON TABLE public.standings TO gpuaas_app;

GRANT UPDATE(pause_reason) ON TABLE public.standings TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_standings_move TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.tasks TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_14_tasks_move TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_15_one_result TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.task_sequences TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_15_task_sequence TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.payment_effects TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_16_one_effect TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_19_audit_chain TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_20_certificates_signed_while_valid TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.signing_keys TO gpuaas_app;

GRANT UPDATE(signs_until) ON TABLE public.signing_keys TO gpuaas_app;

GRANT UPDATE(valid_until) ON TABLE public.signing_keys TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_20_signed_while_valid TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.task_keys TO gpuaas_app;

GRANT UPDATE(valid_until) ON TABLE public.task_keys TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_20_tasks_signed_while_valid TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.orphans TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_21_books_are_real TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.org_members TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.orgs TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_30_org_has_owner TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.projects TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_31_deleted_orgs_are_empty TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.project_members TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_32_project_members_belong TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.service_account_keys TO gpuaas_app;

GRANT UPDATE(expires_at) ON TABLE public.service_account_keys TO gpuaas_app;

GRANT UPDATE(revoked_at) ON TABLE public.service_account_keys TO gpuaas_app;

GRANT UPDATE(last_used_at) ON TABLE public.service_account_keys TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.service_accounts TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_33_no_orphaned_keys TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_34_ledger_months_ahead TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_34_months_ahead TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_34_usage_months_ahead TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_35_token_used_once TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.node_heartbeats TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.nodes TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_36_live_nodes_speak TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.slot_quarantines TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_37_one_gpu_one_node TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_37_slots_of_nodes TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_38_standing_is_balance TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.invoices TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_39_invoices_are_the_ledger TO gpuaas_app;

GRANT SELECT ON TABLE public.invariant_39_invoices_have_no_gaps TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.invitations TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.invoice_files TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_access_tokens TO gpuaas_app;

GRANT UPDATE(revoked_at) ON TABLE public.issuer_access_tokens TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.issuer_accounts TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_codes TO gpuaas_app;

GRANT UPDATE(used_at) ON TABLE public.issuer_codes TO gpuaas_app;

GRANT UPDATE(family_id) ON TABLE public.issuer_codes TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(state_since) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(interval_seconds) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(polled_at) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(account_id) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(session_id) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(auth_time) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT UPDATE(family_id) ON TABLE public.issuer_device_codes TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_families TO gpuaas_app;

GRANT UPDATE(expires_at) ON TABLE public.issuer_families TO gpuaas_app;

GRANT UPDATE(ended_at) ON TABLE public.issuer_families TO gpuaas_app;

GRANT UPDATE(end_reason) ON TABLE public.issuer_families TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.issuer_key_marks TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.issuer_login_attempts TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_refresh_tokens TO gpuaas_app;

GRANT UPDATE(used_at) ON TABLE public.issuer_refresh_tokens TO gpuaas_app;

GRANT UPDATE(successor) ON TABLE public.issuer_refresh_tokens TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.issuer_sessions TO gpuaas_app;

GRANT UPDATE(token_hash) ON TABLE public.issuer_sessions TO gpuaas_app;

GRANT UPDATE(auth_time) ON TABLE public.issuer_sessions TO gpuaas_app;

GRANT UPDATE(expires_at) ON TABLE public.issuer_sessions TO gpuaas_app;

GRANT UPDATE(ended_at) ON TABLE public.issuer_sessions TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.login_states TO gpuaas_app;

GRANT SELECT ON TABLE public.meter_burn TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.node_health TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.node_metrics TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.notification_preferences TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.notifications TO gpuaas_app;

GRANT UPDATE(read_at) ON TABLE public.notifications TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.payment_customers TO gpuaas_app;

GRANT UPDATE(customer_id) ON TABLE public.payment_customers TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.payment_differences TO gpuaas_app;

GRANT UPDATE(ours_micros) ON TABLE public.payment_differences TO gpuaas_app;

GRANT UPDATE(theirs_micros) ON TABLE public.payment_differences TO gpuaas_app;

GRANT UPDATE(detail) ON TABLE public.payment_differences TO gpuaas_app;

GRANT UPDATE(seen_at) ON TABLE public.payment_differences TO gpuaas_app;

GRANT UPDATE(settled_at) ON TABLE public.payment_differences TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.payment_reconciliations TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.payment_statement_sums TO gpuaas_app;

GRANT UPDATE(amount_micros) ON TABLE public.payment_statement_sums TO gpuaas_app;

GRANT UPDATE(objects) ON TABLE public.payment_statement_sums TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.payment_statements TO gpuaas_app;

GRANT UPDATE(payment_id) ON TABLE public.payment_statements TO gpuaas_app;

GRANT UPDATE(amount_micros) ON TABLE public.payment_statements TO gpuaas_app;

GRANT UPDATE(seen_at) ON TABLE public.payment_statements TO gpuaas_app;

GRANT SELECT ON TABLE public.payment_sides TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.policy_overrides TO gpuaas_app;

GRANT SELECT,UPDATE ON TABLE public.policy_revision TO gpuaas_app;

GRANT SELECT ON TABLE public.proof_allocations TO gpuaas_app;

GRANT SELECT ON TABLE public.proof_clearing TO gpuaas_app;

GRANT SELECT ON TABLE public.proof_meters TO gpuaas_app;

GRANT SELECT ON TABLE public.proof_payments TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.rate_marks TO gpuaas_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.refresh_claims TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.revoked_credentials TO gpuaas_app;

GRANT UPDATE(expires_at) ON TABLE public.revoked_credentials TO gpuaas_app;

GRANT SELECT ON TABLE public.sellable_nodes TO gpuaas_app;

GRANT SELECT,INSERT ON TABLE public.skus TO gpuaas_app;

GRANT UPDATE(title) ON TABLE public.skus TO gpuaas_app;

GRANT UPDATE(allowed_gpu_counts) ON TABLE public.skus TO gpuaas_app;

GRANT UPDATE(whole_node_only) ON TABLE public.skus TO gpuaas_app;

GRANT UPDATE(state) ON TABLE public.skus TO gpuaas_app;

GRANT SELECT ON TABLE public.slots_in_use TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.ssh_keys TO gpuaas_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.task_phases TO gpuaas_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.users TO gpuaas_app;
