-- The certificate authority of nodes: its own certificates and sealed keys, what it issued, and the tokens by which a
-- machine becomes a node. None of it belongs to an organisation.

-- A cross certificate is a new root's key, certified by the root before it: who trusts the old one can follow to the new.
CREATE TABLE certificate_authorities (
    id            uuid PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('root', 'intermediate', 'cross')),
    parent_id     uuid REFERENCES certificate_authorities,
    subject       text NOT NULL,
    certificate   bytea NOT NULL,
    fingerprint   bytea NOT NULL UNIQUE CHECK (octet_length(fingerprint) = 32),
    key_sealed    bytea,
    not_before    timestamptz NOT NULL,
    not_after     timestamptz NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    retired_at    timestamptz,
    distrusted_at timestamptz,
    CHECK ((kind = 'root') = (parent_id IS NULL)),
    CHECK (not_before < not_after)
);
CREATE UNIQUE INDEX certificate_authorities_one_signs ON certificate_authorities (kind)
    WHERE retired_at IS NULL AND kind <> 'cross';
COMMENT ON TABLE certificate_authorities IS 'platform: certificates of our authorities; their keys are sealed with the master key';
GRANT SELECT, INSERT ON certificate_authorities TO :app;
GRANT UPDATE (retired_at, distrusted_at) ON certificate_authorities TO :app;

CREATE TABLE certificates (
    id              uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('node', 'server')),
    node_id         uuid,
    authority_id    uuid NOT NULL REFERENCES certificate_authorities,
    serial          text NOT NULL CHECK (serial ~ '^[0-9a-f]{32}$'),
    fingerprint     bytea NOT NULL UNIQUE CHECK (octet_length(fingerprint) = 32),
    public_key_hash bytea NOT NULL CHECK (octet_length(public_key_hash) = 32),
    certificate     bytea NOT NULL,
    not_before      timestamptz NOT NULL,
    not_after       timestamptz NOT NULL,
    issued_at       timestamptz NOT NULL DEFAULT now(),
    used_at         timestamptz,
    superseded_at   timestamptz,
    revoked_at      timestamptz,
    revoked_reason  text NOT NULL DEFAULT '',
    UNIQUE (authority_id, serial),
    CHECK ((kind = 'node') = (node_id IS NOT NULL)),
    CHECK (not_before < not_after)
);
CREATE INDEX certificates_by_node ON certificates (node_id, id);
CREATE INDEX certificates_by_end ON certificates (not_after);
CREATE INDEX certificates_by_revocation ON certificates (revoked_at) WHERE revoked_at IS NOT NULL;
COMMENT ON TABLE certificates IS 'platform: every certificate that was issued, what replaced or revoked it';
GRANT SELECT, INSERT, DELETE ON certificates TO :app;
GRANT UPDATE (used_at, superseded_at, revoked_at, revoked_reason) ON certificates TO :app;

CREATE TABLE bootstrap_tokens (
    id             uuid PRIMARY KEY,
    node_id        uuid NOT NULL,
    token_hash     bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
    created_at     timestamptz NOT NULL DEFAULT now(),
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz,
    revoked_at     timestamptz,
    certificate_id uuid,
    CHECK (expires_at <= created_at + interval '1 hour'),
    CHECK (used_at IS NULL OR revoked_at IS NULL)
);
CREATE UNIQUE INDEX bootstrap_tokens_one_open ON bootstrap_tokens (node_id) WHERE used_at IS NULL AND revoked_at IS NULL;
CREATE INDEX bootstrap_tokens_by_end ON bootstrap_tokens (expires_at);
COMMENT ON TABLE bootstrap_tokens IS 'platform: by which a machine becomes a node, once; stored as hashes';
GRANT SELECT, INSERT, DELETE ON bootstrap_tokens TO :app;
GRANT UPDATE (used_at, revoked_at, certificate_id) ON bootstrap_tokens TO :app;

CREATE VIEW invariant_20_certificates_signed_while_valid WITH (security_invoker = true) AS
SELECT 'certificate ' || c.serial AS subject, 'signed by authority ' || a.id || ' outside of its time' AS problem
FROM certificates c JOIN certificate_authorities a ON a.id = c.authority_id
WHERE c.issued_at < a.not_before - interval '60 seconds' OR c.not_after > a.not_after
   OR c.issued_at > least(a.not_after, a.retired_at, a.distrusted_at) + interval '60 seconds'
UNION ALL
SELECT 'certificate ' || serial, 'accepted outside of its time'
FROM certificates
WHERE used_at < not_before - interval '60 seconds' OR used_at > least(not_after, revoked_at) + interval '60 seconds'
UNION ALL
SELECT 'authority ' || a.id, 'signed by authority ' || p.id || ' outside of its time'
FROM certificate_authorities a JOIN certificate_authorities p ON p.id = a.parent_id
WHERE a.created_at > least(p.not_after, p.distrusted_at) + interval '60 seconds' OR a.not_after > p.not_after;
COMMENT ON VIEW invariant_20_certificates_signed_while_valid IS 'no certificate is signed or accepted outside of the validity of its keys';

CREATE VIEW invariant_35_token_used_once WITH (security_invoker = true) AS
SELECT t.id::text AS subject, 'used at ' || t.used_at || ', after it had expired' AS problem
FROM bootstrap_tokens t WHERE t.used_at > t.expires_at
UNION ALL
SELECT t.id::text, 'used for a certificate of another node'
FROM bootstrap_tokens t JOIN certificates c ON c.id = t.certificate_id WHERE c.node_id <> t.node_id;
COMMENT ON VIEW invariant_35_token_used_once IS 'a bootstrap token makes its own node, once, before it expires';
GRANT SELECT ON invariant_20_certificates_signed_while_valid, invariant_35_token_used_once TO :app;
