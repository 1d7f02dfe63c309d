-- What must always hold of nodes and their tasks; asked like all invariants, by `gpuaas ops verify`.

CREATE VIEW invariant_14_tasks_move WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the task is ' || state || ' and should not be since ' || due_at AS problem
FROM tasks
WHERE state IN ('queued', 'ready', 'delivered', 'running') AND due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_tasks_move IS 'no task is past the deadline of its state by over 60 seconds';

CREATE VIEW invariant_14_artifacts_move WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the artifact is ' || state || ' and should not be since ' || due_at AS problem
FROM agent_artifacts WHERE due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_artifacts_move IS 'no upload of an agent''s version is past its deadline by over 60 seconds';

-- Old tasks are pruned, the oldest first: what is left has no gap.
CREATE VIEW invariant_15_task_sequence WITH (security_invoker = true) AS
SELECT t.node_id::text AS subject,
       'tasks ' || min(t.sequence) || ' to ' || max(t.sequence) || ' are ' || count(*) || ': some number is missing'
       AS problem
FROM tasks t WHERE t.sequence IS NOT NULL
GROUP BY t.node_id HAVING count(*) <> max(t.sequence) - min(t.sequence) + 1
UNION ALL
SELECT q.node_id::text, 'the last number given out is ' || q.last_issued || ', the highest task''s is ' || last.sequence
FROM task_sequences q
CROSS JOIN LATERAL (SELECT max(sequence) AS sequence FROM tasks t WHERE t.node_id = q.node_id) last
WHERE last.sequence > q.last_issued OR (last.sequence < q.last_issued AND last.sequence IS NOT NULL)
UNION ALL
SELECT q.node_id::text, 'the agent is said to know task ' || q.accepted || ', which was never issued'
FROM task_sequences q WHERE q.accepted > q.last_issued;
COMMENT ON VIEW invariant_15_task_sequence IS 'the numbers of a node''s tasks have no gap';

CREATE VIEW invariant_15_one_result WITH (security_invoker = true) AS
SELECT id::text AS subject, 'its result is from node ' || reported_by || ', but it was given to ' || node_id AS problem
FROM tasks WHERE reported_by <> node_id
UNION ALL
SELECT id::text, 'it is ' || state || ' without a result'
FROM tasks WHERE state IN ('done', 'failed', 'refused') AND report_hash IS NULL
UNION ALL
SELECT id::text, 'it has a result and was never handed over' FROM tasks WHERE report_hash IS NOT NULL AND delivered_at IS NULL
UNION ALL
SELECT id::text, 'it has a result and is still ' || state
FROM tasks WHERE report_hash IS NOT NULL AND state IN ('queued', 'ready', 'delivered', 'running')
UNION ALL
SELECT id::text, 'it was handed over without being signed' FROM tasks WHERE delivered_at IS NOT NULL AND envelope IS NULL;
COMMENT ON VIEW invariant_15_one_result IS 'a task has at most one accepted result, from the node it was given to';

CREATE VIEW invariant_20_tasks_signed_while_valid WITH (security_invoker = true) AS
SELECT t.id::text AS subject, 'signed by ' || t.key_id || ' outside of its validity' AS problem
FROM tasks t JOIN task_keys k USING (key_id)
WHERE t.issued_at < k.valid_from - interval '60 seconds' OR t.issued_at > k.valid_until + interval '60 seconds'
UNION ALL
SELECT t.id::text, 'it may be followed for longer than ten minutes'
FROM tasks t WHERE t.expires_at > t.issued_at + interval '10 minutes';
COMMENT ON VIEW invariant_20_tasks_signed_while_valid IS 'no task is signed by a key outside of its validity, nor for longer than ten minutes';

CREATE VIEW invariant_36_live_nodes_speak WITH (security_invoker = true) AS
SELECT h.node_id::text AS subject, 'online, and silent since ' || h.seen_at AS problem
FROM node_heartbeats h JOIN nodes n ON n.id = h.node_id
WHERE n.state = 'active' AND h.liveness = 'online' AND h.seen_at < now() - interval '11 minutes';
COMMENT ON VIEW invariant_36_live_nodes_speak IS 'no node is noted as online beyond the longest lease there can be';

CREATE VIEW invariant_37_slots_of_nodes WITH (security_invoker = true) AS
SELECT s.id::text AS subject, 'a slot of a node that does not exist' AS problem
FROM slots s WHERE NOT EXISTS (SELECT FROM nodes n WHERE n.id = s.node_id)
UNION ALL
SELECT q.id::text, 'a quarantine of a slot that is not of its node and serial number'
FROM slot_quarantines q
WHERE NOT EXISTS (SELECT FROM slots s WHERE s.id = q.slot_id AND s.node_id = q.node_id AND s.serial = q.serial);
COMMENT ON VIEW invariant_37_slots_of_nodes IS 'every slot is of a node, every quarantine of a slot';

CREATE VIEW invariant_37_one_gpu_one_node WITH (security_invoker = true) AS
SELECT s.id::text AS subject, 'node ' || o.node_id || ' claims the GPU ' || s.serial || ' as well, and it is on sale' AS problem
FROM slots s
JOIN nodes n ON n.id = s.node_id AND n.state = 'active'
JOIN slots o ON o.serial = s.serial AND o.node_id <> s.node_id AND o.present
JOIN nodes m ON m.id = o.node_id AND m.state = 'active'
WHERE s.present AND NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL);
COMMENT ON VIEW invariant_37_one_gpu_one_node IS 'a GPU that two nodes claim to have is in quarantine on both';

GRANT SELECT ON invariant_14_artifacts_move, invariant_14_tasks_move, invariant_15_task_sequence, invariant_15_one_result,
    invariant_20_tasks_signed_while_valid, invariant_36_live_nodes_speak, invariant_37_slots_of_nodes,
    invariant_37_one_gpu_one_node TO :app;
