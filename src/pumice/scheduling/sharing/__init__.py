"""How queues share the cluster: `queue_tree` (who is below whom), `quotas` (what queues hold and want), `device_quotas`, `admitted` (what
was promised at enqueue), `hdrf` (dominant shares over a tree), `queue_gate` (pods that Volcano's own gate holds until there is a share for them).
"""
