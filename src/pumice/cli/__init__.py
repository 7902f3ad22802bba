"""The command line: it parses words, calls what the other packages offer, and prints.

Read `main` first (`commands` lists them, and they are imported only when they run; `invocation` is what a run knows of itself), then `cluster_command`: how a command gets at its cluster, and how its answer
(`results`) is fetched (`fetching`) and printed (`printing`, `tables`, `describe`, `templates`). A command group is a file: `job`, `queue`, `pod`, `flow`,
`explain` (with `sources`, `leader` and `explanation_text`), `nodes` (with `room`), `offline` (`pumice schedule`), `migrate` (with `migration`), `bench`, `crds`, `shell` and
`aliases`. `scheduler`, `controllers`, `webhooks`, `node`, `up` and `demo` start processes. `submitting`, `waiting` and `logs` serve the
commands on Jobs; `completion`, `colours`, `progress` and `suggestions` the terminal.
"""
