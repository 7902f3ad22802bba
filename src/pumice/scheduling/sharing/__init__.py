"""How queues share the cluster: what the plugins proportion, capacity and drf have in common.

Read `queue_tree` (parents and children), `quotas` (what queues hold and want) and `division` (by weight) first; `limits` says what all that
leaves to each queue, for people to read; `device_quotas` counts devices of resource claims,
`admitted` what was promised at enqueue, `hdrf` dominant shares over a tree. `queue_gate` is about pods that wait behind Volcano's own gate.
"""
