"""A story told with kubectl, step by step; every step must end alike on the embedded and on the real server.

`{ns}` is the namespace that the story happens in.
"""

from typing import NamedTuple

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, tier: front}}
spec:
  automountServiceAccountToken: false
  nodeSelector: {never: "true"}
  containers:
  - name: main
    image: nginx:1.27
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {cpu: "1", memory: 128Mi}}
    env: [{name: COLOR, value: blue}]
  volumes: [{name: scratch, emptyDir: {}}]
"""
POD_CHANGED = POD.replace("tier: front", "tier: back").replace("nginx:1.27", "nginx:1.28")
POD_IMMUTABLE = POD.replace("never:", "other:")
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  queue: default
  schedulerName: volcano
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
"""
JOB_CHANGED = JOB.replace("minAvailable: 2", "minAvailable: 1")
JOB_WRONG = JOB.replace("minAvailable: 2", "minAvailable: two")
JOB_UNKNOWN = JOB.replace("  queue: default", "  queue: default\n  colour: red")
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: "story-{ns}"}
spec: {weight: 3, reclaimable: true}
"""
MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: applied}
data: {a: "1", b: "2"}
"""
MAP_CHANGED = MAP.replace('a: "1"', 'a: "9"')
EVENT = """
apiVersion: v1
kind: Event
metadata: {name: web.1}
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: "{ns}"}
type: Warning
reason: FailedScheduling
message: no node matches
source: {component: story}
count: 2
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {automountServiceAccountToken: false, containers: [{name: c, image: shop:1}]}
"""


class Step(NamedTuple):
    """One command. `compare` says what must be alike besides the exit code: "all", "out", "fields" or "code"."""

    command: str
    input: str = ""
    compare: str = "all"


APPLY = "apply -f -"

STORY = [
    # Namespaces, discovery and the server itself
    Step("get namespace {ns}"),
    Step("get namespace {ns} -o name"),
    Step("describe namespace {ns}"),
    Step("get --raw /healthz"),
    Step("get --raw /api/v1/namespaces/{ns} ", compare="code"),
    Step("get --raw /apis/nonsense/v1"),
    Step("version -o json", compare="code"),
    Step("cluster-info", compare="code"),
    Step("api-resources --api-group=batch.volcano.sh"),
    Step("api-resources --api-group=apps -o wide"),
    Step("api-resources --api-group= --namespaced=false -o name --verbs=watch"),
    Step("explain pod", compare="fields"),
    Step("explain pod.spec.containers.resources", compare="fields"),
    Step("explain vcjob.spec"),
    Step("explain vcjob.spec.tasks --recursive", compare="fields"),
    Step("explain pod.spec.nonsense"),
    # ConfigMaps in all output forms
    Step("create configmap plain --from-literal=k=v --from-literal=l=w"),
    Step("create configmap plain --from-literal=k=v"),
    Step("get configmap plain"),
    Step("get cm plain -o wide"),
    Step("get cm plain -o name"),
    Step("get cm plain -o yaml"),
    Step("get cm plain -o json"),
    Step("get cm plain -o jsonpath={{.data.k}}"),
    Step("get cm plain -o go-template={{{{.data.l}}}}"),
    Step("get cm plain -o custom-columns=NAME:.metadata.name,K:.data.k"),
    Step("label configmap plain team=blue"),
    Step("label configmap plain team=red"),
    Step("label configmap plain team=red --overwrite"),
    Step("get cm --show-labels"),
    Step("get cm -l team=red -L team"),
    Step("get cm -l team=blue"),
    Step("get cm --field-selector metadata.name=plain -o name"),
    Step("get cm --field-selector data.k=v"),
    Step("annotate configmap plain note=hello"),
    Step("annotate configmap plain note-"),
    Step("describe configmap plain"),
    Step('patch configmap plain --type=merge -p {{"data":{{"m":"x"}}}}'),
    Step('patch configmap plain --type=json -p [{{"op":"remove","path":"/data/m"}}]'),
    Step('patch configmap plain --type=json -p [{{"op":"remove","path":"/data/m"}}]', compare="code"),
    Step("get configmap missing"),
    Step("get configmaps -o name"),
    # Secrets, service accounts
    Step("create secret generic hidden --from-literal=password=secret"),
    Step("get secret hidden"),
    Step("describe secret hidden"),
    Step("create serviceaccount robot"),
    Step("get serviceaccount robot"),
    Step("create token robot --duration=20m", compare="code"),
    # Apply, diff, apply again
    Step(APPLY, MAP),
    Step(APPLY, MAP),
    Step("diff -f -", MAP),
    Step("diff -f -", MAP_CHANGED, compare="code"),
    Step(APPLY, MAP_CHANGED),
    Step("get cm applied -o jsonpath={{.data}}"),
    Step("apply --server-side -f -", MAP),
    Step("apply --server-side --force-conflicts -f -", MAP),
    Step("apply --server-side --field-manager=other -f -", MAP_CHANGED),
    Step("apply --dry-run=server -f -", MAP_CHANGED),
    Step("apply view-last-applied configmap/applied"),
    # Pods
    Step("apply --dry-run=server -f -", POD),
    Step(APPLY, POD),
    Step("get pods"),
    Step("get pod web -o wide"),
    Step("get pod web -o yaml"),
    Step("describe pod web"),
    Step(APPLY, POD_CHANGED),
    Step("get pod web --show-labels -o jsonpath={{.metadata.labels.tier}},{{.spec.containers[0].image}}"),
    Step(APPLY, POD_IMMUTABLE, compare="code"),
    Step("set image pod/web main=nginx:1.29"),
    Step('patch pod web -p {{"spec":{{"activeDeadlineSeconds":600}}}}'),
    Step("wait --for=jsonpath={{.status.phase}}=Pending pod/web --timeout=120s"),
    Step("wait --for=condition=Ready pod/web --timeout=1s"),
    Step("logs web"),
    Step("logs web -c nonsense"),
    Step("create -f -", EVENT),
    Step("get events"),
    Step("events --for pod/web"),
    Step("get pods --field-selector status.phase=Pending -o name"),
    Step("get pods --sort-by=.metadata.name"),
    Step(
        'run quick --image=busybox --overrides={{"spec":{{"automountServiceAccountToken":false,"nodeSelector":{{"never":"true"}}}}}} -- sleep 1'
    ),
    Step("get pod quick -o jsonpath={{.spec.containers[0].args}}"),
    Step("get pod,configmap -o name"),
    Step("delete pod quick"),
    Step("wait --for=delete pod/quick --timeout=120s"),
    Step("delete pod quick"),
    Step("delete pod quick --ignore-not-found"),
    Step("create -f -", POD.replace("nginx:1.27", "''").replace("name: web,", "name: wrong,"), compare="code"),
    # Our kinds
    Step(APPLY, JOB),
    Step("get vcjob"),
    Step("get vcjob -o wide"),
    Step("get jobs.batch.volcano.sh train -o yaml"),
    Step("describe vcjob train"),
    Step(APPLY, JOB_CHANGED),
    Step('patch vcjob train --type=merge -p {{"spec":{{"maxRetry":5}}}}'),
    Step("create -f -", JOB_WRONG.replace("name: train", "name: wrong")),
    Step("create -f -", JOB_UNKNOWN.replace("name: train", "name: wrong")),
    Step("create --validate=warn -f -", JOB_UNKNOWN.replace("name: train", "name: warned")),
    Step(APPLY, QUEUE),
    Step("get queue story-{ns}"),
    Step("delete queue story-{ns}"),
    Step("delete vcjob train warned"),
    # Roles and who may do what
    Step("create role reader --verb=get,list --resource=pods,configmaps"),
    Step("describe role reader"),
    Step("create rolebinding readers --role=reader --user=ann --serviceaccount={ns}:robot"),
    Step("get rolebinding -o wide"),
    Step("describe rolebinding readers"),
    Step("auth can-i list pods --as ann"),
    Step("auth can-i create pods --as ann"),
    Step("auth can-i list pods --as system:serviceaccount:{ns}:robot"),
    Step("auth can-i --list --as bob", compare="code"),
    Step("auth whoami", compare="code"),
    Step("get pods --as ann -o name"),
    Step("get secrets --as ann"),
    Step("delete pod web --as ann"),
    # Other kinds that batch users touch
    Step("create quota small --hard=pods=10,requests.cpu=4"),
    Step("wait --for=jsonpath={{.status.used.pods}}=1 resourcequota/small --timeout=120s"),
    Step("get quota"),
    Step("describe quota small"),
    Step("create priorityclass prio-{ns} --value=1000 --description=story"),
    Step("get priorityclass prio-{ns}"),
    Step("describe priorityclass prio-{ns}"),
    Step("delete priorityclass prio-{ns}"),
    Step("create poddisruptionbudget budget --selector=app=web --min-available=1"),
    Step("get pdb"),
    Step("create service clusterip front --tcp=80:8080"),
    Step("get service front -o jsonpath={{.spec.ports[0].targetPort}},{{.spec.type}}"),
    Step("describe service front", compare="code"),
    Step(APPLY, DEPLOYMENT, compare="code"),
    Step("get deployment shop -o jsonpath={{.spec.replicas}},{{.spec.strategy.type}}"),
    Step("scale deployment shop --replicas=0"),
    Step("replace -f -", MAP),
    Step("replace -f -", MAP.replace("name: applied", "name: missing")),
    Step("get all -l app=web -o name"),
    # The end
    Step("delete configmap -l team=red"),
    Step("delete -f -", MAP),
    Step("delete pod web --wait=false"),
    Step("delete secret,serviceaccount hidden robot --ignore-not-found", compare="code"),
    Step("delete pdb,quota,role,rolebinding,service --all -n {ns}"),
    Step("get nonsense"),
    Step("delete namespace {ns} --wait=true --timeout=120s"),
    Step("get namespace {ns}"),
]
