"""Every cause of waiting, made by the real scheduler on a real embedded cluster, and all that `pumice explain` says of it."""

import contextlib
import re
import time

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.integration.cli.causes import GPU, a_group, a_job, a_pod, a_queue

from pumice.api.batch import Job
from pumice.api.core import Node, PersistentVolumeClaim
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.topology import HyperNode
from pumice.clock import RealClock
from pumice.errors import NotFound

_UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_AGE = re.compile(r"\b\d[0-9smhd]*(?= (?:old|ago)\b)")


def ageless(text):
    """The text without its events, with uids as UID and ages as AGE."""
    return _AGE.sub("AGE", _UID.sub("UID", text.partition("\n\nEvents:\n")[0].rstrip("\n")))


def sections(text):
    """By their titles: what stands before the first colon."""
    return {each.partition(":")[0]: each for each in text.strip("\n").split("\n\n")}


@pytest.fixture
def tells(pumice, background):
    """Asks for an explanation until the given sections are word for word as expected, and with its head all of it: what it tells of is
    written bit by bit.
    """

    def ask(subject, expected):
        deadline, wanted = time.monotonic() + PATIENCE_S, sections(expected)
        while True:
            result = pumice("explain", subject, "--quick")  # what would help has tests of its own
            said = sections(ageless(result.out))
            if not wanted.keys() & {"PodGroup", "Pod"}:
                said = {title: text for title, text in said.items() if title in wanted}
            if said == wanted or time.monotonic() > deadline:
                break
            background.run(RealClock().sleep(0.1))
        assert (result.code, result.err) == (0, "")
        assert "\n\n".join(said.values()) == expected.strip("\n")

    return ask


@pytest.fixture
def made(client, emptied):
    """Makes objects; in the end those that no Job owns are gone, whatever grace they were given."""
    own = []

    def make(struct, body, *, namespace="default"):
        namespace = "" if struct in {Queue, PriorityClass, HyperNode} else namespace
        client("create", struct, body, namespace=namespace)
        if struct is not Job:
            own.append((struct, body["metadata"]["name"], namespace))

    yield make
    for struct, name, namespace in reversed(own):
        if struct is Queue:
            continue  # one that is open cannot be deleted, and no other test uses it
        with contextlib.suppress(NotFound):
            client("delete", struct, name, namespace=namespace, grace_s=0)


@pytest.fixture
def nodes_with(client):
    """Changes the spec of nodes for the time of a test."""
    changed = []

    def change(spec, *names):
        for name in names:
            client("patch", Node, name, {"spec": spec})
            changed.append((name, dict.fromkeys(spec)))

    yield change
    for name, spec in changed:
        client("patch", Node, name, {"spec": spec})


def running(count):
    return lambda job: job.get("status", {}).get("running") == count


def test_too_few_gpus_for_the_whole_gang(made, tells):
    made(Job, a_job("few", replicas=3, resources={"cpu": "1", GPU: "5"}))
    tells(
        "job/few",
        """
PodGroup:   default/few-UID
Job:        default/few
Phase:      Inqueue, AGE old
Queue:      default (Open, weight 1, below root)
Members:    3 pods: 0 run, 3 wait; 3 must start together
Asks for:   cpu 3, nvidia.com/gpu 15

Why it waits, as the scheduler says now:
  the whole gang: can never run here: 3 such pods must start together (cpu 1, nvidia.com/gpu 5 each), and the nodes that may take them hold 2 even when empty
    says cluster; what could change it: a change of the job, its queue or the nodes
  2 of 2 nodes: Insufficient nvidia.com/gpu
    says resources; what could change it: a change of the job, its queue or the nodes

Queue default:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  cpu              3       0           0          -           64         -
  nvidia.com/gpu   15      0           0          -           16         -

All nodes:
  RESOURCE         ASKED   USED   PROMISED   TOTAL
  cpu              3       0      0          64
  nvidia.com/gpu   15      0      0          16

Room now, each pod by itself:
  cpu 1, nvidia.com/gpu 5 each: 2 of 3 pods would fit; 2 of 2 nodes may take them
    nvidia.com/gpu: 16 free on those, at most 8 on one of them

What the pods were told:
  1 pod: can possibly be assigned to node-0, once minAvailable is satisfied
  1 pod: can possibly be assigned to node-1, once minAvailable is satisfied
  1 pod: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.
""",
    )


def test_free_gpus_in_pieces_that_are_too_small(made, until, tells):
    for number in range(2):
        place = {"kubernetes.io/hostname": f"node-{number}"}
        made(Job, a_job(f"half-{number}", resources={GPU: "4"}, nodeSelector=place))
        until(Job, running(1), name=f"half-{number}")
    made(Job, a_job("whole", resources={GPU: "6"}))
    tells(
        "job/whole",
        """
PodGroup:   default/whole-UID
Job:        default/whole
Phase:      Inqueue, AGE old
Queue:      default (Open, weight 1, below root)
Members:    1 pod: 0 run, 1 wait
Asks for:   nvidia.com/gpu 6

Why it waits, as the scheduler says now:
  2 of 2 nodes: Insufficient nvidia.com/gpu
    says resources; what could change it: pods that end, or are evicted

Queue default:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  nvidia.com/gpu   6       8           0          -           16         -

All nodes:
  RESOURCE         ASKED   USED   PROMISED   TOTAL
  nvidia.com/gpu   6       8      0          16

Room now, each pod by itself:
  nvidia.com/gpu 6 each: 0 of 1 pod would fit; 2 of 2 nodes may take them
    nvidia.com/gpu: 8 free on those, at most 4 on one of them

What could be evicted:
  none: no pod of lower priority in queue default holds nvidia.com/gpu, and no queue more than it deserves

What the pods were told:
  1 pod: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.
""",
    )


def test_a_taint_on_every_node(made, nodes_with, tells):
    nodes_with({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}, "node-0", "node-1")
    made(Job, a_job("tainted"))
    tells(
        "job/tainted",
        """
Why it waits, as the scheduler says now:
  the whole gang: can never run here: no node could take such a pod (cpu 1), even when empty
    says cluster; what could change it: a change of the job, its queue or the nodes
  2 of 2 nodes: node(s) had untolerated taint(s)
    says predicates; what could change it: a change of the job, its queue or the nodes

Room now, each pod by itself:
  cpu 1 each: 0 of 1 pod would fit; 0 of 2 nodes may take them
""",
    )


def test_labels_that_no_node_has(made, tells):
    made(Job, a_job("picky", replicas=2, nodeSelector={"disk": "ssd"}))
    tells(
        "job/picky",
        """
Why it waits, as the scheduler says now:
  the whole gang: can never run here: 2 such pods must start together (cpu 1 each), and the nodes that may take them hold 0 even when empty
    says cluster; what could change it: a change of the job, its queue or the nodes
  2 of 2 nodes: node(s) didn't match Pod's node affinity/selector
    says predicates; what could change it: a change of the job, its queue or the nodes

Room now, each pod by itself:
  cpu 1 each: 0 of 2 pods would fit; 0 of 2 nodes may take them
""",
    )


def test_a_node_affinity_that_no_node_meets(made, tells):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made(Job, a_job("affine", affinity={"nodeAffinity": required}))
    tells(
        "job/affine",
        """
Why it waits, as the scheduler says now:
  the whole gang: can never run here: no node could take such a pod (cpu 1), even when empty
    says cluster; what could change it: a change of the job, its queue or the nodes
  2 of 2 nodes: node(s) didn't match Pod's node affinity/selector
    says predicates; what could change it: a change of the job, its queue or the nodes

Room now, each pod by itself:
  cpu 1 each: 0 of 1 pod would fit; 0 of 2 nodes may take them
""",
    )


def test_a_node_that_is_cordoned(made, nodes_with, tells):
    nodes_with({"unschedulable": True}, "node-0")
    made(Job, a_job("shut", replicas=2, resources={GPU: "8"}))
    tells(
        "job/shut",
        """
Why it waits, as the scheduler says now:
  the whole gang: can never run here: 2 such pods must start together (nvidia.com/gpu 8 each), and the nodes that may take them hold 1 even when empty
    says cluster; what could change it: a change of the job, its queue or the nodes
  1 of 2 nodes: Insufficient nvidia.com/gpu
    says resources; what could change it: a change of the job, its queue or the nodes
  1 of 2 nodes: node(s) were unschedulable
    says predicates; what could change it: a change of the job, its queue or the nodes

Room now, each pod by itself:
  nvidia.com/gpu 8 each: 1 of 2 pods would fit; 1 of 2 nodes may take them
    nvidia.com/gpu: 8 free on those, at most 8 on one of them
""",
    )


def is_open(queue):
    return queue.get("status", {}).get("state") == "Open"


def test_more_than_the_queue_may_ever_have(made, until, tells):
    made(Queue, a_queue("tiny", capability={GPU: "2"}))
    until(Queue, is_open, name="tiny", namespace="")
    made(Job, a_job("capped", replicas=3, queue="tiny", resources={GPU: "1"}))
    tells(
        "job/capped",
        """
Why it waits, as the scheduler says now:
  the whole gang: queue resource quota insufficient: insufficient nvidia.com/gpu
    says proportion; what could change it: a change of the job, its queue or the nodes

Queue tiny:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  nvidia.com/gpu   3       0           0          -           2          2
  nvidia.com/gpu: 3 asked are more than the capability of 2: waiting does not help; ask for less, or raise the capability
""",
    )


def test_more_than_the_queue_has_left(made, until, tells):
    made(Queue, a_queue("small", capability={GPU: "4"}))
    until(Queue, is_open, name="small", namespace="")
    made(Job, a_job("first", replicas=3, queue="small", resources={GPU: "1"}))
    until(Job, running(3), name="first")
    made(Job, a_job("next", replicas=3, queue="small", resources={GPU: "1"}))
    tells(
        "job/next",
        """
Why it waits, as the scheduler says now:
  the whole gang: queue resource quota insufficient: insufficient nvidia.com/gpu
    says proportion; what could change it: time alone

Queue small:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  nvidia.com/gpu   3       3           0          -           4          4
  nvidia.com/gpu: 3 asked, 3 allocated and 0 promised to others are 2 more than the capability of 4
""",
    )


def test_a_queue_that_closes(made, until, pumice, tells):
    made(Queue, a_queue("closing", capability={GPU: "2"}))
    until(Queue, is_open, name="closing", namespace="")
    made(PodGroup, a_group("late", 1, queue="closing", minResources={GPU: "3"}))
    until(PodGroup, lambda group: group.get("status", {}).get("phase") == "Pending", name="late")
    pumice("queue", "operate", "closing", "-a", "close")
    tells(
        "pg/late",
        """
Why it waits, as the scheduler says now:
  the whole gang: queue closing is Closing: open it to admit gangs
    says proportion; what could change it: a change of the job, its queue or the nodes

Queue closing:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  nvidia.com/gpu   3       0           0          -           2          2
  nvidia.com/gpu: 3 asked are more than the capability of 2: waiting does not help; ask for less, or raise the capability
""",
    )


def test_a_minimum_beyond_the_whole_cluster(made, tells):
    made(Job, a_job("vast", replicas=2, resources={GPU: "99"}))
    tells(
        "job/vast",
        """
Why it waits, as the scheduler says now:
  the whole gang: can never run here: its minimum asks for more than the whole cluster has (nvidia.com/gpu 198 of 16)
    says cluster; what could change it: a change of the job, its queue or the nodes
  the whole gang: resource in cluster is overused: overused nvidia.com/gpu
    says overcommit; what could change it: a change of the job, its queue or the nodes

All nodes:
  RESOURCE         ASKED   USED   PROMISED   TOTAL
  nvidia.com/gpu   198     0      0          16
  nvidia.com/gpu: 198 asked, 0 used and 0 promised to others are 182 more than there are
""",
    )


def test_room_that_is_promised_to_a_gang_that_was_admitted_first(made, until, tells):
    made(Job, a_job("first", replicas=3, resources={GPU: "5"}))
    until(Pod, lambda pod: True, name="first-w-2")
    made(Job, a_job("second", replicas=4, resources={GPU: "1"}))
    tells(
        "job/second",
        """
PodGroup:   default/second-UID
Job:        default/second
Phase:      Pending, AGE old, number 2 in its queue
Queue:      default (Open, weight 1, below root)
Members:    0 pods: 0 run, 0 wait; 4 must start together
Asks for:   nvidia.com/gpu 4

Why it waits, as the scheduler says now:
  the whole gang: queue resource quota insufficient: insufficient nvidia.com/gpu
    says proportion; what could change it: time alone

Queue default:
  RESOURCE         ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  nvidia.com/gpu   4       0           15         -           16         -

All nodes:
  RESOURCE         ASKED   USED   PROMISED   TOTAL
  nvidia.com/gpu   4       0      15         16
  nvidia.com/gpu: 4 asked, 0 used and 15 promised to others are 3 more than there are
""",
    )


def test_a_gang_of_which_pods_are_missing(made, tells):
    made(PodGroup, a_group("part", 4))
    for number in range(2):
        made(Pod, a_pod(f"part-{number}", "part"))
    tells(
        "pg/part",
        """
Why it waits, as the scheduler says now:
  the whole gang: Not enough valid tasks for gang-scheduling, valid: 2, min: 4
    says gang; what could change it: time alone

Room now, each pod by itself:
  cpu 1 each: 2 of 2 pods would fit (and 62 more would); 2 of 2 nodes may take them
""",
    )


def test_a_group_without_pods(made, tells):
    made(PodGroup, a_group("lonely", 4))
    tells(
        "pg/lonely",
        """
PodGroup:   default/lonely
Phase:      Inqueue, AGE old
Queue:      default (Open, weight 1, below root)
Members:    0 pods: 0 run, 0 wait; 4 must start together

Why it waits, as the scheduler says now:
  the whole gang: no pods yet: 0 of 4 members are created
    says gang; what could change it: time alone
""",
    )


def test_a_pod_whose_group_does_not_exist(made, tells):
    made(Pod, a_pod("stray", "ghost"))
    tells(
        "pod/stray",
        """
Pod:         default/stray, Pending
Scheduler:   volcano

Why it waits:
  it names the PodGroup ghost, which does not exist; no scheduler looks at it before there is one: create it, or correct scheduling.k8s.io/group-name
""",
    )


def test_a_scheduling_gate(made, tells):
    made(Job, a_job("gated", replicas=2, schedulingGates=[{"name": "example.com/hold"}]))
    tells(
        "job/gated",
        """
Why it waits, as the scheduler says now:
  the whole gang: 2 of 2 pods are held by the scheduling gate example.com/hold
    says gates; what could change it: a change of the job, its queue or the nodes

Room now, each pod by itself:
  cpu 1 each: 2 of 2 pods would fit (and 62 more would); 2 of 2 nodes may take them
""",
    )


def test_a_volume_claim_that_is_not_bound(made, tells):
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {**request, "storageClassName": "manual"}
    made(
        PersistentVolumeClaim,
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec},
    )
    made(Job, a_job("stateful", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]))
    tells(
        "job/stateful",
        """
PodGroup:   default/stateful-UID
Job:        default/stateful
Phase:      Inqueue, AGE old
Queue:      default (Open, weight 1, below root)
Members:    1 pod: 0 run, 1 wait
Asks for:   cpu 1

Why it waits, as the scheduler says now:
  the whole gang: plugin VolumeBinding pre-predicates failed pod has unbound immediate PersistentVolumeClaims
    says predicates; what could change it: time alone

Volume claims without a volume:
  data: Pending, storage class manual

Queue default:
  RESOURCE   ASKED   ALLOCATED   PROMISED   GUARANTEE   DESERVED   CAPABILITY
  cpu        1       0           0          -           64         -

All nodes:
  RESOURCE   ASKED   USED   PROMISED   TOTAL
  cpu        1       0      0          64

Room now, each pod by itself:
  cpu 1 each: 1 of 1 pod would fit (and 63 more would); 2 of 2 nodes may take them

What the pods were told:
  1 pod: plugin VolumeBinding pre-predicates failed pod has unbound immediate PersistentVolumeClaims
""",
    )


@pytest.fixture
def crowded(made, until):
    """Cheap pods hold all GPUs and take an hour to leave; a dear gang of the given name comes and wants half of them."""

    def make(name):
        for level, value in (("low", 1), ("high", 100)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            made(PriorityClass, {**kind, "metadata": {"name": level}, "value": value})
        made(PodGroup, a_group("cheap", 1, priorityClassName="low"))
        for number in range(4):
            pod = a_pod(
                f"cheap-{number}", "cheap", {GPU: "4"}, priorityClassName="low", terminationGracePeriodSeconds=7200
            )
            slow = {"pumice.dev/pretend-stop": "2h", "volcano.sh/preemptable": "true"}
            pod["metadata"]["annotations"].update(slow)
            made(Pod, pod)
        for number in range(4):
            until(Pod, lambda pod: pod["status"]["phase"] == "Running", name=f"cheap-{number}")
        made(PodGroup, a_group(name, 2, priorityClassName="high"))
        for number in range(2):
            made(Pod, a_pod(f"{name}-{number}", name, {GPU: "4"}, priorityClassName="high"))

    return make


def test_pods_that_have_to_leave_first(crowded, tells):
    crowded("dear")
    tells(
        "pg/dear",
        """
PodGroup:   default/dear
Phase:      Inqueue, AGE old
Queue:      default (Open, weight 1, below root)
Members:    2 pods: 0 run, 2 wait; 2 must start together

Why it waits, as the scheduler says now:
  the whole gang: 2 of its 2 pods have got a place that others must leave first
    says claims; what could change it: time alone

Room that is being made for it:
  node-0, for 2 pods of it: 2 pods with nvidia.com/gpu 8 must end there, within 119m

Room now, each pod by itself:
  nvidia.com/gpu 4 each: 0 of 2 pods would fit; 2 of 2 nodes may take them
    nvidia.com/gpu: 0 free on those, at most 0 on one of them

What the pods were told:
  2 pods: can possibly be assigned to node-0, once resource is released and minAvailable is satisfied
""",
    )


def test_room_that_another_gang_has_claimed(crowded, made, until, tells):
    crowded("dearer")
    until(Pod, lambda pod: pod["status"].get("nominatedNodeName"), name="dearer-1")
    made(PodGroup, a_group("third", 1))
    made(Pod, a_pod("third-0", "third", {GPU: "4"}))
    tells(
        "pg/third",
        """
PodGroup:   default/third
Phase:      Inqueue, AGE old, number 2 in its queue
Queue:      default (Open, weight 1, below root)
Members:    1 pod: 0 run, 1 wait

Why it waits, as the scheduler says now:
  the whole gang: queue default has no share left (nvidia.com/gpu: 0 left of 16, the gang asks for 4)
    says proportion; what could change it: pods that end, or are evicted

Room that others have claimed:
  default/dearer: nvidia.com/gpu 8 on node-0, for 2 pods

Room now, each pod by itself:
  nvidia.com/gpu 4 each: 0 of 1 pod would fit; 2 of 2 nodes may take them
    nvidia.com/gpu: 0 free on those, at most 0 on one of them

What could be evicted:
  none: no pod of lower priority in queue default holds nvidia.com/gpu, and no queue more than it deserves
""",
    )


def test_a_gang_that_must_stay_within_one_switch(made, tells):
    for number in range(2):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"node-{number}"}}}]
        kind = {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": f"switch-{number}"},
        }
        made(HyperNode, {**kind, "spec": {"tier": 1, "members": members}})
    made(Job, a_job("near", replicas=3, resources={GPU: "4"}, topology={"mode": "hard", "highestTierAllowed": 1}))
    tells(
        "job/near",
        """
Why it waits, as the scheduler says now:
  the whole gang: no hyper node within tier 1 has room for its minimum (nvidia.com/gpu 12, pods 3)
    says network-topology-aware; what could change it: pods that end, or are evicted

Room now, each pod by itself:
  nvidia.com/gpu 4 each: 3 of 3 pods would fit (and 1 more would); 2 of 2 nodes may take them
    of hyper nodes within tier 1, switch-0 has most room, for 2 of them
""",
    )
