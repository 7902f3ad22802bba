"""Server-side apply: who owns which field, and what an applied configuration changes.

Read `layout` (how apply sees an object), `fieldsets` (sets of fields), `managers` (who owns which set) and `merging` (what an applied
configuration does to a live object, and its conflicts), in this order.
"""
