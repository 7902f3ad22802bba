"""What should happen: plan(snapshot, policy, now) -> decisions. Pure: no I/O, no clock, no chance."""
