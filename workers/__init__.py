"""The data plane: lake, checkpoints, label partitions, scoring, training, warehouse. No Prefect."""
