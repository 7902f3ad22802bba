"""What is true now, in columns: nodes, tasks, gangs, queues, topology. `intake` is the only writer; readers get snapshots.

Read `state` first (the cluster and its snapshot), then the values in it: `tasks` (pods), `gangs`, `queues`, `columns` (nodes), `residents` (pods
of a node) and `topology` with `membership` (hyper nodes). `intake` turns changes into state; `freshness` drops old news and `relevance` says
which news can change a decision. `requests`, `amounts`, `terms`, `mounts`, `cards` and `matching` read parts of pods and nodes;
`fingerprints` compare content. Pure: no I/O, no clock.
"""
