"""What an operator sees of a running process: logs, metrics and traces.

`logs` writes events with fields. `catalogue` is the table of all metrics and `meters` the numbers behind it; a new metric is a row in
the table. `traces` exports spans of cycles and attempts, where an exporter is configured. Health and the HTTP port are in `processes.health`.
"""
