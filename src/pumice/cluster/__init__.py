"""What is true now, in columns: nodes, tasks, gangs, queues, topology. `intake` is the only writer; readers get snapshots."""
