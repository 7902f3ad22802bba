"""Which API server to talk to and as which user: from a kubeconfig, or from the pod that we run in.

`find()` is what every command calls: it looks where kubectl looks, in the same order. Nothing here prints a token or a key.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from pumice import files
from pumice.kube import kubeconfig, proxies
from pumice.kube.connection import Connection
from pumice.kube.credentials import Anonymous, Credentials, Fixed, Presented, RotatingFile, Source
from pumice.kube.errors import BadConfig, NoCredentials
from pumice.kube.exec_auth import ExecCredentials, PluginPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"  # a cluster's own words to an exec plugin

KUBERC_BYTES_MAX = 2**20  # of kubectl's preferences
NO_PLUGINS = PluginPolicy(allowed=False)  # what server processes use, unless told otherwise


def find(
    path: str = "",
    *,
    clock: Clock,
    context: str = "",
    env: Mapping[str, str] = os.environ,
    plugins: PluginPolicy = NO_PLUGINS,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection that `path`, else $KUBECONFIG, else ~/.kube/config describes; without any of them, that of our own pod."""
    found = (
        kubeconfig.read([Path(path)], must_exist=True) if path else kubeconfig.read(_usual_files(env), must_exist=False)
    )
    if not path and not context and not found.clusters and "KUBERNETES_SERVICE_HOST" in env:
        return in_cluster(clock=clock, env=env, service_account=service_account)
    if not found.files:
        looked = ", ".join(map(str, _usual_files(env)))
        raise BadConfig(f"there is no kubeconfig: looked for {looked}; name one with --kubeconfig or $KUBECONFIG")
    return _Reader(found, clock=clock, env=env, plugins=plugins).connection(context)


def in_cluster(
    *, clock: Clock, env: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod to its own cluster, with a token that the kubelet renews."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadConfig("this is no pod: KUBERNETES_SERVICE_HOST is not set; name a kubeconfig instead")
    if ":" in host:
        host = f"[{host}]"
    token = RotatingFile(service_account / "token", clock.monotonic)
    authority = RotatingFile(service_account / "ca.crt", clock.monotonic)
    try:
        token.read()
        authority.read()
    except NoCredentials as error:
        raise BadConfig(f"this pod has no service account mounted: {error}") from error
    namespace_file = service_account / "namespace"
    namespace = env.get("POD_NAMESPACE") or (namespace_file.read_text().strip() if namespace_file.exists() else "")
    server = f"https://{host}:{port}"
    return Connection(
        server=server,
        credentials=Presented(token=token),
        namespace=namespace or "default",
        authority=authority,
        proxy=proxies.from_environment(server, env),
        origin="the pod's service account",
    )


def kubectl_plugin_policy(env: Mapping[str, str] = os.environ) -> PluginPolicy:
    """Which exec plugins a person's own commands may start: what kubectl's preferences (kuberc) say, else all."""
    place = env.get("KUBERC") or str(_home(env) / ".kube" / "kuberc")
    path = Path(place)
    if place == "off" or not path.exists():
        return PluginPolicy(allowed=True)
    from pumice import yamltext  # few have such a file

    try:
        documents = yamltext.load_all(files.read(path, KUBERC_BYTES_MAX), source=str(path))
        preference = msgspec.convert(documents[0] if documents else {}, _Preference)
    except (OSError, yamltext.YamlError, msgspec.ValidationError) as error:
        raise BadConfig(
            f"kubectl's preferences in {path} cannot be read: {error}; correct them, or set KUBERC=off"
        ) from error
    match preference.credential_plugin_policy:
        case "" | "AllowAll" if preference.credential_plugin_allowlist is None:
            return PluginPolicy(allowed=True)
        case "DenyAll" if preference.credential_plugin_allowlist is None:
            return PluginPolicy(allowed=False, told_by=str(path))
        case "Allowlist" if preference.credential_plugin_allowlist:
            commands = tuple(entry.command or entry.name for entry in preference.credential_plugin_allowlist)
            return PluginPolicy(allowed=True, commands=commands, told_by=str(path))
    raise BadConfig(
        f"{path}: credentialPluginPolicy {preference.credential_plugin_policy!r} and credentialPluginAllowlist do not fit: "
        "the list belongs to the policy Allowlist, and the policies are AllowAll, DenyAll and Allowlist; correct them"
    )


class _AllowlistEntry(msgspec.Struct, frozen=True):
    command: str = ""
    name: str = ""  # what `command` was called before Kubernetes 1.36


class _Preference(msgspec.Struct, frozen=True, rename="camel"):
    credential_plugin_policy: str = ""
    credential_plugin_allowlist: tuple[_AllowlistEntry, ...] | None = None


def _home(env: Mapping[str, str]) -> Path:
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def _usual_files(env: Mapping[str, str]) -> list[Path]:
    named = [Path(name) for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    return named or [_home(env) / ".kube" / "config"]


class _Reader:
    """Turns one context of a kubeconfig into a Connection, or says what is wrong with it."""

    def __init__(
        self, found: kubeconfig.Kubeconfig, *, clock: Clock, env: Mapping[str, str], plugins: PluginPolicy
    ) -> None:
        self._found = found
        self._clock = clock
        self._env = env
        self._plugins = plugins

    def connection(self, context_name: str) -> Connection:
        name, context = self._context(context_name)
        cluster = self._found.clusters.get(context.cluster)
        if cluster is None:
            raise self._bad(
                f"context {name!r} names cluster {context.cluster!r}, which is not there; correct the context"
            )
        user = kubeconfig.User()
        if context.user:
            if context.user not in self._found.users:
                raise self._bad(
                    f"context {name!r} names user {context.user!r}, which is not there; correct the context"
                )
            user = self._found.users[context.user]
        subject = f"cluster {context.cluster!r}"
        server = self._server(cluster, user, subject)
        authority = self._source(cluster.certificate_authority_data, cluster.certificate_authority, subject)
        if authority is not None and cluster.insecure_skip_tls_verify:
            raise self._bad(f"{subject} has a certificate authority and insecure-skip-tls-verify; remove one of them")
        proxy = proxies.check_proxy(cluster.proxy_url, self._found.origin) or proxies.from_environment(
            server, self._env
        )
        return Connection(
            server=server,
            credentials=self._credentials(user, context, cluster, authority),
            namespace=context.namespace or "default",
            authority=authority,
            verify=not cluster.insecure_skip_tls_verify,
            tls_server_name=cluster.tls_server_name,
            proxy=proxy,
            compress=not cluster.disable_compression,
            headers=_impersonation(user),
            origin=f"context {name!r} of {self._found.origin}",
        )

    def _context(self, wanted: str) -> tuple[str, kubeconfig.Context]:
        name = wanted or self._found.current_context
        known = ", ".join(map(repr, self._found.contexts)) or "none"
        if not name:
            raise self._bad(f"no current-context is set; choose one with --context, there are: {known}")
        if name not in self._found.contexts:
            raise self._bad(f"there is no context {name!r}; choose one of: {known}")
        return name, self._found.contexts[name]

    def _server(self, cluster: kubeconfig.Cluster, user: kubeconfig.User, subject: str) -> str:
        server = cluster.server
        if not server:
            raise self._bad(f"{subject} has no server; add its address")
        if "://" not in server:
            has_tls = (
                cluster.certificate_authority or cluster.certificate_authority_data or cluster.insecure_skip_tls_verify
            )
            server = f"{'https' if has_tls or user.client_certificate or user.client_certificate_data else 'http'}://{server}"
        try:
            parts = urlsplit(server)
            parts.port  # noqa: B018 - reading it checks it
        except ValueError as error:
            raise self._bad(f"{subject} has server {server!r}: {error}; correct the address") from error
        if (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.query
            or parts.fragment
            or parts.username
        ):
            raise self._bad(
                f"{subject} has server {server!r}, which is no address of an API server; write https://host:port"
            )
        return server.rstrip("/")

    def _credentials(
        self, user: kubeconfig.User, context: kubeconfig.Context, cluster: kubeconfig.Cluster, authority: Source | None
    ) -> Credentials:
        subject = f"user {context.user!r}"
        if user.username or user.password:
            raise self._bad(
                f"{subject} has a username and a password, which API servers no longer take; use a token or a certificate"
            )
        if user.auth_provider is not None:
            raise self._bad(f"{subject} has an auth-provider, which kubectl no longer takes either; use an exec plugin")
        token = self._token(user, subject)
        certificate = self._source(user.client_certificate_data, user.client_certificate, subject)
        key = self._source(user.client_key_data, user.client_key, subject)
        if (certificate is None) != (key is None):
            raise self._bad(f"{subject} has a client certificate without its key, or a key alone; add the other one")
        if token is not None or certificate is not None:
            return Presented(token=token, certificate=certificate, key=key)
        if user.exec is not None:
            told = _cluster_info(cluster, authority)
            return ExecCredentials(user.exec, user=context.user, policy=self._plugins, cluster=told, clock=self._clock)
        return Anonymous()

    def _token(self, user: kubeconfig.User, subject: str) -> Source | None:
        if user.token_file:
            file = RotatingFile(Path(user.token_file), self._clock.monotonic)
            if not user.token:
                file.read()  # a wrong path is told now, not at the first call
                return file
            try:
                file.read()
            except NoCredentials:
                return Fixed(user.token.encode())
            return file
        if not user.token:
            return None
        if not user.token.strip().isascii():
            raise self._bad(f"{subject} has a token with characters that no header can carry; log in again")
        return Fixed(user.token.encode())

    def _source(self, data: str, path: str, subject: str) -> Source | None:
        """Data wins over a file, as in kubectl."""
        if data:
            try:
                return Fixed(base64.b64decode(data, validate=True))
            except binascii.Error as error:
                raise self._bad(f"{subject} has certificate data that is not base64; correct the field") from error
        return RotatingFile(Path(path), self._clock.monotonic) if path else None

    def _bad(self, problem: str) -> BadConfig:
        return BadConfig(f"{self._found.origin}: {problem}")


def _impersonation(user: kubeconfig.User) -> tuple[tuple[str, str], ...]:
    headers = [("impersonate-user", user.act_as)] if user.act_as else []
    headers += [("impersonate-uid", user.act_as_uid)] if user.act_as_uid else []
    headers += [("impersonate-group", group) for group in user.act_as_groups or ()]
    for key, values in (user.act_as_extra or {}).items():
        # Anything goes in a key; what a header's name cannot hold is percent-encoded, as in client-go.
        name = quote(key, safe="!#$&'*+^`|").lower()
        headers += [(f"impersonate-extra-{name}", value) for value in values]
    return tuple(headers)


def _cluster_info(cluster: kubeconfig.Cluster, authority: Source | None) -> dict[str, Any]:
    """What an exec plugin is told of the cluster, if it wants to know."""
    told: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.read()).decode() if authority else "",
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": next((one.extension for one in cluster.extensions or () if one.name == EXEC_EXTENSION), None),
    }
    return {key: value for key, value in told.items() if value or key == "server"}
