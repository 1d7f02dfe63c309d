-- What people are told: rows they read, emails, what they want of them, and links that do one thing.

CREATE TABLE notification_preferences (
    user_id    uuid NOT NULL REFERENCES users,
    kind       text NOT NULL CHECK (length(kind) BETWEEN 3 AND 60),
    email      text NOT NULL CHECK (email IN ('always', 'offline', 'never')),
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, kind)
);
COMMENT ON TABLE notification_preferences IS 'actor: which kinds a user wants by email; those not named are as the catalogue says';

-- One for each event and person. The database, too, keeps a second one out.
CREATE TABLE notifications (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES users,
    org_id     uuid NOT NULL REFERENCES orgs,
    event_id   uuid NOT NULL,
    kind       text NOT NULL CHECK (length(kind) BETWEEN 3 AND 60),
    severity   text NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    title      text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    body       text NOT NULL CHECK (length(body) <= 4000),
    subject_id uuid,
    link_id    uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    read_at    timestamptz,
    CONSTRAINT notifications_once UNIQUE (event_id, user_id)
);
CREATE INDEX notifications_of_user ON notifications (user_id, id DESC);
CREATE INDEX notifications_unread ON notifications (user_id, id DESC) WHERE read_at IS NULL;
COMMENT ON TABLE notifications IS 'actor: what a user was told, and whether he has read it';

-- A link is known by its id and our signature of it: there is nothing here that would let anybody use one.
CREATE TABLE action_links (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES orgs,
    user_id    uuid NOT NULL REFERENCES users,
    action     text NOT NULL CHECK (length(action) BETWEEN 3 AND 60),
    subject_id uuid,
    detail     text NOT NULL DEFAULT '' CHECK (length(detail) <= 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    outcome    text NOT NULL DEFAULT '' CHECK (length(outcome) <= 500)
);
COMMENT ON TABLE action_links IS 'tenant: one-click links: for whom, what they do, until when, and whether it was done';

CREATE TABLE emails (
    id              uuid PRIMARY KEY,
    user_id         uuid NOT NULL REFERENCES users,
    org_id          uuid NOT NULL REFERENCES orgs,
    notification_id uuid NOT NULL,
    kind            text NOT NULL CHECK (length(kind) BETWEEN 3 AND 60),
    to_address      text NOT NULL CHECK (length(to_address) <= 320),
    content         jsonb NOT NULL,
    state           text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'not_configured', 'sent', 'failed')),
    state_since     timestamptz NOT NULL DEFAULT now(),
    created_at      timestamptz NOT NULL DEFAULT now(),
    next_at         timestamptz NOT NULL DEFAULT now(),
    due_at          timestamptz,
    lease_until     timestamptz,
    attempts        integer NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT '' CHECK (length(last_error) <= 500),
    CONSTRAINT emails_once UNIQUE (notification_id),
    CHECK ((due_at IS NOT NULL) = (state IN ('queued', 'not_configured')))
);
CREATE INDEX emails_to_send ON emails (next_at) WHERE state = 'queued';
CREATE INDEX emails_open ON emails (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX emails_failed ON emails (state_since) WHERE state = 'failed';
COMMENT ON TABLE emails IS 'actor: mail to be sent, and what became of it';

DO $$
DECLARE named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['notification_preferences', 'notifications', 'action_links', 'emails'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
    END LOOP;
    FOREACH named IN ARRAY ARRAY['notification_preferences', 'notifications', 'emails'] LOOP
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_actor(user_id)) WITH CHECK (visible_actor(user_id))',
                       named || '_own', named);
    END LOOP;
END $$;
CREATE POLICY action_links_tenant ON action_links USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
GRANT SELECT, INSERT, UPDATE, DELETE ON notification_preferences TO :app;
GRANT SELECT, INSERT, DELETE ON notifications, action_links, emails TO :app;
GRANT UPDATE (read_at) ON notifications TO :app;
GRANT UPDATE (used_at, outcome) ON action_links TO :app;
GRANT UPDATE (state, state_since, next_at, due_at, lease_until, attempts, last_error) ON emails TO :app;

CREATE VIEW invariant_14_emails_end WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the email is ' || state || ' and should not be since ' || due_at AS problem
FROM emails WHERE due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_emails_end IS 'no email waits past its end by over 60 seconds';
GRANT SELECT ON invariant_14_emails_end TO :app;
