"""Schema of a pod's containers."""

from tools.crds.schema import (
    Schema,
    anything,
    array,
    flag,
    int_or_text,
    integer,
    long,
    port,
    record,
    resources,
    text,
    texts,
)
from tools.crds.volumes import FIELD_REF, RESOURCE_FIELD_REF

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
RESTART_POLICIES = ("Always", "OnFailure", "Never")


def resource_requirements(description: str) -> Schema:
    claim = record(
        "One claim.",
        {"name": text("Which of the pod's claims."), "request": text("Which of its requests; absent is all.")},
        required=("name",),
    )
    return record(
        description,
        {
            "requests": resources("What is set aside for it."),
            "limits": resources("What it may use at most."),
            "claims": array("Claims of the pod that it uses.", claim, unique="name"),
        },
    )


def _key_ref(description: str) -> Schema:
    return record(
        description,
        {"name": text("Its name."), "key": text("The key."), "optional": flag("Whether it may be missing.")},
        required=("key",),
        atomic=True,
    )


def _env() -> Schema:
    source = record(
        "Where the value comes from.",
        {
            "fieldRef": FIELD_REF,
            "resourceFieldRef": RESOURCE_FIELD_REF,
            "configMapKeyRef": _key_ref("A key of a ConfigMap."),
            "secretKeyRef": _key_ref("A key of a Secret."),
            "fileKeyRef": anything("A key in a file of a volume."),
        },
    )
    return record(
        "One variable.",
        {"name": text("Its name."), "value": text("Its value."), "valueFrom": source},
        required=("name",),
    )


def _env_from() -> Schema:
    named = {"name": text("Its name."), "optional": flag("Whether it may be missing.")}
    return record(
        "One source of variables.",
        {
            "prefix": text("What every name begins with."),
            "configMapRef": record("A ConfigMap's keys.", named, atomic=True),
            "secretRef": record("A Secret's keys.", named, atomic=True),
        },
    )


def _container_port() -> Schema:
    return record(
        "One port.",
        {
            "name": text("Its name."),
            "containerPort": port("Port inside the pod."),
            "hostPort": port("Port on the node.", least=0),
            "hostIP": text("Address on the node."),
            "protocol": text("TCP, UDP or SCTP.", enum=("TCP", "UDP", "SCTP"), default="TCP"),
        },
        required=("containerPort",),
    )


def _mount() -> Schema:
    return record(
        "One mount.",
        {
            "name": text("Name of the volume."),
            "mountPath": text("Where it appears."),
            "subPath": text("Only this path of the volume."),
            "subPathExpr": text("The same, with variables."),
            "readOnly": flag("Whether it is mounted read-only."),
            "recursiveReadOnly": text("Whether what is mounted below is read-only, too."),
            "mountPropagation": text("Whether later mounts are seen."),
        },
        required=("name", "mountPath"),
    )


def _probe(description: str) -> Schema:
    seconds = {
        "initialDelaySeconds": integer("Before the first."),
        "periodSeconds": integer("Between two."),
        "timeoutSeconds": integer("Until one has failed."),
        "successThreshold": integer("Successes in a row to be well again."),
        "failureThreshold": integer("Failures in a row to be ill."),
        "terminationGracePeriodSeconds": long("Given to the pod when it is stopped for this."),
    }
    grpc = record(
        "A gRPC health check.",
        {"port": integer("The port."), "service": text("The service.")},
        required=("port",),
    )
    return record(description, {**_handlers(), "grpc": grpc, **seconds})


def _handlers() -> dict[str, Schema]:
    header = record("One header.", {"name": text("Its name."), "value": text("Its value.")}, required=("name", "value"))
    return {
        "exec": record("A command in the container.", {"command": texts("The command and its arguments.")}),
        "httpGet": record(
            "An HTTP request.",
            {
                "path": text("Its path."),
                "port": int_or_text("Number or name of the port."),
                "host": text("Host instead of the pod."),
                "scheme": text("HTTP or HTTPS."),
                "httpHeaders": array("Its headers.", header),
            },
            required=("port",),
        ),
        "tcpSocket": record(
            "A TCP connection.",
            {"port": int_or_text("Number or name of the port."), "host": text("Host instead of the pod.")},
            required=("port",),
        ),
    }


def _lifecycle() -> Schema:
    sleep = record("A pause.", {"seconds": long("How long.")}, required=("seconds",))
    return record(
        "What happens after the start and before the end.",
        {
            "postStart": record("After the start.", {**_handlers(), "sleep": sleep}),
            "preStop": record("Before the end.", {**_handlers(), "sleep": sleep}),
            "stopSignal": text("Signal that ends the container."),
        },
    )


def _security_context() -> Schema:
    return record(
        "What the container may do.",
        {
            "privileged": flag("Whether it may do everything that the node may."),
            "allowPrivilegeEscalation": flag("Whether it may gain rights."),
            "readOnlyRootFilesystem": flag("Whether its root is read-only."),
            "runAsUser": long("User to run as."),
            "runAsGroup": long("Group to run as."),
            "runAsNonRoot": flag("Whether root is refused."),
            "procMount": text("How /proc is mounted."),
            "capabilities": record("Capabilities.", {"add": texts("To add."), "drop": texts("To drop.")}),
            **{
                name: anything("Kept as it is written.")
                for name in ("seLinuxOptions", "windowsOptions", "seccompProfile", "appArmorProfile")
            },
        },
    )


def container() -> Schema:
    """Containers and init containers are written alike."""
    return record(
        "One container.",
        {
            "name": text("Its name, unique in the pod."),
            "image": text("Its image."),
            "command": texts("Program to run instead of the image's own."),
            "args": texts("Arguments of the program."),
            "workingDir": text("Folder to start in."),
            "ports": array("Ports that it listens on.", _container_port(), unique="containerPort protocol"),
            "env": array("Its environment.", _env(), unique="name"),
            "envFrom": array("Sources of whole sets of variables.", _env_from()),
            "resources": resource_requirements("What it asks for."),
            "resizePolicy": array("How it takes a change of its resources.", anything("For one resource.")),
            "restartPolicy": text(
                "When it is restarted; Always makes an init container a sidecar.", enum=RESTART_POLICIES
            ),
            "restartPolicyRules": array("Exceptions from the restart policy.", anything("One exception.")),
            "volumeMounts": array("Volumes that it sees as files.", _mount(), unique="mountPath"),
            "volumeDevices": array(
                "Volumes that it sees as block devices.",
                record(
                    "One device.",
                    {"name": text("Name of the volume."), "devicePath": text("Where it appears.")},
                    required=("name", "devicePath"),
                ),
                unique="devicePath",
            ),
            "livenessProbe": _probe("When it is restarted."),
            "readinessProbe": _probe("When it is ready."),
            "startupProbe": _probe("When it has started."),
            "lifecycle": _lifecycle(),
            "terminationMessagePath": text("File with its last words."),
            "terminationMessagePolicy": text("Whether its log stands in for that file."),
            "imagePullPolicy": text("When its image is pulled.", enum=PULL_POLICIES),
            "securityContext": _security_context(),
            "stdin": flag("Whether it has a standard input."),
            "stdinOnce": flag("Whether that closes after the first client."),
            "tty": flag("Whether it has a terminal."),
        },
        required=("name",),
    )
