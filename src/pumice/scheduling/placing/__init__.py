"""Where members go: from a gang's turn (`turns`) and its `pending` members through `members` (runs of equal ones) to `placement` (k equal pods in one operation).

`followers` narrows the choice where members share what the first of them decides. `topology` places gangs that must be close together, hyper node by hyper node. `constraints/` is what Kubernetes lets pods and nodes ask of each
other, in columns. `feasibility` says at once what can never run here. `node_cache`, `annotation_values`, `loads` and `heap` serve these.
"""
