"""What Kubernetes lets pods and nodes ask of each other, in columns over nodes: shared by the plugins that filter and score.

Read `labels` and `taints` first: the simplest columns. `pod_counts` counts pods for `affinity` and `spread`, in labels' domains. `storage` (what there is)
and `volumes` (what pods ask for) belong together, with `attachments`; so do `devices`, `claims`, `allocation` and `device_cel` (resource claims), and
`shared_gpus` with `gpu_sharing_modes`. `cpus`, `host_ports` and `images` stand alone.
"""
