-- Metering: from when to when something was usable, what that costs, and what of it was posted to the ledger.
--
-- What a meter owes is a function of its price and of its usable seconds. Each pass posts what is owed less what was
-- billed, so it does not matter when passes come, how often, or which of them died. An organisation's turn at the ledger
-- is also the turn at its meters: whoever changes or charges them has it, so nothing is billed twice.
--
-- Only the functions below write. They run as the tables' owner; the programs' role may read and call them.

CREATE TABLE meters (
    id              uuid PRIMARY KEY,
    org_id          uuid NOT NULL REFERENCES orgs,
    project_id      uuid NOT NULL REFERENCES projects,
    subject_id      uuid NOT NULL,
    sku_id          uuid NOT NULL REFERENCES skus,
    gpus            integer NOT NULL CHECK (gpus BETWEEN 1 AND 4096),
    price_id        uuid NOT NULL REFERENCES sku_prices,
    -- for all GPUs; a hundred million an hour, so that ten years of it are still a number
    micros_per_hour bigint NOT NULL CHECK (micros_per_hour BETWEEN 0 AND 100000000000000),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    asked_by        text NOT NULL CHECK (length(asked_by) <= 400),
    asked_by_id     uuid,
    opened_at       timestamptz NOT NULL,
    closed_at       timestamptz,
    close_reason    text NOT NULL DEFAULT '' CHECK (length(close_reason) <= 200),
    -- what was billed: written with each row of usage, and with nothing else
    billed_number   integer NOT NULL DEFAULT 0,
    billed_until    timestamptz NOT NULL,
    billed_seconds  bigint NOT NULL DEFAULT 0,
    billed_micros   bigint NOT NULL DEFAULT 0,
    settled_at      timestamptz,
    CONSTRAINT meters_one_of_subject UNIQUE (subject_id),
    CHECK (closed_at >= opened_at),
    CHECK (settled_at IS NULL OR closed_at IS NOT NULL)
) WITH (fillfactor = 60);
CREATE INDEX meters_unsettled ON meters (org_id, id) WHERE settled_at IS NULL;
CREATE INDEX meters_by_org ON meters (org_id, id DESC);
COMMENT ON TABLE meters IS 'tenant: what is charged by the usable second, at which price, from when to when';

CREATE TABLE meter_pauses (
    meter_id uuid NOT NULL REFERENCES meters,
    org_id   uuid NOT NULL,
    from_at  timestamptz NOT NULL,
    until_at timestamptz,
    reason   text NOT NULL CHECK (length(reason) <= 200),
    PRIMARY KEY (meter_id, from_at),
    CHECK (until_at >= from_at)
);
CREATE UNIQUE INDEX meter_pauses_one_open ON meter_pauses (meter_id) WHERE until_at IS NULL;
COMMENT ON TABLE meter_pauses IS 'tenant: when a meter stood still, and why; never two at once';

-- The same as it was told, cause by cause: a GPU may be out of order while its allocation is stopped for money, and the
-- end of one ends nothing of the other. Pauses are made from these, and from nothing else.
CREATE TABLE meter_causes (
    meter_id uuid NOT NULL REFERENCES meters,
    org_id   uuid NOT NULL,
    cause    text NOT NULL CHECK (cause IN ('fault', 'stop')),
    from_at  timestamptz NOT NULL,
    until_at timestamptz,
    reason   text NOT NULL CHECK (length(reason) <= 200),
    PRIMARY KEY (meter_id, cause, from_at),
    CHECK (until_at >= from_at)
);
CREATE UNIQUE INDEX meter_causes_one_open ON meter_causes (meter_id, cause) WHERE until_at IS NULL;
COMMENT ON TABLE meter_causes IS 'tenant: from when to when each cause kept a meter from running';

-- One row for each difference that was posted. No references: the function sees to it, and the invariants check it.
-- Without a price there is nothing to post, and the seconds are noted all the same.
CREATE TABLE usage (
    id             uuid NOT NULL,
    org_id         uuid NOT NULL,
    meter_id       uuid NOT NULL,
    number         integer NOT NULL CHECK (number > 0),
    from_at        timestamptz NOT NULL,
    until_at       timestamptz NOT NULL,
    seconds        bigint NOT NULL,
    micros         bigint NOT NULL,
    transaction_id uuid,
    PRIMARY KEY (org_id, meter_id, id),
    CHECK ((transaction_id IS NULL) = (micros = 0))
) PARTITION BY RANGE (id);
COMMENT ON TABLE usage IS 'tenant: seconds charged, window by window, with their transaction; append-only';

DO $$
DECLARE named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['meters', 'meter_pauses', 'meter_causes', 'usage'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_org(org_id)) WITH CHECK (visible_org(org_id))',
                       named || '_tenant', named);
    END LOOP;
END $$;
CREATE TRIGGER usage_keep BEFORE UPDATE OR DELETE ON usage FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_keep_all BEFORE TRUNCATE ON usage FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON meters, meter_pauses, meter_causes, usage TO :app;
SELECT ensure_partitions('usage', now() - interval '1 month', 4);

-- Rating: the same as domains/billing/meters/rating.py -----------------------------------------------------------------
-- Rate times seconds over 3600, rounded down, without a number that would not fit.
CREATE FUNCTION meter_owed(rate bigint, seconds bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN rate / 3600 * seconds + rate % 3600 * seconds / 3600;
CREATE FUNCTION meter_seconds(opened timestamptz, until timestamptz, lost numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN greatest(floor(extract(epoch FROM until) - extract(epoch FROM opened) - coalesce(lost, 0)), 0)::bigint;
-- How much of a pause lies within the time of a meter.
CREATE FUNCTION pause_seconds(opened timestamptz, until timestamptz, pause_from timestamptz, pause_until timestamptz)
RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN greatest(extract(epoch FROM least(pause_until, until)) - extract(epoch FROM greatest(pause_from, opened)), 0);
CREATE FUNCTION meter_lost(meter uuid, opened timestamptz, until timestamptz) RETURNS numeric LANGUAGE sql STABLE
    RETURN (SELECT sum(pause_seconds(opened, until, p.from_at, p.until_at)) FROM meter_pauses p WHERE p.meter_id = meter);

-- Verbs -------------------------------------------------------------------------------------------------------------------
-- Whoever has the turn at the ledger of the meter's organisation may change the meter. Nothing, if there is no such meter.
CREATE FUNCTION meter_enter(subject uuid) RETURNS SETOF meters LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    org uuid;
BEGIN
    SELECT org_id INTO org FROM meters WHERE subject_id = subject;
    IF org IS NOT NULL THEN
        PERFORM ledger_enter(org);
        RETURN QUERY SELECT * FROM meters WHERE subject_id = subject;
    END IF;
END $$;

CREATE FUNCTION meter_open(meter uuid, org uuid, project uuid, subject uuid, sku uuid, gpu_number integer, price uuid,
                           rate bigint, of_currency text, by_name text, by_id uuid, at timestamptz)
RETURNS SETOF meters LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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

-- The earliest end that anybody told of holds.
CREATE FUNCTION meter_close(subject uuid, at timestamptz, why text)
RETURNS SETOF meters LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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

-- Its pauses: the times in which anything kept it from running, each under the name of what came first.
CREATE FUNCTION meter_stand(known meters) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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

-- What is known already changes nothing; what lies before a known time of the same cause was its true beginning.
CREATE FUNCTION meter_pause(subject uuid, at timestamptz, why text, because text DEFAULT 'fault')
RETURNS SETOF meters LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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

-- It was usable for so long after all: the fault that lasts began later. Any other cause's time stays what it is.
CREATE FUNCTION meter_pause_later(subject uuid, by_seconds bigint)
RETURNS SETOF meters LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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

-- Only the time that is open ends, and only after it began: what was told of an earlier one is known.
CREATE FUNCTION meter_resume(subject uuid, at timestamptz, because text DEFAULT 'fault')
RETURNS SETOF meters LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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

-- A row of usage has the instant of its transaction, so that both are of the same day and month.
CREATE FUNCTION usage_id(of_transaction uuid) RETURNS uuid LANGUAGE sql VOLATILE
    RETURN CASE WHEN of_transaction IS NULL THEN uuidv7()
                ELSE (left(of_transaction::text, 13) || substr(uuidv7()::text, 14))::uuid END;

-- Accrual ---------------------------------------------------------------------------------------------------------------
-- The next meters after a place, in the order of their organisations: all that were not billed since an instant, and all
-- that have ended. An organisation is charged in one transaction for all its meters in the batch; what goes back to it
-- is a transaction of its own for each meter, which says why. Answers with the last meter it looked at.
CREATE FUNCTION usage_post(after_org uuid, after_meter uuid, most integer, of_meter uuid, billed_before timestamptz,
                           now_at timestamptz, who text, correlation text)
RETURNS TABLE (last_org uuid, last_meter uuid, looked integer, posted integer)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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

-- What the programs may do: with the database's clock.
CREATE FUNCTION usage_accrue(after_org uuid, after_meter uuid, most integer, billed_before timestamptz, who text,
                             correlation text)
RETURNS TABLE (last_org uuid, last_meter uuid, looked integer, posted integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NOT is_platform() THEN
        RAISE EXCEPTION 'only the platform charges everybody' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT * FROM usage_post(after_org, after_meter, most, NULL, least(billed_before, clock_timestamp()), NULL,
                                          who, correlation);
END $$;
-- One meter now: the last seconds of what ends.
CREATE FUNCTION usage_settle(subject uuid, who text, correlation text) RETURNS SETOF meters
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
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
REVOKE ALL ON FUNCTION meter_enter, meter_stand, meter_open, meter_close, meter_pause, meter_pause_later, meter_resume,
    usage_id, usage_post, usage_accrue, usage_settle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION meter_open, meter_close, meter_pause, meter_pause_later, meter_resume, usage_accrue, usage_settle TO :app;

-- An organisation with money, debts or something still to be charged stays: nobody could be paid, nor pay, afterwards.
CREATE FUNCTION org_stays() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
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
REVOKE ALL ON FUNCTION org_stays FROM PUBLIC;
CREATE TRIGGER orgs_stay BEFORE UPDATE OF deleted_at ON orgs
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION org_stays();

-- What must always hold -----------------------------------------------------------------------------------------------
CREATE VIEW invariant_07_billed_is_usable WITH (security_invoker = true) AS
SELECT 'meter ' || m.id AS subject, 'billed ' || m.billed_seconds || ' seconds and ' || m.billed_micros
       || ' micro-units, but it was usable for ' || m.usable || ' seconds, which cost '
       || meter_owed(m.micros_per_hour, m.usable) AS problem
FROM (SELECT *, meter_seconds(opened_at, closed_at, meter_lost(id, opened_at, closed_at)) AS usable
      FROM meters WHERE settled_at IS NOT NULL) AS m
WHERE m.billed_seconds <> m.usable OR m.billed_micros <> meter_owed(m.micros_per_hour, m.usable)
UNION ALL
SELECT 'meter ' || m.id, 'its price is not that of its price version'
FROM meters m JOIN sku_prices p ON p.id = m.price_id
WHERE m.micros_per_hour <> p.micros_per_gpu_hour * m.gpus OR m.currency <> p.currency OR m.sku_id <> p.sku_id;
COMMENT ON VIEW invariant_07_billed_is_usable IS 'of what has ended, the usable seconds were billed, at their price, no others';

CREATE VIEW invariant_07_none_twice WITH (security_invoker = true) AS
SELECT 'meter ' || u.meter_id AS subject, 'usage ' || u.number || ' begins at ' || u.from_at || ' after usage '
       || u.before_number || ' until ' || u.before_until AS problem
FROM (SELECT u.meter_id, u.number, u.from_at, lag(u.number, 1, 0) OVER along AS before_number,
             lag(u.until_at, 1, m.opened_at) OVER along AS before_until
      FROM usage u JOIN meters m ON m.id = u.meter_id AND m.org_id = u.org_id
      WINDOW along AS (PARTITION BY u.org_id, u.meter_id ORDER BY u.number, u.id)) AS u
WHERE u.number <> u.before_number + 1 OR u.from_at <> u.before_until
UNION ALL
SELECT 'meter ' || coalesce(m.id, u.meter_id), 'says it was billed ' || coalesce(m.billed_micros, 0) || ' for '
       || coalesce(m.billed_seconds, 0) || ' seconds, its usage says ' || coalesce(u.micros, 0) || ' for '
       || coalesce(u.seconds, 0)
FROM meters m FULL JOIN (SELECT org_id, meter_id, sum(seconds) AS seconds, sum(micros) AS micros, max(number) AS number
                         FROM usage GROUP BY org_id, meter_id) AS u ON u.meter_id = m.id AND u.org_id = m.org_id
WHERE (coalesce(m.billed_seconds, 0), coalesce(m.billed_micros, 0), coalesce(m.billed_number, 0))
      <> (coalesce(u.seconds, 0), coalesce(u.micros, 0), coalesce(u.number, 0));
COMMENT ON VIEW invariant_07_none_twice IS 'no second is billed twice: windows follow each other and sum to what the meter says';

CREATE VIEW invariant_07_pauses_apart WITH (security_invoker = true) AS
SELECT 'meter ' || meter_id AS subject, 'two pauses at once, at ' || next_from AS problem
FROM (SELECT meter_id, until_at, lead(from_at) OVER (PARTITION BY meter_id ORDER BY from_at) AS next_from
      FROM meter_pauses) AS p
WHERE next_from < coalesce(until_at, 'infinity')
UNION ALL
SELECT 'meter ' || m.id, 'its pauses last ' || coalesce(p.lasted, 0) || ' seconds until now, what caused them '
       || coalesce(c.lasted, 0)
FROM meters m
LEFT JOIN (SELECT meter_id, sum(extract(epoch FROM coalesce(until_at, now()) - from_at)) AS lasted
           FROM meter_pauses WHERE from_at < now() GROUP BY meter_id) AS p ON p.meter_id = m.id
LEFT JOIN (SELECT meter_id, (SELECT sum(extract(epoch FROM upper(r) - lower(r))) FROM unnest(together) AS r) AS lasted
           FROM (SELECT meter_id, range_agg(tstzrange(from_at, coalesce(until_at, now()))) AS together
                 FROM meter_causes WHERE from_at < now() GROUP BY meter_id) AS ranges) AS c ON c.meter_id = m.id
WHERE coalesce(p.lasted, 0) <> coalesce(c.lasted, 0);
COMMENT ON VIEW invariant_07_pauses_apart IS 'a meter stands still once at a time, as long as anything causes it';

CREATE VIEW invariant_08_usage_is_posted WITH (security_invoker = true) AS
SELECT 'transaction ' || coalesce(u.transaction_id, t.id) AS subject,
       CASE WHEN t.id IS NULL THEN 'usage names it, but it is not there'
            WHEN u.transaction_id IS NULL THEN 'it charges for usage, but no usage names it'
            ELSE 'it moves ' || t.amount_micros || ', its usage is ' || u.micros END AS problem
FROM (SELECT transaction_id, sum(micros) AS micros, min(org_id::text)::uuid AS org_id, count(DISTINCT org_id) AS orgs
      FROM usage WHERE transaction_id IS NOT NULL GROUP BY transaction_id) AS u
FULL JOIN (SELECT t.id, t.org_id, e.amount_micros
           FROM ledger_transactions t LEFT JOIN ledger_entries e ON e.transaction_id = t.id AND e.org_id = t.org_id
           WHERE t.kind IN ('usage', 'usage_credit')) AS t ON t.id = u.transaction_id
WHERE t.id IS NULL OR u.transaction_id IS NULL OR u.orgs <> 1 OR u.org_id <> t.org_id
   OR t.amount_micros IS DISTINCT FROM -u.micros;
COMMENT ON VIEW invariant_08_usage_is_posted IS 'every usage row has its ledger transaction, and every such transaction its usage';

CREATE VIEW invariant_34_usage_months_ahead WITH (security_invoker = true) AS
SELECT 'usage_p' || month AS subject, 'the partition of that month is missing: its rows would be refused' AS problem
FROM (SELECT to_char((now() AT TIME ZONE 'UTC') + i * interval '1 month', 'YYYYMM') AS month
      FROM generate_series(0, 1) AS i) AS months
WHERE to_regclass('usage_p' || month) IS NULL;
COMMENT ON VIEW invariant_34_usage_months_ahead IS 'usage has its partitions for this month and the next';

GRANT SELECT ON invariant_07_billed_is_usable, invariant_07_none_twice, invariant_07_pauses_apart,
    invariant_08_usage_is_posted, invariant_34_usage_months_ahead TO :app;
