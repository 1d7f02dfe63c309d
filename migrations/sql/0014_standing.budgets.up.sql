-- Budgets: what a project may spend in a calendar month (UTC). What it spent is not counted anywhere: it is what its
-- meters owe for their usable seconds within the month, posted or not.

CREATE TABLE budgets (
    id          uuid PRIMARY KEY,
    org_id      uuid NOT NULL REFERENCES orgs,
    project_id  uuid NOT NULL REFERENCES projects,
    currency    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    soft_micros bigint CHECK (soft_micros BETWEEN 1 AND 1000000000000000),
    hard_micros bigint CHECK (hard_micros BETWEEN 1 AND 1000000000000000),
    set_by      text NOT NULL CHECK (length(set_by) <= 400),
    set_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT budgets_one UNIQUE (project_id, currency),
    CHECK (soft_micros IS NOT NULL OR hard_micros IS NOT NULL),
    CHECK (soft_micros <= hard_micros)
);
CREATE INDEX budgets_by_org ON budgets (org_id, id DESC);
COMMENT ON TABLE budgets IS 'tenant: what projects may spend in a month';

-- What was told, so that it is told once. Of a limit that is changed there is something new to tell.
CREATE TABLE budget_marks (
    org_id       uuid NOT NULL REFERENCES orgs,
    project_id   uuid NOT NULL REFERENCES projects,
    currency     text NOT NULL,
    month        date NOT NULL CHECK (extract(day FROM month) = 1),
    of_limit     text NOT NULL CHECK (of_limit IN ('soft', 'hard')),
    percent      smallint NOT NULL CHECK (percent BETWEEN 1 AND 100),
    limit_micros bigint NOT NULL,
    spent_micros bigint NOT NULL,
    reached_at   timestamptz NOT NULL,
    -- when what runs is stopped
    due_at       timestamptz,
    PRIMARY KEY (project_id, currency, month, of_limit, percent, limit_micros),
    CHECK ((of_limit = 'hard') = (due_at IS NOT NULL))
);
COMMENT ON TABLE budget_marks IS 'tenant: how much of a budget was spent in a month, once for each that is told';

DO $$
DECLARE named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['budgets', 'budget_marks'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_org(org_id)) WITH CHECK (visible_org(org_id))',
                       named || '_tenant', named);
    END LOOP;
END $$;
GRANT SELECT, INSERT, DELETE ON budgets TO :app;
GRANT UPDATE (soft_micros, hard_micros, set_by, set_at) ON budgets TO :app;
GRANT SELECT, INSERT ON budget_marks TO :app;

CREATE INDEX meters_of_project ON meters (project_id, closed_at);

CREATE FUNCTION month_of(at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
-- What a meter owes from one instant to another is what it owes until the second, less what it owed at the first: so
-- months, too, sum to the price of the whole.
CREATE FUNCTION project_spent(project uuid, of_currency text, since timestamptz, till timestamptz) RETURNS bigint
LANGUAGE sql STABLE
    RETURN (
        SELECT coalesce(sum(meter_owed(m.micros_per_hour, c.usable) - meter_owed(m.micros_per_hour, c.before)), 0)::bigint
        FROM meters m
        CROSS JOIN LATERAL (SELECT greatest(since, m.opened_at) AS from_at, least(m.closed_at, till) AS until_at) AS e
        LEFT JOIN LATERAL (SELECT sum(pause_seconds(m.opened_at, e.until_at, p.from_at, p.until_at)) AS lost,
                                  sum(pause_seconds(m.opened_at, e.from_at, p.from_at, p.until_at)) AS lost_before
                           FROM meter_pauses p WHERE p.meter_id = m.id) AS p ON true
        CROSS JOIN LATERAL (SELECT meter_seconds(m.opened_at, e.until_at, p.lost) AS usable,
                                   meter_seconds(m.opened_at, e.from_at, p.lost_before) AS before OFFSET 0) AS c
        WHERE m.project_id = project AND m.currency = of_currency AND m.opened_at < till
          AND (m.closed_at IS NULL OR m.closed_at > since));
