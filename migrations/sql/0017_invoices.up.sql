-- Invoices: what an organisation used in a month and what became of its balance, written down once.
--
-- The sums are columns, so that the database itself holds them to each other, and a view to the ledger. What the paper
-- says is the document, as it was issued: names that change later do not change it. Files are made from it alone.

-- What a customer's own accounting calls a project; on the lines of its usage.
ALTER TABLE projects ADD COLUMN cost_centre text NOT NULL DEFAULT '' CHECK (length(cost_centre) <= 100);

CREATE TABLE invoices (
    id                uuid PRIMARY KEY,
    org_id            uuid NOT NULL REFERENCES orgs,
    currency          text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    month             date NOT NULL CHECK (month = date_trunc('month', month::timestamp)::date),
    -- of the day on which it was issued; numbers of a year have no gaps
    year              integer NOT NULL,
    serial            integer NOT NULL CHECK (serial > 0),
    opening_micros    bigint NOT NULL,
    paid_in_micros    bigint NOT NULL,
    used_micros       bigint NOT NULL,
    used_back_micros  bigint NOT NULL,
    given_micros      bigint NOT NULL,
    refunded_micros   bigint NOT NULL,
    corrected_micros  bigint NOT NULL,
    closing_micros    bigint NOT NULL,
    document          text NOT NULL,
    issued_at         timestamptz NOT NULL,
    CONSTRAINT invoices_one_of_month UNIQUE (org_id, currency, month),
    CONSTRAINT invoices_number UNIQUE (year, serial),
    CONSTRAINT invoices_sum CHECK (opening_micros + paid_in_micros + used_micros + used_back_micros + given_micros
                                   + refunded_micros + corrected_micros = closing_micros),
    CHECK (issued_at >= (month + interval '1 month') AT TIME ZONE 'UTC')
);
CREATE INDEX invoices_by_org ON invoices (org_id, id DESC);
COMMENT ON TABLE invoices IS 'tenant: a month''s invoice of an organisation and currency, as it was issued; append-only';

-- What was made of it and kept outside. Made again, it has the same digest.
CREATE TABLE invoice_files (
    invoice_id uuid NOT NULL REFERENCES invoices,
    org_id     uuid NOT NULL,
    form       text NOT NULL CHECK (form IN ('pdf', 'csv')),
    digest     text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    size       integer NOT NULL CHECK (size > 0),
    stored_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (invoice_id, form)
);
COMMENT ON TABLE invoice_files IS 'tenant: files of invoices that are kept in the store of objects; append-only';

DO $$
DECLARE named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['invoices', 'invoice_files'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY %I ON %I USING (visible_org(org_id)) WITH CHECK (visible_org(org_id))',
                       named || '_tenant', named);
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()',
                       named || '_keep', named);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
                       named || '_keep_all', named);
    END LOOP;
END $$;
GRANT SELECT, INSERT ON invoices, invoice_files TO :app;

-- What must always hold -----------------------------------------------------------------------------------------------
-- Which sum of a paper a posting counts in.
CREATE FUNCTION invoice_sum_of(kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE kind WHEN 'top_up' THEN 'paid_in' WHEN 'usage' THEN 'used' WHEN 'usage_credit' THEN 'used_back'
                     WHEN 'credit' THEN 'given' WHEN 'refund' THEN 'refunded' ELSE 'corrected' END;

CREATE VIEW invariant_39_invoices_are_the_ledger WITH (security_invoker = true) AS
SELECT 'invoice ' || i.year || '-' || i.serial AS subject,
       'it says ' || (i.opening_micros, i.paid_in_micros, i.used_micros, i.used_back_micros, i.given_micros,
                      i.refunded_micros, i.corrected_micros, i.closing_micros)::text
       || ', the ledger ' || (l.opening, l.paid_in, l.used, l.used_back, l.given, l.refunded, l.corrected, l.closing)::text
       AS problem
FROM invoices i
CROSS JOIN LATERAL (SELECT floor_id(i.month::timestamp AT TIME ZONE 'UTC') AS low,
                           floor_id((i.month + interval '1 month') AT TIME ZONE 'UTC') AS high) AS bounds
LEFT JOIN ledger_accounts a ON a.org_id = i.org_id AND a.kind = 'tenant' AND a.currency = i.currency
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'paid_in'), 0)::bigint AS paid_in,
           coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'used'), 0)::bigint AS used,
           coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'used_back'), 0)::bigint AS used_back,
           coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'given'), 0)::bigint AS given,
           coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'refunded'), 0)::bigint AS refunded,
           coalesce(sum(e.amount_micros) FILTER (WHERE invoice_sum_of(t.kind) = 'corrected'), 0)::bigint AS corrected,
           coalesce((SELECT o.balance_micros FROM ledger_entries o WHERE o.account_id = a.id AND o.transaction_id < bounds.low
                     ORDER BY o.transaction_id DESC LIMIT 1), 0) AS opening,
           coalesce((SELECT o.balance_micros FROM ledger_entries o WHERE o.account_id = a.id AND o.transaction_id < bounds.high
                     ORDER BY o.transaction_id DESC LIMIT 1), 0) AS closing
    FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
    WHERE e.account_id = a.id AND e.transaction_id >= bounds.low AND e.transaction_id < bounds.high
) AS l
WHERE (i.opening_micros, i.paid_in_micros, i.used_micros, i.used_back_micros, i.given_micros, i.refunded_micros,
       i.corrected_micros, i.closing_micros)
   <> (l.opening, l.paid_in, l.used, l.used_back, l.given, l.refunded, l.corrected, l.closing);
COMMENT ON VIEW invariant_39_invoices_are_the_ledger IS 'the sums of an invoice are those of the ledger in its month';

CREATE VIEW invariant_39_invoices_have_no_gaps WITH (security_invoker = true) AS
SELECT 'invoice ' || year || '-' || serial AS subject, 'the one before it is ' || before_serial AS problem
FROM (SELECT year, serial, lag(serial, 1, 0) OVER (PARTITION BY year ORDER BY serial) AS before_serial FROM invoices) AS i
WHERE serial <> before_serial + 1;
COMMENT ON VIEW invariant_39_invoices_have_no_gaps IS 'the numbers of a year''s invoices follow each other';

GRANT SELECT ON invariant_39_invoices_are_the_ledger, invariant_39_invoices_have_no_gaps TO :app;
