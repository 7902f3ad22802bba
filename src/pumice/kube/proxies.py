"""Which proxy leads to an API server: the kubeconfig's, else the environment's, as Go programs understand it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pumice.kube.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_proxy(proxy: str, origin: str) -> str:
    """The proxy, if it is one that we can talk to."""
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise BadConfig(f"{origin}: proxy {proxy!r} is not supported; use an http:// or https:// proxy")
    return proxy


def from_environment(server: str, env: Mapping[str, str]) -> str:
    """What $HTTPS_PROXY or $HTTP_PROXY says for this server; nothing for what $NO_PROXY names or for this machine itself."""
    parts = urlsplit(server)
    variable = f"{parts.scheme}_proxy"
    proxy = env.get(variable.upper()) or env.get(variable) or ""
    if not proxy or _is_exempt(parts.hostname or "", parts.port, env.get("NO_PROXY") or env.get("no_proxy") or ""):
        return ""
    return check_proxy(proxy if "://" in proxy else f"http://{proxy}", f"${variable.upper()}")


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, address, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(
    entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None
) -> bool:
    """`*`, a network, an address, or a domain with all below it; each but the first two perhaps with a port."""
    if entry == "*":
        return True
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return _address(name.strip("[]")) == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
