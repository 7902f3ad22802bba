"""A node that really runs the containers' commands, as processes of this machine. Images are not pulled.

Read `agent` (the node), `hosted_pods` (its pods), `lifecycle` (one pod), `runner` (one container), `launch` and `sandbox` (one process), in
this order. `podspec` is what of a pod they read. `orders` says what to run, from `environment`, `downward`, `sources` and `volumes`. `machine` is the node's share of this machine:
`addresses`, `devices`, `files`, `leftovers` of a killed agent. `hosts` and `resolving` give pods names, `logs` keeps their output.
"""
