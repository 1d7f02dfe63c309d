-- How organisations stand with their money, and what projects may spend in a month.
--
-- A standing is a rung of a ladder. Whoever changes one has locked its row and looked at the money after that; so of a
-- top-up and a rung that comes at the same moment, the later one knows of the earlier.

CREATE TABLE standings (
    org_id         uuid NOT NULL REFERENCES orgs,
    currency       text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    state          text NOT NULL DEFAULT 'good' CHECK (state IN ('good', 'low', 'empty', 'stopped', 'released')),
    state_since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- when the next rung follows, and since when that is counted; none: nothing is there to stop, or nothing follows
    due_at         timestamptz,
    counting_since timestamptz,
    told           smallint NOT NULL DEFAULT 0 CHECK (told BETWEEN 0 AND 2),
    entered_micros bigint NOT NULL DEFAULT 0,
    paused_until   timestamptz,
    paused_by      text NOT NULL DEFAULT '' CHECK (length(paused_by) <= 400),
    pause_reason   text NOT NULL DEFAULT '' CHECK (length(pause_reason) <= 500),
    PRIMARY KEY (org_id, currency),
    CHECK (due_at IS NULL OR state IN ('empty', 'stopped')),
    CHECK ((due_at IS NULL) = (counting_since IS NULL))
);
CREATE INDEX standings_watched ON standings (org_id, currency) WHERE state <> 'good';
COMMENT ON TABLE standings IS 'tenant: on which rung an organisation stands in a currency; none: good';

ALTER TABLE standings ENABLE ROW LEVEL SECURITY;
ALTER TABLE standings FORCE ROW LEVEL SECURITY;
CREATE POLICY standings_tenant ON standings USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
GRANT SELECT, INSERT ON standings TO :app;
GRANT UPDATE (state, state_since, due_at, counting_since, told, entered_micros, paused_until, paused_by, pause_reason)
    ON standings TO :app;

-- What meters cost and owe, by organisation and currency. A meter runs while it is open and has a price; it burns while
-- it does not stand still. (Pauses are joined, and seconds are counted once for each meter: that is what it costs.)
CREATE VIEW meter_burn WITH (security_invoker = true) AS
SELECT m.org_id, m.currency, count(*) FILTER (WHERE m.closed_at IS NULL AND m.micros_per_hour > 0) AS running,
       coalesce(sum(m.micros_per_hour) FILTER (WHERE m.closed_at IS NULL), 0)::bigint AS open_micros_per_hour,
       coalesce(sum(m.micros_per_hour) FILTER (WHERE m.closed_at IS NULL AND p.still IS NOT TRUE), 0)::bigint
           AS micros_per_hour,
       sum(meter_owed(m.micros_per_hour, c.usable) - m.billed_micros)::bigint AS unposted_micros
FROM meters m
CROSS JOIN LATERAL (SELECT least(m.closed_at, greatest(clock_timestamp(), m.billed_until)) AS until_at OFFSET 0) AS u
LEFT JOIN LATERAL (SELECT sum(pause_seconds(m.opened_at, u.until_at, p.from_at, p.until_at)) AS lost,
                          bool_or(p.until_at IS NULL) AS still
                   FROM meter_pauses p WHERE p.meter_id = m.id) AS p ON true
CROSS JOIN LATERAL (SELECT meter_seconds(m.opened_at, u.until_at, p.lost) AS usable OFFSET 0) AS c
WHERE m.settled_at IS NULL GROUP BY m.org_id, m.currency;
GRANT SELECT ON meter_burn TO :app;

-- What must always hold -----------------------------------------------------------------------------------------------
CREATE VIEW invariant_14_standings_move WITH (security_invoker = true) AS
SELECT 'organisation ' || org_id AS subject, 'is ' || state || ' in ' || currency || ' and should not be since ' || due_at
       AS problem
FROM standings WHERE due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_standings_move IS 'no standing is past its deadline by over 60 seconds';

-- What was spendable a minute ago is what is now, without what was paid in or taken since, and with less use.
CREATE VIEW invariant_38_standing_is_balance WITH (security_invoker = true) AS
SELECT 'organisation ' || f.org_id AS subject,
       'is ' || f.state || ' since ' || coalesce(f.state_since::text, 'ever') || ', and for over a minute '
       || least(f.now_micros, f.then_micros) || ' to ' || greatest(f.now_micros, f.then_micros) || ' ' || f.currency
       || ' could be spent' AS problem
FROM (
    SELECT w.org_id, w.currency, coalesce(s.state, 'good') AS state, s.state_since, coalesce(b.burning, 0) AS burning,
           coalesce(h.balance_micros, 0) - coalesce(a.floor_micros, 0) - coalesce(b.unposted_now, 0) AS now_micros,
           coalesce(h.balance_micros, 0) - coalesce(a.floor_micros, 0) - coalesce(b.unposted_then, 0)
           - coalesce(recent.micros, 0) AS then_micros
    FROM (SELECT org_id, currency FROM meters WHERE settled_at IS NULL
          UNION SELECT org_id, currency FROM standings WHERE state <> 'good') AS w
    LEFT JOIN standings s ON s.org_id = w.org_id AND s.currency = w.currency
    LEFT JOIN ledger_accounts a ON a.org_id = w.org_id AND a.kind = 'tenant' AND a.currency = w.currency
    LEFT JOIN LATERAL (SELECT e.balance_micros FROM ledger_entries e WHERE e.account_id = a.id
                       ORDER BY e.transaction_id DESC LIMIT 1) AS h ON true
    LEFT JOIN LATERAL (
        SELECT sum(e.amount_micros) AS micros FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
        WHERE e.account_id = a.id AND e.transaction_id >= uuidv7(interval '-1 minute') AND t.kind <> 'usage'
    ) AS recent ON true
    LEFT JOIN LATERAL (
        SELECT sum(meter_owed(m.micros_per_hour, c.usable) - m.billed_micros) AS unposted_now,
               sum(meter_owed(m.micros_per_hour, c.usable_then) - m.billed_micros) AS unposted_then,
               sum(m.micros_per_hour) FILTER (WHERE m.closed_at IS NULL AND m.opened_at < now() - interval '1 minute'
                                                AND p.lately IS NOT TRUE) AS burning
        FROM meters m
        CROSS JOIN LATERAL (SELECT least(m.closed_at, now()) AS now_at,
                                   greatest(m.opened_at, least(m.closed_at, now() - interval '1 minute')) AS then_at) AS u
        LEFT JOIN LATERAL (SELECT sum(pause_seconds(m.opened_at, u.now_at, p.from_at, p.until_at)) AS lost,
                                  sum(pause_seconds(m.opened_at, u.then_at, p.from_at, p.until_at)) AS lost_then,
                                  bool_or(coalesce(p.until_at, 'infinity') > now() - interval '1 minute') AS lately
                           FROM meter_pauses p WHERE p.meter_id = m.id) AS p ON true
        CROSS JOIN LATERAL (SELECT meter_seconds(m.opened_at, u.now_at, p.lost) AS usable,
                                   meter_seconds(m.opened_at, u.then_at, p.lost_then) AS usable_then OFFSET 0) AS c
        WHERE m.org_id = w.org_id AND m.currency = w.currency AND m.settled_at IS NULL
    ) AS b ON true
    WHERE coalesce(s.state_since, '-infinity') < now() - interval '1 minute'
) AS f
WHERE f.state IN ('good', 'low') AND greatest(f.now_micros, f.then_micros) <= 0
      AND (f.state = 'low' OR f.burning > 0 OR greatest(f.now_micros, f.then_micros) < 0)
   OR f.state IN ('empty', 'stopped', 'released') AND least(f.now_micros, f.then_micros) > 0;
COMMENT ON VIEW invariant_38_standing_is_balance IS 'no rung contradicts what can be spent for over a minute';

GRANT SELECT ON invariant_14_standings_move, invariant_38_standing_is_balance TO :app;
