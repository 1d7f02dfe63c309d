-- Payments: what organisations pay in at a provider, what it tells us, what goes back, and where it and we differ.
--
-- The provider's objects have names of their own. Whatever we hear of one, by notice, answer or list, in any order and
-- any number of times, has its effect once: payment_effects is the wall.

CREATE TABLE payment_customers (
    org_id      uuid PRIMARY KEY REFERENCES orgs,
    customer_id text NOT NULL UNIQUE CHECK (length(customer_id) BETWEEN 1 AND 255),
    created_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE payment_customers IS 'tenant: how the payment provider calls an organisation';

CREATE TABLE payments (
    id              uuid PRIMARY KEY,
    org_id          uuid NOT NULL REFERENCES orgs,
    provider        text NOT NULL CHECK (length(provider) BETWEEN 1 AND 40),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount_micros   bigint NOT NULL CHECK (amount_micros BETWEEN 1 AND 1000000000000000),
    state           text NOT NULL DEFAULT 'created' CHECK (state IN ('created', 'open', 'succeeded', 'partially_refunded',
                        'refunded', 'disputed', 'failed', 'expired', 'failed_reconcile')),
    state_since     timestamptz NOT NULL DEFAULT now(),
    due_at          timestamptz,
    asked_by        text NOT NULL,
    asked_by_id     uuid NOT NULL,
    asked_key       text NOT NULL CONSTRAINT payments_asked_once UNIQUE,
    expires_at      timestamptz NOT NULL,
    session_id      text UNIQUE CHECK (length(session_id) BETWEEN 1 AND 255),
    intent_id       text UNIQUE CHECK (length(intent_id) BETWEEN 1 AND 255),
    url             text NOT NULL DEFAULT '' CHECK (length(url) <= 4000),
    refunded_micros bigint NOT NULL DEFAULT 0,
    disputed_micros bigint NOT NULL DEFAULT 0,
    dispute         text NOT NULL DEFAULT '' CHECK (dispute IN ('', 'opened', 'won', 'lost')),
    failure         text NOT NULL DEFAULT '' CHECK (length(failure) <= 500),
    transaction_id  uuid UNIQUE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    paid_at         timestamptz,
    -- What the provider took where that is not what was asked for, and who would credit it so.
    taken_micros    bigint CHECK (taken_micros BETWEEN 0 AND 1000000000000000),
    taken_currency  text NOT NULL DEFAULT '' CHECK (length(taken_currency) <= 10),
    taken_session   text CHECK (length(taken_session) BETWEEN 1 AND 255),
    taken_intent    text CHECK (length(taken_intent) BETWEEN 1 AND 255),
    accept_by       text NOT NULL DEFAULT '',
    accept_by_id    uuid,
    accept_reason   text NOT NULL DEFAULT '' CHECK (length(accept_reason) <= 500),
    CHECK ((state IN ('created', 'open')) = (due_at IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'partially_refunded', 'refunded', 'disputed')) = (transaction_id IS NOT NULL)),
    CHECK (state <> 'open' OR session_id IS NOT NULL),
    CHECK (refunded_micros BETWEEN 0 AND amount_micros),
    CHECK (disputed_micros BETWEEN 0 AND amount_micros)
);
CREATE INDEX payments_by_org ON payments (org_id, id DESC);
CREATE INDEX payments_due ON payments (due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE payments IS 'tenant: what an organisation pays in, from the wish to the money and back';

-- Money goes back: some of it asked for here, some begun at the provider (those have no row here, only their effect).
CREATE TABLE payment_refunds (
    id                 uuid PRIMARY KEY,
    org_id             uuid NOT NULL REFERENCES orgs,
    payment_id         uuid NOT NULL REFERENCES payments,
    currency           text NOT NULL,
    amount_micros      bigint NOT NULL CHECK (amount_micros > 0),
    reason             text NOT NULL CHECK (length(reason) BETWEEN 3 AND 500),
    state              text NOT NULL CHECK (state IN ('proposed', 'requested', 'succeeded', 'failed', 'rejected', 'expired')),
    state_since        timestamptz NOT NULL DEFAULT now(),
    due_at             timestamptz,
    failure            text NOT NULL DEFAULT '' CHECK (length(failure) <= 500),
    asked_by           text NOT NULL,
    asked_by_id        uuid NOT NULL,
    decided_by         text NOT NULL DEFAULT '',
    decided_by_id      uuid,
    decision           text NOT NULL DEFAULT '' CHECK (length(decision) <= 500),
    hold_id            uuid,
    provider_refund_id text UNIQUE CHECK (length(provider_refund_id) BETWEEN 1 AND 255),
    transaction_id     uuid,
    created_at         timestamptz NOT NULL DEFAULT now(),
    CHECK ((state IN ('proposed', 'requested')) = (due_at IS NOT NULL)),
    CHECK (state <> 'succeeded' OR transaction_id IS NOT NULL),
    CONSTRAINT payment_refunds_four_eyes CHECK (decided_by_id <> asked_by_id OR state = 'rejected')
);
CREATE INDEX payment_refunds_of ON payment_refunds (payment_id);
CREATE INDEX payment_refunds_by_org ON payment_refunds (org_id, id DESC);
CREATE INDEX payment_refunds_due ON payment_refunds (due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE payment_refunds IS 'tenant: money of payments that goes back, who asked for it and who agreed';

-- One row for each thing that an object of the provider did to money, or was found to have done.
CREATE TABLE payment_effects (
    object_id      text NOT NULL CHECK (length(object_id) BETWEEN 1 AND 255),
    effect         text NOT NULL CHECK (effect IN ('paid', 'refunded', 'refund_failed', 'dispute_opened', 'dispute_closed')),
    org_id         uuid NOT NULL REFERENCES orgs,
    payment_id     uuid NOT NULL REFERENCES payments,
    currency       text NOT NULL,
    amount_micros  bigint NOT NULL CHECK (amount_micros >= 0),
    transaction_id uuid,
    source         text NOT NULL CHECK (source IN ('notice', 'answer', 'reconciliation')),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (object_id, effect),
    CHECK (effect <> 'paid' OR transaction_id IS NOT NULL),
    CHECK (effect <> 'refunded' OR transaction_id IS NOT NULL)
);
CREATE INDEX payment_effects_of ON payment_effects (payment_id);
COMMENT ON TABLE payment_effects IS 'tenant: what each object of the provider did to the money here, once; append-only';

-- What the provider told us by itself, as it came. Stored before it is acted on.
CREATE TABLE webhook_events (
    id          uuid PRIMARY KEY,
    event_id    text NOT NULL CONSTRAINT webhook_events_once UNIQUE CHECK (length(event_id) BETWEEN 1 AND 255),
    type        text NOT NULL CHECK (length(type) <= 255),
    object_id   text NOT NULL CHECK (length(object_id) <= 255),
    body        bytea NOT NULL CHECK (octet_length(body) <= 262144),
    state       text NOT NULL DEFAULT 'stored' CHECK (state IN ('stored', 'waiting', 'acted', 'ignored')),
    state_since timestamptz NOT NULL DEFAULT now(),
    due_at      timestamptz,
    intent_id   text,
    detail      text NOT NULL DEFAULT '' CHECK (length(detail) <= 500),
    received_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'waiting') = (due_at IS NOT NULL))
);
CREATE INDEX webhook_events_waiting ON webhook_events (intent_id) WHERE state = 'waiting';
CREATE INDEX webhook_events_due ON webhook_events (due_at) WHERE state = 'waiting';
COMMENT ON TABLE webhook_events IS 'platform: what the payment provider told us, word for word, and whether it was acted on';

-- What the provider's own lists say, as far as they were read: the provider's side of the first equation.
CREATE TABLE payment_statements (
    object_id     text PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('checkout', 'refund', 'dispute')),
    payment_id    uuid,
    currency      text NOT NULL,
    amount_micros bigint NOT NULL,
    seen_at       timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE payment_statements IS 'platform: what the payment provider says it took (above zero) and gave back (below)';

CREATE INDEX payment_statements_seen ON payment_statements (seen_at);

-- What statements that are not kept any more came to: the provider's side stays whole.
CREATE TABLE payment_statement_sums (
    currency      text PRIMARY KEY,
    amount_micros bigint NOT NULL,
    objects       bigint NOT NULL CHECK (objects > 0)
);
COMMENT ON TABLE payment_statement_sums IS 'platform: by currency, the sum of what the provider said so long ago that it is not kept';

CREATE TABLE payment_differences (
    id            uuid PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('amount', 'not_ours', 'not_there', 'stuck')),
    object_id     text NOT NULL,
    payment_id    uuid,
    currency      text NOT NULL,
    ours_micros   bigint NOT NULL,
    theirs_micros bigint NOT NULL,
    detail        text NOT NULL CHECK (length(detail) <= 500),
    found_at      timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    settled_at    timestamptz
);
CREATE UNIQUE INDEX payment_differences_open ON payment_differences (kind, object_id) WHERE settled_at IS NULL;
COMMENT ON TABLE payment_differences IS 'platform: where the payment provider and our books differ, since when and until when';

CREATE TABLE payment_reconciliations (
    id         uuid PRIMARY KEY,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    checkouts  integer NOT NULL,
    refunds    integer NOT NULL,
    disputes   integer NOT NULL,
    healed     integer NOT NULL,
    differences integer NOT NULL
);
COMMENT ON TABLE payment_reconciliations IS 'platform: when the provider''s lists were compared with our books, and what came of it';

-- Walls ------------------------------------------------------------------------------------------------------------
ALTER TABLE payment_customers ENABLE ROW LEVEL SECURITY;
ALTER TABLE payment_customers FORCE ROW LEVEL SECURITY;
ALTER TABLE payments ENABLE ROW LEVEL SECURITY;
ALTER TABLE payments FORCE ROW LEVEL SECURITY;
ALTER TABLE payment_refunds ENABLE ROW LEVEL SECURITY;
ALTER TABLE payment_refunds FORCE ROW LEVEL SECURITY;
ALTER TABLE payment_effects ENABLE ROW LEVEL SECURITY;
ALTER TABLE payment_effects FORCE ROW LEVEL SECURITY;
CREATE POLICY payment_customers_own ON payment_customers USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
CREATE POLICY payments_own ON payments USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
CREATE POLICY payment_refunds_own ON payment_refunds USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
CREATE POLICY payment_effects_own ON payment_effects USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
GRANT SELECT, INSERT ON payment_customers, payments, payment_refunds, payment_effects, webhook_events,
    payment_statements, payment_statement_sums, payment_differences, payment_reconciliations TO :app;
GRANT DELETE ON webhook_events, payment_statements, payment_reconciliations TO :app;
GRANT UPDATE (customer_id) ON payment_customers TO :app;
GRANT UPDATE (amount_micros, objects) ON payment_statement_sums TO :app;
GRANT UPDATE (state, state_since, due_at, session_id, intent_id, url, refunded_micros, disputed_micros, dispute, failure,
              transaction_id, paid_at, taken_micros, taken_currency, taken_session, taken_intent, accept_by, accept_by_id,
              accept_reason) ON payments TO :app;
GRANT UPDATE (state, state_since, due_at, failure, decided_by, decided_by_id, decision, hold_id, provider_refund_id,
              transaction_id) ON payment_refunds TO :app;
GRANT UPDATE (state, state_since, due_at, intent_id, detail) ON webhook_events TO :app;
GRANT UPDATE (amount_micros, payment_id, seen_at) ON payment_statements TO :app;
GRANT UPDATE (ours_micros, theirs_micros, detail, seen_at, settled_at) ON payment_differences TO :app;
CREATE TRIGGER payment_effects_keep BEFORE UPDATE OR DELETE ON payment_effects
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER payment_effects_keep_all BEFORE TRUNCATE ON payment_effects
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The one way in which a payment's amount changes: to what the provider took, when an operator accepts that.
CREATE FUNCTION payment_accept(accepted uuid, posted uuid) RETURNS SETOF payments
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    UPDATE payments SET state = 'succeeded', state_since = now(), amount_micros = taken_micros, currency = taken_currency,
        session_id = taken_session, intent_id = coalesce(taken_intent, intent_id), failure = '', transaction_id = posted,
        paid_at = now()
    WHERE id = accepted AND state = 'failed_reconcile' AND taken_micros > 0 RETURNING *
$$;
REVOKE ALL ON FUNCTION payment_accept FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_accept TO :app;

-- Both sides of the first equation. What the ledger says of an object counts once the provider was asked about it; what came
-- later is compared next time.
CREATE VIEW payment_sides WITH (security_invoker = true) AS
WITH last AS (SELECT max(began_at) AS at FROM payment_reconciliations),
theirs AS (
    SELECT currency, sum(amount_micros) AS micros
    FROM (SELECT currency, amount_micros FROM payment_statements
          UNION ALL SELECT currency, amount_micros FROM payment_statement_sums) AS said
    GROUP BY currency
), ours AS (
    SELECT e.currency, -sum(n.amount_micros) AS micros
    FROM payment_effects e
    JOIN ledger_entries n ON n.transaction_id = e.transaction_id
    JOIN ledger_accounts a ON a.id = n.account_id AND a.kind = 'clearing'
    WHERE e.at < (SELECT at FROM last) OR EXISTS (SELECT FROM payment_statements s WHERE s.object_id = e.object_id)
    GROUP BY e.currency
)
SELECT coalesce(t.currency, o.currency) AS currency, coalesce(t.micros, 0)::bigint AS provider_micros,
       coalesce(o.micros, 0)::bigint AS ledger_micros, (SELECT at FROM last) AS as_of
FROM theirs t FULL JOIN ours o ON o.currency = t.currency;
COMMENT ON VIEW payment_sides IS 'what the payment provider says it took for us, and what the ledger says';
GRANT SELECT ON payment_sides TO :app;

-- What must always hold ----------------------------------------------------------------------------------------------
CREATE VIEW invariant_14_payments_move WITH (security_invoker = true) AS
SELECT 'payment ' || id AS subject, 'is ' || state || ' and should not be since ' || due_at AS problem
FROM payments WHERE due_at < now() - interval '60 seconds'
UNION ALL
SELECT 'refund ' || id, 'is ' || state || ' and should not be since ' || due_at
FROM payment_refunds WHERE due_at < now() - interval '60 seconds'
UNION ALL
SELECT 'webhook ' || id, 'waits and should not since ' || due_at
FROM webhook_events WHERE due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_payments_move IS 'no payment, refund or notice of the provider is past its deadline by over 60 seconds';

CREATE VIEW invariant_16_one_effect WITH (security_invoker = true) AS
SELECT 'payment ' || p.id AS subject,
       'is ' || p.state || ' with ' || e.paid || ' credits, and ' || p.refunded_micros || ' refunded where '
       || e.refunded || ' went back' AS problem
FROM payments p
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE effect = 'paid') AS paid,
           count(*) FILTER (WHERE effect = 'paid' AND amount_micros = p.amount_micros
                                  AND transaction_id = p.transaction_id) AS exactly,
           coalesce(sum(CASE effect WHEN 'refunded' THEN amount_micros WHEN 'refund_failed' THEN -amount_micros END), 0)
               AS refunded
    FROM payment_effects WHERE payment_id = p.id
) AS e
WHERE e.paid <> (p.transaction_id IS NOT NULL)::int OR e.exactly <> e.paid OR e.refunded <> p.refunded_micros
UNION ALL
SELECT 'effect ' || e.effect || ' of ' || e.object_id,
       'was of ' || e.amount_micros || ', but transaction ' || e.transaction_id || ' moved ' || coalesce(l.micros, 0)
FROM payment_effects e
LEFT JOIN LATERAL (
    SELECT sum(n.amount_micros) AS micros FROM ledger_entries n JOIN ledger_accounts a ON a.id = n.account_id
    WHERE n.transaction_id = e.transaction_id AND a.kind = 'clearing'
) AS l ON true
WHERE e.transaction_id IS NOT NULL
  AND coalesce(l.micros, 0) <> CASE WHEN e.effect IN ('paid', 'refund_failed') THEN -1 ELSE 1 END * e.amount_micros
UNION ALL
SELECT 'transaction ' || transaction_id, 'is the effect of ' || count(*) || ' objects of the provider'
FROM payment_effects WHERE transaction_id IS NOT NULL GROUP BY transaction_id HAVING count(*) > 1;
COMMENT ON VIEW invariant_16_one_effect IS 'one effect for each notice of the payment provider and each change of a payment';

GRANT SELECT ON invariant_14_payments_move, invariant_16_one_effect TO :app;
