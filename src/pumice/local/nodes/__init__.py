"""Node agents: plain clients of any API server that play kubelets, by pretending or by really running commands.

Read `registration` (a node's object and heartbeat), then `pretend` with `pretend_pods` and `distributions` (nodes that only play the phases),
or `process/` (nodes that run the commands). Both share `admission` (what a kubelet checks before it runs a pod), `containers` (the
status that follows from containers) and `serving` (logs). `lifecycle`, `ordinary` and `claims` stand in for the parts of a control
plane that a cluster without kube-controller-manager lacks: dead nodes, pods of the default scheduler, volumes.
"""
