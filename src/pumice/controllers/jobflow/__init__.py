"""The JobFlow controller: Jobs that wait for one another.

    plan          which Jobs may start now, and how the flow is doing; pure
    probes        when a Job that has not ended is far enough for the next one: what to ask, and of which pod; pure
    patching      a JobTemplate's spec with a flow's changes laid over it; pure
    status        what is written down; pure
    prober        asks, with limits
    loop          gathers, and lets the prober ask

A flow starts when each of its targets has completed, or has passed the probes that concern it. What has completed is written
down: a Job that is cleaned up afterwards is not run a second time.
"""
