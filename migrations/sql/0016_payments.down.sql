DROP VIEW invariant_16_one_effect, invariant_14_payments_move, payment_sides;
DROP FUNCTION payment_accept;
DROP TABLE payment_reconciliations, payment_differences, payment_statement_sums, payment_statements, webhook_events, payment_effects, payment_refunds,
    payments, payment_customers;
