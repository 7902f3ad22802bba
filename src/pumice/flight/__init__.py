"""The flight recorder: what the scheduler saw and decided, in a bounded file, from which every cycle can be planned again.

A cycle is a pure function of a snapshot, a policy, a memory and a time. So the file holds a whole state now and then, the Changes that came
between cycles, and of each cycle's decisions a digest: small enough to be always on, and enough to tell whether planning again gives the same bytes.

`unrecorded` is what a scheduler tells its recorder, `frames` the format; `recorder` writes it, in a thread of its own; `replay` reads it and plans again; `digests` says when decisions are equal.
"""
