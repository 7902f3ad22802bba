"""What should happen: plan(snapshot, policy, memory, now) -> decisions. Pure: no I/O, no clock, no chance.

`core/` is the cycle and its values, `placing/` finds nodes for members, `evicting/` makes room, `sharing/` divides the cluster between queues;
`actions/` are the steps that a policy lists, `plugins/` the rules that it lists. Start with `core/cycle.py`.
"""
