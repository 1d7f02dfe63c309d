DROP VIEW invariant_11_outbox_drains, invariant_11_inbox_complete, invariant_12_one_outcome,
    invariant_14_dead_letters_move, invariant_19_audit_chain, invariant_20_signed_while_valid,
    invariant_30_org_has_owner, invariant_31_deleted_orgs_are_empty, invariant_32_project_members_belong,
    invariant_33_no_orphaned_keys, invariant_34_months_ahead;
