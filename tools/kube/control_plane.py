"""A real Kubernetes control plane on this machine, for tests and for people.

    with ControlPlane(nodes=pretend_nodes(4, gpus=8)) as plane:
        plane.kubectl("get", "nodes")

    python tools/kube/control_plane.py up --nodes 4 --gpus 8
    python tools/kube/control_plane.py down

etcd, kube-apiserver (TLS, RBAC), kube-controller-manager, KWOK and, on request, kube-scheduler, all on loopback and in
a temporary folder. Several can run at once. Everything ends with the process that started it, however that ends.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

if __name__ == "__main__":  # started as a file: its neighbours are found from the project's root
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.kube import build, commands
from tools.kube.children import Children, LoopbackPort, StartError
from tools.kube.client import Answer, Client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tools.kube.nodes import Manifest

START_S_MAX = 90.0  # of one program; a machine with other work on it takes its time
NODES_S_MAX = 120.0
NODE_S_MAX = 0.1  # more for each of thousands
STOP_GRACE_S = 2.0  # an API server with watchers would take its whole 60 s, and refuses new calls meanwhile
KUBECTL_S_MAX = 120.0
PREFIX = "pumice-kube-"
FOLDER_NAME_MAX = 90  # the kernel allows 107 bytes for the name of a socket, macOS 103
LEFTOVER_AGE_S = 3600.0  # younger folders without an owner are failed starts, whose logs somebody may be reading


class KubectlError(Exception):
    """kubectl failed; the text holds the command and what it printed."""


class ControlPlane:
    """Starts on `start()` or `with`, and holds what a client needs: `kubeconfig`, `url`, `ca`, `token`.

    `nodes` are manifests that KWOK plays (nodes.py makes them). `arguments` are more command-line arguments by program
    name, such as {"kube-apiserver": ["--audit-log-path=..."]}. `durable` makes etcd wait for the disk. A cluster of
    thousands of nodes wants a longer `node_lease_s`, because every node renews its lease four times in that time, or
    none at all (0): then no node is ever found lost.
    """

    def __init__(
        self,
        *,
        nodes: Sequence[Manifest] = (),
        scheduler: bool = False,
        durable: bool = False,
        node_lease_s: int = 40,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        arguments: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._settings = commands.Settings(
            scheduler=scheduler,
            durable=durable,
            node_lease_s=node_lease_s,
            feature_gates=feature_gates or {},
            runtime_config=runtime_config or {},
            arguments=arguments or {},
        )
        self._nodes = nodes
        self._binaries = build.require()

    # ------------------------------------------------------------------------------------------------ life

    def start(self) -> Self:
        """Ready means: the API answers, service accounts are made, and all nodes are Ready and free of start-up taints."""
        _remove_leftovers()
        self.folder = _new_folder()
        self._owner = _lock(self.folder)
        self._children = Children(self.folder)
        self._reserved = [LoopbackPort() for _ in range(3)]
        apiserver, controller_manager, scheduler = (port.number for port in self._reserved)
        self._ports = commands.Ports(apiserver=apiserver, controller_manager=controller_manager, scheduler=scheduler)
        try:
            self._prepare()
            for name in self._programs:
                self._start(name)
            self._wait("kube-controller-manager", self._service_accounts_are_made)
            self.add_nodes(self._nodes)
            for name in self._programs:
                self._children.require_running(name)
        except BaseException as error:
            self._release()
            if not isinstance(error, StartError):  # that one names the log, so the folder stays
                shutil.rmtree(self.folder)
            raise
        return self

    def stop(self) -> None:
        """All programs are gone and the folder too; a second call does nothing."""
        if self.folder.exists():
            self._release()
            shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _release(self) -> None:
        self._children.close()
        for port in self._reserved:
            port.close()
        self._owner.close()

    def _prepare(self) -> None:
        self.url = self._ports.url
        self._files = commands.Files(self.folder, url=self.url)
        self.ca = self._files.ca
        self.token = self._files.token
        self.kubeconfig = self._files.kubeconfig("admin", groups=["system:masters"])
        self._programs = self._plan()
        self._client = Client(port=self._ports.apiserver, ca=self.ca, token=self.token)

    # ------------------------------------------------------------------------------------------------ programs

    def _plan(self) -> dict[str, tuple[list[str], Callable[[], bool]]]:
        """Every program's command line and how to see that it is ready, in the order of their start."""
        files, settings, ports = self._files, self._settings, self._ports
        programs: dict[str, tuple[list[str], Callable[[], bool]]] = {
            "etcd": (commands.etcd(files, settings), self._etcd_listens),
            "kube-apiserver": (commands.kube_apiserver(files, settings, ports), self._apiserver_is_ready),
            # These two start side by side: what waits for them is their first work, service accounts and nodes.
            "kube-controller-manager": (commands.kube_controller_manager(files, settings, ports), _at_once),
            "kwok": (commands.kwok(files, settings, here=build.HERE), _at_once),
        }
        if settings.scheduler:
            programs["kube-scheduler"] = (commands.kube_scheduler(files, settings, ports), self._scheduler_is_healthy)
        return programs

    def _start(self, name: str) -> None:
        command, ready = self._programs[name]
        self._children.start(name, [str(self._binaries / command[0]), *command[1:]])
        self._wait(name, ready)

    def _wait(self, name: str, ready: Callable[[], bool], *, timeout_s: float = START_S_MAX) -> None:
        self._children.wait_ready(name, ready, timeout_s=timeout_s)

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash would; `restart` brings it back on the same port and data."""
        self._children.kill(name)

    def restart(self, name: str) -> None:
        """Stops the program in good order if it runs, starts it again and waits until it is ready."""
        if name in self._children.names():
            self._children.stop(name, grace_s=STOP_GRACE_S)
        self._start(name)

    def restart_apiserver(self) -> None:
        self.restart("kube-apiserver")

    def pid(self, name: str) -> int:
        return self._children.pid(name)

    def log(self, name: str) -> Path:
        return self._children.log(name)

    def _etcd_listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._files.etcd_socket)) == 0

    def _apiserver_is_ready(self) -> bool:
        return _status(self._client, "/readyz") == 200

    def _scheduler_is_healthy(self) -> bool:
        return _status(Client(port=self._ports.scheduler, ca=self.ca, token=self.token), "/healthz") == 200

    def _service_accounts_are_made(self) -> bool:
        return _status(self._client, "/api/v1/namespaces/default/serviceaccounts/default") == 200

    # ------------------------------------------------------------------------------------------------ use

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One call as admin; a refusal is an answer, not an error."""
        return self._client.request(method, path, body, content_type=content_type)

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - named as subprocess.run names it
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as admin, or as the user of another kubeconfig; `input` is for `-f -`."""
        command = [str(self._binaries / "kubectl"), f"--kubeconfig={kubeconfig or self.kubeconfig}", *args]
        environment = os.environ | {"KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        done = subprocess.run(
            command, input=input, env=environment, capture_output=True, text=True, timeout=KUBECTL_S_MAX, check=False
        )
        if check and done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def user(self, name: str, *, groups: Sequence[str] = ()) -> Path:
        """The kubeconfig of a user that RBAC knows nothing about until you bind a role."""
        return self._files.kubeconfig(name, groups=groups)

    def add_nodes(self, nodes: Sequence[Manifest]) -> None:
        """Creates the nodes and waits until a scheduler may use them."""
        self._client.create_all("/api/v1/nodes", nodes)
        waiting = {node["metadata"]["name"] for node in nodes}

        def all_usable() -> bool:
            # One of them first: a list of thousands, again and again, would be most of what the API server does.
            first = self.request("GET", f"/api/v1/nodes/{next(iter(waiting))}?resourceVersion=0")
            if first.status != 200 or not _usable(first.body):
                return False
            listed = self.request("GET", "/api/v1/nodes?resourceVersion=0").body["items"]
            waiting.difference_update(node["metadata"]["name"] for node in listed if _usable(node))
            return not waiting

        if nodes:
            self._wait("kwok", all_usable, timeout_s=NODES_S_MAX + NODE_S_MAX * len(nodes))

    def create_namespace(self, name: str) -> None:
        """Pods can be created in it right away: its default service account is there."""
        answer = self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if answer.status != 201:
            raise StartError(f"namespace {name} was refused: {answer.body}")
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self._wait("kube-controller-manager", lambda: _status(self._client, path) == 200)


def _at_once() -> bool:
    return True


def _status(client: Client, path: str) -> int:
    """0 while nobody answers."""
    try:
        return client.request("GET", path).status
    except (OSError, http.client.HTTPException):
        return 0


def _usable(node: Manifest) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return ready and "node.kubernetes.io/not-ready" not in taints


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if len(str(folder)) > FOLDER_NAME_MAX:
        folder.rmdir()
        raise StartError(
            f"{folder} is too long a name for a folder with sockets in it: set TMPDIR to a folder with a name of"
            f" at most {FOLDER_NAME_MAX - len(folder.name) - 1} characters"
        )
    return folder


def _lock(folder: Path) -> IO[str]:
    owner = (folder / "owner.lock").open("w")
    fcntl.flock(owner, fcntl.LOCK_EX)
    return owner


def _remove_leftovers() -> None:
    """Folders whose owner was killed before it could clean up."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime > LEFTOVER_AGE_S:
                with (folder / "owner.lock").open("r+") as owner:
                    fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
        except OSError:
            continue  # it has an owner, belongs to another user, or somebody else is removing it


if __name__ == "__main__":
    from tools.kube import detached

    sys.exit(detached.main())
