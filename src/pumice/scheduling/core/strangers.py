"""Gangs that a reader may not see: facts and their sentences without such names. What of others matters is told by queue and priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.scheduling.core.codes import A_GANG_OF_OTHERS, NAMES_ARE_GANGS, Code, Facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.api.disruptions import Party

    Sees = Callable[[str], bool]  # whether the gang of this key may be seen

OTHERS = "others"  # whoever may not be named


def hidden(code: str, facts: Facts, sees: Sees) -> frozenset[str]:
    """Gangs that the facts name and the reader may not see."""
    if not (facts.gang or facts.holders or facts.names):
        return frozenset()
    named = (facts.gang, *facts.holders, *(facts.names if code in NAMES_ARE_GANGS else ()))
    return frozenset(each for each in named if each and each != A_GANG_OF_OTHERS and not sees(each))


def without(code: str, facts: Facts, sees: Sees) -> Facts:
    """The facts with nobody named who may not be seen."""
    strangers = hidden(code, facts, sees)
    if not strangers:
        return facts
    names = [OTHERS if each in strangers else each for each in facts.names]
    return msgspec.structs.replace(
        facts,
        gang=A_GANG_OF_OTHERS if facts.gang in strangers else facts.gang,
        name="of others" if code == Code.DISRUPTION_BUDGET.value and facts.gang in strangers else facts.name,
        holders=tuple(each for each in facts.holders if each not in strangers),
        names=tuple(dict.fromkeys(names)),
    )


def anonymous(party: Party, sees: Sees) -> Party:
    """A party to an eviction by its uid, queue, priority and shares alone, where its gang may not be seen."""
    return party if not party.gang or sees(party.gang) else msgspec.structs.replace(party, gang="", job="", user="")
