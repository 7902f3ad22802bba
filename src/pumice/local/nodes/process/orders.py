"""What the sandbox is told to run: a container's command with its environment, user and mounts."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

from pumice.errors import BadInput
from pumice.local.nodes.process import environment
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pumice.local.nodes.process.environment import Asking
    from pumice.local.nodes.process.podspec import Container, ProcessPod
    from pumice.local.nodes.process.volumes import PodVolumes

# Of the agent's own environment a command gets what it needs to find programs and to speak the user's language, no more:
# the rest may hold the agent's secrets.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def no_command(pod: ProcessPod) -> str:
    """What to tell the owner of a pod whose container gives no command; empty if all do."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if not container.command:
            return (
                f"container {container.name!r} gives no command: process nodes do not pull images (here {container.image!r}), "
                "so the entrypoint is not known; set command to a program on this machine"
            )
    return ""


def ignored_fields_message(pod: ProcessPod) -> str:
    """What to tell the owner of a pod that wants what process nodes do not do; empty if it wants nothing of the kind."""
    wanted = [
        f"{field} of {container.name}"
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for field, value in (
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
            ("lifecycle", container.lifecycle),
        )
        if value is not None
    ]
    return (
        f"process nodes do not act upon {', '.join(wanted)}: a container is ready as soon as it runs" if wanted else ""
    )


class Place(Value, kw_only=True):
    """Where a container's files are on this machine."""

    root: Path  # an empty folder, over which the sandbox mounts its root
    hosts: Path
    termination_message: Path


async def order(asking: Asking, volumes: PodVolumes, place: Place, given: Mapping[str, str]) -> dict[str, Any]:
    """The order for one attempt; MissingSource or BadInput where it cannot be given."""
    container = asking.container
    env = await environment.compute(asking, _agent_environment() | {"HOSTNAME": asking.pod.hostname} | dict(given))
    argv = [environment.expand(word, env) for word in (*container.command, *container.args)]
    return {
        "argv": argv,
        "env": env,
        "cwd": container.working_dir or "/",
        "hostname": asking.pod.hostname,
        "root": str(place.root),
        "user": _user(asking.pod, container),
        "mounts": [
            *volumes.mounts(container, env),
            {"source": str(place.hosts), "target": "/etc/hosts"},
            {"source": str(place.termination_message), "target": container.termination_message_path},
        ],
    }


def _agent_environment() -> dict[str, str]:
    return {"PATH": _PATH_DEFAULT} | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def _user(pod: ProcessPod, container: Container) -> dict[str, Any] | None:
    """The user as which the command runs; None for the agent's own user."""
    own, common = container.security_context, pod.spec.security_context
    uid = own.run_as_user if own.run_as_user is not None else common.run_as_user
    gid = own.run_as_group if own.run_as_group is not None else common.run_as_group
    non_root = own.run_as_non_root if own.run_as_non_root is not None else common.run_as_non_root
    agent = os.geteuid()
    if non_root and (uid or (agent if uid is None else 0)) == 0:
        raise BadInput(
            f"container {container.name!r} has runAsNonRoot and would run as root; give it a runAsUser other than 0"
        )
    if uid is None and gid is None:
        return None
    if agent != 0 and (uid not in {None, agent} or gid not in {None, os.getegid()}):
        raise BadInput(
            f"container {container.name!r} wants to run as user {uid}, group {gid}, but this node's agent is user {agent} "
            "and no root; leave runAsUser and runAsGroup out, or run the node as root"
        )
    uid = agent if uid is None else uid
    groups = [*common.supplemental_groups, *([] if common.fs_group is None else [common.fs_group])]
    return {"uid": uid, "gid": _primary_group(uid) if gid is None else gid, "groups": groups}


def _primary_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0  # what container runtimes give to users that an image does not know
