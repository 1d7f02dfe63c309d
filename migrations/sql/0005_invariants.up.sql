-- What must always hold: each view is empty, or names what does not. Numbers below 30 are those of the reliability
-- promises; 30 and above are the foundation's own. A view's comment is the statement it checks.
-- They are read with the platform's sight, by `gpuaas ops verify`.

CREATE VIEW invariant_11_outbox_drains WITH (security_invoker = true) AS
SELECT id::text AS subject, 'event ' || name || ' waits to be published since ' || created_at AS problem
FROM outbox WHERE published_at IS NULL AND created_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_11_outbox_drains IS 'every event is published within 60 seconds while the bus is up';

-- The auditor looks at every consumer every few seconds and stops where an event is missing.
CREATE VIEW invariant_11_inbox_complete WITH (security_invoker = true) AS
SELECT p.consumer || ' ' || o.id AS subject,
       'the consumer is not known to have handled event ' || o.name || ' of ' || o.created_at AS problem
FROM consumer_progress p
CROSS JOIN LATERAL (
    SELECT id, name, created_at FROM outbox
    WHERE id > p.checked_through AND id < floor_id(now() - interval '120 seconds')
      AND created_at < now() - interval '120 seconds'
    ORDER BY id LIMIT 1
) o;
COMMENT ON VIEW invariant_11_inbox_complete IS 'every consumer has handled every event of its within 120 seconds';

CREATE VIEW invariant_12_one_outcome WITH (security_invoker = true) AS
SELECT actor_id || ' ' || key AS subject, 'the key is stored without its request, status or answer' AS problem
FROM idempotency_keys WHERE status IS NULL OR body IS NULL OR octet_length(request_hash) <> 32;
COMMENT ON VIEW invariant_12_one_outcome IS 'one idempotency key has one request and one outcome';

CREATE VIEW invariant_14_dead_letters_move WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the replay should have ended by ' || state_since + interval '5 minutes' AS problem
FROM dead_letters WHERE state = 'replaying' AND state_since < now() - interval '6 minutes';
COMMENT ON VIEW invariant_14_dead_letters_move IS 'no dead letter is past the deadline of its state by over 60 seconds';

-- What sets tell; hashes and signatures are recomputed link by link beside this (domains/audit).
CREATE VIEW invariant_19_audit_chain WITH (security_invoker = true) AS
SELECT 'audit row ' || a.id AS subject, 'not sealed 60 seconds after it was written' AS problem
FROM audit_log a
WHERE (a.at < now() - interval '60 seconds' OR a.id < floor_id(now() - interval '60 seconds'))
  AND NOT EXISTS (SELECT FROM audit_seals s WHERE s.audit_id = a.id)
UNION ALL
SELECT 'audit row ' || a.id, 'dated in the future: ' || a.at
FROM audit_log a WHERE a.at > now() + interval '60 seconds'
UNION ALL
SELECT 'audit row ' || u.audit_id, 'waits to be sealed, but is gone'
FROM audit_unsealed u WHERE NOT EXISTS (SELECT FROM audit_log a WHERE a.id = u.audit_id)
UNION ALL
SELECT 'audit row ' || u.audit_id, 'waits to be sealed, but is sealed already'
FROM audit_unsealed u WHERE EXISTS (SELECT FROM audit_seals s WHERE s.audit_id = u.audit_id)
UNION ALL
SELECT 'checkpoint ' || c.seq, 'no link of the chain has this number and hash'
FROM audit_checkpoints c WHERE NOT EXISTS (SELECT FROM audit_seals s WHERE s.seq = c.seq AND s.hash = c.hash)
UNION ALL
SELECT 'link ' || h.seq, 'the head of the chain is not its last link'
FROM audit_head h
CROSS JOIN LATERAL (
    SELECT seq, hash FROM (
        SELECT s.seq, s.hash FROM audit_seals s UNION ALL SELECT 0, sha256('gpuaas.audit.genesis')
    ) links ORDER BY seq DESC LIMIT 1
) last
WHERE (h.seq, h.hash) IS DISTINCT FROM (last.seq, last.hash);
COMMENT ON VIEW invariant_19_audit_chain IS 'the audit chain holds: every row sealed, every seal with its row, heads signed';

CREATE VIEW invariant_20_signed_while_valid WITH (security_invoker = true) AS
SELECT 'checkpoint ' || c.seq AS subject, 'signed by key ' || c.key_id || ' outside of its time' AS problem
FROM audit_checkpoints c LEFT JOIN signing_keys k ON k.key_id = c.key_id AND k.purpose = 'audit'
WHERE k.key_id IS NULL OR c.at < k.signs_from - interval '60 seconds' OR c.at > k.signs_until + interval '60 seconds';
COMMENT ON VIEW invariant_20_signed_while_valid IS 'nothing is signed by a key outside of its validity';

CREATE VIEW invariant_30_org_has_owner WITH (security_invoker = true) AS
SELECT o.id::text AS subject, 'the organisation ' || o.name || ' has no owner' AS problem
FROM orgs o
WHERE o.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM org_members m WHERE m.org_id = o.id AND m.role = 'owner');
COMMENT ON VIEW invariant_30_org_has_owner IS 'every live organisation has an owner';

CREATE VIEW invariant_31_deleted_orgs_are_empty WITH (security_invoker = true) AS
SELECT p.id::text AS subject, 'the project lives in the deleted organisation ' || o.name AS problem
FROM projects p JOIN orgs o ON o.id = p.org_id WHERE o.deleted_at IS NOT NULL AND p.deleted_at IS NULL;
COMMENT ON VIEW invariant_31_deleted_orgs_are_empty IS 'no project lives in a deleted organisation';

CREATE VIEW invariant_32_project_members_belong WITH (security_invoker = true) AS
SELECT m.project_id || ' ' || m.user_id AS subject, 'a member of the project, not of its organisation' AS problem
FROM project_members m
WHERE NOT EXISTS (SELECT FROM org_members o WHERE o.org_id = m.org_id AND o.user_id = m.user_id)
   OR NOT EXISTS (SELECT FROM projects p WHERE p.id = m.project_id AND p.org_id = m.org_id);
COMMENT ON VIEW invariant_32_project_members_belong IS 'who is in a project is in its organisation';

CREATE VIEW invariant_33_no_orphaned_keys WITH (security_invoker = true) AS
SELECT k.id::text AS subject, 'a live key of the deleted service account ' || a.name AS problem
FROM service_account_keys k JOIN service_accounts a ON a.id = k.service_account_id
WHERE a.deleted_at IS NOT NULL AND k.revoked_at IS NULL AND k.expires_at > now();
COMMENT ON VIEW invariant_33_no_orphaned_keys IS 'a deleted service account has no live key';

CREATE VIEW invariant_34_months_ahead WITH (security_invoker = true) AS
SELECT parent || '_p' || month AS subject, 'the partition of that month is missing: its rows would be refused' AS problem
FROM unnest(ARRAY['outbox', 'inbox', 'audit_log', 'audit_seals']) AS parent,
     LATERAL (SELECT to_char((now() AT TIME ZONE 'UTC') + i * interval '1 month', 'YYYYMM') AS month
              FROM generate_series(0, 1) AS i) AS months
WHERE to_regclass(parent || '_p' || month) IS NULL;
COMMENT ON VIEW invariant_34_months_ahead IS 'tables cut by month have their partitions for this month and the next';

GRANT SELECT ON invariant_11_outbox_drains, invariant_11_inbox_complete, invariant_12_one_outcome,
    invariant_14_dead_letters_move, invariant_19_audit_chain, invariant_20_signed_while_valid,
    invariant_30_org_has_owner, invariant_31_deleted_orgs_are_empty, invariant_32_project_members_belong,
    invariant_33_no_orphaned_keys, invariant_34_months_ahead TO :app;
