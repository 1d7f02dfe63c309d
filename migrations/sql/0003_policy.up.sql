-- Policy: what is set of each key, for everybody, an organisation or a project.

CREATE TABLE policy_overrides (
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 100),
    org_id      uuid REFERENCES orgs,
    project_id  uuid,
    value       jsonb NOT NULL CHECK (jsonb_typeof(value) IN ('number', 'boolean', 'string')),
    guardrail   boolean NOT NULL,
    set_from    text NOT NULL CHECK (set_from IN ('global', 'org', 'project')),
    set_by      uuid,
    set_by_name text NOT NULL,
    set_at      timestamptz NOT NULL DEFAULT now(),
    reason      text NOT NULL CHECK (length(reason) BETWEEN 3 AND 500),
    CHECK (project_id IS NULL OR org_id IS NOT NULL),
    FOREIGN KEY (org_id, project_id) REFERENCES projects (org_id, id),
    CONSTRAINT policy_overrides_one_place UNIQUE NULLS NOT DISTINCT (key, org_id, project_id)
);
CREATE INDEX policy_overrides_by_org ON policy_overrides (org_id) WHERE org_id IS NOT NULL;
COMMENT ON TABLE policy_overrides IS 'tenant: values of policies by place; those without an organisation hold for all';
GRANT SELECT, INSERT, UPDATE, DELETE ON policy_overrides TO :app;
ALTER TABLE policy_overrides ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_overrides FORCE ROW LEVEL SECURITY;
-- What holds for all is read by all; only the platform writes it (visible_org of nothing is true for it alone).
CREATE POLICY policy_overrides_read ON policy_overrides FOR SELECT USING (org_id IS NULL OR visible_org(org_id));
CREATE POLICY policy_overrides_insert ON policy_overrides FOR INSERT WITH CHECK (visible_org(org_id));
CREATE POLICY policy_overrides_update ON policy_overrides FOR UPDATE
    USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
CREATE POLICY policy_overrides_delete ON policy_overrides FOR DELETE USING (visible_org(org_id));

-- One number that grows with every change: readers poll it, and changes take turns on it.
CREATE TABLE policy_revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL
);
INSERT INTO policy_revision (revision) VALUES (0);
COMMENT ON TABLE policy_revision IS 'platform: grows with every change of a policy, so that readers know when to look';
GRANT SELECT, UPDATE ON policy_revision TO :app;

-- Also a change made by hand is seen by every reader.
CREATE FUNCTION policy_overrides_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE policy_revision SET revision = revision + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER policy_overrides_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON policy_overrides
    FOR EACH STATEMENT EXECUTE FUNCTION policy_overrides_changed();
