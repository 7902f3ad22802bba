"""Recorded decisions of Volcano that come out differently, with the section of docs/differences.md that says why."""

FEWER_VICTIMS = "fewer-victims"
FILTERS = "filters-that-are-asked-again"
BUDGETS = "budgets-that-are-kept"
TIES = "ties"
REFUSED = "policies-that-are-refused"
WHOLE_PLANS = "plans-that-are-carried-to-their-end"

DIFFERENCES = {
    "drf-1240b2": REFUSED,
    "drf-bb798f": REFUSED,
    "random-capacity-1-1048": FEWER_VICTIMS,
    "random-drf-1-376": FEWER_VICTIMS,
    "random-drf-1-785": TIES,
    "random-preempt-1-031": FEWER_VICTIMS,
    "random-preempt-1-1480": FEWER_VICTIMS,
    "random-preempt-1-161": FEWER_VICTIMS,
    "rand2-affinity-7-0092": FILTERS,
    "rand2-affinity-7-0260": FILTERS,
    "rand2-gangpreempt-7-0099": FEWER_VICTIMS,
    "rand2-gangpreempt-7-0267": FEWER_VICTIMS,
    "rand2-gangpreempt-7-0379": FEWER_VICTIMS,
    "rand2-gangpreempt-7-0491": FEWER_VICTIMS,
    "rand2-gangpreempt-7-0603": FEWER_VICTIMS,
    "rand2-gangreclaim-7-0044": FEWER_VICTIMS,
    "rand2-gangreclaim-7-0436": FEWER_VICTIMS,
    "rand2-gangreclaim-7-0492": FEWER_VICTIMS,
    "rand2-hierfree-7-0337": WHOLE_PLANS,
    "rand2-mix-7-0559": FILTERS,
    "rand2-subgroup-7-0566": FEWER_VICTIMS,
    "rand2-tdm-7-0375": BUDGETS,
}
