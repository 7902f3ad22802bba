"""How queues share the cluster: `queue_tree` (parents and children), `quotas` (what queues hold and want), `device_quotas`, `admitted` (what
was promised at enqueue), `hdrf` (dominant shares over a tree).
"""
