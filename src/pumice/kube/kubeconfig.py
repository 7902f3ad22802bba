"""The kubeconfig's files, read and merged as kubectl does.

For each cluster, user and context the first file that has it wins, as a whole; the first current-context wins. Relative
paths in a file start from that file's own folder.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import files
from pumice.kube.errors import BadConfig
from pumice.kube.exec_auth import ExecConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

KUBECONFIG_BYTES_MAX = 8 * 2**20  # a thousand clusters with their certificates


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """People and many tools write these files: fields that we do not know are skipped."""


class Extension(_Entry, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(_Entry, frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] | None = None


class User(_Entry, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    act_as: str = msgspec.field(name="as", default="")
    act_as_uid: str = msgspec.field(name="as-uid", default="")
    act_as_groups: tuple[str, ...] | None = msgspec.field(name="as-groups", default=None)
    act_as_extra: dict[str, tuple[str, ...]] | None = msgspec.field(name="as-user-extra", default=None)
    username: str = ""
    password: str = ""
    auth_provider: Any = None
    exec: ExecConfig | None = None

    def __repr__(self) -> str:
        """Without its secrets: this may end up in a traceback."""
        return "User(...)"


class Context(_Entry, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Entry, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(_Entry, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(_Entry, frozen=True):
    name: str
    context: Context | None = None


class _File(_Entry, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Kubeconfig(msgspec.Struct):
    """What all files together say; `files` are those that were there."""

    files: list[Path] = msgspec.field(default_factory=list)
    current_context: str = ""
    clusters: dict[str, Cluster] = msgspec.field(default_factory=dict)
    users: dict[str, User] = msgspec.field(default_factory=dict)
    contexts: dict[str, Context] = msgspec.field(default_factory=dict)

    @property
    def origin(self) -> str:
        return ", ".join(map(str, self.files)) or "the kubeconfig"


def read(paths: Iterable[Path], *, must_exist: bool) -> Kubeconfig:
    """The files merged; those that are missing are skipped, as kubectl does, unless the user named them."""
    merged = Kubeconfig()
    for path in dict.fromkeys(paths):
        if not must_exist and not path.exists():
            continue
        found = _read_file(path)
        folder = path.absolute().parent
        merged.files.append(path)
        merged.current_context = merged.current_context or found.current_context
        for cluster in found.clusters or ():
            merged.clusters.setdefault(cluster.name, _root_cluster(cluster.cluster or Cluster(), folder))
        for user in found.users or ():
            merged.users.setdefault(user.name, _root_user(user.user or User(), folder))
        for context in found.contexts or ():
            merged.contexts.setdefault(context.name, context.context or Context())
    return merged


def _read_file(path: Path) -> _File:
    try:
        text = files.read(path, KUBECONFIG_BYTES_MAX)
    except OSError as error:
        raise BadConfig(
            f"kubeconfig {path} cannot be read: {error.strerror}; correct the path or its permissions"
        ) from error
    try:
        return msgspec.convert(_document(text, path), _File)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{path} is no kubeconfig: {error}; correct that field") from error


def _document(text: bytes, path: Path) -> Any:
    """The first one of a file; JSON, as `pumice up` writes it, is read without the import of all that YAML needs."""
    if text.startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            return msgspec.json.decode(text)
    from pumice import yamltext

    try:
        documents = yamltext.load_all(text, source=str(path))
    except yamltext.YamlError as error:
        raise BadConfig(str(error)) from error
    return documents[0] if documents else {}


def _root_cluster(cluster: Cluster, folder: Path) -> Cluster:
    return msgspec.structs.replace(cluster, certificate_authority=_root_path(cluster.certificate_authority, folder))


def _root_user(user: User, folder: Path) -> User:
    plugin = user.exec
    # A bare command is looked for in $PATH, one with a slash is a path like the others.
    if plugin is not None and "/" in plugin.command:
        plugin = msgspec.structs.replace(plugin, command=_root_path(plugin.command, folder))
    return msgspec.structs.replace(
        user,
        client_certificate=_root_path(user.client_certificate, folder),
        client_key=_root_path(user.client_key, folder),
        token_file=_root_path(user.token_file, folder),
        exec=plugin,
    )


def _root_path(path: str, folder: Path) -> str:
    return str(folder / path) if path else ""
