"""A scheduler that a reader can check by eye: one pod after another, one node after another, plain dictionaries and integers.

It reads manifests as Kubernetes writes them and follows kube-scheduler's documented rules literally. The engine has to agree
with it to the pod, however it gets there.
"""

import math

CPU_DEFAULT_MILLI, MEMORY_DEFAULT = 100, 200 * 2**20
MEGABYTE = 1024 * 1024
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CHANGE, EVICTION = "change", "eviction"


class Resident:
    """A pod on a node: there, leaving (since before the cycle), evicted (by us), placed, or promised."""

    def __init__(self, pod, node, state):
        self.pod, self.node, self.state = pod, node, state


class World:
    """Nodes in order, who is on them, and the labels of namespaces."""

    def __init__(self, nodes, residents, namespaces, services, storage):
        self.nodes = nodes
        self.residents = residents
        self.namespaces = namespaces
        self.services = services
        self.storage = storage

    def on(self, node, *states):
        return [each for each in self.residents if each.node is node and (not states or each.state in states)]

    def viewed(self, node):
        """As kube-scheduler sees the node: promised pods are there, evicted ones gone."""
        return [each.pod for each in self.on(node, "there", "leaving", "placed", "promised")]

    def living(self, node):
        return [each.pod for each in self.on(node, "there", "placed", "promised")]

    def capacity(self, node, name):
        return node["status"]["allocatable"].get(name, 0)

    def idle(self, node, name):
        taken = self.on(node, "there", "leaving", "evicted", "placed")
        return self.capacity(node, name) - sum(request(each.pod).get(name, 0) for each in taken)

    def future(self, node, name):
        taken = self.on(node, "there", "placed", "promised")
        return self.capacity(node, name) - sum(request(each.pod).get(name, 0) for each in taken)


# ------------------------------------------------------------------------------------------------- pods


def request(pod):
    """Cpu in thousandths, the rest as counted."""
    return {**pod["spec"]["containers"][0]["resources"]["requests"], "pods": 1}


def scored(pod):
    """What a score assumes of a container that says nothing."""
    asked = request(pod)
    return {"cpu": asked.get("cpu", CPU_DEFAULT_MILLI), "memory": asked.get("memory", MEMORY_DEFAULT)}


def labels(thing):
    return thing["metadata"].get("labels", {})


def matches(selector, own):
    if selector is None:
        return False
    if any(own.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(meets(each, own) for each in selector.get("matchExpressions", []))


def meets(requirement, own):
    value, values = own.get(requirement["key"]), requirement.get("values", [])
    return {
        "In": lambda: value in values,
        "NotIn": lambda: value not in values,
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
        "Gt": lambda: value is not None and value.isdigit() and int(value) > int(values[0]),
        "Lt": lambda: value is not None and value.isdigit() and int(value) < int(values[0]),
    }[requirement["operator"]]()


def node_term_matches(term, node):
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    return all(meets(each, labels(node)) for each in expressions) and all(
        (node["metadata"]["name"] in each["values"]) is (each["operator"] == "In") for each in fields
    )


def affinity(pod, kind, strength):
    return pod["spec"].get("affinity", {}).get(kind, {}).get(f"{strength}DuringSchedulingIgnoredDuringExecution")


def selected(pod, node):
    """Whether nodeSelector and required node affinity allow the node."""
    if any(labels(node).get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    required = affinity(pod, "nodeAffinity", "required")
    return required is None or any(node_term_matches(term, node) for term in required["nodeSelectorTerms"])


def tolerated(pod, taint):
    for each in pod["spec"].get("tolerations", []):
        same_key = not each.get("key") or each["key"] == taint["key"]
        same_effect = not each.get("effect") or each["effect"] == taint["effect"]
        same_value = each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", "")
        if same_key and same_effect and same_value:
            return True
    return False


def untolerated(pod, node, *effects):
    return [
        taint for taint in node["spec"].get("taints", []) if taint["effect"] in effects and not tolerated(pod, taint)
    ]


def host_ports(pod):
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for port in pod["spec"]["containers"][0].get("ports", [])
        if port.get("hostPort")
    ]


def means(world, holder, term, pod):
    """Whether the term of `holder` means `pod`."""
    namespace = pod["metadata"]["namespace"]
    names, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not names and selector is None:
        names = [holder["metadata"]["namespace"]]
    if namespace not in names and not matches(selector, world.namespaces.get(namespace, {})):
        return False
    return matches(narrowed(term, holder), labels(pod))


def narrowed(term, holder):
    """The selector with matchLabelKeys and mismatchLabelKeys written out."""
    selector, own = term.get("labelSelector"), labels(holder)
    if selector is None:
        return None
    more = [{"key": k, "operator": "In", "values": [own[k]]} for k in term.get("matchLabelKeys", []) if k in own]
    more += [{"key": k, "operator": "NotIn", "values": [own[k]]} for k in term.get("mismatchLabelKeys", []) if k in own]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *more]}


# ------------------------------------------------------------------------------------------------- filters


def refusals(world, pod, node):
    """Why the node cannot take the pod: (reason, cure) in order; nothing is looked at after a reason that only change cures."""
    found = []
    for test in (cordoned, unselected, tainted, unreachable, full, ports_taken, company, uneven, in_use, unbindable):
        for reason, cure in test(world, pod, node):
            found.append((reason, cure))
            if cure == CHANGE:
                return found
    return found


def cordoned(world, pod, node):
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerated(pod, taint):
        yield "node(s) were unschedulable", CHANGE


def unselected(world, pod, node):
    if not selected(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector", CHANGE


def tainted(world, pod, node):
    if untolerated(pod, node, "NoSchedule", "NoExecute"):
        yield "node(s) had untolerated taint(s)", CHANGE


def full(world, pod, node):
    if len(world.viewed(node)) >= world.capacity(node, "pods"):
        yield "node(s) pod number exceeded", EVICTION


def ports_taken(world, pod, node):
    for address, protocol, number in host_ports(pod):
        for other in world.viewed(node):
            for taken_address, taken_protocol, taken in host_ports(other):
                shared = address == taken_address or "0.0.0.0" in (address, taken_address)
                if shared and (protocol, number) == (taken_protocol, taken):
                    yield "node(s) didn't have free ports for the requested pod ports", EVICTION
                    return


def company(world, pod, node):
    """Affinity first, then anti-affinity, then what others hold against the pod; the first of them is the reason."""
    wanted = affinity(pod, "podAffinity", "required") or []
    if wanted and not has_company(world, pod, node, wanted):
        yield "node(s) didn't match pod affinity rules", CHANGE
        return
    for term in affinity(pod, "podAntiAffinity", "required") or []:
        if any(means(world, pod, term, other) for other in near(world, node, term["topologyKey"])):
            yield "node(s) didn't match pod anti-affinity rules", EVICTION
            return
    for host in world.nodes:
        for other in world.viewed(host):
            for term in affinity(other, "podAntiAffinity", "required") or []:
                key = term["topologyKey"]
                close = key in labels(host) and labels(host)[key] == labels(node).get(key)
                if close and means(world, other, term, pod):
                    yield "node(s) didn't satisfy existing pods anti-affinity rules", EVICTION
                    return


def near(world, node, key):
    """The pods on all nodes that have the same value of the label."""
    if key not in labels(node):
        return []
    hosts = [host for host in world.nodes if labels(host).get(key) == labels(node)[key]]
    return [pod for host in hosts for pod in world.viewed(host)]


def has_company(world, pod, node, wanted):
    def fits_all(other):
        return all(means(world, pod, term, other) for term in wanted)

    if any(term["topologyKey"] not in labels(node) for term in wanted):
        return False
    if all(any(fits_all(other) for other in near(world, node, term["topologyKey"])) for term in wanted):
        return True
    exists = any(
        term["topologyKey"] in labels(host) and fits_all(other)
        for host in world.nodes for other in world.viewed(host) for term in wanted
    )  # fmt: skip
    return not exists and fits_all(pod)


def spreads(pod, when):
    return [each for each in pod["spec"].get("topologySpreadConstraints", []) if each["whenUnsatisfiable"] == when]


def counted(pods, pod, selector):
    """How many of the pods the selector means; an empty one means nobody here."""
    if selector is None or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return 0
    return sum(
        other["metadata"]["namespace"] == pod["metadata"]["namespace"] and matches(selector, labels(other))
        for other in pods
    )


def makes_domain(pod, node, spread):
    if spread.get("nodeAffinityPolicy", "Honor") == "Honor" and not selected(pod, node):
        return False
    return spread.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not untolerated(pod, node, "NoSchedule", "NoExecute")


def uneven(world, pod, node):
    rules = spreads(pod, "DoNotSchedule")
    keys = [rule["topologyKey"] for rule in rules]
    for rule in rules:
        key, selector = rule["topologyKey"], narrowed(rule, pod)
        if key not in labels(node):
            yield "node(s) didn't match pod topology spread constraints (missing required label)", CHANGE
            return
        domains = {}
        for host in world.nodes:
            if all(each in labels(host) for each in keys) and makes_domain(pod, host, rule):
                value = labels(host)[key]
                domains[value] = domains.get(value, 0) + counted(world.living(host), pod, selector)
        emptiest = min(domains.values(), default=2**31 - 1)
        if len(domains) < rule.get("minDomains", 1):
            emptiest = 0
        own = matches(selector, labels(pod))
        if domains.get(labels(node)[key], 0) + own - emptiest > rule["maxSkew"]:
            yield "node(s) didn't match pod topology spread constraints", EVICTION
            return


# ------------------------------------------------------------------------------------------------- volumes


class Storage:
    """Claims, volumes and classes, and what was decided about claims since: a volume, or a node near which one is made."""

    def __init__(self, claims, volumes, classes):
        self.claims = {each["metadata"]["name"]: each for each in claims}
        self.volumes = {each["metadata"]["name"]: each for each in volumes}
        self.classes = {each["metadata"]["name"]: each for each in classes}
        self.decided = {}

    def of(self, pod):
        names = [each["persistentVolumeClaim"]["claimName"] for each in pod["spec"].get("volumes", [])]
        claims = [self.claims[name] for name in names]
        return sorted(claims, key=lambda claim: (size(claim), claim["metadata"]["name"]))


def size(claim):
    return claim["spec"]["resources"]["requests"]["storage"]


def reaches(volume, node):
    affinity_ = volume["spec"].get("nodeAffinity")
    return affinity_ is None or any(
        node_term_matches(term, node) for term in affinity_["required"]["nodeSelectorTerms"]
    )


def unreachable(world, pod, node):
    for claim in world.storage.of(pod):
        bound = claim["spec"].get("volumeName")
        if bound and not reaches(world.storage.volumes[bound], node):
            yield "node(s) didn't match PersistentVolume's node affinity", CHANGE


def in_use(world, pod, node):
    on_nodes = [other for host in world.nodes for other in world.viewed(host)]
    for claim in world.storage.of(pod):
        exclusive = "ReadWriteOncePod" in claim["spec"]["accessModes"]
        if exclusive and any(claim in world.storage.of(other) for other in on_nodes):
            yield (
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
                EVICTION,
            )
            return


def unbindable(world, pod, node):
    _, problem = bindings(world, pod, node)
    if problem:
        yield problem, CHANGE


def bindings(world, pod, node):
    """What becomes of the pod's open claims on that node, smallest first; or what is in the way."""
    storage, found = world.storage, {}
    for claim in storage.of(pod):
        name, kind = claim["metadata"]["name"], storage.classes[claim["spec"]["storageClassName"]]
        if claim["spec"].get("volumeName"):
            continue
        if name in storage.decided:
            volume, chosen = storage.decided[name]
            if volume and not reaches(storage.volumes[volume], node):
                return None, "node(s) didn't match PersistentVolume's node affinity"
            if volume or chosen is node:
                continue
            return None, "node(s) didn't find available persistent volumes to bind"
        taken = {volume for volume, _ in (*storage.decided.values(), *found.values())}
        fitting = [
            volume
            for volume in storage.volumes.values()
            if volume["status"]["phase"] == "Available"
            and volume["metadata"]["name"] not in taken
            and volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
            and volume["spec"]["capacity"]["storage"] >= size(claim)
            and reaches(volume, node)
        ]
        smallest = min(fitting, key=lambda v: (v["spec"]["capacity"]["storage"], v["metadata"]["name"]), default=None)
        if smallest is not None:
            found[name] = (smallest["metadata"]["name"], node)
        elif kind["provisioner"] != "kubernetes.io/no-provisioner" and near_class(kind, node):
            found[name] = ("", node)
        else:
            return None, "node(s) didn't find available persistent volumes to bind"
    return found, ""


def near_class(kind, node):
    zones = [
        value
        for term in kind["allowedTopologies"]
        for each in term["matchLabelExpressions"]
        for value in each["values"]
    ]
    return not zones or labels(node).get(ZONE) in zones


# ------------------------------------------------------------------------------------------------- scores


def total_scores(world, pod, candidates, weights, *, promising):
    """The weighted sum per candidate. Floats are added in the engine's order, because the last bit depends on it."""
    nothing = [0] * len(candidates)

    def weighed(name, score):
        own = score(world, pod, candidates) if weights.get(name) else None
        return nothing if own is None else [weights[name] * each for each in own]

    fixed = [weighed("nodeaffinity", preferred), weighed("tainttoleration", disliked), weighed("imagelocality", images)]
    neighbours = [weighed("podaffinity", welcome), weighed("podtopologyspread", evenness)]
    load = [weighed("leastrequested", least), weighed("mostrequested", most), weighed("balancedresource", balanced)]
    packed = [packing(world, pod, node, weights, promising=promising) for node in candidates]
    return [
        sum(column[i] for column in (*fixed, *neighbours)) + (sum(column[i] for column in load) + packed[i])
        for i in range(len(candidates))
    ]


def preferred(world, pod, candidates):
    terms = affinity(pod, "nodeAffinity", "preferred") or []
    sums = [sum(t["weight"] for t in terms if node_term_matches(t["preference"], node)) for node in candidates]
    return [100 * each // max(sums) if max(sums) else 0 for each in sums]


def disliked(world, pod, candidates):
    counts = [len(untolerated(pod, node, "PreferNoSchedule")) for node in candidates]
    # 100 for everybody is left out: it decides nothing, and would swallow the last bit of binpack's fractions.
    return [100 - 100 * each // max(counts) for each in counts] if max(counts) else None


def images(world, pod, candidates):
    wanted = [container["image"] for container in pod["spec"]["containers"] if container.get("image")]
    scores = []
    for node in candidates:
        held = 0
        for name in wanted:
            tagged = name if ":" in name else f"{name}:latest"
            holders = [
                host for host in world.nodes if any(tagged in i["names"] for i in host["status"].get("images", []))
            ]
            if node in holders:
                size = next(i["sizeBytes"] for i in holders[0]["status"]["images"] if tagged in i["names"])
                held += int(size * (len(holders) / len(world.nodes)))
        low, high = 23 * MEGABYTE, 1000 * MEGABYTE * len(pod["spec"]["containers"])
        scores.append(100 * (min(max(held, low), high) - low) // (high - low))
    return scores


def least(world, pod, candidates):
    return [
        _requested(world, pod, node, lambda cap, used: (cap - used) * 100 // cap if used <= cap else 0)
        for node in candidates
    ]


def most(world, pod, candidates):
    return [_requested(world, pod, node, lambda cap, used: min(used, cap) * 100 // cap) for node in candidates]


def _requested(world, pod, node, score):
    scores = []
    for name in ("cpu", "memory"):
        capacity = world.capacity(node, name)
        if capacity:
            used = sum(scored(other)[name] for other in [*world.viewed(node), pod])
            scores.append(score(capacity, used))
    return sum(scores) // len(scores) if scores else 0


def balanced(world, pod, candidates):
    names = ["cpu", "memory"] + (["nvidia.com/gpu"] if request(pod).get("nvidia.com/gpu") else [])
    if not any(request(pod).get(name) for name in names):
        return None
    scores = []
    for node in candidates:
        counted_names = [name for name in names if world.capacity(node, name)]
        before, after = (
            _evenness([sum(request(p).get(n, 0) for p in pods) / world.capacity(node, n) for n in counted_names])
            for pods in (world.viewed(node), [*world.viewed(node), pod])
        )
        scores.append(50 + (50 + after - before) // 2)
    return scores


def _evenness(shares):
    shares = [min(share, 1.0) for share in shares]
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)


def welcome(world, pod, candidates):
    raw = []
    for node in candidates:
        score = 0
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for each in affinity(pod, kind, "preferred") or []:
                term = each["podAffinityTerm"]
                others = near(world, node, term["topologyKey"])
                score += sign * each["weight"] * sum(means(world, pod, term, other) for other in others)
            for host in world.nodes:
                for other in world.viewed(host):
                    for each in affinity(other, kind, "preferred") or []:
                        term = each["podAffinityTerm"]
                        key = term["topologyKey"]
                        if key in labels(host) and labels(host)[key] == labels(node).get(key):
                            score += sign * each["weight"] * means(world, other, term, pod)
        raw.append(score)
    low, high = min(raw), max(raw)
    return [int(100 * ((each - low) / (high - low))) if high > low else 0 for each in raw]


def evenness(world, pod, candidates):
    needs_all = bool(pod["spec"].get("topologySpreadConstraints"))
    wishes = [(rule, narrowed(rule, pod)) for rule in spreads(pod, "ScheduleAnyway")]
    if not needs_all:
        chosen = [
            service["spec"]["selector"]
            for service in world.services
            if service["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and matches({"matchLabels": service["spec"]["selector"]}, labels(pod))
        ]
        if chosen:
            together = {"matchLabels": {key: value for each in chosen for key, value in each.items()}}
            defaults = ({"topologyKey": HOSTNAME, "maxSkew": 3}, {"topologyKey": ZONE, "maxSkew": 5})
            wishes = [(rule, together) for rule in defaults]
    if not wishes:
        return None
    keys = [rule["topologyKey"] for rule, _ in wishes]
    scored_nodes = [n for n in candidates if not needs_all or all(key in labels(n) for key in keys)]
    raw = {}
    for node in scored_nodes:
        score = 0.0
        for rule, selector in wishes:
            key = rule["topologyKey"]
            if key not in labels(node):
                continue
            if key == HOSTNAME:
                size, alike = len(scored_nodes), counted(world.living(node), pod, selector)
            else:
                size = len({labels(each).get(key) for each in scored_nodes})
                alike = sum(
                    counted(world.living(host), pod, selector)
                    for host in world.nodes
                    if labels(host).get(key) == labels(node)[key]
                    and (not needs_all or all(each in labels(host) for each in keys))
                    and makes_domain(pod, host, rule)
                )
            score += alike * math.log(size + 2) + (rule["maxSkew"] - 1)
        raw[node["metadata"]["name"]] = math.floor(score + 0.5)
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    scores = []
    for node in candidates:
        own = raw.get(node["metadata"]["name"])
        scores.append(0 if own is None else 100 if high == 0 else 100 * (high + low - own) // high)
    return scores


def packing(world, pod, node, weights, *, promising):
    """binpack: the mean share of what would be in use; promised pods use nothing yet."""
    if not weights.get("binpack"):
        return 0.0
    total, divisor = 0.0, 0
    for name in ("cpu", "memory"):
        asked, capacity = request(pod).get(name, 0), world.capacity(node, name)
        if asked:
            divisor += 1
            after = capacity - world.idle(node, name) + asked
            if capacity:
                if after > capacity:
                    return 0.0
                total += after / capacity
    return total / divisor * (100.0 * weights["binpack"]) if divisor else 0.0


# ------------------------------------------------------------------------------------------------- placing


def place(world, pod, weights):
    """The node for the pod and whether it is only promised, or None; the world then has the pod on it."""
    feasible = [node for node in world.nodes if fits(world.future, pod, node) and not refusals(world, pod, node)]
    idle = [node for node in feasible if fits(world.idle, pod, node)]
    candidates = idle or feasible
    if not candidates:
        return None
    scores = total_scores(world, pod, candidates, weights, promising=not idle)
    best = candidates[scores.index(max(scores))]
    world.storage.decided |= bindings(world, pod, best)[0]
    world.residents.append(Resident(pod, best, "placed" if idle else "promised"))
    return best["metadata"]["name"], not idle


def fits(free, pod, node):
    return all(free(node, name) >= asked for name, asked in request(pod).items() if asked)


def why_not(world, pod):
    """Reasons with the number of nodes that each costs: the first resource that is short, else what filters say."""
    reasons = {}
    order = ["cpu", "memory", "nvidia.com/gpu", "pods"]
    for node in world.nodes:
        short = [n for n in order if request(pod).get(n) and world.future(node, n) < request(pod)[n]]
        own = [f"Insufficient {short[0]}"] if short else [reason for reason, _ in refusals(world, pod, node)]
        for reason in own:
            reasons[reason] = reasons.get(reason, 0) + 1
    return reasons
