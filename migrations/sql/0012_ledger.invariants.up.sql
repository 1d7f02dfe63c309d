-- What must always hold --------------------------------------------------------------------------------------------
-- Each balance is the one before and its amount: by that, the sum of all entries before, at every instant.
CREATE VIEW invariant_01_balance_is_sum WITH (security_invoker = true) AS
SELECT 'account ' || account_id || ' entry ' || number AS subject,
       CASE WHEN number <> before_number + 1 THEN 'its number follows ' || before_number
            ELSE 'its balance is ' || balance_micros || ', but ' || before_balance || ' and ' || amount_micros || ' are not'
       END || ', in transaction ' || transaction_id AS problem
FROM (
    SELECT account_id, transaction_id, number, amount_micros, balance_micros,
           lag(number, 1, 0::bigint) OVER along AS before_number,
           lag(balance_micros, 1, 0::bigint) OVER along AS before_balance
    FROM ledger_entries WINDOW along AS (PARTITION BY account_id ORDER BY transaction_id)
) AS entries
WHERE number <> before_number + 1 OR balance_micros <> before_balance + amount_micros;
COMMENT ON VIEW invariant_01_balance_is_sum IS 'the balance of an account is the sum of its entries, at any instant';

CREATE VIEW invariant_02_transactions_balance WITH (security_invoker = true) AS
SELECT 'transaction ' || coalesce(t.id, e.transaction_id) AS subject,
       CASE WHEN t.id IS NULL THEN 'has entries, but is not there'
            WHEN e.legs IS NULL OR e.legs < 2 THEN 'has ' || coalesce(e.legs, 0) || ' legs'
            WHEN e.total <> 0 THEN 'sums to ' || e.total
            ELSE 'has legs in an account of another currency or organisation, or in none' END AS problem
FROM ledger_transactions t
FULL JOIN (
    SELECT e.transaction_id, count(*) AS legs, sum(e.amount_micros) AS total, min(a.currency) AS currency,
           bool_and(a.id IS NOT NULL AND a.org_id IS NOT DISTINCT FROM e.org_id) AS placed,
           count(DISTINCT a.currency) AS currencies, min(e.org_id::text)::uuid AS org_id
    FROM ledger_entries e LEFT JOIN ledger_accounts a ON a.id = e.account_id GROUP BY e.transaction_id
) AS e ON e.transaction_id = t.id
WHERE t.id IS NULL OR e.legs IS NULL OR e.legs < 2 OR e.total <> 0 OR NOT e.placed OR e.currencies <> 1
   OR e.currency <> t.currency OR e.org_id IS DISTINCT FROM t.org_id;
COMMENT ON VIEW invariant_02_transactions_balance IS 'each transaction sums to zero in its currency and has two legs or more';

CREATE VIEW invariant_02_one_key_one_transaction WITH (security_invoker = true) AS
SELECT 'key ' || coalesce(k.kind, t.kind) || ' ' || coalesce(k.key, t.key) AS subject,
       CASE WHEN t.id IS NULL THEN 'its transaction ' || k.transaction_id || ' is not there'
            ELSE 'transaction ' || t.id || ' is not the one the key stands for' END AS problem
FROM ledger_keys k FULL JOIN ledger_transactions t ON t.id = k.transaction_id
WHERE k.key IS NULL OR t.id IS NULL OR (k.kind, k.key) <> (t.kind, t.key);
COMMENT ON VIEW invariant_02_one_key_one_transaction IS 'each transaction was posted under one key, each key for one transaction';

CREATE VIEW invariant_03_floors WITH (security_invoker = true) AS
SELECT 'organisation ' || a.org_id AS subject,
       'has ' || coalesce(h.balance_micros, 0) || ' with ' || held.micros || ' set aside, and may not fall below '
       || a.floor_micros || ' ' || a.currency AS problem
FROM ledger_accounts a
LEFT JOIN LATERAL (SELECT balance_micros FROM ledger_entries e WHERE e.account_id = a.id
                   ORDER BY e.transaction_id DESC LIMIT 1) AS h ON true
CROSS JOIN LATERAL (SELECT coalesce(sum(amount_micros - captured_micros), 0) AS micros FROM ledger_holds
                    WHERE account_id = a.id AND state = 'open' AND due_at > clock_timestamp()) AS held
WHERE a.kind = 'tenant' AND coalesce(h.balance_micros, 0) - held.micros < a.floor_micros
  -- What was used is owed below the floor, too: then nothing else was taken or set aside since.
  AND NOT EXISTS (
    SELECT FROM ledger_entries u JOIN ledger_transactions t ON t.id = u.transaction_id AND t.kind = 'usage'
    WHERE u.account_id = a.id AND u.amount_micros < 0
      AND NOT EXISTS (SELECT FROM ledger_entries o JOIN ledger_transactions ot ON ot.id = o.transaction_id
                      WHERE o.account_id = a.id AND o.number > u.number AND o.amount_micros < 0 AND ot.kind <> 'usage')
      AND NOT EXISTS (SELECT FROM ledger_holds n WHERE n.account_id = a.id AND n.state = 'open'
                      AND n.created_at > t.at + interval '1 millisecond')); -- its instant is that of an id, rounded down
COMMENT ON VIEW invariant_03_floors IS 'no account, less what is set aside of it, is below its floor but for what was used';

CREATE VIEW invariant_03_reversed_once WITH (security_invoker = true) AS
SELECT 'transaction ' || t.reverses_id AS subject, 'reversed ' || count(*) || ' times' AS problem
FROM ledger_transactions t WHERE t.reverses_id IS NOT NULL GROUP BY t.reverses_id HAVING count(*) > 1
UNION ALL
SELECT 'transaction ' || t.id, 'does not undo the legs of ' || t.reverses_id
FROM ledger_transactions t
WHERE t.reverses_id IS NOT NULL AND EXISTS (
    SELECT a.kind, sum(e.amount_micros) FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
    WHERE e.transaction_id IN (t.id, t.reverses_id) GROUP BY a.kind HAVING sum(e.amount_micros) <> 0);
COMMENT ON VIEW invariant_03_reversed_once IS 'a transaction is reversed at most once, as a whole';

CREATE VIEW invariant_14_holds_end WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the hold is open and should not be since ' || due_at AS problem
FROM ledger_holds WHERE state = 'open' AND due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_holds_end IS 'no hold on money is past its end by over 60 seconds';

CREATE VIEW invariant_14_adjustments_end WITH (security_invoker = true) AS
SELECT id::text AS subject, 'the adjustment is proposed and should not be since ' || due_at AS problem
FROM ledger_adjustments WHERE state = 'proposed' AND due_at < now() - interval '60 seconds';
COMMENT ON VIEW invariant_14_adjustments_end IS 'no proposed adjustment is past its end by over 60 seconds';

CREATE VIEW invariant_34_ledger_months_ahead WITH (security_invoker = true) AS
SELECT parent || '_p' || month AS subject, 'the partition of that month is missing: its rows would be refused' AS problem
FROM unnest(ARRAY['ledger_transactions', 'ledger_entries']) AS parent,
     LATERAL (SELECT to_char((now() AT TIME ZONE 'UTC') + i * interval '1 month', 'YYYYMM') AS month
              FROM generate_series(0, 1) AS i) AS months
WHERE to_regclass(parent || '_p' || month) IS NULL;
COMMENT ON VIEW invariant_34_ledger_months_ahead IS 'the ledger has its partitions for this month and the next';

GRANT SELECT ON invariant_01_balance_is_sum, invariant_02_transactions_balance, invariant_02_one_key_one_transaction,
    invariant_03_floors, invariant_03_reversed_once, invariant_14_holds_end, invariant_14_adjustments_end,
    invariant_34_ledger_months_ahead TO :app;
