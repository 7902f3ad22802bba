"""A release of the chart on the real API server, without containers: its processes run here, as the chart's accounts.

Everything that they ask of the API server stands in its audit log, and can be held against the roles that the chart gives them.
"""

import contextlib
import json
import sys
import time
import urllib.error
import urllib.request
from typing import NamedTuple

from tests.bodies.patience import PATIENCE_S
from tools.deploy import generate
from tools.kube.children import Children, LoopbackPort
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from pumice import yamltext

NAMESPACE = generate.NAMESPACE
PROCESSES = ("scheduler", "controllers", "webhooks")
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class Call(NamedTuple):
    """One kind of request; `name` is empty where a whole collection is asked for."""

    verb: str
    group: str
    resource: str  # with its subresource: pods/binding
    namespace: str
    name: str


class Grant(NamedTuple):
    """One verb on one resource, as a role grants it; empty means everywhere, or any name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, call):
        same = (self.verb, self.group, self.resource) == (call.verb, call.group, call.resource)
        return same and self.namespace in {"", call.namespace} and self.name in {"", call.name}

    def __str__(self):
        where = f" in {self.namespace}" if self.namespace else ""
        what = f"{self.resource}.{self.group}".rstrip(".")
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}"


def grants_of(objects, process):
    """All that the roles bound to a process's account grant."""
    found = set()
    roles = {
        (each["kind"], each["metadata"]["name"]): each for each in objects if each["kind"] in {"Role", "ClusterRole"}
    }
    for binding in objects:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        if all(subject["name"] != f"pumice-{process}" for subject in binding["subjects"]):
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        namespace = binding["metadata"]["namespace"] if binding["kind"] == "RoleBinding" else ""
        found |= {
            Grant(verb, group, resource, namespace, name)
            for rule in role["rules"]
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
        }
    return found


def unused(grants, calls):
    return {grant for grant in grants if not any(grant.covers(call) for call in calls)}


class Release:
    """`with` starts a control plane with the chart on it; `start` its processes."""

    def __init__(self, folder, values):
        self._folder = folder
        self._values = folder / "values.json"
        self._values.write_text(json.dumps(values))
        self._audit = folder / "audit.log"
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        arguments = [
            f"--audit-log-path={self._audit}",
            f"--audit-policy-file={policy}",
            # Who sets blockOwnerDeletion must be allowed to: some distributions switch this on.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        ]
        self.plane = ControlPlane(
            nodes=pretend_nodes(2, gpus=8, labels={"kind": "gpu"}),
            # Without WatchList informers list before they watch, as on older servers: both verbs are used.
            feature_gates={"GenericWorkload": True, "WatchList": False},
            runtime_config={"scheduling.k8s.io/v1alpha2": True},
            arguments={"kube-apiserver": arguments},
        )
        self._stack = contextlib.ExitStack()
        self.ports = {}

    def __enter__(self):
        with self._stack:
            self._stack.enter_context(self.plane)
            self._children = Children(self._folder)
            self._stack.callback(self._children.close)
            self._install()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _install(self):
        plane = self.plane
        install_kinds(plane)
        plane.create_namespace(NAMESPACE)
        text = generate.template(f"--values={self._values}")
        self.objects = [each for each in yamltext.load_all(text, source="helm") if each]
        for name in (*PROCESSES, "reviews"):
            port = LoopbackPort()
            self._stack.callback(port.close)
            self.ports[name] = port.number
        # No service network here: the server calls the process where it listens.
        for each in self.objects:
            for hook in each.get("webhooks", ()):
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{self.ports['reviews']}{path}"
        self.webhook_objects = [each for each in self.objects if each["kind"].endswith("WebhookConfiguration")]
        # Deployments would only wait for images. Webhooks are asked from when they serve.
        apart = {"Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
        self.apply([each for each in self.objects if each["kind"] not in apart])

    def apply(self, objects, namespace=""):
        text = "".join(f"---\n{json.dumps(each)}\n" for each in objects)
        scope = [f"--namespace={namespace}"] if namespace else []
        self.plane.kubectl(*scope, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)

    # ------------------------------------------------------------------------------------------------ processes

    def start(self, process, *, name=""):
        """One replica with the arguments of the chart's container, on loopback and as the chart's account."""
        name = name or process
        port = self.ports.get(name, 0)
        container = next(
            each
            for deployment in self.objects
            if deployment["kind"] == "Deployment"
            for each in deployment["spec"]["template"]["spec"]["containers"]
            if each["name"] == process
        )
        arguments = [self._here(each, port) for each in container["args"][1:]]
        arguments += ["--host=127.0.0.1"] if process == "webhooks" else []
        variables = {"KUBE_POD_NAMESPACE": NAMESPACE, "HELM_RELEASE_NAME": "pumice"}
        settings = [f"{key}={value}" for key, value in variables.items()]
        command = [sys.executable, "-m", "pumice.cli", process, f"--kubeconfig={self.account(process)}"]
        self._children.start(name, ["/usr/bin/env", *settings, *command, *arguments])

    def _here(self, argument, port):
        flag, _, value = argument.replace("$(KUBE_POD_NAMESPACE)", NAMESPACE).partition("=")
        if flag == "--listen":
            return f"--listen=127.0.0.1:{port}"
        if flag == "--bind":
            return f"--bind=127.0.0.1:{self.ports['reviews']}"
        if flag in {"--policy", "--queues"}:
            name = value.rpartition("/")[2]
            config = next(each for each in self.objects if each["metadata"]["name"] == "pumice-policy")
            (self._folder / name).write_text(config["data"][name])
            return f"{flag}={self._folder / name}"
        return f"{flag}={value}" if value else flag

    def stop(self, name):
        self._children.stop(name, grace_s=20.0)

    def ready(self, name):
        self._children.require_running(name)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def story(self, name):
        return self._children.story(name)

    def account(self, process):
        """A kubeconfig with nothing but a token of the process's service account."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/pumice-{process}/token"
        answer = self.plane.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        assert answer.status == 201, answer.body
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "release",
            "contexts": [{"name": "release", "context": {"cluster": "release", "user": process}}],
            "clusters": [
                {"name": "release", "cluster": {"server": self.plane.url, "certificate-authority": str(self.plane.ca)}}
            ],
            "users": [{"name": process, "user": {"token": answer.body["status"]["token"]}}],
        }
        file = self._folder / f"{process}.kubeconfig"
        file.write_text(json.dumps(config))
        file.chmod(0o600)
        return file

    # ------------------------------------------------------------------------------------------------ looking

    def until(self, test, what):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = test()
            if found:
                return found
            time.sleep(0.1)
        stories = "\n".join(self.story(name) for name in self._children.names())
        seen = self.plane.kubectl("get", "pods,podgroups,vcjob", "-A", "-o", "wide", check=False).stdout
        raise AssertionError(f"in {PATIENCE_S:.0f} s it did not come about that {what}\n{stories}\n{seen}")

    def get(self, path):
        answer = self.plane.request("GET", path)
        return answer.body if answer.status == 200 else None

    def audited(self, process):
        """Every call of a process's account: what it was, and the status it was answered with."""
        user = f"system:serviceaccount:{NAMESPACE}:pumice-{process}"
        with self._audit.open() as log:
            events = [json.loads(line) for line in log if user in line]
        for event in events:
            reference = event.get("objectRef")
            if event["user"]["username"] != user or reference is None or "resource" not in reference:
                continue
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            call = Call(
                event["verb"],
                reference.get("apiGroup", ""),
                resource,
                reference.get("namespace", ""),
                reference.get("name", ""),
            )
            yield (
                call,
                event.get("responseStatus", {}).get("code", 0),
                event.get("responseStatus", {}).get("message", ""),
            )
