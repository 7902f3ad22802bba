"""Controllers: what Jobs, PodGroups, Queues and their like need to exist, made to exist.

A controller is a pure function and a table of what wakes it; everything else is shared:

    cache.Cache(informers)      what is there: `cache.of(Pod).get(ns, name)`, `.owned_by(uid)`, `.find("job", "ns/train")`.
                                It shows our own writes at once, before any watch does, so nothing is planned twice.
                                `.recently_deleted("job", "ns/train")` are those that are gone, as they were last seen: what happened between two looks.
    operations                  what a plan asks for: Create, Patch, Apply, Delete, Look, Emit, in stages, and when to plan again
    executor.Executor(...)      carries a plan out: idempotent, bounded, guarded by the lease, every write counted
    driver.Controller(...)      name, `plan(cache, key, now) -> Plan`, and the kinds that wake it, each with a function to keys
    driver.Driver(...)          the loop: news -> keys -> plan -> carry out -> plan again until nothing is left to do

To write a controller: `<kind>/plan.py` holds pure functions (objects and time in, a Plan out; no clock, no chance, no I/O), and
`<kind>/loop.py` has `controller(cache) -> Controller`, which gathers the plan's arguments from the `cache` and declares its indexes.
A line in `processes/controllers.py` starts it.

Read `operations`, `driver` and one small controller (`garbage/`) first, then `job/`, the largest. `ownership` and `minimums` are shared by several.

Rules that keep it safe to be killed at any moment:

- A plan looks at the world as it is and never remembers. What must survive is written into the object it is about.
- What is decided is written down before it is acted upon: first the status that says so, in a stage of its own, then the deeds.
- Names are made from what they belong to, so that what was made before a crash is met again: AlreadyExists is fine if it is ours.
- A watch may be late. Before much is done because something is *not* there, `Look` asks the server itself.
- Write with `uid` or `version`, so that a namesake or a newer state is never hit. A Conflict means: look again, plan again.
- Whatever only counts (`Patch(..., hurry=False)`) is written when it has been wanted for a second or so, not with each change.
"""
