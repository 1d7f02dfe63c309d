-- What every change of state goes through: events, audit, idempotency, strict rate lanes, signing keys.
-- Every table says in its comment which wall stands around it (tests/every lists them):
--   tenant: org_id and a forced policy on it     actor: actor or user id and a forced policy on it
--   platform: no tenant's data; only the programs read it

-- The organisation and actor a connection works for. Unset or '' sees nothing; '*' is the platform itself.
CREATE FUNCTION visible_org(org uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN current_setting('app.org_id', true) = '*' THEN true
                ELSE org = nullif(current_setting('app.org_id', true), '')::uuid END;
CREATE FUNCTION visible_actor(who uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN current_setting('app.org_id', true) = '*' THEN true
                ELSE who = nullif(current_setting('app.actor_id', true), '')::uuid END;
CREATE FUNCTION is_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN coalesce(current_setting('app.org_id', true) = '*', false);

-- Tables that grow are cut by month along their UUIDv7 id: no default partition, so a row out of range fails loudly.
CREATE FUNCTION floor_id(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

CREATE FUNCTION ensure_partitions(parent text, key_from timestamptz, months integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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

-- Drops partitions that lie wholly before an instant. Audit, ledger and usage are never pruned by the application.
CREATE FUNCTION prune_partitions(parent text, before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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
REVOKE ALL ON FUNCTION ensure_partitions, prune_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_partitions, prune_partitions TO :app;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

-- Events -----------------------------------------------------------------------------------------------------------
CREATE TABLE outbox (
    id             uuid PRIMARY KEY,
    stream         text NOT NULL,
    name           text NOT NULL,
    version        integer NOT NULL,
    org_id         uuid,
    subject_id     uuid,
    actor          text NOT NULL,
    correlation_id text NOT NULL,
    traceparent    text NOT NULL,
    payload        jsonb NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    published_at   timestamptz
) PARTITION BY RANGE (id);
CREATE INDEX outbox_unpublished ON outbox (id) WHERE published_at IS NULL;
COMMENT ON TABLE outbox IS 'tenant: events, written with the change they tell of';
GRANT SELECT, INSERT ON outbox TO :app;
GRANT UPDATE (published_at) ON outbox TO :app;
ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
CREATE POLICY outbox_insert ON outbox FOR INSERT WITH CHECK (org_id IS NULL OR visible_org(org_id));
CREATE POLICY outbox_read ON outbox FOR SELECT USING (is_platform() OR visible_org(org_id));
CREATE POLICY outbox_publish ON outbox FOR UPDATE USING (is_platform());

CREATE TABLE inbox (
    consumer   text NOT NULL,
    event_id   uuid NOT NULL,
    handled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
) PARTITION BY RANGE (event_id);
COMMENT ON TABLE inbox IS 'platform: which consumer has handled which event, once';
GRANT SELECT, INSERT ON inbox TO :app;

CREATE TABLE dead_letters (
    id             uuid PRIMARY KEY,
    consumer       text NOT NULL,
    event_id       uuid NOT NULL,
    event_name     text NOT NULL,
    org_id         uuid,
    correlation_id text NOT NULL,
    reason         text NOT NULL,
    attempts       integer NOT NULL CHECK (attempts > 0),
    state          text NOT NULL CHECK (state IN ('open', 'replaying', 'resolved', 'discarded')),
    state_since    timestamptz NOT NULL DEFAULT now(),
    note           text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (consumer, event_id)
);
CREATE INDEX dead_letters_waiting ON dead_letters (id) WHERE state IN ('open', 'replaying');
COMMENT ON TABLE dead_letters IS 'platform: events a consumer could not handle, with the reason';
GRANT SELECT, INSERT, UPDATE ON dead_letters TO :app;

-- Only failures are counted here, so that NATS forgetting how often it delivered changes nothing.
CREATE TABLE delivery_attempts (
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    attempts integer NOT NULL CHECK (attempts > 0),
    last_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
COMMENT ON TABLE delivery_attempts IS 'platform: how often a consumer has failed on an event it has not handled yet';
GRANT SELECT, INSERT, UPDATE, DELETE ON delivery_attempts TO :app;

-- checked_through: looked at once, soon; complete_through: looked at again, when no late commit can come before it.
CREATE TABLE consumer_progress (
    consumer         text PRIMARY KEY,
    checked_through  uuid NOT NULL,
    complete_through uuid NOT NULL,
    updated_at       timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE consumer_progress IS 'platform: up to which event the auditor has found each consumer complete';
GRANT SELECT, INSERT, UPDATE, DELETE ON consumer_progress TO :app;

-- Audit ------------------------------------------------------------------------------------------------------------
CREATE TABLE audit_log (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT now(),
    action         text NOT NULL,
    operation      text NOT NULL,
    actor_kind     text NOT NULL,
    actor_id       uuid,
    actor_name     text NOT NULL,
    org_id         uuid,
    project_id     uuid,
    subject_id     uuid,
    correlation_id text NOT NULL,
    client_ip      text NOT NULL,
    details        jsonb NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX audit_log_by_org ON audit_log (org_id, id DESC);
CREATE INDEX audit_log_by_actor ON audit_log (actor_id, id DESC);
CREATE INDEX audit_log_by_subject ON audit_log (subject_id, id DESC);
COMMENT ON TABLE audit_log IS 'tenant: who did what; append-only';
GRANT SELECT, INSERT ON audit_log TO :app;
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_log_insert ON audit_log FOR INSERT WITH CHECK (org_id IS NULL OR visible_org(org_id));
CREATE POLICY audit_log_read ON audit_log FOR SELECT USING (is_platform() OR visible_org(org_id));
CREATE TRIGGER audit_log_keep BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_keep_all BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Rows wait here for the sealer; taking one out unsealed is found by `gpuaas ops verify`.
CREATE TABLE audit_unsealed (audit_id uuid PRIMARY KEY);
COMMENT ON TABLE audit_unsealed IS 'platform: audit rows the sealer has not yet linked into the chain';
GRANT SELECT, INSERT, DELETE ON audit_unsealed TO :app;

CREATE TABLE audit_seals (
    audit_id  uuid NOT NULL,
    seq       bigint NOT NULL,
    version   smallint NOT NULL,
    prev_hash bytea NOT NULL,
    hash      bytea NOT NULL,
    PRIMARY KEY (audit_id)
) PARTITION BY RANGE (audit_id);
CREATE INDEX audit_seals_by_seq ON audit_seals (seq);
COMMENT ON TABLE audit_seals IS 'platform: the hash chain over the audit log; append-only';
GRANT SELECT, INSERT ON audit_seals TO :app;
CREATE TRIGGER audit_seals_keep BEFORE UPDATE OR DELETE ON audit_seals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_seals_keep_all BEFORE TRUNCATE ON audit_seals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A partitioned table cannot keep its numbers unique, so the one row that a sealer must move on does.
CREATE TABLE audit_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    seq      bigint NOT NULL,
    hash     bytea NOT NULL
);
INSERT INTO audit_head (seq, hash) VALUES (0, sha256('gpuaas.audit.genesis'));
COMMENT ON TABLE audit_head IS 'platform: the last link of the audit chain, where the next one is attached';
GRANT SELECT ON audit_head TO :app;
GRANT UPDATE (seq, hash) ON audit_head TO :app;

CREATE TABLE audit_checkpoints (
    seq       bigint PRIMARY KEY,
    hash      bytea NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    key_id    text NOT NULL,
    signature bytea NOT NULL
);
COMMENT ON TABLE audit_checkpoints IS 'platform: signed heads of the audit chain; append-only';
GRANT SELECT, INSERT ON audit_checkpoints TO :app;
CREATE TRIGGER audit_checkpoints_keep BEFORE UPDATE OR DELETE ON audit_checkpoints
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_checkpoints_keep_all BEFORE TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Idempotency: one key of one actor, one request, one outcome ---------------------------------------------------------
CREATE TABLE idempotency_keys (
    actor_id     uuid NOT NULL,
    key          text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    operation    text NOT NULL,
    request_hash bytea NOT NULL,
    status       smallint,
    body         bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (actor_id, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
COMMENT ON TABLE idempotency_keys IS 'actor: the answer already given to a request, without its secrets';
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO :app;
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY idempotency_keys_own ON idempotency_keys USING (visible_actor(actor_id)) WITH CHECK (visible_actor(actor_id));

-- Strict rate lanes: one row per lane and subject holds the theoretical arrival time of the next request ---------------
CREATE TABLE rate_marks (
    lane    text NOT NULL,
    subject text NOT NULL,
    next_at timestamptz NOT NULL,
    PRIMARY KEY (lane, subject)
);
CREATE INDEX rate_marks_by_age ON rate_marks (next_at);
COMMENT ON TABLE rate_marks IS 'platform: strict rate lanes, exact across replicas';
GRANT SELECT, INSERT, UPDATE, DELETE ON rate_marks TO :app;

-- Keys we sign with; private parts are sealed with the master key --------------------------------------------------------
CREATE TABLE signing_keys (
    key_id         text PRIMARY KEY,
    purpose        text NOT NULL CHECK (purpose IN ('issuer', 'audit')),
    public_jwk     jsonb NOT NULL,
    private_sealed bytea NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    signs_from     timestamptz NOT NULL DEFAULT now(),
    signs_until    timestamptz,
    valid_until    timestamptz
);
COMMENT ON TABLE signing_keys IS 'platform: signing keys by purpose, private parts sealed';
GRANT SELECT, INSERT ON signing_keys TO :app;
GRANT UPDATE (signs_until, valid_until) ON signing_keys TO :app;

SELECT ensure_partitions(parent, now() - interval '1 month', 6)
    FROM unnest(ARRAY['outbox', 'inbox', 'audit_log', 'audit_seals']) AS parent;

-- Programs are ready only when the migrations are theirs.
GRANT SELECT ON alembic_version TO :app;
