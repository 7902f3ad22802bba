"""What objects look like: frozen Structs that hold the fields we read, one table of kinds, and what may change.

One module per API group. Structs are for reading only: what we write to an API server are patches and whole new objects,
never a re-encoded Struct, so that a field that we do not know survives everything we do.
"""
