"""A client of any API server: verbs, list and watch, informers, over any Transport.

What the rest of Pumice calls, and where it is:

    config.find(path, clock=...)            a Connection, found where kubectl finds it; config.in_cluster(), too
    http.HttpTransport(connection, ...)     a Transport over HTTP; apiserver.local has the one without
    client.Client(transport, ...)           get, list, create, update, patch, apply, delete, bind, evict, log, call, stream
    limits.Limits(clock, ...)               calls at once and a second, for a Client
    informer.Informers(client, ...)         `.of(Pod)`: the process's one informer of a kind; Upserted, Deleted, Relisted
    workqueue.WorkQueue(chance)             keys to handle, once each, with back-off
    lease.Election(client, ...)             `lead(work)` while holding a Lease; `check()` before every write
    recorder.Recorder(client, ...)          `record(object, ...)`: Events, counted and limited
    errors                                  the tree of what can go wrong
"""
