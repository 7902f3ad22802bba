"""The engine's core: one cycle (`cycle`), the `session` that actions and plugins work on, and its values.

Read in this order: `cycle` (plan), `session`, `gangstate` and `room` (what changes tentatively), `statement` (how it is undone), `points`
(where plugins take part), `shapes` (pods that are equal), `verdict` and `messages` (why something waits), `build_decisions` and `decisions`
(what leaves the cycle). `memory` is what one cycle hands to the next. `policy`, `arguments` and `builtin` read the policy file; `ports` is what the engine is given from outside.
"""
