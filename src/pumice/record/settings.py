"""Where the record is kept and for how long. Imports no database."""

from __future__ import annotations

from urllib.parse import urlsplit

from pumice.api import names
from pumice.errors import BadInput
from pumice.values import Value

DAY_S = 86_400
NAMESPACE = "kube-system"
KEEP_DAYS = 400  # a year and a month, so that months can be compared
KEEP_DETAIL_DAYS = 31
BUFFER_ROWS_MAX = 50_000  # about 30 MB
_SCHEMES = ("sqlite", "postgresql")
_EXAMPLES = "sqlite:////var/lib/pumice/record.db or postgresql://user:password@host/database"


class RecordSettings(Value):
    url: str
    keep_days: int = KEEP_DAYS  # gangs, attempts, evictions, usage
    keep_detail_days: int = KEEP_DETAIL_DAYS  # what single pods held, and the last lines that they wrote
    trusts_label: bool = False  # `pumice.dev/user` says who a gang is charged to where admission recorded nobody
    adopts: bool = False  # a record of another cluster is continued: that cluster is gone
    keeps_logs: bool = True
    buffer_rows: int = BUFFER_ROWS_MAX  # that wait while the database is away
    namespace: str = NAMESPACE  # where the scheduler keeps its memory, and reads what it can learn from the record
    scheduler: str = names.SCHEDULER_LEASE  # whose memory that is


def check(url: str, option: str = "--record") -> str:
    """The address of a record, or BadInput."""
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme not in _SCHEMES or "://" not in url:
        raise BadInput(f"{option} {without_password(url)!r}: no such kind of record; write {_EXAMPLES}")
    if scheme == "sqlite" and not url.startswith("sqlite:///"):
        raise BadInput(f"{option} {url!r}: a path follows three slashes; write {_EXAMPLES}")
    return url


def without_password(url: str) -> str:
    """The address as it may be shown."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable)"
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username or ''}:***@{host}").geturl()
