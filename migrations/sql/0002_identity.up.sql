-- People, organisations, projects, memberships, service accounts, SSH keys, revoked credentials.

CREATE TABLE users (
    id             uuid PRIMARY KEY,
    issuer         text NOT NULL,
    subject        text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    email          text NOT NULL,
    email_verified boolean NOT NULL,
    name           text NOT NULL,
    platform_roles text[] NOT NULL DEFAULT '{}'
        CHECK (platform_roles <@ ARRAY['platform-admin', 'platform-auditor']),
    state          text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')),
    created_at     timestamptz NOT NULL DEFAULT now(),
    last_login_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (issuer, subject)
);
CREATE INDEX users_by_email ON users (lower(email));
COMMENT ON TABLE users IS 'actor: people, one per subject of an issuer';
GRANT SELECT, INSERT, UPDATE ON users TO :app;

CREATE TABLE orgs (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    title       text NOT NULL,
    personal_of uuid UNIQUE REFERENCES users,
    created_at  timestamptz NOT NULL DEFAULT now(),
    deleted_at  timestamptz
);
CREATE UNIQUE INDEX orgs_one_name ON orgs (name) WHERE deleted_at IS NULL;
COMMENT ON TABLE orgs IS 'tenant: organisations; id is the org_id';
GRANT SELECT, INSERT, UPDATE ON orgs TO :app;

CREATE TABLE projects (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES orgs,
    name       text NOT NULL,
    title      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    UNIQUE (org_id, id)
);
CREATE UNIQUE INDEX projects_one_name ON projects (org_id, name) WHERE deleted_at IS NULL;
CREATE INDEX projects_by_org ON projects (org_id, id) WHERE deleted_at IS NULL;
COMMENT ON TABLE projects IS 'tenant: projects';
GRANT SELECT, INSERT, UPDATE ON projects TO :app;

CREATE TABLE org_members (
    org_id     uuid NOT NULL REFERENCES orgs,
    user_id    uuid NOT NULL REFERENCES users,
    role       text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer', 'billing')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX org_members_by_user ON org_members (user_id);
COMMENT ON TABLE org_members IS 'tenant: roles of people in organisations';
GRANT SELECT, INSERT, UPDATE, DELETE ON org_members TO :app;

CREATE TABLE project_members (
    org_id     uuid NOT NULL,
    project_id uuid NOT NULL,
    user_id    uuid NOT NULL REFERENCES users,
    role       text NOT NULL CHECK (role IN ('admin', 'member', 'viewer', 'billing')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, user_id),
    FOREIGN KEY (org_id, project_id) REFERENCES projects (org_id, id),
    FOREIGN KEY (org_id, user_id) REFERENCES org_members ON DELETE CASCADE
);
CREATE INDEX project_members_by_user ON project_members (user_id);
COMMENT ON TABLE project_members IS 'tenant: further roles of an organisation''s members in one project';
GRANT SELECT, INSERT, UPDATE, DELETE ON project_members TO :app;

CREATE TABLE invitations (
    id          uuid PRIMARY KEY,
    org_id      uuid NOT NULL REFERENCES orgs,
    email       text NOT NULL,
    role        text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer', 'billing')),
    token_hash  bytea NOT NULL UNIQUE,
    invited_by  uuid NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    accepted_at timestamptz,
    revoked_at  timestamptz
);
CREATE UNIQUE INDEX invitations_one_open ON invitations (org_id, lower(email))
    WHERE accepted_at IS NULL AND revoked_at IS NULL;
COMMENT ON TABLE invitations IS 'tenant: invitations into an organisation';
GRANT SELECT, INSERT, UPDATE ON invitations TO :app;

CREATE TABLE service_accounts (
    id                 uuid PRIMARY KEY,
    org_id             uuid NOT NULL REFERENCES orgs,
    project_id         uuid,
    name               text NOT NULL,
    role               text NOT NULL CHECK (role IN ('admin', 'member', 'viewer', 'billing')),
    allowed_operations text[] NOT NULL,
    created_by         uuid NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    deleted_at         timestamptz,
    FOREIGN KEY (org_id, project_id) REFERENCES projects (org_id, id),
    UNIQUE (org_id, id)
);
CREATE UNIQUE INDEX service_accounts_one_name ON service_accounts (org_id, name) WHERE deleted_at IS NULL;
COMMENT ON TABLE service_accounts IS 'tenant: machine identities with a role and an allow-list';
GRANT SELECT, INSERT, UPDATE ON service_accounts TO :app;

CREATE TABLE service_account_keys (
    id                 uuid PRIMARY KEY,
    org_id             uuid NOT NULL,
    service_account_id uuid NOT NULL,
    key_hash           bytea NOT NULL UNIQUE,
    hint               text NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    expires_at         timestamptz NOT NULL,
    revoked_at         timestamptz,
    last_used_at       timestamptz,
    FOREIGN KEY (org_id, service_account_id) REFERENCES service_accounts (org_id, id)
);
CREATE INDEX service_account_keys_by_account ON service_account_keys (service_account_id);
COMMENT ON TABLE service_account_keys IS 'tenant: hashed, expiring keys of service accounts';
GRANT SELECT, INSERT ON service_account_keys TO :app;
GRANT UPDATE (revoked_at, last_used_at, expires_at) ON service_account_keys TO :app;

CREATE TABLE ssh_keys (
    id          uuid PRIMARY KEY,
    user_id     uuid NOT NULL REFERENCES users,
    name        text NOT NULL,
    algorithm   text NOT NULL,
    public_key  text NOT NULL,
    fingerprint text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, fingerprint)
);
COMMENT ON TABLE ssh_keys IS 'actor: SSH public keys of a user';
GRANT SELECT, INSERT, DELETE ON ssh_keys TO :app;

CREATE TABLE revoked_credentials (
    credential_id text PRIMARY KEY,
    reason        text NOT NULL,
    revoked_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
COMMENT ON TABLE revoked_credentials IS 'platform: the deny-list; a row outlives the credential it names';
GRANT SELECT, INSERT, DELETE ON revoked_credentials TO :app;
GRANT UPDATE (expires_at) ON revoked_credentials TO :app;
CREATE INDEX revoked_credentials_by_end ON revoked_credentials (expires_at);

CREATE TABLE login_states (
    state_hash    bytea PRIMARY KEY,
    code_verifier bytea NOT NULL,
    nonce         text NOT NULL,
    redirect_uri  text NOT NULL,
    expires_at    timestamptz NOT NULL
);
COMMENT ON TABLE login_states IS 'platform: logins that were started and not yet finished; the verifier is sealed';
GRANT SELECT, INSERT, DELETE ON login_states TO :app;

-- A refresh token is spent at the issuer by one request only: a second one would look like theft and end the session.
CREATE TABLE refresh_claims (
    token_hash bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE refresh_claims IS 'platform: refresh tokens being exchanged, or just spent';
GRANT SELECT, INSERT, UPDATE, DELETE ON refresh_claims TO :app;

CREATE TABLE issuer_key_marks (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    marked_at timestamptz NOT NULL
);
COMMENT ON TABLE issuer_key_marks IS 'platform: when all replicas were last told to read the issuer''s keys again';
GRANT SELECT, INSERT, UPDATE ON issuer_key_marks TO :app;

DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['users', 'orgs', 'projects', 'org_members', 'project_members', 'invitations',
                                 'service_accounts', 'service_account_keys', 'ssh_keys'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
    END LOOP;
    FOREACH named IN ARRAY ARRAY['projects', 'project_members', 'invitations', 'service_accounts',
                                 'service_account_keys'] LOOP
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_org(org_id)) WITH CHECK (visible_org(org_id))',
                       named || '_tenant', named);
    END LOOP;
END $$;
-- A user sees himself and the people of the organisation he works in; org_members' own policy cuts the second.
CREATE POLICY users_visible ON users FOR SELECT
    USING (visible_actor(id) OR EXISTS (SELECT FROM org_members m WHERE m.user_id = users.id));
CREATE POLICY users_write ON users FOR INSERT WITH CHECK (visible_actor(id));
CREATE POLICY users_change ON users FOR UPDATE USING (visible_actor(id));
-- A user sees the organisations he is in, from any of them.
CREATE POLICY orgs_read ON orgs FOR SELECT
    USING (visible_org(id) OR EXISTS (SELECT FROM org_members m WHERE m.org_id = orgs.id AND visible_actor(m.user_id)));
CREATE POLICY orgs_write ON orgs FOR INSERT WITH CHECK (visible_org(id));
CREATE POLICY orgs_change ON orgs FOR UPDATE USING (visible_org(id));
CREATE POLICY org_members_read ON org_members FOR SELECT USING (visible_org(org_id) OR visible_actor(user_id));
CREATE POLICY org_members_write ON org_members FOR INSERT WITH CHECK (visible_org(org_id));
CREATE POLICY org_members_change ON org_members FOR UPDATE USING (visible_org(org_id));
CREATE POLICY org_members_remove ON org_members FOR DELETE USING (visible_org(org_id));
CREATE POLICY ssh_keys_own ON ssh_keys USING (visible_actor(user_id)) WITH CHECK (visible_actor(user_id));
-- A user sees his own roles in projects, and those projects, from outside of their organisation too.
CREATE POLICY project_members_own ON project_members FOR SELECT USING (visible_actor(user_id));
CREATE POLICY projects_joined ON projects FOR SELECT
    USING (EXISTS (SELECT FROM project_members m WHERE m.project_id = projects.id AND visible_actor(m.user_id)));
