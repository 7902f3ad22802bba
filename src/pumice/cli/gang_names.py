"""Names of gangs as people know them: a Job's group is called after the Job and its uid, which nobody can remember."""

from __future__ import annotations

import re

_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z-])")


def by_job(text: str) -> str:
    """A name, or a sentence with names in it: Jobs' names instead of those of their groups."""
    return _UID.sub("", text)
