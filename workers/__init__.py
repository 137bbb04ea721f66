"""The data plane: lake, checkpoints, label partitions, scoring, training, warehouse. No Prefect."""

from workers.isolation import keep_private

# Whatever works here imports this: the command, a flow, a worker of Ray, a child.
keep_private()
