"""The read model: one immutable view of what a cycle saw and decided, for people and programs that ask. Pure.

Read `model` first (what is told, as versioned JSON), then `build` (how a snapshot and its decisions become it, sharing what has
not changed) and `changes` (what differs between two of them).
"""
