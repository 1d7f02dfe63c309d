DROP TABLE agent_artifact_parts, agent_artifacts, node_metrics, node_health, gpu_faults, slot_quarantines, task_phases, tasks, task_keys,
    task_sequences, node_heartbeats, nodes;
DROP FUNCTION ensure_metric_days, prune_metric_days;
