"""The reference of reasons: every code with what it means, its facts, its cures and an example."""

from __future__ import annotations

import typing

import msgspec

from pumice.scheduling.core.codes import NO_FACTS, Amount, Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason, as_data

EVICTION, WAITING, CHANGE = Cure.EVICTION, Cure.WAITING, Cure.CHANGE
GPU = "nvidia.com/gpu"
SOON, LATER = "2026-01-31T12:00:00Z", "2026-01-31T12:30:00Z"
CLAIM, QUEUE = Facts(name="data"), Facts(queue="research")

EXAMPLES: dict[Code, tuple[Facts, tuple[Cure, ...]]] = {
    Code.PLUGIN: (Facts(text="{free} of {wanted} licences are left", free=2, wanted=8), (EVICTION, WAITING, CHANGE)),
    Code.QUEUE_MISSING: (QUEUE, (CHANGE,)),
    Code.QUEUE_NOT_OPEN: (Facts(queue="research", state="Closed"), (CHANGE,)),
    Code.QUEUE_PARENT_MISSING: (Facts(queue="vision", child="research", parent="science"), (CHANGE,)),
    Code.QUEUE_RING: (Facts(queue="vision", names=("a", "b", "a"), parent="root"), (CHANGE,)),
    Code.QUEUE_HAS_CHILDREN: (Facts(queue="science", names=("research", "teaching")), (CHANGE,)),
    Code.BEHIND: (Facts(queue="research", gang="team/large"), (WAITING,)),
    Code.QUEUE_QUOTA_USED: (
        Facts(queue="research", amounts=(Amount(GPU, free="0", limit="6", wanted="2"),)),
        (EVICTION,),
    ),
    Code.QUEUE_SHARE_USED: (
        Facts(
            queue="research",
            amounts=(Amount("cpu", free="1", limit="8", wanted="2"), Amount(GPU, free="36", limit="100", wanted="64")),
        ),
        (EVICTION,),
    ),
    Code.QUEUE_SHARE_TOO_SMALL: (
        Facts(queue="research", amounts=(Amount("cpu", limit="4", wanted="8"), Amount(GPU, limit="4", wanted="6"))),
        (EVICTION,),
    ),
    Code.QUEUE_DEVICES_USED: (Facts(queue="research", names=("deviceclass/gpu", "deviceclass/nic")), (EVICTION,)),
    Code.QUEUE_QUOTA_INSUFFICIENT: (
        Facts(queue="research", amounts=(Amount("cpu", held="2", limit="3"), Amount(GPU, held="6", limit="6"))),
        (WAITING, CHANGE),
    ),
    Code.QUEUE_DEVICES_INSUFFICIENT: (Facts(queue="research", names=("deviceclass/gpu",)), (WAITING,)),
    Code.NAMESPACE_QUOTA: (
        Facts(name="team", amounts=(Amount("cpu", wanted="4", held="2", limit="5", promised="1"),)),
        (WAITING, CHANGE),
    ),
    Code.CLUSTER_OVERCOMMITTED: (Facts(names=("cpu", GPU)), (WAITING,)),
    Code.USER_RUNNING: (
        Facts(queue="research", user="mia", limit=2, free=2, holders=("ml/train-a", "ml/train-b")),
        (WAITING, CHANGE),
    ),
    Code.USER_SUBMITTED: (
        Facts(queue="research", user="mia", limit=100, free=104, holders=("ml/a", "ml/b", "ml/c")),
        (WAITING, CHANGE),
    ),
    Code.USER_RESOURCES: (
        Facts(
            queue="research",
            user="mia",
            amounts=(Amount(GPU, limit="8", held="6", wanted="4"),),
            free=1,
            holders=("ml/train-a",),
        ),
        (WAITING, CHANGE),
    ),
    Code.USER_LIMITS_UNREADABLE: (Facts(queue="research", text="'many' is no number of gangs"), (CHANGE,)),
    Code.TASK_PODS_MISSING: (Facts(role="worker", free=1, wanted=3), (WAITING,)),
    Code.SUB_GROUPS_MISSING: (Facts(role="replica", free=1, wanted=2), (WAITING,)),
    Code.PODS_MISSING: (Facts(free=2, wanted=3), (WAITING,)),
    Code.NO_PODS: (Facts(wanted=3), (WAITING,)),
    Code.POD_COUNT: (Facts(free=0, wanted=2), (WAITING,)),
    Code.EVICTION_DELAYED: (Facts(until="2026-01-01T09:05:00Z", seconds=300), (WAITING,)),
    Code.VICTIMS_PROTECTED: (Facts(gang="team/large", until="2026-01-01T09:30:00Z"), (WAITING,)),
    Code.EVICTION_BUDGET_USED: (Facts(queue="research", limit=4, until="2026-01-01T09:30:00Z"), (WAITING,)),
    Code.DISRUPTION_BUDGET: (Facts(name="team/web", gang="team/large"), (WAITING,)),
    Code.EVICTION_UNDONE: (Facts(gang="team/large"), (WAITING,)),
    Code.GATED: (Facts(name="example.com/hold", free=1, wanted=2), (CHANGE,)),
    Code.PLACES_PROMISED: (Facts(free=3, wanted=8), (WAITING,)),
    Code.EXCEEDS_CLUSTER: (Facts(amounts=(Amount(GPU, wanted="100", limit="16"),)), (CHANGE,)),
    Code.EXCEEDS_NODES: (
        Facts(amounts=(Amount("cpu", wanted="1"), Amount(GPU, wanted="8")), wanted=4, free=2),
        (CHANGE,),
    ),
    Code.ATTEMPT_FAILED: (Facts(text="node a-1 is gone"), (WAITING,)),
    Code.PLUGIN_FAILED: (Facts(name="nodegroup", text="KeyError: 'n1'"), (CHANGE,)),
    Code.ROLE_FAILED: (Facts(pod="w-1", role="worker"), (CHANGE,)),
    Code.PREEMPTION_FALLS_SHORT: (Facts(queue="research", free=3, wanted=4), (WAITING,)),
    Code.RECLAIM_FALLS_SHORT: (Facts(queue="research", free=3, wanted=4), (WAITING,)),
    Code.CONSOLIDATION_FALLS_SHORT: (Facts(free=3, wanted=4), (WAITING,)),
    Code.RESERVED: (Facts(free=8, until=LATER), (WAITING,)),
    Code.WOULD_DELAY: (Facts(gang="team/large", until=LATER), (WAITING,)),
    Code.NOT_HELD: (Facts(free=3, wanted=8), (WAITING,)),
    Code.RESERVATION_OUTLIVED: (Facts(gang="team/slow", former=SOON, until=LATER), (WAITING,)),
    Code.RESERVATION_NODE_LOST: (Facts(node="gpu-7", former=SOON, until=LATER), (WAITING,)),
    Code.RESERVATION_OUTRANKED: (Facts(gang="team/urgent", former=SOON), (WAITING,)),
    Code.RESERVATION_ROOM_TAKEN: (Facts(former=SOON, until=LATER), (WAITING,)),
    Code.RESERVATION_GANG_CHANGED: (Facts(former=SOON, until=LATER), (WAITING,)),
    Code.HYPER_NODES_UNUSABLE: (
        Facts(text="hyper node b has two parents, c and d: remove it from one of them"),
        (CHANGE,),
    ),
    Code.TIER_NAME_UNKNOWN: (Facts(tier_name="pod", names=("rack", "row")), (CHANGE,)),
    Code.HYPER_NODE_FIXED: (Facts(hyper_node="rack-2", own_tier=1, tier=1), (CHANGE,)),
    Code.NO_HYPER_NODE_FOR_GANG: (
        Facts(tier=1, amounts=(Amount("cpu", wanted="8"), Amount(GPU, wanted="16"))),
        (EVICTION,),
    ),
    Code.NO_HYPER_NODE_FOR_SUB_GROUP: (Facts(tier=1, amounts=(Amount(GPU, wanted="16"),)), (EVICTION,)),
    Code.HYPER_NODE_TOO_FULL: (Facts(hyper_node="rack-2", free=3, wanted=4), (EVICTION,)),
    Code.PLACE_FOUND: (Facts(pod="ml/w-0", node="a-1"), (CHANGE,)),
    Code.PLACE_BEING_FREED: (Facts(pod="ml/w-0", node="a-1"), (CHANGE,)),
    Code.GROUP_MISSING: (Facts(gang="ml/train"), (CHANGE,)),
    Code.NATIVE_GROUP_MISSING: (Facts(gang="ml/train"), (CHANGE,)),
    Code.GROUP_NOT_MADE: (Facts(gang="ml/train"), (CHANGE,)),
    Code.VOLUME_CLAIM_AWAITED: (CLAIM, (WAITING,)),
    Code.VOLUME_CLAIM_MISSING: (CLAIM, (CHANGE,)),
    Code.VOLUME_CLAIM_LOST: (Facts(name="data", volume="pv-7"), (CHANGE,)),
    Code.VOLUME_CLAIM_DELETED: (CLAIM, (CHANGE,)),
    Code.VOLUME_CLAIM_UNBOUND: (NO_FACTS, (WAITING,)),
    Code.DEVICE_CLAIM_AWAITED: (Facts(pod="ml/w-0"), (WAITING,)),
    Code.DEVICE_CLAIM_MISSING: (Facts(name="ml/gpus"), (CHANGE,)),
    Code.DEVICE_CLAIM_DELETED: (Facts(name="ml/gpus"), (CHANGE,)),
    Code.DEVICE_CLAIM_FULL: (Facts(name="ml/gpus"), (CHANGE,)),
    Code.DEVICE_CLASS_MISSING: (Facts(name="one", resource="gpu"), (CHANGE,)),
    Code.DEVICE_SELECTOR_UNUSABLE: (Facts(name="one", text="the expression is too long"), (CHANGE,)),
    Code.NODE_RESERVED: (NO_FACTS, (WAITING,)),
    Code.INSUFFICIENT: (Facts(resource=GPU), (EVICTION, CHANGE)),
    Code.UNSCHEDULABLE: (NO_FACTS, (CHANGE,)),
    Code.NODE_AFFINITY: (NO_FACTS, (CHANGE,)),
    Code.TAINT: (NO_FACTS, (CHANGE,)),
    Code.POD_SLOTS: (NO_FACTS, (EVICTION,)),
    Code.HOST_PORTS: (NO_FACTS, (EVICTION,)),
    Code.POD_AFFINITY: (NO_FACTS, (CHANGE,)),
    Code.POD_ANTI_AFFINITY: (NO_FACTS, (EVICTION,)),
    Code.REFUSED_BY_PODS: (NO_FACTS, (EVICTION,)),
    Code.SPREAD: (NO_FACTS, (EVICTION,)),
    Code.SPREAD_LABEL_MISSING: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_AFFINITY: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_MISSING: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_ZONE: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_NOT_FOUND: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_SPACE: (NO_FACTS, (CHANGE,)),
    Code.VOLUME_IN_USE: (NO_FACTS, (EVICTION,)),
    Code.VOLUME_LIMIT: (NO_FACTS, (EVICTION,)),
    Code.DISK_TAKEN: (NO_FACTS, (EVICTION,)),
    Code.DEVICES_ELSEWHERE: (NO_FACTS, (CHANGE,)),
    Code.DEVICES_MISSING: (NO_FACTS, (CHANGE,)),
    Code.GPU_MEMORY: (NO_FACTS, (EVICTION,)),
    Code.GPU_MEMORY_NEVER: (NO_FACTS, (CHANGE,)),
    Code.GPU_NUMBER: (NO_FACTS, (EVICTION,)),
    Code.GPU_NUMBER_NEVER: (NO_FACTS, (CHANGE,)),
    Code.GPU_SLICES: (NO_FACTS, (EVICTION,)),
    Code.GPU_SLICES_NEVER: (NO_FACTS, (CHANGE,)),
    Code.NUMA_UNKNOWN: (NO_FACTS, (CHANGE,)),
    Code.NUMA_NOT_STATIC: (NO_FACTS, (CHANGE,)),
    Code.NUMA_POLICY: (Facts(names=("restricted", "best-effort")), (CHANGE,)),
    Code.NUMA_NO_CPUS: (NO_FACTS, (CHANGE,)),
    Code.NUMA_CONTAINER: (Facts(name="trainer"), (EVICTION, CHANGE)),
    Code.ZONE_CLOSED: (Facts(zone="night", window="20:00-06:00"), (WAITING,)),
    Code.ZONE_UNKNOWN: (Facts(zone="night"), (CHANGE,)),
    Code.ZONE_REVOCABLE: (NO_FACTS, (CHANGE,)),
    Code.NODE_GROUP_LABEL: (NO_FACTS, (CHANGE,)),
    Code.NODE_GROUP_UNSPECIFIED: (NO_FACTS, (CHANGE,)),
    Code.NODE_GROUP_AFFINITY: (NO_FACTS, (CHANGE,)),
    Code.NODE_GROUP_LIMITS_INVALID: (NO_FACTS, (CHANGE,)),
    Code.NODE_GROUP_LIMIT: (NO_FACTS, (WAITING,)),
    Code.CPU_LOAD: (NO_FACTS, (WAITING,)),
    Code.MEMORY_LOAD: (NO_FACTS, (WAITING,)),
    Code.PROPORTION: (Facts(resource=GPU), (WAITING,)),
    Code.EXTENDER: (Facts(text="no licence left"), (EVICTION, CHANGE)),
    Code.EXTENDER_FAILED: (Facts(text="connection refused"), (WAITING,)),
    Code.EXTENDER_NOT_ADMITTED: (NO_FACTS, (WAITING,)),
    Code.VICTIM_BREAKS_GANG: (Facts(gang="team/large", free=3, wanted=4), ()),
    Code.VICTIM_SPARED_BY_GANG: (Facts(gang="team/large", free=5, wanted=4), ()),
    Code.SURPLUS_AHEAD: (Facts(free=4, names=("team/elastic",), until="2026-01-01T09:30:00Z"), (WAITING,)),
    Code.HOLDS_WHILE_WAITING: (
        Facts(
            amounts=(Amount("nvidia.com/gpu", held="4"),),
            free=4,
            wanted=8,
            names=("team/small",),
            until="2026-01-01T12:05:00Z",
        ),
        (WAITING,),
    ),
    Code.QUOTA_HELD: (
        Facts(
            queue="research",
            amounts=(Amount("nvidia.com/gpu", held="8"),),
            names=("team/small",),
            until="2026-01-01T12:05:00Z",
        ),
        (WAITING,),
    ),
    Code.QUOTA_GIVEN_BACK: (Facts(names=("team/small",), seconds=300, until="2026-01-01T12:10:00Z"), (WAITING,)),
    Code.VICTIM_OF_DEADLOCK: (Facts(gang="team/large", free=4, wanted=8, names=("team/small",), seconds=300), ()),
    Code.RELEASED_INCOMPLETE: (Facts(gang="team/large", free=6, wanted=8, seconds=60), ()),
    Code.RELEASED_NODE_FULL: (Facts(gang="team/large"), ()),
    Code.RELEASED_NODE_GONE: (Facts(gang="team/large"), ()),
}


def reference() -> str:
    shown = as_data(Reason(Code.INSUFFICIENT, "resources", Facts(resource=GPU), 3, EVICTION))
    head = (
        "# Reasons\n\n"
        "Why a gang or a pod waits is data: a code, the plugin that says so, a few facts, the number of nodes that are out because of "
        "it (0: it concerns the whole gang), and what could change it. `pumice schedule -o json`, `pumice explain -o json`, the "
        "scheduler's `/explain` and the annotation `pumice.dev/verdict` of a PodGroup have it in one form:\n\n"
        f"```json\n{msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()}\n```\n\n"
        "Programs match on `code` and `facts`; `reason` is the sentence made of them, which people read in conditions and events. Codes "
        "and names of facts stay; sentences may become better, but those that are Volcano's stay as Volcano has them. A later version "
        "may have further codes and facts.\n\n"
        "Codes without a cure say why a pod has to go: a victim (`/v1/state` has its code, facts, rule and claimant), or a member that is "
        "released. They stand in the condition DisruptionTarget of the pod and in its events.\n\n"
        "The annotation also has the gang's `phase`, its `members` by status, the `pending` ones by the word of their condition, and `at`, "
        "the time of its numbers: it is written again when a reason changes, not when only a number does.\n"
        "\n## Facts\n\nA fact that a reason does not have is left out.\n\n| fact | meaning |\n| --- | --- |\n"
    )
    parts = [head]
    hints = typing.get_type_hints(Facts, include_extras=True)
    for field in msgspec.structs.fields(Facts):
        meaning = next(each.description for each in hints[field.name].__metadata__ if isinstance(each, msgspec.Meta))
        parts.append(f"| `{field.encode_name}` | {meaning} |\n")
    parts.append(
        "\n## Codes\n\n| code | meaning | facts | cure | sentence, for example |\n| --- | --- | --- | --- | --- |\n"
    )
    for code in Code:
        facts, cures = EXAMPLES[code]
        used = ", ".join(f"`{name}`" for name in msgspec.to_builtins(facts))
        said = ", ".join(cure.value for cure in cures)
        parts.append(f"| `{code.value}` | {code.meaning} | {used} | {said} | {code.text(facts)} |\n")
    return "".join(parts)
