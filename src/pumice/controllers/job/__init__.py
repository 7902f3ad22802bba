"""The Job controller: a gang's whole life, from the PodGroup and the pods to retries, restarts and the end.

`plan.plan(view)` is all of it: pure, from the world as it is to operations. Its parts, in the order in which a plan uses them:

    defaulting    the Job with its defaults filled in
    progress      what its status says happened so far
    members       the Job's pods as members: task, index, and which start of the Job made them
    policies      what happened to them (events), and which policy that meets
    timeouts      policies that act only if nothing changes for a while
    phases        the table: phase x action -> next phase, which pods to kill, whether it costs a retry; when phases end by themselves
    decisions     what a command or a policy decides, and how it is written down
    kill          which pods have to go, found from the status alone
    status        counters and phases as they should be written
    desired_objects, with volumes, podgroup, pods, dependencies, keys, plugins/      what has to exist
    dead_nodes    pods that cannot end because their node is gone
    pace          who makes pods now, and who when others are bound
    repair_rounds when to look for what plugins made and others deleted

`view` is what a plan is given, and `loop` gathers it.

Which pods to kill is never remembered, it is written down: a whole restart raises `status.version`, and every pod that an older version
made has to go; a restart of single pods raises `status.retryCount` and names its targets in `Progress`, and every target that an
older retry made has to go. So a controller that dies anywhere goes on where it was.
"""
