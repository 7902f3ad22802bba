"""Time limits: gangs are told before their time is up, and end when it is (`pumice.dev/time-limit`).

`plan` says what and when, pure; `loop` gathers its arguments. A gang that a Job made is only marked here: what follows is the Job's
business, whose policies may name the event (`controllers/job/policies.py`).
"""
