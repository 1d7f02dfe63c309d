DROP TABLE signing_keys, rate_marks, idempotency_keys, audit_checkpoints, audit_head, audit_seals, audit_unsealed,
    audit_log, consumer_progress, delivery_attempts, dead_letters, inbox, outbox;
DROP FUNCTION refuse_change, prune_partitions, ensure_partitions, floor_id, is_platform, visible_actor, visible_org;
