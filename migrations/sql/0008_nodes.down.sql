DROP TABLE agent_artifact_parts, agent_artifacts, node_metrics, node_metric_batches, node_health, gpu_faults, slot_quarantines, task_phases, tasks, task_keys,
    task_sequences, node_heartbeats, nodes;
