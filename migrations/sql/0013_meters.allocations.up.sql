-- Allocations and their money ------------------------------------------------------------------------------------------
CREATE VIEW invariant_05_deposits_of_live WITH (security_invoker = true) AS
SELECT 'hold ' || h.id AS subject, h.amount_micros - h.captured_micros || ' micro-units are set aside for allocation ' || a.id
       || ', which is ' || a.state AS problem
FROM ledger_holds h JOIN allocations a ON a.id = h.subject_id
WHERE h.state = 'open' AND h.due_at > clock_timestamp() AND a.state IN ('requested', 'released', 'failed', 'release_failed');
COMMENT ON VIEW invariant_05_deposits_of_live IS 'money is set aside only for what lives';

CREATE VIEW invariant_07_active_is_metered WITH (security_invoker = true) AS
SELECT 'allocation ' || a.id AS subject, 'is ' || a.state || ', and ' || CASE WHEN m.id IS NULL THEN 'has no meter'
       WHEN a.state = 'active' THEN 'its meter has ended at ' || m.closed_at ELSE 'its meter goes on' END AS problem
FROM allocations a LEFT JOIN meters m ON m.subject_id = a.id
WHERE (a.state = 'active' AND (m.id IS NULL OR m.closed_at IS NOT NULL))
   OR (m.closed_at IS NULL AND m.id IS NOT NULL
       AND a.state IN ('requested', 'provisioning', 'releasing', 'released', 'failed', 'release_failed'))
UNION ALL
SELECT 'allocation ' || a.id, 'is ' || a.state || ' for want of money, and its meter goes on'
FROM allocations a JOIN meters m ON m.subject_id = a.id
WHERE a.state IN ('stopping', 'stopped', 'starting') AND (a.stop_reason IN ('balance', 'budget') OR a.stop_unpaid)
  AND m.closed_at IS NULL AND NOT EXISTS (SELECT FROM meter_pauses p WHERE p.meter_id = m.id AND p.until_at IS NULL);
COMMENT ON VIEW invariant_07_active_is_metered IS 'an active allocation has an open meter, one stopped for money has one that stands, one that is given back has none';

GRANT SELECT ON invariant_05_deposits_of_live, invariant_07_active_is_metered TO :app;
