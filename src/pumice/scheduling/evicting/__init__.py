"""Which pods leave, and for which gang. `eviction` plans victims for single members, `gang_eviction` (with `bundles`) for gangs as a whole.

`pool` says on which nodes that could help at all, from what the plugins vote on in columns (`victim_columns`, `votes`). `claimants` are the gangs that ask, in their order, and `backoff` remembers for which of them that came to nothing. `reserved_room` keeps the room that evictions make for the gang they were made for, across cycles. `mend` completes or releases commits that
were cut short. `deadlocks` finds, names and ends what holds while it waits. `disruption` counts what a gang's own budget allows.
"""
