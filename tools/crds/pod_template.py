"""Schema of a pod template, as of Kubernetes 1.36.

Every field that a template may hold is named, so that kubectl reports a misspelt one; what people write is typed; and what
few write is kept as it is, so that the four CRDs that embed this stay far below what `kubectl apply` can carry.
"""

from tools.crds.containers import RESTART_POLICIES, container, resource_requirements
from tools.crds.schema import (
    Schema,
    anything,
    array,
    count,
    flag,
    integer,
    label_selector,
    long,
    opened,
    record,
    resources,
    text,
    texts,
    words,
)
from tools.crds.volumes import volume

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def metadata(description: str) -> Schema:
    """The fields that are kept of metadata; others, such as the empty creationTimestamp of Go programs, do no harm."""
    return opened(
        record(
            description,
            {
                "name": text("Kept, but the owner gives the name."),
                "namespace": text("Kept, but the owner gives the namespace."),
                "labels": words("Labels to carry over."),
                "annotations": words("Annotations to carry over."),
                "finalizers": texts("Kept, but not carried over."),
            },
        )
    )


def pod_template(description: str) -> Schema:
    return record(description, {"metadata": metadata("Labels and annotations of the pods."), "spec": _pod_spec()})


def _node_selector_term() -> Schema:
    requirement = record(
        "One condition.",
        {
            "key": text("Key of the label, or the field's name."),
            "operator": text("In, NotIn, Exists, DoesNotExist, Gt or Lt."),
            "values": texts("Values to compare with."),
        },
        required=("key", "operator"),
    )
    return record(
        "Conditions that must all hold.",
        {
            "matchExpressions": array("Conditions on labels.", requirement),
            "matchFields": array("Conditions on fields.", requirement),
        },
        atomic=True,
    )


def _node_affinity() -> Schema:
    preference = record(
        "One wish.",
        {"weight": integer("Its weight.", minimum=1, maximum=100), "preference": _node_selector_term()},
        required=("weight", "preference"),
    )
    terms = array("Any one of these suffices.", _node_selector_term())
    return record(
        "Nodes that the pods must or should run on.",
        {
            _REQUIRED: record("Must.", {"nodeSelectorTerms": terms}, required=("nodeSelectorTerms",), atomic=True),
            _PREFERRED: array("Should.", preference),
        },
    )


def _pod_affinity(description: str) -> Schema:
    term = record(
        "Pods, and how near.",
        {
            "topologyKey": text("Label of nodes; nodes with one value are near one another."),
            "labelSelector": label_selector("Pods that count."),
            "namespaces": texts("Namespaces that count; absent is the pods' own."),
            "namespaceSelector": label_selector("Namespaces that count, by label."),
            "matchLabelKeys": texts("Only pods with the same values of these labels."),
            "mismatchLabelKeys": texts("Only pods with other values of these labels."),
        },
        required=("topologyKey",),
    )
    wish = record(
        "One wish.",
        {"weight": integer("Its weight.", minimum=1, maximum=100), "podAffinityTerm": term},
        required=("weight", "podAffinityTerm"),
    )
    return record(description, {_REQUIRED: array("Must.", term), _PREFERRED: array("Should.", wish)})


def _toleration() -> Schema:
    return record(
        "One toleration.",
        {
            "key": text("Key of the taint; absent is every key."),
            "operator": text("How values compare.", enum=("Equal", "Exists", "Lt", "Gt")),
            "value": text("Value of the taint."),
            "effect": text("Effect of the taint; absent is every effect.", enum=_EFFECTS),
            "tolerationSeconds": long("For how long."),
        },
    )


def _spread() -> Schema:
    return record(
        "One rule.",
        {
            "maxSkew": count("How uneven it may be.", least=1),
            "topologyKey": text("Label of nodes to spread over."),
            "whenUnsatisfiable": text("Must or should.", enum=("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": label_selector("Pods that count."),
            "minDomains": count("Values that there must be at least.", least=1),
            "nodeAffinityPolicy": text("Whether nodes count that the pod may not use.", enum=("Honor", "Ignore")),
            "nodeTaintsPolicy": text(
                "Whether nodes count whose taints it does not tolerate.", enum=("Honor", "Ignore")
            ),
            "matchLabelKeys": texts("Only pods with the same values of these labels."),
        },
        required=("maxSkew", "topologyKey", "whenUnsatisfiable"),
    )


def _placement() -> dict[str, Schema]:
    """What decides where a pod may run."""
    return {
        "nodeName": text("A certain node; no scheduler is asked."),
        "nodeSelector": words("Labels that the node must have."),
        "affinity": record(
            "Where the pods must or should run.",
            {
                "nodeAffinity": _node_affinity(),
                "podAffinity": _pod_affinity("Pods to be near to."),
                "podAntiAffinity": _pod_affinity("Pods to be far from."),
            },
        ),
        "tolerations": array("Taints that do not keep the pods away.", _toleration()),
        "topologySpreadConstraints": array(
            "How evenly the pods are spread.", _spread(), unique="topologyKey whenUnsatisfiable"
        ),
        "schedulerName": text("Scheduler that places the pods."),
        "priorityClassName": text("Class of their priority."),
        "priority": integer("Their priority; filled in from the class."),
        "preemptionPolicy": text("Whether others are evicted for them.", enum=("PreemptLowerPriority", "Never")),
        "schedulingGates": array(
            "What holds the pods back until it is removed.",
            record("One gate.", {"name": text("Its name.")}, required=("name",)),
            unique="name",
        ),
        "schedulingGroup": record(
            "Kubernetes' own gang that the pods belong to.", {"podGroupName": text("Name of its PodGroup.")}
        ),
        "resourceClaims": array(
            "Devices that the pods claim.",
            record(
                "One claim.",
                {
                    "name": text("What containers call it."),
                    "resourceClaimName": text("A certain claim, shared."),
                    "resourceClaimTemplateName": text("Template to make a claim from for each pod."),
                },
                required=("name",),
            ),
            unique="name",
        ),
        "overhead": resources("What running the pod costs beyond its containers; filled in from the runtime class."),
        "resources": resource_requirements("What the pod asks for as a whole."),
    }


def _security_context() -> Schema:
    return record(
        "What all containers may do.",
        {
            "runAsUser": long("User to run as."),
            "runAsGroup": long("Group to run as."),
            "runAsNonRoot": flag("Whether root is refused."),
            "fsGroup": long("Group that owns the volumes."),
            "fsGroupChangePolicy": text("When ownership is set."),
            "supplementalGroups": array("More groups of the processes.", long()),
            "supplementalGroupsPolicy": text("Whether the image's groups count."),
            "seLinuxChangePolicy": text("When labels of volumes are set."),
            "sysctls": array(
                "Kernel settings.",
                record(
                    "One setting.", {"name": text("Its name."), "value": text("Its value.")}, required=("name", "value")
                ),
            ),
            **{
                name: anything("Kept as it is written.")
                for name in ("seLinuxOptions", "windowsOptions", "seccompProfile", "appArmorProfile")
            },
        },
    )


def _network() -> dict[str, Schema]:
    alias = record("One address.", {"ip": text("The address."), "hostnames": texts("Its names.")}, required=("ip",))
    option = record("One option.", {"name": text("Its name."), "value": text("Its value.")})
    return {
        "hostname": text("Host name of the pod."),
        "subdomain": text("Service under which the host name is known."),
        "hostnameOverride": text("Host name that the pod sees."),
        "setHostnameAsFQDN": flag("Whether the host name is the full one."),
        "hostNetwork": flag("Whether the pod shares the node's network."),
        "hostAliases": array("More entries of /etc/hosts.", alias, unique="ip"),
        "dnsPolicy": text(
            "Whose name servers are asked.", enum=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
        ),
        "dnsConfig": record(
            "More settings of name resolution.",
            {
                "nameservers": texts("Addresses of name servers."),
                "searches": texts("Search domains."),
                "options": array("Options of the resolver.", option),
            },
        ),
        "enableServiceLinks": flag("Whether services appear in the environment."),
    }


def _pod_spec() -> Schema:
    return record(
        "Spec of the pods.",
        {
            "containers": array("Containers.", container(), unique="name"),
            "initContainers": array(
                "Containers that run before the others, or beside them.", container(), unique="name"
            ),
            "ephemeralContainers": array("Not for templates; kept as it is written.", anything("One container.")),
            "volumes": array("Volumes that containers may mount.", volume(), unique="name"),
            "restartPolicy": text("When containers are restarted.", enum=RESTART_POLICIES),
            "terminationGracePeriodSeconds": long("Time to end in.", minimum=0),
            "activeDeadlineSeconds": long("Time after which the pod is ended.", minimum=1),
            **_placement(),
            **_network(),
            "serviceAccountName": text("Account that the pods act as."),
            "serviceAccount": text("The same, in old spelling."),
            "automountServiceAccountToken": flag("Whether the account's token is mounted."),
            "imagePullSecrets": array(
                "Secrets for pulling images.",
                record("One secret.", {"name": text("Its name.", default="")}, atomic=True),
                unique="name",
            ),
            "securityContext": _security_context(),
            "hostPID": flag("Whether the pod sees the node's processes."),
            "hostIPC": flag("Whether the pod shares the node's IPC."),
            "hostUsers": flag("Whether the pod shares the node's users."),
            "shareProcessNamespace": flag("Whether containers see one another's processes."),
            "runtimeClassName": text("Runtime to run under."),
            "os": record("Operating system.", {"name": text("linux or windows.")}, required=("name",)),
            "readinessGates": array(
                "More conditions of being ready.",
                record("One condition.", {"conditionType": text("Its type.")}, required=("conditionType",)),
            ),
        },
        required=("containers",),
    )
