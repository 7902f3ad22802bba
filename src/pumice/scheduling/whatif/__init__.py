"""Questions that begin with "what if": the real engine plans over a snapshot in which something is different, and nothing is written.

`trial` plans and says what came of it; `suggestion` is one change that would start a gang, as data; `single_changes` finds such changes
for a gang that waits, cheapest first, without turns for those who could not start anyway (`bystanders`); `scenario` changes nodes, queues, gangs or the policy and compares all gangs before and after (`outcome`).
"""
