DROP VIEW invariant_14_artifacts_move, invariant_14_tasks_move, invariant_15_task_sequence, invariant_15_one_result,
    invariant_20_tasks_signed_while_valid, invariant_36_live_nodes_speak, invariant_37_slots_of_nodes,
    invariant_37_one_gpu_one_node;
