"""The three patches that describe a change: `plain` has JSON patch and merge patch, `strategic` the strategic merge patch.

Server-side apply, the fourth kind of PATCH, is in `apply/`; `patching` chooses among the four.
"""
