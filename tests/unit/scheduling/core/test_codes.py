"""Every code has its sentence, word for word: people read them, and Volcano's users match on Volcano's."""

import msgspec
import pytest
from tools.docs.reasons import EXAMPLES

from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.verdict import Cure, FitError, Reason, Verdict, as_data, decode, encode

SENTENCES = {
    Code.PLUGIN: "2 of 8 licences are left",
    Code.QUEUE_MISSING: "queue research does not exist; create it or name another one",
    Code.QUEUE_NOT_OPEN: "queue research is Closed: open it to admit gangs",
    Code.QUEUE_PARENT_MISSING: "queue vision is cut off: the parent of queue research, science, does not exist; create science or give research another parent",
    Code.QUEUE_RING: "queue vision is cut off: its ancestors form a ring (a -> b -> a); give one of them a parent that leads to root",
    Code.QUEUE_HAS_CHILDREN: "queue science has child queues and so takes no gangs itself; use one of research, teaching, or give them another parent",
    Code.BEHIND: "queue research starts its gangs in order, and team/large ahead of it does not fit yet",
    Code.QUEUE_QUOTA_USED: "queue research has no quota left (nvidia.com/gpu: 0 left of 6, the gang asks for 2)",
    Code.QUEUE_SHARE_USED: "queue research has no share left (cpu: 1 left of 8, the gang asks for 2; nvidia.com/gpu: 36 left of 100, the gang asks for 64)",
    Code.QUEUE_SHARE_TOO_SMALL: "queue research deserves 4 cpu, the gang's minimum is 8 and 4 nvidia.com/gpu, the gang's minimum is 6; it starts only while other queues want less, or with more weight",
    Code.QUEUE_DEVICES_USED: "queue research has no devices left: deviceclass/gpu, deviceclass/nic",
    Code.QUEUE_QUOTA_INSUFFICIENT: "queue resource quota insufficient: insufficient cpu, insufficient nvidia.com/gpu (queue research, cpu: holds 2, may hold 3; nvidia.com/gpu: holds 6, may hold 6)",
    Code.QUEUE_DEVICES_INSUFFICIENT: "queue resource quota insufficient: insufficient dra-resource-exceeded (queue research, deviceclass/gpu)",
    Code.NAMESPACE_QUOTA: "resource quota insufficient, requested: cpu 4, used: cpu 2, limited: cpu 5 (ResourceQuota team, promised to admitted gangs: cpu 1)",
    Code.CLUSTER_OVERCOMMITTED: "resource in cluster is overused: overused cpu, overused nvidia.com/gpu",
    Code.USER_RUNNING: "user mia may run 2 gangs in queue research and runs 2 (ml/train-a, ml/train-b)",
    Code.USER_SUBMITTED: "user mia may have 100 gangs in queue research and has 104 (ml/a, ml/b, ml/c and 101 more)",
    Code.USER_RESOURCES: "user mia may hold in queue research 8 nvidia.com/gpu, holds 6 and asks for 4 (ml/train-a)",
    Code.USER_LIMITS_UNREADABLE: "queue research lets no gang start, because its annotation pumice.dev/user-limits cannot be read: 'many' is no number of gangs",
    Code.TASK_PODS_MISSING: "Not enough valid pods of each task for gang-scheduling, task 'worker': 1, min: 3",
    Code.SUB_GROUPS_MISSING: "Not enough sub groups of policy replica, valid: 1, min: 2",
    Code.PODS_MISSING: "Not enough valid tasks for gang-scheduling, valid: 2, min: 3",
    Code.NO_PODS: "no pods yet: 0 of 3 members are created",
    Code.POD_COUNT: "0 of the 2 pods that must start together exist",
    Code.EVICTION_DELAYED: "may not evict others before 2026-01-01T09:05:00Z: the policy lets gangs wait for 300 s first",
    Code.DISRUPTION_BUDGET: "PodDisruptionBudget team/web allows no eviction now: pods of gang team/large, which could make room, stay",
    Code.VICTIMS_PROTECTED: "gang team/large, which could make room, is protected from eviction until 2026-01-01T09:30:00Z",
    Code.EVICTION_BUDGET_USED: "queue research has lost as many gangs within an hour as it may, 4; the next one may go at 2026-01-01T09:30:00Z",
    Code.EVICTION_UNDONE: "gang team/large could make room, and would win it back at once: nobody is evicted for that",
    Code.GATED: "1 of 2 pods are held by the scheduling gate example.com/hold",
    Code.PLACES_PROMISED: "3 of its 8 pods have got a place that others must leave first",
    Code.EXCEEDS_CLUSTER: "can never run here: its minimum asks for more than the whole cluster has (nvidia.com/gpu 100 of 16)",
    Code.EXCEEDS_NODES: "can never run here: 4 such pods must start together (cpu 1, nvidia.com/gpu 8 each), and the nodes that may take them hold 2 even when empty",
    Code.ATTEMPT_FAILED: "the last attempt failed, and the next one follows: node a-1 is gone",
    Code.PLUGIN_FAILED: "not planned in this cycle: plugin nodegroup failed (KeyError: 'n1'); see the scheduler's log, and correct the plugin or the object",
    Code.ROLE_FAILED: "Task w-1 with role spec worker has already predicated failed, skip",
    Code.PREEMPTION_FALLS_SHORT: "evicting every gang of lower priority in queue research would make room for 3 of 4 members that must start together",
    Code.RECLAIM_FALLS_SHORT: "evicting everything that other queues must give back would make room for 3 of 4 members that must start together",
    Code.CONSOLIDATION_FALLS_SHORT: "moving everything that may be moved would make room for 3 of 4 members that must start together",
    Code.RESERVED: "room for its minimum is reserved on 8 nodes, from 2026-01-31T12:30:00Z on at the latest",
    Code.WOULD_DELAY: "would delay gang team/large, for which room is reserved from 2026-01-31T12:30:00Z on; a gang that is expected to end before that may pass",
    Code.NOT_HELD: "3 of the 8 members that must start together would find a place; that room is not held, but reserved for the time at which there is enough for all of them",
    Code.RESERVATION_OUTLIVED: "its reservation moved from 2026-01-31T12:00:00Z to 2026-01-31T12:30:00Z: gang team/slow runs longer than expected",
    Code.RESERVATION_NODE_LOST: "its reservation moved from 2026-01-31T12:00:00Z to 2026-01-31T12:30:00Z: node gpu-7 is gone, or takes no such pods any more",
    Code.RESERVATION_OUTRANKED: "its reservation for 2026-01-31T12:00:00Z has ended: gang team/urgent ranks higher",
    Code.RESERVATION_ROOM_TAKEN: "its reservation moved from 2026-01-31T12:00:00Z to 2026-01-31T12:30:00Z: pods that are not Pumice's took its room, or its queue's share became smaller",
    Code.RESERVATION_GANG_CHANGED: "its reservation moved from 2026-01-31T12:00:00Z to 2026-01-31T12:30:00Z: the gang lacks other members than before, or places that were promised to some of them came to nothing",
    Code.HYPER_NODES_UNUSABLE: "the tree of hyper nodes cannot be used: hyper node b has two parents, c and d: remove it from one of them",
    Code.TIER_NAME_UNKNOWN: "no hyper node has the tier name 'pod' of highestTierName; known are rack, row: correct the one or the other",
    Code.HYPER_NODE_FIXED: "members run in hyper node rack-2 of tier 1, and tier 1 allows no others to join them",
    Code.NO_HYPER_NODE_FOR_GANG: "no hyper node within tier 1 has room for its minimum (cpu 8, nvidia.com/gpu 16)",
    Code.NO_HYPER_NODE_FOR_SUB_GROUP: "no hyper node within tier 1 has room for all that wait together (nvidia.com/gpu 16)",
    Code.HYPER_NODE_TOO_FULL: "hyper node rack-2 has room for 3 of the 4 members that must be close together, and no other within the allowed tiers has more",
    Code.PLACE_FOUND: "Pod ml/w-0 can possibly be assigned to a-1, once minAvailable is satisfied",
    Code.PLACE_BEING_FREED: "Pod ml/w-0 can possibly be assigned to a-1, once resource is released and minAvailable is satisfied",
    Code.GROUP_MISSING: "waits for PodGroup ml/train, which does not exist; create it, or correct the pod's annotation",
    Code.NATIVE_GROUP_MISSING: "waits for PodGroup ml/train of scheduling.k8s.io, which does not exist; create it",
    Code.GROUP_NOT_MADE: "waits for PodGroup ml/train, which nobody has made for its workload; see that `pumice controllers` runs",
    Code.VOLUME_CLAIM_AWAITED: 'plugin VolumeBinding pre-predicates failed waiting for ephemeral volume controller to create the persistentvolumeclaim "data"',
    Code.VOLUME_CLAIM_MISSING: 'plugin VolumeBinding pre-predicates failed persistentvolumeclaim "data" not found',
    Code.VOLUME_CLAIM_LOST: 'plugin VolumeBinding pre-predicates failed persistentvolumeclaim "data" bound to non-existent persistentvolume "pv-7"',
    Code.VOLUME_CLAIM_DELETED: 'plugin VolumeBinding pre-predicates failed persistentvolumeclaim "data" is being deleted',
    Code.VOLUME_CLAIM_UNBOUND: "plugin VolumeBinding pre-predicates failed pod has unbound immediate PersistentVolumeClaims",
    Code.DEVICE_CLAIM_AWAITED: "plugin DynamicResources pre-predicates failed pod ml/w-0: ResourceClaim not created yet",
    Code.DEVICE_CLAIM_MISSING: 'plugin DynamicResources pre-predicates failed could not find ResourceClaim "ml/gpus"',
    Code.DEVICE_CLAIM_DELETED: 'plugin DynamicResources pre-predicates failed resourceclaim "ml/gpus" is being deleted',
    Code.DEVICE_CLAIM_FULL: 'plugin DynamicResources pre-predicates failed resourceclaim "ml/gpus" in use',
    Code.DEVICE_CLASS_MISSING: "plugin DynamicResources pre-predicates failed request one: device class gpu does not exist",
    Code.DEVICE_SELECTOR_UNUSABLE: "plugin DynamicResources pre-predicates failed request one: the expression is too long",
    Code.NODE_RESERVED: "node(s) were reserved for gangs that wait longer",
    Code.INSUFFICIENT: "Insufficient nvidia.com/gpu",
    Code.UNSCHEDULABLE: "node(s) were unschedulable",
    Code.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Code.TAINT: "node(s) had untolerated taint(s)",
    Code.POD_SLOTS: "node(s) pod number exceeded",
    Code.HOST_PORTS: "node(s) didn't have free ports for the requested pod ports",
    Code.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Code.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Code.REFUSED_BY_PODS: "node(s) didn't satisfy existing pods anti-affinity rules",
    Code.SPREAD: "node(s) didn't match pod topology spread constraints",
    Code.SPREAD_LABEL_MISSING: "node(s) didn't match pod topology spread constraints (missing required label)",
    Code.VOLUME_AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    Code.VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    Code.VOLUME_ZONE: "node(s) had no available volume zone",
    Code.VOLUME_NOT_FOUND: "node(s) didn't find available persistent volumes to bind",
    Code.VOLUME_SPACE: "node(s) did not have enough free storage",
    Code.VOLUME_IN_USE: "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    Code.VOLUME_LIMIT: "node(s) exceed max volume count",
    Code.DISK_TAKEN: "node(s) had no available disk",
    Code.DEVICES_ELSEWHERE: "resourceclaim not available on the node",
    Code.DEVICES_MISSING: "cannot allocate all claims",
    Code.GPU_MEMORY: "GpuShare no enough gpu memory",
    Code.GPU_MEMORY_NEVER: "GpuShare no enough gpu memory: no cards that would do",
    Code.GPU_NUMBER: "GpuNumber no enough gpu number",
    Code.GPU_NUMBER_NEVER: "GpuNumber no enough gpu number: no cards that would do",
    Code.GPU_SLICES: "hami-vgpuDeviceSharing error",
    Code.GPU_SLICES_NEVER: "hami-vgpuDeviceSharing error: no cards that would do",
    Code.NUMA_UNKNOWN: "numa info is empty",
    Code.NUMA_NOT_STATIC: "cpu manager policy isn't static",
    Code.NUMA_POLICY: "task topology policy[restricted] is different with node[best-effort]",
    Code.NUMA_NO_CPUS: "cpu allocatable map is empty",
    Code.NUMA_CONTAINER: "container trainer cannot be assigned by numa",
    Code.ZONE_CLOSED: "current time beyond revocable zone night:20:00-06:00",
    Code.ZONE_UNKNOWN: "revocable zone night not support",
    Code.ZONE_REVOCABLE: "not allow to dispatch to revocable node",
    Code.NODE_GROUP_LABEL: "node group label not found",
    Code.NODE_GROUP_UNSPECIFIED: "node group affinity not specified",
    Code.NODE_GROUP_AFFINITY: "node does not satisfy the node group affinity",
    Code.NODE_GROUP_LIMITS_INVALID: "node group resource limit annotation invalid",
    Code.NODE_GROUP_LIMIT: "node group resource limit exceeded",
    Code.CPU_LOAD: "the CPU load of the node exceeds the upper limit.",
    Code.MEMORY_LOAD: "the memory load of the node exceeds the upper limit.",
    Code.PROPORTION: "proportional of resource nvidia.com/gpu check failed",
    Code.EXTENDER: "no licence left",
    Code.EXTENDER_FAILED: "extender failed: connection refused",
    Code.VICTIM_BREAKS_GANG: "gang team/large falls below its minimum: 3 of 4 members stay",
    Code.VICTIM_SPARED_BY_GANG: "gang team/large keeps its minimum of 4: 5 stay",
    Code.SURPLUS_AHEAD: "would start with the room of 4 that team/elastic can spare; unless that changes, they leave for it at 2026-01-01T09:30:00Z",
    Code.HOLDS_WHILE_WAITING: (
        "holds 4 nvidia.com/gpu with 4 of the 8 members that must start together, and the others find no place;"
        " with that room team/small would start; unless that changes, it gives its room up at 2026-01-01T12:05:00Z"
    ),
    Code.QUOTA_HELD: (
        "was admitted, finds no room, and keeps team/small out: 8 nvidia.com/gpu are promised to it;"
        " unless that changes, it gives its admission back at 2026-01-01T12:05:00Z"
    ),
    Code.QUOTA_GIVEN_BACK: (
        "gave its admission back: it found no room for 300 s and kept team/small out;"
        " it may be admitted again from 2026-01-01T12:10:00Z on"
    ),
    Code.VICTIM_OF_DEADLOCK: (
        "gang team/large held its room with 4 of 8 members for 300 s and could not become whole;"
        " team/small can start with it"
    ),
    Code.RELEASED_INCOMPLETE: "6 of 8 members were bound, 2 found no room within 60 s",
    Code.RELEASED_NODE_FULL: "its node had no room for it",
    Code.RELEASED_NODE_GONE: "its node is gone",
    Code.EXTENDER_NOT_ADMITTED: "the extender does not admit the gang",
}


def test_every_code_has_a_sentence_and_an_example_here():
    assert set(SENTENCES) == set(EXAMPLES) == set(Code)
    assert len({code.value for code in Code}) == len(Code)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.value)
def test_a_code_reads(code):
    assert code.text(EXAMPLES[code][0]) == SENTENCES[code]


@pytest.mark.parametrize("code", Code, ids=lambda code: code.value)
def test_a_verdict_survives_its_way_through_the_annotation(code):
    facts, cures = EXAMPLES[code]
    verdict = Verdict(
        "Inqueue", "now", (Reason(code, "p", facts, 3, *cures[:1]),), {"Pending": 2}, {"Unschedulable": 2}
    )
    assert decode(encode(verdict)) == verdict


def test_the_json_form_has_data_and_sentence():
    reason = Reason(Code.INSUFFICIENT, "resources", Facts(resource="cpu"), 3, Cure.EVICTION)
    assert as_data(reason) == {
        "code": "Insufficient",
        "plugin": "resources",
        "facts": {"resource": "cpu"},
        "nodes": 3,
        "cure": "eviction",
        "reason": "Insufficient cpu",
    }


def test_no_room_at_all_is_a_number_too():
    assert msgspec.to_builtins(Facts(free=0, wanted=2)) == {"free": 0, "wanted": 2}


@pytest.mark.parametrize(
    "text", ["", "not json", "[]", '{"reasons": 5}', '{"phase":"Pending","at":"","reasons":[{"plugin":"x"}]}']
)
def test_a_verdict_that_cannot_be_read_is_none(text):
    """Among them those of versions that had no codes."""
    assert decode(text) is None


def short_of(resource, *, nodes=1, **facts):
    return Reason(Code.INSUFFICIENT, "resources", Facts(resource=resource, **facts), nodes)


def used_up(queue, **numbers):
    return Reason(Code.QUEUE_SHARE_USED, "proportion", Facts(queue=queue, amounts=(Amount.of("cpu", **numbers),)))


def test_a_topic_stays_while_only_numbers_and_places_change():
    assert short_of("cpu", nodes=2).topic == short_of("cpu", nodes=3).topic
    assert used_up("a", free=1000, limit=2000).topic == used_up("a", free=0, limit=3000).topic
    full = [Reason(Code.HYPER_NODE_TOO_FULL, "t", Facts(hyper_node=name, free=each)) for each, name in enumerate("ab")]
    assert full[0].topic == full[1].topic
    errors = [FitError((short_of("cpu", nodes=each),), 5, hyper_node=f"rack-{each}") for each in (1, 2)]
    assert errors[0].topic == errors[1].topic


def test_a_topic_changes_with_what_the_reason_is_about():
    assert short_of("cpu").topic != short_of("memory").topic
    assert used_up("a", free=0).topic != used_up("b", free=0).topic
    assert used_up("team-1", free=0).topic != used_up("team-2", free=0).topic
    assert Reason(Code.TAINT, "p").topic != Reason(Code.UNSCHEDULABLE, "p").topic


@pytest.mark.parametrize("text", ["{", "{0}", "{unknown}", "{free.nothing}", "a {} b"])
def test_words_of_a_plugin_that_are_no_pattern_stay_as_they_are(text):
    assert Code.PLUGIN.text(Facts(text=text)) == text


def test_numbers_in_words_of_a_plugin_are_facts():
    text = "{free} of {wanted} licences are left"
    few, none = (Reason(Code.PLUGIN, "licences", Facts(text=text, free=each, wanted=8)) for each in (2, 0))
    assert (few.text, none.text) == ("2 of 8 licences are left", "0 of 8 licences are left")
    assert few.topic == none.topic


def test_people_are_told_parts_of_gpus_as_numbers_and_programs_as_quantities():
    facts = Facts(
        queue="q",
        amounts=(
            Amount("nvidia.com/gpu", free="500m", limit="16500m", wanted="4"),
            Amount("cpu", free="500m", limit="1500m", wanted="2"),
        ),
    )
    said = Code.QUEUE_SHARE_USED.text(facts)
    assert "nvidia.com/gpu: 0.5 left of 16.5, the gang asks for 4; cpu: 500m left of 1.5, the gang asks for 2" in said
    assert facts.amounts[0].free == "500m"
