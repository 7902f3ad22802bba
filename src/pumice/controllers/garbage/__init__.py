"""The garbage collector: finished Jobs go when their time is up (spec.ttlSecondsAfterFinished)."""
