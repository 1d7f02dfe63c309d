DROP VIEW proof_clearing, proof_payments, proof_allocations, proof_meters;
DROP VIEW invariant_39_invoices_have_no_gaps, invariant_39_invoices_are_the_ledger;
DROP FUNCTION invoice_sum_of;
DROP TABLE invoice_files, invoices;
ALTER TABLE projects DROP COLUMN cost_centre;
