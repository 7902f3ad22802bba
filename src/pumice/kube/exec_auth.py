"""Credentials from an exec plugin: a program named in the kubeconfig that prints who we are.

The contract is client.authentication.k8s.io, v1 and v1beta1. What the program printed is used until it expires, or until
the server answers 401. The program runs with the user's rights, so server processes refuse to run one unless told
otherwise, and command lines follow the allow-list in kubectl's own preferences (kuberc).

    nothing yet -> running -> cached -> (expired | rejected) -> running
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pumice import instant
from pumice.api.decoding import UNREADABLE
from pumice.errors import BadInput
from pumice.kube.credentials import Access, bearer, pem_pair
from pumice.kube.errors import BadConfig, NoCredentials
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.clock import Clock

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_S_MAX = 60.0  # a program that talks to a cloud; one that waits for a person has longer
PLUGIN_INTERACTIVE_S_MAX = 600.0
PLUGIN_END_S_MAX = 5.0
PLUGIN_OUTPUT_BYTES_MAX = 2**20
EXPIRY_LEEWAY = 10 * instant.SECOND  # a token that dies on its way to the server is no use
RERUN_S_MIN = 10.0  # a plugin whose fresh answer the server rejects is not asked at every call


class EnvVar(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` part of a kubeconfig's user."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] | None = ()
    env: tuple[EnvVar, ...] | None = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Literal["", "Never", "IfAvailable", "Always"] = ""


class PluginPolicy(Value):
    """Which programs a kubeconfig may start: none, all, or those that `commands` names."""

    allowed: bool
    commands: tuple[str, ...] | None = None  # None: every one
    told_by: str = "this process"

    def check(self, command: str) -> None:
        if not self.allowed:
            raise NoCredentials(
                f"exec plugin {command!r} may not run: {self.told_by} starts no programs that a kubeconfig names; "
                "use a token or a certificate, or allow exec plugins"
            )
        if self.commands is None:
            return
        import shutil  # few kubeconfigs have a plugin, and half of what it imports is compression

        program = shutil.which(command)
        if program is None or program not in {shutil.which(entry) for entry in self.commands}:
            raise NoCredentials(
                f"exec plugin {command!r} may not run: it is not on the allow-list of {self.told_by}; add it there"
            )


class _CredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


_CREDENTIAL = msgspec.json.Decoder(_Credential)


class ExecCredentials:
    """Runs the plugin when there is nothing valid in hand, once at a time."""

    def __init__(
        self,
        config: ExecConfig,
        *,
        user: str,
        policy: PluginPolicy,
        cluster: Mapping[str, Any],
        clock: Clock,
    ) -> None:
        _check(config, user)
        policy.check(config.command)
        self._config = config
        self._cluster = cluster
        self._clock = clock
        self._subject = f"exec plugin {config.command!r} of user {user!r}"
        self._access: Access | None = None
        self._expires: instant.Instant | None = None
        self._ran_at = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def access(self) -> Access:
        access = self._valid()
        if access is None:
            async with self._one_at_a_time:
                access = self._valid() or await self._renew()
        return access

    def rejected(self, access: Access) -> bool:
        if access != self._access:
            return True  # another call has renewed it meanwhile
        if self._clock.monotonic() - self._ran_at < RERUN_S_MIN:
            return False
        self._access = None
        return True

    def _valid(self) -> Access | None:
        if self._expires is not None and self._clock.now() >= self._expires - EXPIRY_LEEWAY:
            return None
        return self._access

    async def _renew(self) -> Access:
        self._ran_at = self._clock.monotonic()
        status = self._read(await self._run())
        self._expires = self._parse_expiry(status.expiration_timestamp)
        certificate = b""
        if status.client_certificate_data:
            certificate = pem_pair(status.client_certificate_data.encode(), status.client_key_data.encode())
        self._access = Access(bearer(status.token.encode()) if status.token else "", certificate)
        return self._access

    async def _run(self) -> bytes:
        config = self._config
        interactive = self._may_ask()
        spec: dict[str, Any] = {"interactive": interactive}
        if config.provide_cluster_info:
            spec["cluster"] = dict(self._cluster)
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        extra = {variable.name: variable.value for variable in config.env or ()}
        try:
            process = await asyncio.create_subprocess_exec(
                config.command,
                *(config.args or ()),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
            )
        except OSError as error:
            hint = (
                f"; {config.install_hint.strip()}"
                if config.install_hint
                else "; install it or correct `command` in the kubeconfig"
            )
            raise NoCredentials(f"{self._subject} cannot be started: {error.strerror}{hint}") from error
        return await self._output(process, PLUGIN_INTERACTIVE_S_MAX if interactive else PLUGIN_S_MAX)

    def _may_ask(self) -> bool:
        """Whether the plugin gets our terminal to ask a person."""
        mode = self._config.interactive_mode or "IfAvailable"
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not is_terminal:
            raise NoCredentials(f"{self._subject} wants to ask a person, and there is no terminal; log in at one first")
        return mode != "Never" and is_terminal

    async def _output(self, process: asyncio.subprocess.Process, seconds_max: float) -> bytes:
        assert process.stdout is not None
        output = b""
        try:
            async with asyncio.timeout(seconds_max):
                while chunk := await process.stdout.read(2**16):
                    output += chunk
                    if len(output) > PLUGIN_OUTPUT_BYTES_MAX:
                        raise NoCredentials(
                            f"{self._subject} printed more than {PLUGIN_OUTPUT_BYTES_MAX} bytes; a credential is much shorter"
                        )
                code = await process.wait()
        except TimeoutError as error:
            raise NoCredentials(
                f"{self._subject} did not end within {seconds_max:g} s; run it by hand to see what it waits for"
            ) from error
        finally:
            if process.returncode is None:
                await _kill(process)
        if code != 0:
            raise NoCredentials(f"{self._subject} failed with exit code {code}; see what it printed, or log in again")
        return output

    def _read(self, output: bytes) -> _CredentialStatus:
        # What the plugin printed may hold a secret: messages say what is wrong with it, never what it was.
        try:
            credential = _CREDENTIAL.decode(output)
        except UNREADABLE as error:
            raise NoCredentials(
                f"{self._subject} printed something that is no ExecCredential in JSON; run it by hand"
            ) from error
        if credential.kind != "ExecCredential" or credential.api_version != self._config.api_version:
            raise NoCredentials(
                f"{self._subject} answered with another kind or version than ExecCredential in {self._config.api_version}; "
                "update the plugin, or correct apiVersion in the kubeconfig"
            )
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise NoCredentials(f"{self._subject} gave neither a token nor a certificate; log in again")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise NoCredentials(
                f"{self._subject} gave a client certificate without its key, or a key alone; update the plugin"
            )
        return status

    def _parse_expiry(self, text: str | None) -> instant.Instant | None:
        if not text:
            return None
        try:
            return instant.parse_instant(text)
        except BadInput as error:
            raise NoCredentials(
                f"{self._subject} gave an expirationTimestamp that is no RFC 3339 time; update the plugin"
            ) from error


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Ends a plugin; asyncio learns of its end only once its output was read, and a child of it may keep that open."""
    assert process.stdout is not None
    process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PLUGIN_END_S_MAX):
            while await process.stdout.read(2**16):
                pass
            await process.wait()


def _check(config: ExecConfig, user: str) -> None:
    if not config.command:
        raise BadConfig(f"user {user!r} has an exec plugin without a command; name the program in `command`")
    if config.api_version not in API_VERSIONS:
        raise BadConfig(
            f"user {user!r}: exec plugin {config.command!r} has apiVersion {config.api_version!r}; use {API_VERSIONS[0]} or {API_VERSIONS[1]}"
        )
    if config.api_version == API_VERSIONS[0] and not config.interactive_mode:
        raise BadConfig(
            f"user {user!r}: exec plugin {config.command!r} has no interactiveMode, which {config.api_version} requires; "
            "set it to Never, IfAvailable or Always"
        )
