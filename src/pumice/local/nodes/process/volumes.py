"""A pod's volumes as folders of this machine, which the sandbox shows to its containers.

Config maps, secrets, downward API and projections are files that follow their sources; an emptyDir lives and dies with the
pod; a claim is a folder that outlives all pods; a hostPath is used as it is, but only within the roots that were allowed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api.core import PersistentVolumeClaim, ServiceAccount
from pumice.errors import BadInput
from pumice.kube import errors
from pumice.local.nodes.process import downward, environment
from pumice.local.nodes.process.files import AtomicFolder, File, make_folder
from pumice.local.nodes.process.sources import MissingSource
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.validation.pod_shapes import HostPath, KeyToPath
    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.local.nodes.process.downward import Facts
    from pumice.local.nodes.process.podspec import (
        Container,
        DownwardAPIFile,
        ProcessPod,
        ServiceAccountTokenProjection,
        Volume,
        VolumeMount,
        VolumeProjection,
    )
    from pumice.local.nodes.process.sources import Content, PodSources

TOKEN_LIFE_USED = 0.8  # a token is renewed after this share of its life, as in a kubelet
TOKEN_RENEW_S_MIN = 10.0

_HOST_PATH_TESTS = {
    "": Path.exists,
    "Directory": Path.is_dir,
    "DirectoryOrCreate": Path.is_dir,
    "File": Path.is_file,
    "FileOrCreate": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


class Storage(Value, kw_only=True):
    """Where volumes may be."""

    claims: Path  # a folder for each claim; nodes of one machine may share it
    host_roots: tuple[Path, ...] = ()  # hostPath volumes must lie beneath one of them; Path("/") allows all


class _Ready(Value):
    path: Path
    within: Path
    is_own: bool = False  # mount points may be made in it
    read_only: bool = False


class PodVolumes:
    """One pod's volumes: prepare() before its containers start, refresh() whenever a source may have changed."""

    def __init__(
        self,
        pod: ProcessPod,
        folder: Path,
        *,
        storage: Storage,
        client: Client,
        clock: Clock,
        sources: PodSources,
        facts: Facts,
    ) -> None:
        self._pod = pod
        self._folder = folder
        self._storage = storage
        self._client = client
        self._clock = clock
        self._sources = sources
        self._facts = facts
        self._ready: dict[str, _Ready] = {}
        self._written: dict[str, AtomicFolder] = {}
        self._tokens: dict[ServiceAccountTokenProjection, tuple[bytes, float]] = {}  # token, when to renew it
        self.renew_at = float("inf")  # by the monotonic clock: when refresh() must be called for a token's sake

    async def prepare(self) -> None:
        """Makes all volumes; MissingSource says what has to come first, BadInput what can never be."""
        for volume in self._pod.spec.volumes:
            self._ready[volume.name] = await self._prepare(volume)

    async def refresh(self, pod: ProcessPod) -> None:
        """Rewrites what follows a source; a source that has gone leaves its files as they were."""
        self._pod = pod
        for volume in pod.spec.volumes:
            written = self._written.get(volume.name)
            if written is not None:
                try:
                    written.write(await self._files(volume))
                except MissingSource:
                    continue

    async def _prepare(self, volume: Volume) -> _Ready:
        path = self._folder / volume.name
        if volume.empty_dir is not None:
            return _Ready(make_folder(self._folder, volume.name), path, is_own=True)
        if volume.host_path is not None:
            return self._host_path(volume.host_path)
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            return await self._claim(claim.claim_name, read_only=claim.read_only)
        if volume.ephemeral is not None:
            return await self._claim(f"{self._pod.metadata.name}-{volume.name}", read_only=False)
        files = await self._files(volume)
        written = self._written.setdefault(volume.name, AtomicFolder(path))
        written.write(files)
        return _Ready(path, path, read_only=True)

    # ------------------------------------------------------------------------------------------------------ folders

    def _host_path(self, source: HostPath) -> _Ready:
        path = Path(os.path.realpath(source.path))
        root = next((root for root in self._storage.host_roots if path.is_relative_to(root)), None)
        if root is None:
            allowed = ", ".join(map(str, self._storage.host_roots)) or "none"
            raise BadInput(
                f"hostPath {source.path} is outside of what this node allows ({allowed}); "
                "start the node with --host-path-root, or use a claim"
            )
        is_right = _HOST_PATH_TESTS.get(source.type)
        if is_right is None:
            raise BadInput(f"hostPath {source.path} has type {source.type!r}, which is not known; see the API's list")
        if not path.exists():
            if source.type == "DirectoryOrCreate":
                make_folder(root, str(path.relative_to(root)), mode=0o755)
            elif source.type == "FileOrCreate":
                make_folder(root, str(path.parent.relative_to(root)), mode=0o755)
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        if not is_right(path):
            wanted = source.type or "file or folder"
            raise BadInput(f"hostPath {source.path} is no {wanted}; make it, or use type DirectoryOrCreate")
        return _Ready(path, root)

    async def _claim(self, name: str, *, read_only: bool) -> _Ready:
        namespace = self._pod.metadata.namespace
        try:
            found = await self._client.get(PersistentVolumeClaim, name, namespace=namespace)
        except errors.NotFound:
            raise MissingSource(f'persistentvolumeclaim "{name}" not found') from None
        uid = found.into(PersistentVolumeClaim).metadata.uid
        path = make_folder(self._storage.claims, f"{namespace}/{name}-{uid}")
        return _Ready(path, path, is_own=not read_only, read_only=read_only)

    # ------------------------------------------------------------------------------------------------------ files

    async def _files(self, volume: Volume) -> dict[str, File]:
        """What a volume that follows sources holds now."""
        if (source := volume.config_map) is not None:
            content = await self._sources.config_map(source.name, optional=source.optional)
            return _select_files(content, source.items, source.default_mode, optional=source.optional)
        if (secret := volume.secret) is not None:
            content = await self._sources.secret(secret.secret_name, optional=secret.optional)
            return _select_files(content, secret.items, secret.default_mode, optional=secret.optional)
        if volume.downward_api is not None:
            return self._downward(volume.downward_api.items, volume.downward_api.default_mode)
        if volume.projected is not None:
            files: dict[str, File] = {}
            for projection in volume.projected.sources:
                files |= await self._projected_files(projection, volume.projected.default_mode)
            return files
        raise BadInput(
            f"volume {volume.name!r} is of a kind that process nodes do not have; "
            "use emptyDir, hostPath, a claim, configMap, secret, downwardAPI or projected"
        )

    async def _projected_files(self, projection: VolumeProjection, mode: int) -> dict[str, File]:
        if (source := projection.config_map) is not None:
            content = await self._sources.config_map(source.name, optional=source.optional)
            return _select_files(content, source.items, mode, optional=source.optional)
        if (source := projection.secret) is not None:
            content = await self._sources.secret(source.name, optional=source.optional)
            return _select_files(content, source.items, mode, optional=source.optional)
        if projection.downward_api is not None:
            return self._downward(projection.downward_api.items, mode)
        if projection.service_account_token is not None:
            wanted = projection.service_account_token
            return {wanted.path: File(await self._token(wanted), mode)}
        return {}

    def _downward(self, items: Iterable[DownwardAPIFile], mode: int) -> dict[str, File]:
        files = {}
        for item in items:
            text = ""
            if item.field_ref is not None:
                text = downward.field(self._pod, self._facts, item.field_ref.field_path)
            elif item.resource_field_ref is not None:
                own = self._pod.spec.containers[0]
                text = downward.resource(self._pod, own, self._facts, item.resource_field_ref)
            files[item.path] = File(text.encode(), mode if item.mode is None else item.mode)
        return files

    async def _token(self, wanted: ServiceAccountTokenProjection) -> bytes:
        """The pod's token for an audience, renewed when most of its life is over."""
        token, renew_at = self._tokens.get(wanted, (b"", 0.0))
        now = self._clock.monotonic()
        if not token or now >= renew_at:
            token, life_s = await self._ask_for_token(wanted)
            self._tokens[wanted] = token, now + max(TOKEN_RENEW_S_MIN, life_s * TOKEN_LIFE_USED)
            self.renew_at = min(renew_at for _, renew_at in self._tokens.values())
        return token

    async def _ask_for_token(self, wanted: ServiceAccountTokenProjection) -> tuple[bytes, float]:
        metadata, account = self._pod.metadata, self._pod.spec.service_account_name
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": wanted.expiration_seconds, "boundObjectRef": bound}
        spec["audiences"] = [wanted.audience] if wanted.audience else []
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            reply = await self._client.create(
                ServiceAccount, asked, namespace=metadata.namespace, name=account, subresource="token"
            )
        except errors.NotFound:
            raise MissingSource(f'serviceaccount "{account}" not found') from None
        status = reply.json()["status"]
        ends = instant.parse_instant(status["expirationTimestamp"])
        return status["token"].encode(), (ends - self._clock.now()) / instant.SECOND

    # ------------------------------------------------------------------------------------------------------ mounts

    def mounts(self, container: Container, env: Mapping[str, str]) -> list[dict[str, Any]]:
        """What the sandbox is to show to a container, and where."""
        return [self._mount(mount, env) for mount in container.volume_mounts]

    def _mount(self, mount: VolumeMount, env: Mapping[str, str]) -> dict[str, Any]:
        ready = self._ready[mount.name]
        below = environment.expand(mount.sub_path_expr, env) if mount.sub_path_expr else mount.sub_path
        source = ready.path / below if below else ready.path
        if below and not source.exists() and not ready.read_only:
            make_folder(ready.path, below, mode=0o755)
        return {
            "source": str(source),
            "target": mount.mount_path,
            "within": str(ready.within if not below else ready.path),
            "own": ready.is_own,
            "read_only": ready.read_only or mount.read_only,
        }


def _select_files(content: Content | None, items: Iterable[KeyToPath], mode: int, *, optional: bool) -> dict[str, File]:
    """All keys as files, or those that are named, under their paths and with their modes."""
    if content is None:
        return {}
    chosen = list(items)
    if not chosen:
        return {key: File(value, mode) for key, value in content.items()}
    missing = [item.key for item in chosen if item.key not in content]
    if missing and not optional:
        raise MissingSource(f"references non-existent config key: {missing[0]}")
    return {
        item.path: File(content[item.key], mode if item.mode is None else item.mode)
        for item in chosen
        if item.key in content
    }
