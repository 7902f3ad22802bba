"""The words of `pumice why-evicted`."""

from pumice import instant
from pumice.cli import why_evicted
from pumice.readmodel.model import Eviction
from pumice.scheduling.core.codes import Code, Facts

NOW = instant.parse_instant("2026-01-01T01:00:00Z")
UID = "e3ff9b4e-9206-4d5d-ad2b-d41a2b08b7ca"


def a_victim(number, left):
    facts = Facts(gang=f"team/low-{UID}", free=left, wanted=2)
    code = Code.VICTIM_SPARED_BY_GANG
    return Eviction(
        cycle=1, at="2026-01-01T00:59:00Z", pod=f"team/low-{number}", node="n1", gang=f"team/low-{UID}", action="preempt",
        claimant=f"team/high-{UID}", code=code.value, facts=facts, why=code.text(facts),
    )  # fmt: skip


def test_of_many_victims_of_one_gang_it_is_said_once_what_is_left_of_it_by_the_names_of_jobs():
    said = why_evicted.text([a_victim(1, 6), a_victim(2, 4), a_victim(3, 5)], NOW, "low").splitlines()
    assert said[0] == "60s ago: low-1, low-2, low-3 by preempt"
    assert said[1] == "  gang team/low keeps its minimum of 2: 4 stay"
    assert not any("keeps its minimum" in line for line in said[2:])
