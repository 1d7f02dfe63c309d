-- Nodes: what is wanted of each, what it says of itself, the tasks it is given, its health. All of it is the
-- platform's: tenants hear of a node only through what they hold on it.

CREATE TABLE nodes (
    id                 uuid PRIMARY KEY,
    name               text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    region             text NOT NULL,
    sku_id             uuid NOT NULL,
    address            text NOT NULL DEFAULT '',
    labels             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    tags               text[] NOT NULL DEFAULT '{}',
    state              text NOT NULL CHECK (state IN ('enrolling', 'active', 'disabled', 'removed')),
    state_since        timestamptz NOT NULL DEFAULT now(),
    -- wanted, ours
    cordoned           boolean NOT NULL DEFAULT false,
    drained            boolean NOT NULL DEFAULT false,
    generation         bigint NOT NULL DEFAULT 1,
    -- found by looking
    differences        text[] NOT NULL DEFAULT '{}',
    inspected_at       timestamptz,
    topology           jsonb,
    host_healthy       boolean,
    host_detail        text NOT NULL DEFAULT '',
    checked_at         timestamptz,
    -- quarantine of the whole node
    quarantine_reason  text,
    quarantine_detail  text NOT NULL DEFAULT '',
    quarantined_at     timestamptz,
    returned_at        timestamptz,
    enrolled_at        timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    CHECK ((quarantine_reason IS NULL) = (quarantined_at IS NULL))
);
CREATE UNIQUE INDEX nodes_one_name ON nodes (name) WHERE state <> 'removed';
CREATE INDEX nodes_by_labels ON nodes USING gin (labels jsonb_path_ops);
COMMENT ON TABLE nodes IS 'platform: the machines, what is wanted of them and what was found on them';
GRANT SELECT, INSERT, UPDATE ON nodes TO :app;

-- One narrow row per node, written again and again: room on the page and no index on what changes keep it in place.
CREATE TABLE node_heartbeats (
    node_id        uuid PRIMARY KEY REFERENCES nodes,
    seen_at        timestamptz NOT NULL,
    sent_at        timestamptz NOT NULL,
    liveness       text NOT NULL CHECK (liveness IN ('online', 'unknown', 'lost')),
    liveness_since timestamptz NOT NULL,
    boot_id        text NOT NULL,
    agent_version  text NOT NULL,
    next_sequence  bigint NOT NULL,
    generation     bigint NOT NULL,
    accounts       text[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE node_heartbeats IS 'platform: what each agent said last, and when';
GRANT SELECT, INSERT, UPDATE ON node_heartbeats TO :app;

-- Tasks ------------------------------------------------------------------------------------------------------------
-- The row that a signer must hold: numbers of a node's tasks are given out here, without a gap.
CREATE TABLE task_sequences (
    node_id     uuid PRIMARY KEY REFERENCES nodes,
    last_issued bigint NOT NULL DEFAULT 0 CHECK (last_issued >= 0),
    accepted    bigint NOT NULL DEFAULT 0 CHECK (accepted >= 0)
);
COMMENT ON TABLE task_sequences IS 'platform: the last number given to a task of a node, and the last its agent has proven to know';
GRANT SELECT, INSERT, UPDATE ON task_sequences TO :app;

CREATE TABLE task_keys (
    key_id      text PRIMARY KEY,
    public_key  text NOT NULL,
    statement   text,
    valid_from  timestamptz NOT NULL DEFAULT now(),
    valid_until timestamptz
);
CREATE UNIQUE INDEX task_keys_one_first ON task_keys ((true)) WHERE statement IS NULL;
COMMENT ON TABLE task_keys IS 'platform: public keys tasks are signed with, each but the first vouched for by the one before';
GRANT SELECT, INSERT ON task_keys TO :app;
GRANT UPDATE (valid_until) ON task_keys TO :app;

-- `born` orders tasks of one moment as they were asked for; ids of one millisecond do not.
CREATE TABLE tasks (
    id                  uuid PRIMARY KEY,
    born                bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    node_id             uuid NOT NULL REFERENCES nodes,
    type                text NOT NULL,
    version             integer NOT NULL,
    subject_id          uuid,
    arguments           jsonb NOT NULL,
    deadline_seconds    integer NOT NULL CHECK (deadline_seconds BETWEEN 1 AND 600),
    state               text NOT NULL CHECK (state IN ('queued', 'ready', 'delivered', 'running', 'done', 'failed',
                                                       'refused', 'cancelled', 'timed_out', 'expired')),
    state_since         timestamptz NOT NULL DEFAULT now(),
    due_at              timestamptz NOT NULL,
    sequence            bigint,
    envelope            text,
    key_id              text REFERENCES task_keys,
    issued_at           timestamptz,
    expires_at          timestamptz,
    delivered_at        timestamptz,
    started_at          timestamptz,
    ended_at            timestamptz,
    cancel_requested_at timestamptz,
    cancel_told_at      timestamptz,
    reported_at         timestamptz,
    reported_by         uuid,
    reported_outcome    text,
    report_hash         bytea,
    reason              text NOT NULL DEFAULT '',
    code                text NOT NULL DEFAULT '',
    result              jsonb,
    log                 text NOT NULL DEFAULT '' CHECK (length(log) <= 65536),
    correlation_id      text NOT NULL,
    traceparent         text NOT NULL,
    created_by          text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tasks_one_number UNIQUE (node_id, sequence),
    CHECK ((sequence IS NULL) = (envelope IS NULL)),
    CHECK ((report_hash IS NULL) = (reported_by IS NULL))
);
CREATE INDEX tasks_to_sign ON tasks (node_id, born) WHERE state = 'queued';
CREATE INDEX tasks_to_claim ON tasks (node_id, sequence) WHERE state IN ('ready', 'delivered', 'running');
CREATE INDEX tasks_due ON tasks (due_at) WHERE state IN ('queued', 'ready', 'delivered', 'running');
CREATE INDEX tasks_by_node ON tasks (node_id, id DESC);
CREATE INDEX tasks_by_subject ON tasks (subject_id, id DESC) WHERE subject_id IS NOT NULL;
COMMENT ON TABLE tasks IS 'platform: what nodes were asked to do, signed, and what came of it';
GRANT SELECT, INSERT, UPDATE, DELETE ON tasks TO :app;

CREATE TABLE task_phases (
    task_id uuid NOT NULL REFERENCES tasks ON DELETE CASCADE,
    at      timestamptz NOT NULL,
    name    text NOT NULL,
    detail  text NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task_id, at, name)
);
COMMENT ON TABLE task_phases IS 'platform: the steps a running task told of';
GRANT SELECT, INSERT, DELETE ON task_phases TO :app;

-- Health -----------------------------------------------------------------------------------------------------------
CREATE TABLE slot_quarantines (
    id             uuid PRIMARY KEY,
    slot_id        uuid NOT NULL,
    node_id        uuid NOT NULL REFERENCES nodes,
    serial         text NOT NULL,
    reason         text NOT NULL,
    detail         text NOT NULL DEFAULT '',
    evidence       jsonb NOT NULL DEFAULT '{}',
    strike         boolean NOT NULL,
    since          timestamptz NOT NULL DEFAULT now(),
    return_task_id uuid,
    ended_at       timestamptz
);
CREATE UNIQUE INDEX slot_quarantines_one_open ON slot_quarantines (slot_id) WHERE ended_at IS NULL;
CREATE INDEX slot_quarantines_by_serial ON slot_quarantines (serial);
CREATE INDEX slot_quarantines_by_node ON slot_quarantines (node_id) WHERE ended_at IS NULL;
COMMENT ON TABLE slot_quarantines IS 'platform: which GPU was not to be sold, why, and since when; kept, because strikes are counted here';
GRANT SELECT, INSERT, UPDATE ON slot_quarantines TO :app;

CREATE TABLE gpu_faults (
    id      uuid PRIMARY KEY,
    node_id uuid NOT NULL REFERENCES nodes,
    serial  text NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('application', 'resettable', 'hardware')),
    code    text NOT NULL,
    detail  text NOT NULL,
    at      timestamptz NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT gpu_faults_once UNIQUE (node_id, serial, code, at)
);
COMMENT ON TABLE gpu_faults IS 'platform: faults of GPUs as drivers told of them, each once; pruned by age';
GRANT SELECT, INSERT, DELETE ON gpu_faults TO :app;

CREATE TABLE node_health (
    id      uuid PRIMARY KEY,
    node_id uuid NOT NULL REFERENCES nodes,
    serial  text NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('check', 'load_check', 'fault', 'quarantined', 'returned')),
    good    boolean NOT NULL,
    code    text NOT NULL,
    detail  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (id);
CREATE INDEX node_health_by_node ON node_health (node_id, id DESC);
COMMENT ON TABLE node_health IS 'platform: the history of each GPU''s and host''s health; dropped by the month';
GRANT SELECT, INSERT ON node_health TO :app;
SELECT ensure_partitions('node_health', now() - interval '1 month', 6);

-- Metrics ----------------------------------------------------------------------------------------------------------
-- A sample is its node and its moment: told again, it is there already. Millions a day in a large fleet, kept for days:
-- cut by the day along the moment it was taken, so that what comes late finds its place and what is old goes at once.
CREATE TABLE node_metrics (
    node_id    uuid NOT NULL REFERENCES nodes,
    at         timestamptz NOT NULL,
    values     jsonb NOT NULL,
    PRIMARY KEY (node_id, at)
) PARTITION BY RANGE (at);
COMMENT ON TABLE node_metrics IS 'platform: samples of hosts and GPUs; dropped by the day';
GRANT SELECT, INSERT ON node_metrics TO :app;

CREATE FUNCTION ensure_metric_days(first timestamptz, days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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
-- Drops days that lie wholly before an instant.
CREATE FUNCTION prune_metric_days(before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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
REVOKE ALL ON FUNCTION ensure_metric_days, prune_metric_days FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_metric_days, prune_metric_days TO :app;
SELECT ensure_metric_days(now() - interval '7 days', 14);

-- Versions of the agent ----------------------------------------------------------------------------------------------
CREATE TABLE agent_artifacts (
    id          uuid PRIMARY KEY,
    version     text NOT NULL CHECK (length(version) BETWEEN 1 AND 60),
    digest      text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    size        bigint NOT NULL CHECK (size > 0),
    state       text NOT NULL CHECK (state IN ('uploading', 'published', 'retired')),
    state_since timestamptz NOT NULL DEFAULT now(),
    due_at      timestamptz,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'uploading') = (due_at IS NOT NULL))
);
CREATE UNIQUE INDEX agent_artifacts_one_version ON agent_artifacts (version) WHERE state = 'published';
COMMENT ON TABLE agent_artifacts IS 'platform: versions of the agent that nodes may be told to become';
GRANT SELECT, INSERT, UPDATE, DELETE ON agent_artifacts TO :app;

-- The bytes are objects, named by what is in them: what was published cannot be written over.
CREATE TABLE agent_artifact_parts (
    artifact_id uuid NOT NULL REFERENCES agent_artifacts,
    number      integer NOT NULL CHECK (number >= 1),
    digest      text NOT NULL,
    size        integer NOT NULL CHECK (size > 0),
    PRIMARY KEY (artifact_id, number)
);
COMMENT ON TABLE agent_artifact_parts IS 'platform: the parts an agent''s version was uploaded in, in order';
GRANT SELECT, INSERT, UPDATE, DELETE ON agent_artifact_parts TO :app;
