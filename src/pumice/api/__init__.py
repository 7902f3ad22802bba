"""What objects look like: frozen Structs that hold the fields we read, one table of kinds, and what may change.

One module for each API group. Structs are for reading only: what we write to an API server are patches and whole new objects,
never a re-encoded Struct, so that a field that we do not know survives everything we do.

Read `meta` and `kinds` (the table) first, then the group that is of interest: `batch`, `scheduling`, `flow`, `core`, `pods` and so on. `names` has all
labels and annotations, `groups` which PodGroup a pod belongs to, `changes` what the scheduler's cluster state is told. `defaults` and
`validation/` are the admission rules, `columns` and `cells` what tables show of an object, `crds/` the schemas.
"""
