"""Pod templates, good and bad, for every validation that must treat them alike: ours, and a real API server's.

A case is a small good template with some fields set to something else. `refused` is the path of the field that is wrong,
relative to the template's spec (or `metadata...`); empty where nothing is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.cases.editing import edited

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "train:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NODE_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
NODE_PREFERRED = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
POD_REQUIRED = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
ANTI_PREFERRED = "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
MAIN = "containers[0]"
INIT = {"name": "init", "image": "init:1"}
SIDE = {"name": "side", "image": "side:1", "restartPolicy": "Always"}


class Case(NamedTuple):
    id: str
    edits: dict[str, Any]
    refused: str = ""

    def template(self) -> dict[str, Any]:
        return edited(
            TEMPLATE,
            {path if path.startswith("metadata") else f"spec.{path}": value for path, value in self.edits.items()},
        )


def requests(**resources: Any) -> dict[str, Any]:
    return {f"{MAIN}.resources": resources}


def env(**variable: Any) -> dict[str, Any]:
    return {f"{MAIN}.env": [{"name": "A", **variable}]}


def mount(**fields: Any) -> dict[str, Any]:
    return {f"{MAIN}.volumeMounts": [{"name": "data", "mountPath": "/data", **fields}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


def port(**fields: Any) -> dict[str, Any]:
    return {f"{MAIN}.ports": [{"containerPort": 80, **fields}]}


def toleration(**fields: Any) -> dict[str, Any]:
    return {"tolerations": [fields]}


def spread(**fields: Any) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [one]}


def probe(name: str = "livenessProbe", **fields: Any) -> dict[str, Any]:
    return {f"{MAIN}.{name}": fields}


GPU = "nvidia.com/gpu"
EXEC = {"command": ["true"]}
IN_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
HALF = {"cpu": "500m", "memory": "1Gi"}

ACCEPTED = [
    Case("file of an odd key", volume(configMap={"name": "c", "items": [{"key": "a b", "path": "p"}]})),
    Case("the small one", {}),
    Case("amounts", requests(requests=HALF, limits={"cpu": 1, "memory": "1Gi"})),
    Case("limits alone", requests(limits={"cpu": "1", GPU: 2})),
    Case("device with equal request", requests(requests={GPU: "2"}, limits={GPU: 2})),
    Case("native batch resources need no limit", requests(requests={"kubernetes.io/batch-cpu": "500"})),
    Case("huge pages", requests(limits={"hugepages-2Mi": "4Mi", "memory": "1Gi"})),
    Case(
        "variables of all sources",
        {
            f"{MAIN}.env": [
                {"name": "PLAIN", "value": "$(X)"},
                {"name": "with.dots-and spaces", "value": ""},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a.b"}}},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            f"{MAIN}.envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
        },
    ),
    Case("mounts", mount(subPath="a/b", mountPropagation="HostToContainer", readOnly=True)),
    Case("init container and sidecar", {"initContainers": [INIT, SIDE]}),
    Case("sidecar with probe", {"initContainers": [SIDE | {"startupProbe": {"exec": EXEC}}]}),
    Case("ports", {f"{MAIN}.ports": [{"name": "http", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}),
    Case(
        "host ports that differ",
        {
            f"{MAIN}.ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 81}],
        },
    ),
    Case("host network", {"hostNetwork": True, **port(hostPort=80)}),
    Case("volume without a source", volume()),
    Case("volume from host", volume(hostPath={"path": "/var/lib", "type": "DirectoryOrCreate"})),
    Case("volume from claim", volume(persistentVolumeClaim={"claimName": "c"})),
    Case(
        "volume from config map", volume(configMap={"name": "c", "items": [{"key": "k", "path": "p/q", "mode": 420}]})
    ),
    Case("volume from secret", volume(secret={"secretName": "s", "defaultMode": 384})),
    Case("volume from nfs", volume(nfs={"server": "s", "path": "/x"})),
    Case("volume from driver", volume(csi={"driver": "d.example.com"})),
    Case("ephemeral volume", volume(ephemeral={"volumeClaimTemplate": {"spec": CLAIM}})),
    Case(
        "projected volume",
        volume(
            projected={
                "sources": [
                    {"configMap": {"name": "c"}},
                    {"secret": {"name": "s"}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    {"serviceAccountToken": {"path": "token"}},
                    {},
                ]
            }
        ),
    ),
    Case(
        "device from claim",
        {
            **volume(persistentVolumeClaim={"claimName": "c"}),
            f"{MAIN}.volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}],
        },
    ),
    Case("node selector", {"nodeSelector": {"kubernetes.io/arch": "amd64", "empty": ""}}),
    Case(
        "node affinity",
        {
            NODE_TERMS: [
                {"matchExpressions": [IN_ZONE, {"key": "cores", "operator": "Gt", "values": ["4"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
            ],
            NODE_PREFERRED: [
                {"weight": 100, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
            ],
        },
    ),
    Case(
        "nonsense about nodes that Kubernetes lets pass",
        {
            NODE_TERMS: [{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["four"]}]}],
            NODE_PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [IN_ZONE | {"values": ["a b"]}]}}],
        },
    ),
    Case("claim of a name that none can have", volume(persistentVolumeClaim={"claimName": "My_Claim"})),
    Case(
        "pod affinity",
        {
            POD_REQUIRED: [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaces": ["a"]}
            ],
            ANTI_PREFERRED: [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
            ],
        },
    ),
    Case(
        "tolerations",
        {
            "tolerations": [
                {"operator": "Exists"},
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "a/b", "value": "c"},
                {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            ]
        },
    ),
    Case("spreading", spread(minDomains=2, labelSelector={"matchLabels": {"app": "x"}})),
    Case(
        "probes",
        {
            **probe(httpGet={"port": "http", "path": "/"}, periodSeconds=5),
            f"{MAIN}.readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 3},
            f"{MAIN}.startupProbe": {"grpc": {"port": 9000}},
            f"{MAIN}.lifecycle": {"preStop": {"exec": EXEC}, "postStart": {"sleep": {"seconds": 1}}},
        },
    ),
    Case("negative grace, which means one second", {"terminationGracePeriodSeconds": -1}),
    Case("time limits", {"activeDeadlineSeconds": 3600, "terminationGracePeriodSeconds": 0}),
    Case(
        "names of other objects",
        {
            "serviceAccountName": "default",
            "priorityClassName": "high",
            "runtimeClassName": "gvisor",
            "hostname": "h",
            "subdomain": "s",
            "schedulerName": "volcano",
        },
    ),
    Case("own name servers", {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.1", "fd00::1"]}}),
    Case(
        "security",
        {
            "securityContext": {"runAsUser": 0, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            f"{MAIN}.securityContext": {"allowPrivilegeEscalation": False, "runAsUser": 1000},
        },
    ),
    Case("privileged", {f"{MAIN}.securityContext": {"privileged": True}}),
    Case("gates", {"schedulingGates": [{"name": "example.com/a"}, {"name": "b"}]}),
    Case(
        "claims of devices",
        {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            f"{MAIN}.resources": {"claims": [{"name": "gpu"}]},
        },
    ),
    Case("aliases of hosts", {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}]}),
]

REFUSED = [
    # ------------------------------------------------------------------------------------------------ containers
    Case("no containers", {"containers": []}, "containers"),
    Case("container without name", {f"{MAIN}.name": ""}, "containers[0].name"),
    Case("container in capitals", {f"{MAIN}.name": "Main"}, "containers[0].name"),
    Case("container with a long name", {f"{MAIN}.name": "a" * 64}, "containers[0].name"),
    Case("container twice", {"containers": [{"name": "a", "image": "i"}] * 2}, "containers[1].name"),
    Case("init container of the same name", {"initContainers": [INIT | {"name": "main"}]}, "initContainers[0].name"),
    Case("container without image", {f"{MAIN}.image": ""}, "containers[0].image"),
    Case("wrong pull policy", {f"{MAIN}.imagePullPolicy": "Sometimes"}, "containers[0].imagePullPolicy"),
    Case("wrong message policy", {f"{MAIN}.terminationMessagePolicy": "Log"}, "containers[0].terminationMessagePolicy"),
    Case("probe of an init container", {"initContainers": [INIT | {"livenessProbe": {"exec": EXEC}}]},
         "initContainers[0].livenessProbe"),
    Case("hook of an init container", {"initContainers": [INIT | {"lifecycle": {"preStop": {"exec": EXEC}}}]},
         "initContainers[0].lifecycle"),
    # ----------------------------------------------------------------------------------------------------- ports
    Case("port 0", port(containerPort=0), "containers[0].ports[0].containerPort"),
    Case("port beyond 65535", port(containerPort=70000), "containers[0].ports[0].containerPort"),
    Case("host port beyond 65535", port(hostPort=70000), "containers[0].ports[0].hostPort"),
    Case("port with a long name", port(name="a-name-too-long-for-it"), "containers[0].ports[0].name"),
    Case("port with digits only", port(name="80"), "containers[0].ports[0].name"),
    Case("port twice", {f"{MAIN}.ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]},
         "containers[0].ports[1].name"),
    Case("unknown protocol", port(protocol="ICMP"), "containers[0].ports[0].protocol"),
    Case("host port twice", {f"{MAIN}.ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
         "containers[0].ports[1].hostPort"),
    Case("another port on the host network", {"hostNetwork": True, **port(hostPort=81)}, "containers[0].ports[0].hostPort"),
    # ----------------------------------------------------------------------------------------------- environment
    Case("variable without name", env(name=""), "containers[0].env[0].name"),
    Case("variable with =", env(name="A=B"), "containers[0].env[0].name"),
    Case("variable with both", env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
         "containers[0].env[0].valueFrom"),
    Case("variable from nothing", env(valueFrom={}), "containers[0].env[0].valueFrom"),
    Case("variable from an unknown field", env(valueFrom={"fieldRef": {"fieldPath": "metadata.nam"}}),
         "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    Case("variable without a key", env(valueFrom={"configMapKeyRef": {"name": "c", "key": ""}}),
         "containers[0].env[0].valueFrom.configMapKeyRef.key"),
    Case("variable without an object", env(valueFrom={"secretKeyRef": {"name": "", "key": "k"}}),
         "containers[0].env[0].valueFrom.secretKeyRef.name"),
    Case("variables from nothing", {f"{MAIN}.envFrom": [{}]}, "containers[0].envFrom[0]"),
    Case("variables with a bad prefix", {f"{MAIN}.envFrom": [{"prefix": "A=", "secretRef": {"name": "s"}}]},
         "containers[0].envFrom[0].prefix"),
    Case("variable with a bad key", env(valueFrom={"configMapKeyRef": {"name": "c", "key": "a b"}}),
         "containers[0].env[0].valueFrom.configMapKeyRef.key"),
    Case("variables of an unnamed object", {f"{MAIN}.envFrom": [{"secretRef": {"name": ""}}]},
         "containers[0].envFrom[0].secretRef.name"),
    # ----------------------------------------------------------------------------------------------------- mounts
    Case("mount of no volume", mount(name="dta"), "containers[0].volumeMounts[0].name"),
    Case("mount without path", mount(mountPath=""), "containers[0].volumeMounts[0].mountPath"),
    Case("mount twice", {f"{MAIN}.volumeMounts": [{"name": "data", "mountPath": "/a"}] * 2},
         "containers[0].volumeMounts[1].mountPath"),
    Case("mount out of the volume", mount(subPath="../x"), "containers[0].volumeMounts[0].subPath"),
    Case("mount of an absolute path", mount(subPath="/x"), "containers[0].volumeMounts[0].subPath"),
    Case("mount with two sub paths", mount(subPath="a", subPathExpr="$(B)"), "containers[0].volumeMounts[0].subPathExpr"),
    Case("mount of an init container", {"initContainers": [INIT | {"volumeMounts": [{"name": "x", "mountPath": "/x"}]}]},
         "initContainers[0].volumeMounts[0].name"),
    Case("unprivileged propagation", mount(mountPropagation="Bidirectional"),
         "containers[0].volumeMounts[0].mountPropagation"),
    Case("device of an empty directory", {f"{MAIN}.volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]},
         "containers[0].volumeDevices[0].name"),
    Case("device of no volume", {f"{MAIN}.volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]},
         "containers[0].volumeDevices[0].name"),
    Case("device twice", {
        **volume(persistentVolumeClaim={"claimName": "c"}),
        f"{MAIN}.volumeDevices": [{"name": "data", "devicePath": "/dev/x"}] * 2,
    }, "containers[0].volumeDevices[1].devicePath"),
    # -------------------------------------------------------------------------------------------------- resources
    Case("request above limit", requests(requests={"cpu": "2"}, limits={"cpu": "1500m"}), "containers[0].resources.requests"),
    Case("negative request", requests(requests={"cpu": "-1"}), "containers[0].resources.requests[cpu]"),
    Case("half a card", requests(limits={GPU: "500m"}), "containers[0].resources.limits[nvidia.com/gpu]"),
    Case("cards without limit", requests(requests={GPU: 1}), "containers[0].resources.limits"),
    Case("cards below limit", requests(requests={GPU: 1}, limits={GPU: 2}), "containers[0].resources.requests"),
    Case("unknown resource", requests(requests={"gpu": 1}), "containers[0].resources.requests[gpu]"),
    Case("malformed resource", requests(requests={"nvidia.com/gpu!": 1}), "containers[0].resources.requests[nvidia.com/gpu!]"),
    Case("huge pages alone", requests(limits={"hugepages-2Mi": "4Mi"}), "containers[0].resources"),
    Case("resource as a quota names it", requests(requests={"requests.nvidia.com/gpu": 1}),
         "containers[0].resources.requests[requests.nvidia.com/gpu]"),
    Case("whole pod above its limit", {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, "resources.requests"),
    Case("device of the whole pod", {"resources": {"limits": {GPU: "1"}}}, "resources.limits[nvidia.com/gpu]"),
    Case("whole pod smaller than its containers", {
        "resources": {"requests": {"cpu": "1"}}, **requests(requests={"cpu": "2"}),
    }, "resources.requests[cpu]"),
    Case("claim that is not declared", requests(claims=[{"name": "gpu"}]), "containers[0].resources.claims[0]"),
    Case("claim twice", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}] * 2}, "resourceClaims[1].name"),
    Case("claim used twice", {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}], **requests(claims=[{"name": "gpu"}] * 2),
    }, "containers[0].resources.claims[1]"),
    Case("claim of nothing", {"resourceClaims": [{"name": "gpu"}]}, "resourceClaims[0]"),
    # ---------------------------------------------------------------------------------------------------- volumes
    Case("volume without name", {"volumes": [{"name": "", "emptyDir": {}}]}, "volumes[0].name"),
    Case("volume with a dot", {"volumes": [{"name": "a.b", "emptyDir": {}}]}, "volumes[0].name"),
    Case("volume twice", {"volumes": [{"name": "a", "emptyDir": {}}] * 2}, "volumes[1].name"),
    Case("volume of two kinds", volume(emptyDir={}, hostPath={"path": "/a"}), "volumes[0].hostPath"),
    Case("negative size", volume(emptyDir={"sizeLimit": "-1"}), "volumes[0].emptyDir.sizeLimit"),
    Case("host path out of itself", volume(hostPath={"path": "/a/../b"}), "volumes[0].hostPath.path"),
    Case("host path of no kind", volume(hostPath={"path": "/a", "type": "Folder"}), "volumes[0].hostPath.type"),
    Case("claim without name", volume(persistentVolumeClaim={"claimName": ""}),
         "volumes[0].persistentVolumeClaim.claimName"),
    Case("config map without name", volume(configMap={}), "volumes[0].configMap.name"),
    Case("file out of the volume", volume(configMap={"name": "c", "items": [{"key": "k", "path": "../p"}]}),
         "volumes[0].configMap.items[0].path"),
    Case("secret without name", volume(secret={}), "volumes[0].secret.secretName"),
    Case("mode of five digits", volume(secret={"secretName": "s", "defaultMode": 0o1777}), "volumes[0].secret.defaultMode"),
    Case("nfs without server", volume(nfs={"server": "", "path": "/a"}), "volumes[0].nfs.server"),
    Case("nfs with a relative path", volume(nfs={"server": "s", "path": "a"}), "volumes[0].nfs.path"),
    Case("driver without name", volume(csi={"driver": ""}), "volumes[0].csi.driver"),
    Case("ephemeral volume of any size", volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}),
         "volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]"),
    Case("ephemeral volume of no size", volume(ephemeral={"volumeClaimTemplate": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0"}}},
    }}), "volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]"),
    Case("ephemeral volume without access", volume(
        ephemeral={"volumeClaimTemplate": {"spec": {"resources": CLAIM["resources"]}}}),
         "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes"),
    Case("ephemeral volume of nothing", volume(ephemeral={}), "volumes[0].ephemeral.volumeClaimTemplate"),
    Case("file at an absolute path", volume(secret={"secretName": "s", "items": [{"key": "k", "path": "/p"}]}),
         "volumes[0].secret.items[0].path"),
    Case("projection of two kinds", volume(projected={"sources": [
        {"configMap": {"name": "c"}, "secret": {"name": "s"}},
    ]}), "volumes[0].projected.sources[0]"),
    Case("downward file of nothing", volume(downwardAPI={"items": [{"path": "p"}]}), "volumes[0].downwardAPI.items[0]"),
    # -------------------------------------------------------------------------------------------------- placement
    Case("node selector with a bad key", {"nodeSelector": {"a b": "c"}}, "nodeSelector"),
    Case("node selector with a bad value", {"nodeSelector": {"a": "b c"}}, "nodeSelector[a]"),
    Case("node affinity without terms", {NODE_TERMS: []}, NODE_TERMS),
    Case("node affinity with a bad operator", {NODE_TERMS: [{"matchExpressions": [IN_ZONE | {"operator": "Is"}]}]},
         f"{NODE_TERMS}[0].matchExpressions[0]"),
    Case("node affinity without values", {NODE_TERMS: [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
         f"{NODE_TERMS}[0].matchExpressions[0]"),
    Case("node affinity by another field", {
        NODE_TERMS: [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]}],
    }, f"{NODE_TERMS}[0].matchFields[0].key"),
    Case("node affinity by two names", {
        NODE_TERMS: [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}],
    }, f"{NODE_TERMS}[0].matchFields[0]"),
    Case("node affinity by a bad name", {
        NODE_TERMS: [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A_B"]}]}],
    }, f"{NODE_TERMS}[0].matchFields[0].values[0]"),
    Case("node affinity with a bad value", {NODE_TERMS: [{"matchExpressions": [IN_ZONE | {"values": ["a b"]}]}]},
         f"{NODE_TERMS}[0].matchExpressions[0]"),
    Case("preference without weight", {NODE_PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [IN_ZONE]}}]},
         f"{NODE_PREFERRED}[0].weight"),
    Case("pod affinity without topology", {POD_REQUIRED: [{"topologyKey": "", "labelSelector": {}}]},
         f"{POD_REQUIRED}[0].topologyKey"),
    Case("pod affinity with a bad selector", {
        POD_REQUIRED: [{"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}],
    }, f"{POD_REQUIRED}[0].labelSelector.matchExpressions[0]"),
    Case("anti-affinity too heavy", {
        ANTI_PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {}}}],
    }, f"{ANTI_PREFERRED}[0].weight"),
    Case("toleration of nothing", toleration(operator="Equal", value="x"), "tolerations[0].operator"),
    Case("toleration with a bad operator", toleration(key="a", operator="In"), "tolerations[0].operator"),
    Case("toleration of existence with a value", toleration(key="a", operator="Exists", value="b"),
         "tolerations[0].operator"),
    Case("toleration of a bad value", toleration(key="a", value="b c"), "tolerations[0].value"),
    Case("toleration of an unknown effect", toleration(key="a", effect="NoRun"), "tolerations[0].effect"),
    Case("toleration with a time for nothing", toleration(key="a", effect="NoSchedule", tolerationSeconds=1),
         "tolerations[0].effect"),
    Case("spread without skew", spread(maxSkew=0), "topologySpreadConstraints[0].maxSkew"),
    Case("spread without topology", spread(topologyKey=""), "topologySpreadConstraints[0].topologyKey"),
    Case("spread in no way", spread(whenUnsatisfiable="Maybe"), "topologySpreadConstraints[0].whenUnsatisfiable"),
    Case("spread twice", {"topologySpreadConstraints": spread()["topologySpreadConstraints"] * 2},
         "topologySpreadConstraints[1]"),
    # ----------------------------------------------------------------------------------------------- probes, hooks
    Case("probe of two kinds", probe(exec=EXEC, tcpSocket={"port": 1}), "containers[0].livenessProbe"),
    Case("probe of no kind", probe(), "containers[0].livenessProbe"),
    Case("probe without a command", probe(exec={}), "containers[0].livenessProbe.exec.command"),
    Case("probe of port 0", probe(tcpSocket={"port": 0}), "containers[0].livenessProbe.tcpSocket.port"),
    Case("probe of a port in capitals", probe(httpGet={"port": "HTTP!"}), "containers[0].livenessProbe.httpGet.port"),
    Case("probe in negative time", probe(exec=EXEC, periodSeconds=-1), "containers[0].livenessProbe.periodSeconds"),
    Case("liveness that must succeed twice", probe(exec=EXEC, successThreshold=2),
         "containers[0].livenessProbe.successThreshold"),
    Case("readiness with a grace", probe("readinessProbe", exec=EXEC, terminationGracePeriodSeconds=5),
         "containers[0].readinessProbe.terminationGracePeriodSeconds"),
    Case("hook of no kind", {f"{MAIN}.lifecycle": {"preStop": {}}}, "containers[0].lifecycle.preStop"),
    # ------------------------------------------------------------------------------------------- the pod as a whole
    Case("unknown restart policy", {"restartPolicy": "Sometimes"}, "restartPolicy"),
    Case("no time at all", {"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
    Case("ephemeral containers", {"ephemeralContainers": [{"name": "x", "image": "i"}]}, "ephemeralContainers"),
    Case("host name with a dot", {"hostname": "a.b"}, "hostname"),
    Case("sub domain in capitals", {"subdomain": "A"}, "subdomain"),
    Case("unknown dns policy", {"dnsPolicy": "Cluster"}, "dnsPolicy"),
    Case("no dns and no server", {"dnsPolicy": "None"}, "dnsConfig"),
    Case("server that is no address", {"dnsConfig": {"nameservers": ["dns"]}}, "dnsConfig.nameservers[0]"),
    Case("four name servers", {"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, "dnsConfig.nameservers"),
    Case("33 search domains", {"dnsConfig": {"searches": ["example.com"] * 33}}, "dnsConfig.searches"),
    Case("alias with a bad host", {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["A_B"]}]}, "hostAliases[0].hostnames[0]"),
    Case("alias that is no address", {"hostAliases": [{"ip": "x", "hostnames": ["a"]}]}, "hostAliases[0].ip"),
    Case("service account in capitals", {"serviceAccountName": "Me"}, "serviceAccountName"),
    Case("priority class in capitals", {"priorityClassName": "High"}, "priorityClassName"),
    Case("shared and host processes", {"hostPID": True, "shareProcessNamespace": True}, "shareProcessNamespace"),
    Case("negative user", {"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser"),
    Case("unknown seccomp", {"securityContext": {"seccompProfile": {"type": "Mine"}}}, "securityContext.seccompProfile.type"),
    Case("profile without a file", {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
         "securityContext.seccompProfile.localhostProfile"),
    Case("privileged without escalation", {
        f"{MAIN}.securityContext": {"privileged": True, "allowPrivilegeEscalation": False},
    }, "containers[0].securityContext.allowPrivilegeEscalation"),
    Case("gate twice", {"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "schedulingGates[1]"),
    Case("malformed gate", {"schedulingGates": [{"name": "a b"}]}, "schedulingGates[0]"),
    Case("label with a bad key", {"metadata.labels": {"a b": "c"}}, "metadata.labels"),
    Case("label with a long value", {"metadata.labels": {"a": "b" * 64}}, "metadata.labels[a]"),
    Case("annotations of a megabyte", {"metadata.annotations": {"a": "b" * 2**20}}, "metadata.annotations"),
    Case("annotation with a bad key", {"metadata.annotations": {"a b": "c"}}, "metadata.annotations"),
    # ---------------------------------------------------------------------------------- the rules that are rarely met
    Case("restart policy of a container", {f"{MAIN}.restartPolicy": "Sometimes"}, "containers[0].restartPolicy"),
    Case("variable of no resource", env(valueFrom={"resourceFieldRef": {"resource": ""}}),
         "containers[0].env[0].valueFrom.resourceFieldRef.resource"),
    Case("variable of no field", env(valueFrom={"fieldRef": {"fieldPath": ""}}),
         "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    Case("unknown propagation", mount(mountPropagation="Sideways"), "containers[0].volumeMounts[0].mountPropagation"),
    Case("mount without a name", mount(name=""), "containers[0].volumeMounts[0].name"),
    Case("device without a path", {
        **volume(persistentVolumeClaim={"claimName": "c"}), f"{MAIN}.volumeDevices": [{"name": "data", "devicePath": ""}],
    }, "containers[0].volumeDevices[0].devicePath"),
    Case("probe over an unknown scheme", probe(httpGet={"port": 80, "scheme": "GOPHER"}),
         "containers[0].livenessProbe.httpGet.scheme"),
    Case("probe of no port", probe(tcpSocket={}), "containers[0].livenessProbe.tcpSocket.port"),
    Case("probe with no time to end", probe(exec=EXEC, terminationGracePeriodSeconds=0),
         "containers[0].livenessProbe.terminationGracePeriodSeconds"),
    Case("negative user of a container", {f"{MAIN}.securityContext": {"runAsUser": -1}},
         "containers[0].securityContext.runAsUser"),
    Case("negative group of a container", {f"{MAIN}.securityContext": {"runAsGroup": -1}},
         "containers[0].securityContext.runAsGroup"),
    Case("seccomp profile of no type", {f"{MAIN}.securityContext": {"seccompProfile": {"type": ""}}},
         "containers[0].securityContext.seccompProfile.type"),
    Case("affinity in a malformed namespace", {
        POD_REQUIRED: [{"topologyKey": "zone", "labelSelector": {}, "namespaces": ["A b"]}],
    }, f"{POD_REQUIRED}[0].namespaces[0]"),
    Case("toleration with a malformed key", toleration(key="a b", operator="Exists"), "tolerations[0].key"),
    Case("unknown affinity policy", spread(nodeAffinityPolicy="Maybe"), "topologySpreadConstraints[0].nodeAffinityPolicy"),
    Case("unknown taints policy", spread(nodeTaintsPolicy="Maybe"), "topologySpreadConstraints[0].nodeTaintsPolicy"),
    Case("no domain at all", spread(minDomains=0), "topologySpreadConstraints[0].minDomains"),
    Case("domains that may be missed", spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
         "topologySpreadConstraints[0].minDomains"),
    Case("unknown preemption policy", {"preemptionPolicy": "Always"}, "preemptionPolicy"),
    Case("negative group", {"securityContext": {"runAsGroup": -1}}, "securityContext.runAsGroup"),
    Case("negative group of files", {"securityContext": {"fsGroup": -1}}, "securityContext.fsGroup"),
    Case("negative supplemental group", {"securityContext": {"supplementalGroups": [-1]}},
         "securityContext.supplementalGroups[0]"),
    Case("unknown change policy", {"securityContext": {"fsGroupChangePolicy": "Never"}},
         "securityContext.fsGroupChangePolicy"),
    Case("malformed resource claim", {"resourceClaims": [{"name": "A b", "resourceClaimName": "c"}]},
         "resourceClaims[0].name"),
    Case("malformed readiness gate", {"readinessGates": [{"conditionType": "a b"}]}, "readinessGates[0].conditionType"),
    Case("volume of no export", volume(nfs={"server": "s", "path": ""}), "volumes[0].nfs.path"),
    Case("volume of no host path", volume(hostPath={"path": ""}), "volumes[0].hostPath.path"),
    Case("file without a key", volume(configMap={"name": "c", "items": [{"key": "", "path": "p"}]}),
         "volumes[0].configMap.items[0].key"),
    Case("file with an impossible mode", volume(configMap={"name": "c", "items": [{"key": "k", "path": "p", "mode": 512}]}),
         "volumes[0].configMap.items[0].mode"),
    Case("file without a path", volume(configMap={"name": "c", "items": [{"key": "k", "path": ""}]}),
         "volumes[0].configMap.items[0].path"),
    Case("downward files with an impossible mode", volume(downwardAPI={"defaultMode": 512}),
         "volumes[0].downwardAPI.defaultMode"),
    Case("projection with an impossible mode", volume(projected={"defaultMode": 512, "sources": []}),
         "volumes[0].projected.defaultMode"),
    Case("projection of an unnamed object", volume(projected={"sources": [{"configMap": {"name": ""}}]}),
         "volumes[0].projected.sources[0].configMap.name"),
    Case("claim without a spec", volume(ephemeral={"volumeClaimTemplate": {}}),
         "volumes[0].ephemeral.volumeClaimTemplate.spec"),
    Case("claim with an unknown access mode", volume(ephemeral={"volumeClaimTemplate": {
        "spec": CLAIM | {"accessModes": ["ReadSometimes"]}}}), "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes[0]"),
]  # fmt: skip

# Refused when a pod is made from the template, and by nobody before but us.
REFUSED_AS_PODS = [
    Case("gate on a node", {"schedulingGates": [{"name": "a"}], "nodeName": "n"}, "nodeName"),
    Case("one port twice on the host network", {
        "hostNetwork": True, f"{MAIN}.ports": [{"containerPort": 80}, {"containerPort": 80, "name": "b"}],
    }, "containers[0].ports[1].hostPort"),
    Case("image in white space", {f"{MAIN}.image": " train:1"}, "containers[0].image"),
]  # fmt: skip
