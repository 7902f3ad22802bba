"""The wiring: which parts make up the scheduler, the controllers and the webhooks as processes.

Read `lifecycle` first (connect, work, stop), then one of `scheduler`, `controllers` and `webhooks`. `health` is the HTTP port of each;
`view_server` with `access` serves the read model on it. The scheduler is given its policy by `policies`, plugins by `entry_points`, what they
need by `requirements`, queues of a file by `queues`, measured loads by `loads` with `load_settings`, an HTTP extender by `extender_client`, run
times that the record has learned by `recorded_runs`; `volcano_guard`
keeps it from serving a name that a live Volcano serves. `scheduler_metrics` and `controller_metrics` count, `controller_settings` reads the
controllers' flags, and `failpoints` kill the process where a crash test says so.
"""
