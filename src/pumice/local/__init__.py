"""The cluster on one machine: `apiserver/` (the embedded API server), `nodes/` (pretend and process nodes), `up` (all of it in one process)
and what the demo is played on. For trying, testing and simulating: the production image leaves this package out.
"""
