DROP VIEW invariant_13_flows_go_on, invariant_14_flows_move;
DROP TABLE flow_attempts, flow_runs;
