"""The CronJob controller: Jobs at given times, as Kubernetes' own CronJobs make them.

What ran is never remembered: the last time is the latest of the status and of the Jobs that are there, because each Job carries
its time. A Job is made first and recorded then, so a death in between makes no second one; and no Job is pruned before its time
is recorded.
"""
