-- The sides of the equations that lie above the ledger: what was used at which price, and what was held.

-- What was charged for each meter, and what its seconds cost at its price version.
CREATE VIEW proof_meters WITH (security_invoker = true) AS
SELECT m.id AS meter_id, m.org_id, m.currency, m.subject_id, coalesce(u.seconds, 0) AS seconds,
       p.micros_per_gpu_hour * m.gpus AS micros_per_hour, coalesce(u.micros, 0) AS charged_micros,
       meter_owed(p.micros_per_gpu_hour * m.gpus, coalesce(u.seconds, 0)) AS rated_micros
FROM meters m JOIN sku_prices p ON p.id = m.price_id
LEFT JOIN (SELECT org_id, meter_id, sum(seconds)::bigint AS seconds, sum(micros)::bigint AS micros
           FROM usage GROUP BY org_id, meter_id) AS u ON u.org_id = m.org_id AND u.meter_id = m.id;
COMMENT ON VIEW proof_meters IS 'what was charged for each meter, and what its seconds cost';

-- For how long each allocation was held and usable, by its own proofs and timeline; and what its meter counts. A time that
-- the meter leaves out counts as not usable only if the allocation's own records say that something was wrong then.
CREATE VIEW proof_allocations WITH (security_invoker = true) AS
SELECT a.id AS allocation_id, a.org_id,
       CASE WHEN m.id IS NULL THEN 0 ELSE meter_seconds(m.opened_at, least(m.closed_at, statement_timestamp()), gaps.seconds)
       END AS metered_seconds,
       meter_seconds(held.from_at, held.until_at, gaps.known_seconds + tail.seconds) AS occupied_seconds
FROM allocations a LEFT JOIN meters m ON m.subject_id = a.id
CROSS JOIN LATERAL (
    SELECT coalesce((SELECT max(p.at) FROM allocation_proofs p
                     WHERE p.allocation_id = a.id AND p.passed AND p.at <= a.active_at), a.active_at) AS from_at,
           coalesce(a.release_requested_at, a.ended_at, statement_timestamp()) AS until_at
) AS held
CROSS JOIN LATERAL (
    SELECT coalesce(sum(g.seconds), 0) AS seconds, coalesce(sum(g.seconds) FILTER (WHERE g.known), 0) AS known_seconds
    FROM (SELECT pause_seconds(m.opened_at, least(m.closed_at, statement_timestamp()), s.from_at, s.until_at) AS seconds,
                 EXISTS (SELECT FROM allocation_timeline t WHERE t.allocation_id = a.id
                         AND t.phase IN ('degraded', 'not_charged', 'charged_again', 'stop', 'stopped', 'started')
                         AND t.at >= s.from_at
                         AND t.at <= coalesce(s.until_at, 'infinity') + interval '1 minute') AS known
          FROM meter_pauses s WHERE s.meter_id = m.id) AS g
) AS gaps
CROSS JOIN LATERAL (
    SELECT CASE WHEN m.closed_at < held.until_at AND m.close_reason = 'the last sign of life of its node'
                THEN extract(epoch FROM held.until_at) - extract(epoch FROM m.closed_at) ELSE 0 END AS seconds
) AS tail
WHERE a.active_at IS NOT NULL
UNION ALL
SELECT m.subject_id, m.org_id,
       meter_seconds(m.opened_at, least(m.closed_at, statement_timestamp()),
                     meter_lost(m.id, m.opened_at, least(m.closed_at, statement_timestamp()))), 0
FROM meters m WHERE NOT EXISTS (SELECT FROM allocations a WHERE a.id = m.subject_id AND a.active_at IS NOT NULL);
COMMENT ON VIEW proof_allocations IS 'for how long each allocation was held and usable, and what its meter counts';
GRANT SELECT ON proof_meters, proof_allocations TO :app;

-- What was paid in, payment by payment, and what the ledger credits for it. Only the organisation's own legs are needed.
CREATE VIEW proof_payments WITH (security_invoker = true) AS
SELECT p.id AS payment_id, t.id AS transaction_id, coalesce(p.currency, t.currency) AS currency,
       coalesce(p.amount_micros, 0) AS paid_micros, coalesce(t.amount_micros, 0) AS credited_micros
FROM (SELECT * FROM payments WHERE transaction_id IS NOT NULL) AS p
FULL JOIN (SELECT t.id, t.currency, e.amount_micros
           FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id AND e.org_id = t.org_id
           WHERE t.kind = 'top_up') AS t ON t.id = p.transaction_id;
COMMENT ON VIEW proof_payments IS 'what was paid in, and what the ledger credits for it';

-- What went through the account of payment providers without a payment that explains it: nobody can have paid it.
CREATE VIEW proof_clearing WITH (security_invoker = true) AS
SELECT t.id AS transaction_id, t.kind, t.currency, -e.amount_micros AS micros
FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'clearing'
JOIN ledger_transactions t ON t.id = e.transaction_id
WHERE NOT EXISTS (SELECT FROM payment_effects p WHERE p.transaction_id = t.id);
COMMENT ON VIEW proof_clearing IS 'money through the account of payment providers that no payment explains';
GRANT SELECT ON proof_payments, proof_clearing TO :app;
