-- Runs of flows: which story is under way for whom, which step it is at, who acts on it, and what came of each attempt.

CREATE TABLE flow_runs (
    id                  uuid PRIMARY KEY,
    kind                text NOT NULL,
    version             integer NOT NULL CHECK (version > 0),
    subject_id          uuid NOT NULL,
    org_id              uuid,
    state               text NOT NULL CHECK (state IN ('forward', 'undoing', 'done', 'undone', 'surrendered')),
    state_since         timestamptz NOT NULL DEFAULT now(),
    step                text NOT NULL,
    passed              text[] NOT NULL DEFAULT '{}',
    attempt             integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    memo                jsonb NOT NULL DEFAULT '{}',
    -- who acts on it: a stale worker's fence is not the row's, so that what it writes is refused
    lease_owner         text NOT NULL DEFAULT '',
    lease_until         timestamptz,
    fence               bigint NOT NULL DEFAULT 0,
    next_at             timestamptz NOT NULL DEFAULT now(),
    due_at              timestamptz NOT NULL,
    -- grows with each wake-up, so that one that comes while a step looks is not lost
    wakes               bigint NOT NULL DEFAULT 0,
    error_code          text NOT NULL DEFAULT '',
    error               text NOT NULL DEFAULT '',
    cancel_requested_at timestamptz,
    cancel_reason       text NOT NULL DEFAULT '',
    correlation_id      text NOT NULL,
    traceparent         text NOT NULL,
    created_by          text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    ended_at            timestamptz,
    CHECK ((ended_at IS NULL) = (state IN ('forward', 'undoing')))
);
CREATE UNIQUE INDEX flow_runs_one_open ON flow_runs (subject_id, kind) WHERE state IN ('forward', 'undoing');
CREATE INDEX flow_runs_next ON flow_runs (next_at) WHERE state IN ('forward', 'undoing');
CREATE INDEX flow_runs_by_subject ON flow_runs (subject_id, id DESC);
COMMENT ON TABLE flow_runs IS 'tenant: stories under way, and how they ended; without an organisation they are the platform''s';
GRANT SELECT, INSERT, UPDATE, DELETE ON flow_runs TO :app;
ALTER TABLE flow_runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE flow_runs FORCE ROW LEVEL SECURITY;
CREATE POLICY flow_runs_tenant ON flow_runs USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
-- Whoever asks: what is under way stays.
CREATE POLICY flow_runs_ended ON flow_runs AS RESTRICTIVE FOR DELETE USING (ended_at IS NOT NULL);

CREATE TABLE flow_attempts (
    run_id    uuid NOT NULL REFERENCES flow_runs ON DELETE CASCADE,
    fence     bigint NOT NULL,
    number    integer NOT NULL,
    direction text NOT NULL CHECK (direction IN ('forward', 'undoing')),
    step      text NOT NULL,
    outcome   text NOT NULL CHECK (outcome IN ('passed', 'waits', 'again', 'failed')),
    detail    text NOT NULL DEFAULT '',
    worker    text NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, fence, number)
);
COMMENT ON TABLE flow_attempts IS 'platform: what each step of a run came to, each time';
GRANT SELECT, INSERT ON flow_attempts TO :app;

CREATE VIEW invariant_13_flows_go_on WITH (security_invoker = true) AS
SELECT id::text AS subject, kind || ' waits at ' || step || ' for a worker since ' || greatest(next_at, lease_until)
       AS problem
FROM flow_runs
WHERE state IN ('forward', 'undoing') AND next_at < now() - interval '60 seconds'
  AND (lease_until IS NULL OR lease_until < now() - interval '60 seconds');
COMMENT ON VIEW invariant_13_flows_go_on IS 'no unfinished flow is left alone for over 60 seconds';

CREATE VIEW invariant_14_flows_move WITH (security_invoker = true) AS
SELECT id::text AS subject, kind || ' is at ' || step || ' and should not be since ' || due_at AS problem
FROM flow_runs WHERE state IN ('forward', 'undoing') AND due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_flows_move IS 'no step of a flow is past its deadline by over 60 seconds';
GRANT SELECT ON invariant_13_flows_go_on, invariant_14_flows_move TO :app;
