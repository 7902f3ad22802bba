"""The garbage collector: finished Jobs go when their time is up (spec.ttlSecondsAfterFinished).

`plan` says when and what, pure; `loop` gathers its arguments.
"""
