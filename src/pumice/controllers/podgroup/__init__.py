"""The PodGroup controller: pods that name one of our schedulers and no group get one.

All pods of one controller share a group, which is named after the controller's uid; a bare pod has one of its own. A ReplicaSet,
StatefulSet, DaemonSet or batch Job may ask for a gang (`scheduling.volcano.sh/group-min-member`), so the scheduler lets their pods
wait for the group. Other pods it takes for gangs of one, and may have placed them before their group exists.
"""
