"""Who measures what nodes really use, as a policy says it: its `metrics` map, checked."""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING

from pumice import instant
from pumice.processes.extender_client import read_address
from pumice.scheduling.core import arguments
from pumice.scheduling.core.policy import PolicyError

if TYPE_CHECKING:
    from pumice.scheduling.core.policy import Policy

SOURCES = ("prometheus", "prometheus_adaptor", "elasticsearch")
INTERVAL_DEFAULT = "30s"
INTERVAL_S_MIN = 1.0  # averages over ten minutes hardly change faster


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The policy's `metrics` map, checked."""

    type: str
    address: str
    interval_s: float
    is_verified: bool
    index: str
    host_field: str
    login: str = dataclasses.field(repr=False)  # the value of the authorization header; empty for none


def settings_of(policy: Policy) -> Settings | None:
    """Which source to ask and how often; None where the policy names none, PolicyError where it cannot be asked."""
    written = policy.metrics
    kind = written.get("type", "")
    if not kind:
        return None
    if kind not in SOURCES:
        raise PolicyError(f"policy {policy.source}: metrics: type {kind!r}: use one of {', '.join(SOURCES)}")
    try:
        if kind != "prometheus_adaptor":
            read_address(written.get("address", ""))
        interval = arguments.duration("interval", written.get("interval", INTERVAL_DEFAULT))
    except ValueError as error:
        raise PolicyError(f"policy {policy.source}: metrics: {error}") from error
    user = written.get("elasticsearch.username", "")
    return Settings(
        type=kind,
        address=written.get("address", "").rstrip("/"),
        interval_s=max(INTERVAL_S_MIN, interval / instant.SECOND),
        is_verified=written.get("tls.insecureSkipVerify", "").lower() != "true",
        index=written.get("elasticsearch.index", "metricbeat-*"),
        host_field=written.get("elasticsearch.hostnameFieldName", "host.hostname"),
        login=_basic(user, written.get("elasticsearch.password", "")) if user else "",
    )


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
