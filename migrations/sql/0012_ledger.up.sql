-- Money: a double-entry ledger that nobody changes, holds on what it shows, and adjustments by people.
--
-- Every entry has its number in its account, the balance after it, and a hash over itself, its transaction and the entry
-- before: each entry is a checkpoint of its account. A balance, now or at any instant, is the last entry before: one step
-- down an index, whatever the size. No row is ever changed, so there is no counter that could disagree.
--
-- A transaction's id is later than any before it in its accounts, whatever the clock does: ids sort the entries of an
-- account in the order in which it changed, and cut the tables by month. Its instant is the id's, to the millisecond.
--
-- Only the functions below write. They run as the tables' owner; the programs' role may read and call them.

-- Accounts ---------------------------------------------------------------------------------------------------------
CREATE TABLE ledger_accounts (
    id           uuid PRIMARY KEY DEFAULT uuidv7(),
    org_id       uuid REFERENCES orgs,
    kind         text NOT NULL CHECK (kind IN ('tenant', 'revenue', 'clearing', 'credits', 'adjustments', 'refunds',
                                               'uncollectible')),
    currency     text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    shard        smallint NOT NULL DEFAULT 0 CHECK (shard BETWEEN 0 AND 31),
    floor_micros bigint NOT NULL DEFAULT 0 CHECK (floor_micros BETWEEN -1000000000000000 AND 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    -- of what it is, made when it was: entries name their account, and the proof of the books asks whether it is the same
    seal         bytea NOT NULL DEFAULT ''::bytea,
    CONSTRAINT ledger_accounts_one UNIQUE NULLS NOT DISTINCT (org_id, kind, currency, shard),
    CHECK ((kind = 'tenant') = (org_id IS NOT NULL)),
    CHECK (org_id IS NULL OR shard = 0),
    CHECK (org_id IS NOT NULL OR floor_micros = 0)
);
COMMENT ON TABLE ledger_accounts IS 'tenant: one account for each organisation and currency; the platform''s are nobody''s';

CREATE TABLE ledger_transactions (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL,
    kind           text NOT NULL,
    key            text NOT NULL,
    org_id         uuid,
    currency       text NOT NULL,
    subject_id     uuid,
    reason         text NOT NULL,
    reverses_id    uuid,
    actor          text NOT NULL,
    correlation_id text NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX ledger_transactions_by_subject ON ledger_transactions (subject_id, id) WHERE subject_id IS NOT NULL;
CREATE INDEX ledger_transactions_reversing ON ledger_transactions (reverses_id) WHERE reverses_id IS NOT NULL;
COMMENT ON TABLE ledger_transactions IS 'tenant: why money moved, once; append-only';

-- No references and checks: they would lock the busiest rows and cost as much as the rows themselves. Only the functions
-- write here; they see to it, and the invariants look whether they did.
CREATE TABLE ledger_entries (
    account_id     uuid NOT NULL,
    transaction_id uuid NOT NULL,
    org_id         uuid,
    number         bigint NOT NULL,
    amount_micros  bigint NOT NULL,
    balance_micros bigint NOT NULL,
    hash           bytea NOT NULL,
    PRIMARY KEY (account_id, transaction_id)
) PARTITION BY RANGE (transaction_id);
-- By hash, so that nobody walks along it in search of an account's last entry.
CREATE INDEX ledger_entries_of ON ledger_entries USING hash (transaction_id);
COMMENT ON TABLE ledger_entries IS 'tenant: the legs of transactions, each with the balance after it; append-only';

-- A partitioned table cannot keep keys unique over all months; this does.
CREATE TABLE ledger_keys (
    kind           text NOT NULL,
    key            text NOT NULL,
    transaction_id uuid NOT NULL,
    PRIMARY KEY (kind, key)
);
COMMENT ON TABLE ledger_keys IS 'platform: which transaction was posted under which key, once; append-only';

-- Money set aside for something that will be charged. Only what is open and has not run out counts.
CREATE TABLE ledger_holds (
    id              uuid PRIMARY KEY,
    org_id          uuid NOT NULL,
    account_id      uuid NOT NULL REFERENCES ledger_accounts,
    currency        text NOT NULL,
    key             text NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    amount_micros   bigint NOT NULL CHECK (amount_micros BETWEEN 1 AND 1000000000000000),
    captured_micros bigint NOT NULL DEFAULT 0,
    subject_id      uuid,
    reason          text NOT NULL CHECK (length(reason) <= 500),
    state           text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'captured', 'voided', 'expired')),
    state_since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at          timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ledger_holds_key UNIQUE (key),
    CHECK (captured_micros BETWEEN 0 AND amount_micros),
    CHECK ((state = 'open') = (due_at IS NOT NULL))
);
CREATE INDEX ledger_holds_open ON ledger_holds (account_id, due_at) WHERE state = 'open';
CREATE INDEX ledger_holds_due ON ledger_holds (due_at) WHERE state = 'open';
CREATE INDEX ledger_holds_by_org ON ledger_holds (org_id, id DESC);
CREATE INDEX ledger_holds_by_subject ON ledger_holds (subject_id) WHERE subject_id IS NOT NULL;
COMMENT ON TABLE ledger_holds IS 'tenant: money set aside, until it is charged, given back or its time is over';

-- What people change by hand: an amount, or the reversal of a transaction. Large ones wait for a second pair of eyes.
CREATE TABLE ledger_adjustments (
    id             uuid PRIMARY KEY,
    org_id         uuid NOT NULL REFERENCES orgs,
    currency       text NOT NULL,
    amount_micros  bigint NOT NULL CHECK (amount_micros <> 0),
    reverses_id    uuid,
    reason         text NOT NULL CHECK (length(reason) BETWEEN 3 AND 500),
    state          text NOT NULL CHECK (state IN ('proposed', 'posted', 'rejected', 'expired')),
    state_since    timestamptz NOT NULL DEFAULT now(),
    due_at         timestamptz,
    proposed_by    text NOT NULL,
    proposed_by_id uuid NOT NULL,
    decided_by     text NOT NULL DEFAULT '',
    decided_by_id  uuid,
    decision       text NOT NULL DEFAULT '' CHECK (length(decision) <= 500),
    transaction_id uuid,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'proposed') = (due_at IS NOT NULL)),
    CHECK ((state = 'posted') = (transaction_id IS NOT NULL)),
    CONSTRAINT ledger_adjustments_four_eyes CHECK (state <> 'posted' OR decided_by_id <> proposed_by_id)
);
CREATE INDEX ledger_adjustments_by_org ON ledger_adjustments (org_id, id DESC);
CREATE INDEX ledger_adjustments_due ON ledger_adjustments (due_at) WHERE state = 'proposed';
CREATE UNIQUE INDEX ledger_adjustments_one_reversal ON ledger_adjustments (reverses_id)
    WHERE reverses_id IS NOT NULL AND state IN ('proposed', 'posted');
COMMENT ON TABLE ledger_adjustments IS 'tenant: balances changed by hand, who asked for it and who agreed';

-- Walls ------------------------------------------------------------------------------------------------------------
-- The programs read; the platform's own rows have no organisation, so no tenant sees them. The owner posts for all.
ALTER TABLE ledger_accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_accounts FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_transactions ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_transactions FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_entries FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_holds ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_holds FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_adjustments ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_adjustments FORCE ROW LEVEL SECURITY;
CREATE POLICY ledger_accounts_read ON ledger_accounts FOR SELECT USING (visible_org(org_id));
CREATE POLICY ledger_accounts_post ON ledger_accounts TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY ledger_transactions_read ON ledger_transactions FOR SELECT USING (visible_org(org_id));
CREATE POLICY ledger_transactions_post ON ledger_transactions TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY ledger_entries_read ON ledger_entries FOR SELECT USING (visible_org(org_id));
CREATE POLICY ledger_entries_post ON ledger_entries TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY ledger_holds_read ON ledger_holds FOR SELECT USING (visible_org(org_id));
CREATE POLICY ledger_holds_post ON ledger_holds TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY ledger_adjustments_own ON ledger_adjustments USING (visible_org(org_id)) WITH CHECK (visible_org(org_id));
GRANT SELECT ON ledger_accounts, ledger_transactions, ledger_entries, ledger_keys, ledger_holds TO :app;
GRANT SELECT, INSERT ON ledger_adjustments TO :app;
GRANT UPDATE (state, state_since, due_at, decided_by, decided_by_id, decision, transaction_id) ON ledger_adjustments TO :app;

CREATE TRIGGER ledger_transactions_keep BEFORE UPDATE OR DELETE ON ledger_transactions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_transactions_keep_all BEFORE TRUNCATE ON ledger_transactions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_keep BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_keep_all BEFORE TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_keys_keep BEFORE UPDATE OR DELETE ON ledger_keys FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_keys_keep_all BEFORE TRUNCATE ON ledger_keys FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Only where the line of credit lies may change in an account, and accounts stay.
CREATE FUNCTION ledger_account_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.id, OLD.org_id, OLD.kind, OLD.currency, OLD.shard, OLD.seal)
                            IS NOT DISTINCT FROM (NEW.id, NEW.org_id, NEW.kind, NEW.currency, NEW.shard, NEW.seal) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'accounts of the ledger stay' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE FUNCTION ledger_seal(account ledger_accounts) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(convert_to(json_build_array(account.id, account.org_id, account.kind, account.currency, account.shard)::text,
                             'UTF8'));
CREATE FUNCTION ledger_account_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.seal := ledger_seal(NEW);
    RETURN NEW;
END $$;
CREATE TRIGGER ledger_accounts_seal BEFORE INSERT ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_account_sealed();
CREATE TRIGGER ledger_accounts_keep BEFORE UPDATE OR DELETE ON ledger_accounts
    FOR EACH ROW EXECUTE FUNCTION ledger_account_stays();
CREATE TRIGGER ledger_accounts_keep_all BEFORE TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
