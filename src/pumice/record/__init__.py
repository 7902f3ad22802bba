"""The record: what happened to every gang, kept after its objects are gone. SQLite by default, PostgreSQL for a team.

    informers --news--> Observer (pure) --rows--> Buffer (pure, bounded) --batches--> Store (a transaction each) --> queries

Read `rows` (what is kept), `observer` (how objects become rows), `buffer`, `store`, then `queries`. `writer` is the loop that joins them in
the controllers' process; `migrations` holds the schema's versions. Only `schema`, `store`, `queries` and `migrations` import SQLAlchemy, and
nothing imports those before a record is opened.

Rules that keep it exact:

- A row is the whole state that an object has reached, under a key that the cluster gave it (a uid). Written twice, it is there once.
- `seen` is the resource version that a row was made from. An older row never replaces a newer one, whoever writes it.
- Whatever is summed (GPU seconds, hours of usage) is computed anew from the rows in the same transaction, never added up.
- The scheduler does not know of the record, and the controllers do not wait for it. What it teaches, and the forecasts that it keeps, travel through
  ConfigMaps (`learned`).
"""
