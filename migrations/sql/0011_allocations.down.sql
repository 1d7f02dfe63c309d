DROP VIEW invariant_04_one_holder, invariant_05_live_have_holds, invariant_06_active_is_proven,
    invariant_09_released_is_clean, invariant_10_cleaning_ends, invariant_14_allocations_move,
    invariant_21_books_are_real;
DROP FUNCTION slots_claim, queue_waits, queue_line, sku_leases;
DROP VIEW sellable_nodes, slots_in_use;
ALTER TABLE node_heartbeats DROP COLUMN leases, DROP COLUMN usage, DROP COLUMN usage_signature, DROP COLUMN usage_before,
    DROP COLUMN silent_from;
DROP TABLE orphans, data_keys, gpu_quotas, sanitisation_certificates, allocation_timeline, allocation_proofs, slot_holds,
    allocations;
DROP TRIGGER projects_stay ON projects;
DROP FUNCTION project_stays;
DROP FUNCTION slot_held;
DROP INDEX slots_free;
ALTER TABLE slots DROP COLUMN held, DROP COLUMN dirty, DROP COLUMN sku_id;
GRANT INSERT, UPDATE ON slots TO :app;
DELETE FROM signing_keys WHERE purpose = 'sanitisation';
ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check,
    ADD CONSTRAINT signing_keys_purpose_check CHECK (purpose IN ('issuer', 'audit'));
