"""The cluster on one machine, for trying, testing and simulating: the production image leaves this package out.

Read `up` first: it starts all parts in one process. `apiserver/` is the embedded API server and `nodes/` the agents that play kubelets;
both are used on their own, too. `streams` has the answers of both that last (watches, logs), `viewer` lets the command line find and ask
the scheduler of such a cluster. `demo_stage` and `demo_worker` are what `pumice demo` runs.
"""
