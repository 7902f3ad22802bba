"""A client of any API server: verbs, list and watch, informers, over any Transport.

What the rest of Pumice calls, and where it is:

    config.find(path, clock=...)            a Connection, found where kubectl finds it; config.in_cluster(), too
    direct.DirectTransport(connection, ...) a Transport over HTTP; http has one over a library, local.apiserver.local the one without HTTP
    client.Client(transport, ...)           get, list, create, update, patch, apply, delete, bind, evict, log, call, stream
    informer.Informers(client, ...)         `.of(Pod)`: the process's one informer of a kind; Upserted, Deleted, Relisted
    workqueue.WorkQueue(chance)             keys to handle, once each, with back-off
    lease.Election(client, ...)             `lead(work)` while holding a Lease; `check()` before every write
    recorder.Recorder(client, ...)          `record(object, ...)`: Events, counted and limited
    commands.command(client, ...)           a Command object: suspend a Job, close a queue
    errors                                  the tree of what can go wrong

Read `transport`, `client` and `informer` first. `requests`, `paging` and `watch` are the wire format; `connection`, `kubeconfig`, `credentials`,
`exec_auth` and `proxies` say where the server is and who we are. `listener` is for our own servers, `closing` for the end of connections.
"""
