-- The built-in OpenID issuer. All its secrets are stored as hashes: passwords by argon2id, tokens and codes by SHA-256
-- of 256 random bits. Nothing here belongs to an organisation: only the issuer's own endpoints read it.

CREATE TABLE issuer_accounts (
    id                  uuid PRIMARY KEY,
    email               text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    email_verified      boolean NOT NULL,
    name                text NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    password_hash       text NOT NULL,
    password_version    integer NOT NULL DEFAULT 1 CHECK (password_version > 0),
    must_change         boolean NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    password_changed_at timestamptz NOT NULL DEFAULT now(),
    last_login_at       timestamptz
);
CREATE UNIQUE INDEX issuer_accounts_one_email ON issuer_accounts (lower(email));
COMMENT ON TABLE issuer_accounts IS 'platform: logins of the built-in issuer';
GRANT SELECT, INSERT, UPDATE ON issuer_accounts TO :app;

-- Failed logins by address, whether an account has it or not: the answer is the same for both.
CREATE TABLE issuer_login_attempts (
    email_hash   bytea PRIMARY KEY,
    failures     integer NOT NULL CHECK (failures > 0),
    locked_until timestamptz NOT NULL,
    last_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX issuer_login_attempts_by_age ON issuer_login_attempts (last_at);
COMMENT ON TABLE issuer_login_attempts IS 'platform: failed logins in a row, and until when the next has to wait';
GRANT SELECT, INSERT, UPDATE, DELETE ON issuer_login_attempts TO :app;

CREATE TABLE issuer_sessions (
    id         uuid PRIMARY KEY,
    token_hash bytea NOT NULL UNIQUE,
    account_id uuid NOT NULL REFERENCES issuer_accounts,
    auth_time  timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz
);
CREATE INDEX issuer_sessions_by_account ON issuer_sessions (account_id) WHERE ended_at IS NULL;
CREATE INDEX issuer_sessions_by_age ON issuer_sessions (expires_at);
COMMENT ON TABLE issuer_sessions IS 'platform: browsers that are logged in; the cookie is stored as a hash';
GRANT SELECT, INSERT, DELETE ON issuer_sessions TO :app;
GRANT UPDATE (token_hash, auth_time, expires_at, ended_at) ON issuer_sessions TO :app;

-- A family is one login of one client: every refresh token and access token that follows from it.
CREATE TABLE issuer_families (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES issuer_accounts,
    client_id  text NOT NULL,
    session_id uuid,
    scopes     text[] NOT NULL,
    auth_time  timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    end_reason text NOT NULL DEFAULT ''
);
CREATE INDEX issuer_families_by_account ON issuer_families (account_id) WHERE ended_at IS NULL;
CREATE INDEX issuer_families_by_session ON issuer_families (session_id) WHERE ended_at IS NULL;
CREATE INDEX issuer_families_by_age ON issuer_families (expires_at);
COMMENT ON TABLE issuer_families IS 'platform: logins of clients, with all tokens that follow from one';
GRANT SELECT, INSERT, DELETE ON issuer_families TO :app;
GRANT UPDATE (expires_at, ended_at, end_reason) ON issuer_families TO :app;

CREATE TABLE issuer_refresh_tokens (
    token_hash bytea PRIMARY KEY,
    family_id  uuid NOT NULL REFERENCES issuer_families ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at    timestamptz,
    successor  bytea
);
CREATE INDEX issuer_refresh_tokens_by_family ON issuer_refresh_tokens (family_id);
CREATE INDEX issuer_refresh_tokens_by_use ON issuer_refresh_tokens (used_at) WHERE used_at IS NOT NULL;
COMMENT ON TABLE issuer_refresh_tokens IS 'platform: refresh tokens, each good for one use; used ones are kept to see reuse';
GRANT SELECT, INSERT, DELETE ON issuer_refresh_tokens TO :app;
GRANT UPDATE (used_at, successor) ON issuer_refresh_tokens TO :app;

CREATE TABLE issuer_access_tokens (
    jti        text PRIMARY KEY,
    family_id  uuid NOT NULL REFERENCES issuer_families ON DELETE CASCADE,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX issuer_access_tokens_by_family ON issuer_access_tokens (family_id);
CREATE INDEX issuer_access_tokens_by_age ON issuer_access_tokens (expires_at);
COMMENT ON TABLE issuer_access_tokens IS 'platform: which live access tokens follow from a family, to deny them with it';
GRANT SELECT, INSERT, DELETE ON issuer_access_tokens TO :app;
GRANT UPDATE (revoked_at) ON issuer_access_tokens TO :app;

CREATE TABLE issuer_codes (
    code_hash      bytea PRIMARY KEY,
    client_id      text NOT NULL,
    redirect_uri   text NOT NULL,
    account_id     uuid NOT NULL REFERENCES issuer_accounts,
    session_id     uuid NOT NULL,
    scopes         text[] NOT NULL,
    nonce          text,
    code_challenge text NOT NULL,
    auth_time      timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz,
    family_id      uuid
);
CREATE INDEX issuer_codes_by_age ON issuer_codes (expires_at);
COMMENT ON TABLE issuer_codes IS 'platform: authorization codes, each good for one use';
GRANT SELECT, INSERT, DELETE ON issuer_codes TO :app;
GRANT UPDATE (used_at, family_id) ON issuer_codes TO :app;

CREATE TABLE issuer_device_codes (
    device_hash      bytea PRIMARY KEY,
    user_code        text NOT NULL UNIQUE CHECK (user_code ~ '^[BCDFGHJKLMNPQRSTVWXZ]{8}$'),
    client_id        text NOT NULL,
    scopes           text[] NOT NULL,
    requested_from   text NOT NULL,
    state            text NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    state_since      timestamptz NOT NULL DEFAULT now(),
    interval_seconds integer NOT NULL CHECK (interval_seconds BETWEEN 1 AND 3600),
    polled_at        timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    account_id       uuid REFERENCES issuer_accounts,
    session_id       uuid,
    auth_time        timestamptz,
    family_id        uuid,
    CHECK (state IN ('pending', 'denied') OR (account_id IS NOT NULL AND auth_time IS NOT NULL))
);
CREATE INDEX issuer_device_codes_by_age ON issuer_device_codes (expires_at);
COMMENT ON TABLE issuer_device_codes IS 'platform: logins of machines without a browser, waiting for a person';
GRANT SELECT, INSERT, DELETE ON issuer_device_codes TO :app;
GRANT UPDATE (state, state_since, interval_seconds, polled_at, account_id, session_id, auth_time, family_id)
    ON issuer_device_codes TO :app;
