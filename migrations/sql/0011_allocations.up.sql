-- Allocations: who holds which GPUs, since when, until when, how it came to be and how it ended.

-- Which slots are free is asked with every request: an index finds the free ones of a SKU without looking at the others.
-- `held` is written by the database alone, from the holds; so is that it is `dirty`: its last tenant's data may be in it.
ALTER TABLE slots ADD COLUMN sku_id uuid REFERENCES skus;
UPDATE slots s SET sku_id = n.sku_id FROM nodes n WHERE n.id = s.node_id;
DELETE FROM slots WHERE sku_id IS NULL;
ALTER TABLE slots ALTER COLUMN sku_id SET NOT NULL, ADD COLUMN held boolean NOT NULL DEFAULT false,
    ADD COLUMN dirty boolean NOT NULL DEFAULT false;
CREATE INDEX slots_free ON slots (sku_id, node_id, gpu_index) WHERE present AND NOT held;
REVOKE INSERT, UPDATE ON slots FROM :app;
GRANT INSERT (id, node_id, sku_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, iommu_group,
              nvme_address, fabric_address, present) ON slots TO :app;
GRANT UPDATE (gpu_index, address, vendor, model, memory_bytes, numa, iommu_group, nvme_address, fabric_address, present,
              last_seen_at, dirty) ON slots TO :app;

ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check,
    ADD CONSTRAINT signing_keys_purpose_check CHECK (purpose IN ('issuer', 'audit', 'sanitisation'));

CREATE TABLE allocations (
    id                   uuid PRIMARY KEY,
    org_id               uuid NOT NULL REFERENCES orgs,
    project_id           uuid NOT NULL REFERENCES projects,
    name                 text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    sku_id               uuid NOT NULL REFERENCES skus,
    gpu_count            integer NOT NULL CHECK (gpu_count BETWEEN 1 AND 64),
    node_count           integer NOT NULL CHECK (node_count BETWEEN 1 AND 64),
    isolation            text NOT NULL CHECK (isolation IN ('user-revoke', 'full-reimage')),
    price_id             uuid NOT NULL REFERENCES sku_prices,
    tags                 text[] NOT NULL DEFAULT '{}',
    requested_by         text NOT NULL,
    requested_by_id      uuid,
    ssh_keys             text[] NOT NULL,
    state                text NOT NULL CHECK (state IN ('requested', 'provisioning', 'active', 'stopping', 'stopped',
                                                        'starting', 'releasing', 'released', 'failed',
                                                        'release_failed')),
    state_since          timestamptz NOT NULL DEFAULT now(),
    due_at               timestamptz,
    version              bigint NOT NULL DEFAULT 1,
    -- waiting
    priority             integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100),
    placement            text NOT NULL DEFAULT '',
    -- what is sensitive, sealed with a data key: how to log in
    connection_sealed    bytea,
    -- lifetime
    lease_seconds        integer NOT NULL CHECK (lease_seconds > 0),
    active_at            timestamptz,
    expires_at           timestamptz,
    ends_at              timestamptz,
    expiry_warned_at     timestamptz,
    idle_since           timestamptz,
    idle_warned_at       timestamptz,
    reclaim_at           timestamptz,
    -- health of what is held
    degraded_since       timestamptz,
    degraded_reason      text NOT NULL DEFAULT '',
    -- stopped: its login is closed and nothing of it runs; its home and its GPUs are kept
    stop_reason          text NOT NULL DEFAULT '' CHECK (stop_reason IN ('', 'user', 'balance', 'budget')),
    stopped_by           text NOT NULL DEFAULT '',
    stop_requested_at    timestamptz,
    stop_due_at          timestamptz,
    stop_unpaid          boolean NOT NULL DEFAULT false,
    stop_after           timestamptz,
    -- the end
    release_requested_at timestamptz,
    release_reason       text NOT NULL DEFAULT '',
    released_by          text NOT NULL DEFAULT '',
    forced               boolean NOT NULL DEFAULT false,
    force_attempts       integer NOT NULL DEFAULT 0,
    force_after          timestamptz,
    ended_at             timestamptz,
    failure_code         text NOT NULL DEFAULT '',
    failure              text NOT NULL DEFAULT '',
    correlation_id       text NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    CHECK ((ended_at IS NOT NULL) = (state IN ('released', 'failed'))),
    CHECK (stop_reason <> '' OR state NOT IN ('stopping', 'stopped', 'starting'))
);
CREATE UNIQUE INDEX allocations_one_name ON allocations (project_id, name) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_by_project ON allocations (project_id, id DESC);
CREATE INDEX allocations_by_org ON allocations (org_id, id DESC);
CREATE INDEX allocations_waiting ON allocations (sku_id, id) WHERE state = 'requested';
CREATE INDEX allocations_due ON allocations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX allocations_live ON allocations (state, id) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_live_by_org ON allocations (org_id, project_id) WHERE state NOT IN ('released', 'failed');
COMMENT ON TABLE allocations IS 'tenant: GPUs asked for, held and given back';

-- One for each GPU of an allocation. A slot has at most one that has not ended: the index decides every race.
CREATE TABLE slot_holds (
    id            uuid PRIMARY KEY,
    org_id        uuid NOT NULL,
    allocation_id uuid NOT NULL REFERENCES allocations,
    slot_id       uuid NOT NULL REFERENCES slots,
    node_id       uuid NOT NULL REFERENCES nodes,
    serial        text NOT NULL,
    state         text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'cleaning', 'unused', 'clean', 'quarantined')),
    state_since   timestamptz NOT NULL DEFAULT now(),
    due_at        timestamptz,
    held_at       timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    CHECK ((ended_at IS NULL) = (state IN ('held', 'cleaning')))
);
CREATE UNIQUE INDEX slot_holds_one_open ON slot_holds (slot_id) WHERE ended_at IS NULL;
CREATE INDEX slot_holds_by_allocation ON slot_holds (allocation_id);
CREATE INDEX slot_holds_by_node ON slot_holds (node_id) WHERE ended_at IS NULL;
CREATE INDEX slot_holds_by_org ON slot_holds (org_id, ended_at);
COMMENT ON TABLE slot_holds IS 'tenant: which allocation holds which GPU, and how it was given back';

CREATE FUNCTION slot_held() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
    UPDATE slots SET held = (NEW.ended_at IS NULL),
        dirty = CASE NEW.state WHEN 'quarantined' THEN true WHEN 'clean' THEN false ELSE dirty END
    WHERE id = NEW.slot_id AND held IS DISTINCT FROM (NEW.ended_at IS NULL);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION slot_held FROM PUBLIC;
CREATE TRIGGER slot_holds_follow AFTER INSERT OR UPDATE OF ended_at ON slot_holds
    FOR EACH ROW EXECUTE FUNCTION slot_held();

-- A project with a live allocation stays: whoever deletes it and whoever asks for GPUs in it take turns at its row.
CREATE FUNCTION project_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM allocations WHERE project_id = NEW.id AND state NOT IN ('released', 'failed')) THEN
        RAISE EXCEPTION 'the project has live allocations'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'projects_without_allocations';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER projects_stay BEFORE UPDATE OF deleted_at ON projects
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION project_stays();

-- Slots somebody has or is about to have; not those of releases that failed, whose tenant has left.
CREATE VIEW slots_in_use WITH (security_invoker = true) AS
SELECT h.slot_id, h.node_id FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id
WHERE h.ended_at IS NULL AND a.state <> 'release_failed';
GRANT SELECT ON slots_in_use TO :app;

-- What showed that exactly these GPUs were usable.
CREATE TABLE allocation_proofs (
    id            uuid PRIMARY KEY,
    org_id        uuid NOT NULL,
    allocation_id uuid NOT NULL REFERENCES allocations,
    node_id       uuid NOT NULL REFERENCES nodes,
    task_id       uuid NOT NULL,
    serials       text[] NOT NULL,
    passed        boolean NOT NULL,
    detail        text NOT NULL DEFAULT '',
    at            timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT allocation_proofs_once UNIQUE (task_id)
);
CREATE INDEX allocation_proofs_by_allocation ON allocation_proofs (allocation_id);
COMMENT ON TABLE allocation_proofs IS 'tenant: health reports of exactly the GPUs of an allocation; append-only';

CREATE TABLE allocation_timeline (
    id             uuid PRIMARY KEY,
    org_id         uuid NOT NULL,
    allocation_id  uuid NOT NULL REFERENCES allocations,
    phase          text NOT NULL CHECK (length(phase) BETWEEN 1 AND 60),
    detail         text NOT NULL DEFAULT '',
    actor          text NOT NULL,
    correlation_id text NOT NULL,
    at             timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX allocation_timeline_by_allocation ON allocation_timeline (allocation_id, at, id);
COMMENT ON TABLE allocation_timeline IS 'tenant: what happened to an allocation, in order; append-only';

CREATE TABLE sanitisation_certificates (
    id            uuid PRIMARY KEY,
    org_id        uuid NOT NULL,
    allocation_id uuid NOT NULL REFERENCES allocations,
    node_id       uuid NOT NULL REFERENCES nodes,
    serials       text[] NOT NULL,
    key_id        text NOT NULL,
    envelope      text NOT NULL,
    issued_at     timestamptz NOT NULL,
    CONSTRAINT sanitisation_certificates_one UNIQUE (allocation_id, node_id)
);
COMMENT ON TABLE sanitisation_certificates IS 'tenant: signed statements of how GPUs were cleaned after a release; append-only';

CREATE TABLE gpu_quotas (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES orgs,
    project_id uuid REFERENCES projects,
    gpu_model  text NOT NULL,
    gpus       integer NOT NULL CHECK (gpus BETWEEN 0 AND 1000000),
    set_by     text NOT NULL,
    set_at     timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX gpu_quotas_one ON gpu_quotas (org_id, project_id, gpu_model) NULLS NOT DISTINCT;
COMMENT ON TABLE gpu_quotas IS 'tenant: how many GPUs of a model an organisation or a project may hold, where that differs from the policy';

CREATE TABLE data_keys (
    id         uuid PRIMARY KEY,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);
CREATE UNIQUE INDEX data_keys_one_current ON data_keys ((true)) WHERE retired_at IS NULL;
COMMENT ON TABLE data_keys IS 'platform: keys that seal sensitive fields, themselves sealed with the master key';

-- What agents say is there and the books do not know, or the other way round.
CREATE TABLE orphans (
    id            uuid PRIMARY KEY,
    node_id       uuid NOT NULL REFERENCES nodes,
    kind          text NOT NULL CHECK (kind IN ('account', 'lease', 'missing_account', 'missing_lease', 'usage')),
    name          text NOT NULL,
    allocation_id uuid,
    detail        text NOT NULL DEFAULT '',
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at  timestamptz NOT NULL DEFAULT now(),
    told_at       timestamptz,
    task_id       uuid,
    ended_at      timestamptz
);
CREATE UNIQUE INDEX orphans_one_open ON orphans (node_id, kind, name) WHERE ended_at IS NULL;
COMMENT ON TABLE orphans IS 'platform: differences between what agents observe and what the books say';

DO $$
DECLARE named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['allocations', 'slot_holds', 'allocation_proofs', 'allocation_timeline',
                                 'sanitisation_certificates', 'gpu_quotas'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_org(org_id)) WITH CHECK (visible_org(org_id))',
                       named || '_tenant', named);
    END LOOP;
    FOREACH named IN ARRAY ARRAY['allocation_proofs', 'allocation_timeline', 'sanitisation_certificates'] LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()',
                       named || '_keep', named);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
                       named || '_keep_all', named);
    END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE ON allocations, slot_holds, orphans, data_keys TO :app;
GRANT DELETE ON orphans TO :app;
GRANT SELECT, INSERT ON allocation_proofs, allocation_timeline, sanitisation_certificates TO :app;
GRANT SELECT, INSERT, UPDATE, DELETE ON gpu_quotas TO :app;

-- What the agent says it has leased, to whom: allocation id → serial numbers.
ALTER TABLE node_heartbeats ADD COLUMN leases jsonb NOT NULL DEFAULT '{}',
    -- allocation id → seconds in which its GPUs could be used, as the agent counted and its node's key signed; and what it
    -- had said before it was silent last
    ADD COLUMN usage jsonb NOT NULL DEFAULT '{}', ADD COLUMN usage_signature text NOT NULL DEFAULT '',
    ADD COLUMN usage_before jsonb NOT NULL DEFAULT '{}', ADD COLUMN silent_from timestamptz;

-- Placement --------------------------------------------------------------------------------------------------------
-- The nodes that may be sold from, but for how long one may be silent, which a policy says. The same rules as those of
-- the registry of nodes in words; a test compares both over all combinations.
CREATE VIEW sellable_nodes WITH (security_invoker = true) AS
SELECT n.id, n.name, n.sku_id, h.seen_at
FROM nodes n JOIN node_heartbeats h ON h.node_id = n.id
WHERE n.state = 'active' AND NOT n.cordoned AND NOT n.drained AND n.quarantine_reason IS NULL
  AND n.inspected_at IS NOT NULL AND n.host_healthy AND n.differences = '{}' AND h.liveness = 'online';
GRANT SELECT ON sellable_nodes TO :app;

-- All of so many slots, the first of the wanted that can be had, or none. A failed attempt gives up the locks it had
-- taken, so that two who each got half of what both need do not keep it from each other; it says which it had got.
-- Nodes before slots, in one order, as everybody locks them. Who is patient waits for whoever is about to take a slot.
-- Planned once: the plans are the same for all, and planning would cost more than the claim.
CREATE FUNCTION slots_claim(claimant uuid, of_org uuid, wanted uuid[], needed integer, lease_seconds integer,
                            patient boolean)
RETURNS TABLE (slot_id uuid, hold_id uuid, node_id uuid, serial text, held_at timestamptz) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan AS $$
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
REVOKE ALL ON FUNCTION slots_claim FROM PUBLIC;
GRANT EXECUTE ON FUNCTION slots_claim TO :app;

-- Facts about everybody that a tenant's place in the line follows from, without a name of anybody.
CREATE FUNCTION queue_waits(sku uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE sight text := coalesce(current_setting('app.org_id', true), ''); waits boolean;
BEGIN
    PERFORM set_config('app.org_id', '*', true);
    waits := EXISTS (SELECT FROM allocations a WHERE a.sku_id = sku AND a.state = 'requested');
    PERFORM set_config('app.org_id', sight, true);
    RETURN waits;
END $$;

-- Who waits for a SKU, with how many seconds of its GPUs his organisation has had, those of long ago counting less.
CREATE FUNCTION queue_line(sku uuid, half_life_seconds double precision, longest integer)
RETURNS TABLE (id uuid, org_id uuid, gpu_count integer, node_count integer, priority integer, lease_seconds integer,
               waiting_since timestamptz, used_gpu_seconds double precision) LANGUAGE plpgsql AS $$
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

-- When GPUs of a SKU are due to be given back: how many, of which group of which node.
CREATE FUNCTION sku_leases(sku uuid, longest integer)
RETURNS TABLE (node_id uuid, numa integer, gpus bigint, state text, expires_at timestamptz) LANGUAGE plpgsql AS $$
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
REVOKE ALL ON FUNCTION queue_waits, queue_line, sku_leases FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_waits, queue_line, sku_leases TO :app;

-- Invariants -------------------------------------------------------------------------------------------------------
CREATE VIEW invariant_04_one_holder WITH (security_invoker = true) AS
SELECT slot_id::text AS subject, 'held ' || count(*) || ' times at once' AS problem
FROM slot_holds WHERE ended_at IS NULL GROUP BY slot_id HAVING count(*) > 1
UNION ALL
SELECT s.id::text, 'the slot says held = ' || s.held || ', its holds say otherwise'
FROM slots s WHERE s.held IS DISTINCT FROM EXISTS (SELECT FROM slot_holds h WHERE h.slot_id = s.id AND h.ended_at IS NULL);
COMMENT ON VIEW invariant_04_one_holder IS 'no slot is held by two allocations';

CREATE VIEW invariant_05_live_have_holds WITH (security_invoker = true) AS
SELECT a.id::text AS subject, 'it is ' || a.state || ' and holds ' || count(h.id) || ' slots of ' || a.gpu_count * a.node_count
       AS problem
FROM allocations a LEFT JOIN slot_holds h ON h.allocation_id = a.id AND h.ended_at IS NULL
WHERE a.state IN ('provisioning', 'active', 'stopping', 'stopped', 'starting', 'releasing', 'release_failed')
GROUP BY a.id HAVING count(h.id) <> a.gpu_count * a.node_count
UNION ALL
SELECT h.id::text, 'a hold of an allocation that is ' || a.state
FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id
WHERE h.ended_at IS NULL AND a.state IN ('requested', 'released', 'failed');
COMMENT ON VIEW invariant_05_live_have_holds IS 'a live allocation has its holds, and no hold is without one';

CREATE VIEW invariant_06_active_is_proven WITH (security_invoker = true) AS
SELECT a.id::text AS subject, 'active without a passed health report of exactly its GPUs' AS problem
FROM allocations a
WHERE a.state = 'active' AND (
    SELECT coalesce(array_agg(h.serial ORDER BY h.serial), '{}') FROM slot_holds h
    WHERE h.allocation_id = a.id AND h.ended_at IS NULL
) IS DISTINCT FROM (
    SELECT coalesce(array_agg(DISTINCT s ORDER BY s), '{}') FROM allocation_proofs p, unnest(p.serials) AS s
    WHERE p.allocation_id = a.id AND p.passed
);
COMMENT ON VIEW invariant_06_active_is_proven IS 'an active allocation has a passed health report of exactly its slots';

CREATE VIEW invariant_09_released_is_clean WITH (security_invoker = true) AS
SELECT a.id::text AS subject, 'released, and GPU ' || h.serial || ' is ' || h.state AS problem
FROM allocations a JOIN slot_holds h ON h.allocation_id = a.id
WHERE a.state = 'released' AND h.state NOT IN ('clean', 'quarantined')
UNION ALL
SELECT h.id::text, 'said to be clean, without a certificate that says how'
FROM slot_holds h
WHERE h.state = 'clean' AND NOT EXISTS (
    SELECT FROM sanitisation_certificates c
    WHERE c.allocation_id = h.allocation_id AND c.node_id = h.node_id AND h.serial = ANY(c.serials))
UNION ALL
SELECT h.id::text, 'given back as unused, though somebody had an account on it'
FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id
WHERE h.state = 'unused' AND a.active_at IS NOT NULL;
COMMENT ON VIEW invariant_09_released_is_clean IS 'a released GPU is clean with evidence, or in quarantine';

CREATE VIEW invariant_10_cleaning_ends WITH (security_invoker = true) AS
SELECT id::text AS subject, 'cleaning since ' || state_since || ', and should not be since ' || due_at AS problem
FROM slot_holds WHERE state = 'cleaning' AND due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_10_cleaning_ends IS 'cleaning lasts no longer than its deadline';

CREATE VIEW invariant_14_allocations_move WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the allocation is ' || state || ' and should not be since ' || due_at AS problem
FROM allocations
WHERE state IN ('requested', 'provisioning', 'stopping', 'stopped', 'starting', 'releasing')
  AND (due_at IS NULL OR due_at < now() - interval '60 seconds');
COMMENT ON VIEW invariant_14_allocations_move IS 'no allocation is past the deadline of its state by over 60 seconds';

CREATE VIEW invariant_21_books_are_real WITH (security_invoker = true) AS
SELECT id::text AS subject, kind || ' ' || name || ' on node ' || node_id || ' since ' || first_seen_at AS problem
FROM orphans WHERE ended_at IS NULL AND first_seen_at < now() - interval '120 seconds';
COMMENT ON VIEW invariant_21_books_are_real IS 'what agents observe is what the books say, within one sweep';

GRANT SELECT ON invariant_04_one_holder, invariant_05_live_have_holds, invariant_06_active_is_proven,
    invariant_09_released_is_clean, invariant_10_cleaning_ends, invariant_14_allocations_move,
    invariant_21_books_are_real TO :app;
