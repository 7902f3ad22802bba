from tests.unit.scheduling.clusters import a_gang, a_node, a_queue, evicted, plan_for, policy, session_for, started


def a_leaf_queue(name, hierarchy, weights="", **spec):
    notes = {"volcano.sh/hierarchy": hierarchy, "volcano.sh/hierarchy-weights": weights}
    return a_queue(name, annotations=notes, **spec)


def hdrf(actions="allocate"):
    """Drf alone decides between queues and on victims; priority makes those starve who lack anything."""
    return policy(actions, ["priority", {"name": "drf", "enableHierarchy": True}])


def test_queues_share_the_cluster_along_the_tree_and_not_by_their_number():
    """Science has half, the two queues of engineering share the other half, though each wants another resource."""
    decisions = plan_for(
        a_node(cpu="10", memory="10G"),
        a_leaf_queue("science", "root/sci", "100/50"),
        a_leaf_queue("dev", "root/eng/dev", "100/50/50", created=1),
        a_leaf_queue("prod", "root/eng/prod", "100/50/50", created=2),
        a_gang("s", 10, memory="1G", group={"queue": "science"}),
        a_gang("d", 10, group={"queue": "dev"}),
        a_gang("p", 10, cpu=None, memory="1G", group={"queue": "prod"}),
        policy=hdrf(),
    )
    assert started(decisions) == {"s": 5, "d": 5, "p": 5}


def test_what_a_saturated_branch_leaves_goes_to_those_who_can_use_it():
    """Three branches want cpu and two memory; cpu divides by three, memory by two, whatever the weights of the others."""
    decisions = plan_for(
        a_node(cpu="30", memory="30G", pods="500"),
        a_leaf_queue("q1", "root/pg1", "100/25"),
        a_leaf_queue("q2", "root/pg2", "100/25"),
        a_leaf_queue("q3", "root/pg3/pg31", "100/25/50"),
        a_leaf_queue("q4", "root/pg4", "100/25"),
        a_gang("pg1", 30, group={"queue": "q1"}),
        a_gang("pg2", 30, group={"queue": "q2"}),
        a_gang("pg31", 30, group={"queue": "q3"}),
        a_gang("pg32", 30, cpu=None, memory="1G", group={"queue": "q3"}),
        a_gang("pg4", 30, cpu=None, memory="1G", group={"queue": "q4"}),
        policy=hdrf(),
    )
    assert started(decisions) == {"pg1": 10, "pg2": 10, "pg31": 10, "pg32": 15, "pg4": 15}


def test_weights_tip_the_scale():
    decisions = plan_for(
        a_node(cpu="9"),
        a_leaf_queue("big", "root/big", "1/2"),
        a_leaf_queue("small", "root/small", "1/1"),
        a_gang("b", 9, group={"queue": "big"}),
        a_gang("s", 9, group={"queue": "small"}),
        policy=hdrf(),
    )
    assert started(decisions) == {"b": 6, "s": 3}


def test_a_branch_that_holds_less_takes_back_until_it_no_longer_does():
    decisions = plan_for(
        a_node(cpu="4"),
        a_leaf_queue("rich", "root/rich"),
        a_leaf_queue("poor", "root/poor"),
        a_gang("r", 6, running=["n1"] * 4, group={"queue": "rich", "phase": "Running"}),
        a_gang("p", 6, group={"queue": "poor"}),
        policy=hdrf("reclaim"),
    )
    # After one swap it stands 3 to 1, after two 2 to 2: the second claimant would no longer come first.
    assert evicted(decisions) == ["r-w-3"]


def test_the_claimants_new_member_and_each_victim_are_weighed_without_leaving_a_trace():
    session = session_for(
        a_node(cpu="4"),
        a_leaf_queue("rich", "root/rich"),
        a_leaf_queue("poor", "root/poor"),
        a_gang("r", 4, running=["n1"] * 3, group={"queue": "rich", "phase": "Running"}),
        a_gang("p", 4, group={"queue": "poor"}),
        policy=hdrf(),
    )
    (hook,) = session.points.reclaimable.hooks
    rich, poor = session.gangs["default/r"], session.gangs["default/p"]
    before = session.queue_compare(session.queues["rich"], session.queues["poor"])
    chosen = hook.call.choose(poor.tasks[0], [task for task in rich.tasks if task.node])
    assert len(chosen) == 3  # each is judged alone
    assert session.queue_compare(session.queues["rich"], session.queues["poor"]) == before


def test_without_the_flag_queues_are_none_of_drfs_business():
    session = session_for(a_node(), a_gang("g", 1), policy=policy("allocate", "drf"))
    assert not session.points.queue_order.hooks
    assert not session.points.reclaimable.hooks
