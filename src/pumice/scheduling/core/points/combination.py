"""How the answers of several plugins to one question become one: a class for each rule, and an object of it for each point.

Calling a point registers a hook; its other methods ask. Hooks are asked in the order of the policy file, tier by tier. A flag of
the policy file that is off drops that plugin's registrations for that point.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pumice.scheduling.core.verdict import Reason
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View

Call = TypeVar("Call")
Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


class Vote(enum.IntEnum):
    """An answer to a ballot; a Reason instead of one rejects, and says why."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class EvictionKind(enum.Enum):
    """Who asks for victims through the gang-wise actions."""

    PREEMPT = "gangpreempt"
    RECLAIM = "gangreclaim"
    CONSOLIDATE = "consolidate"  # the victims start again elsewhere


class Hook(Value, Generic[Call]):
    """One registration: who, in which tier, and what to call."""

    plugin: str
    tier: int
    call: Call


class Registrar:
    """Knows which plugin is being opened: what registers now belongs to it."""

    def __init__(self) -> None:
        self.option: PluginOption | None = None
        self.plugins: set[str] = set()  # those with a hook


class Registrations(Generic[Call]):
    """Who takes part in an extension point, in the order of asking."""

    def __init__(self, registrar: Registrar, flag: str = "") -> None:
        self._registrar = registrar
        self._flag = flag
        self.hooks: list[Hook[Call]] = []

    def _add(self, call: Call) -> None:
        option = self._registrar.option
        assert option is not None, "a hook was registered outside of a plugin's open()"
        if not self._flag or option.allows(self._flag):
            self._registrar.plugins.add(option.name)
            self.hooks.append(Hook(option.name, option.tier, call))


class Point(Registrations[Call]):
    """An extension point at which a plugin registers nothing but a call."""

    __call__ = Registrations._add  # noqa: SLF001  a call of its own would be one more for each hook


# ------------------------------------------------------------------------------------------------- one question, one answer


class First(Point[Callable[Asked, Answer | None]], Generic[Asked, Answer]):
    """The first plugin with an opinion decides; None, zero and an empty text are none."""

    def of(self, *asked: Asked.args, **named: Asked.kwargs) -> Answer | None:
        for hook in self.hooks:
            if answer := hook.call(*asked, **named):
                return answer
        return None


class Answers(Point[Callable[Asked, Answer | None]], Generic[Asked, Answer]):
    """Every answer counts, but for None."""

    def of(self, *asked: Asked.args, **named: Asked.kwargs) -> list[Answer]:
        return [answer for hook in self.hooks if (answer := hook.call(*asked, **named)) is not None]


class Gathered(Point[Callable[Asked, Sequence[Answer]]], Generic[Asked, Answer]):
    """What all plugins list, one after the other."""

    def of(self, *asked: Asked.args, **named: Asked.kwargs) -> tuple[Answer, ...]:
        return tuple(each for hook in self.hooks for each in hook.call(*asked, **named))


class Merged(Point[Callable[Asked, Mapping[str, str]]], Generic[Asked]):
    """What all plugins name; of one name the last plugin's."""

    def of(self, *asked: Asked.args, **named: Asked.kwargs) -> dict[str, str]:
        return {key: text for hook in self.hooks for key, text in hook.call(*asked, **named).items()}


class Unanimous(Point[Callable[Asked, bool]], Generic[Asked]):
    """All must agree; where there is no plugin, it holds."""

    def holds(self, *asked: Asked.args, **named: Asked.kwargs) -> bool:
        for hook in self.hooks:  # noqa: SIM110 - asked for every gang that waits: a generator takes twice as long
            if not hook.call(*asked, **named):
                return False
        return True


class AnyOf(Point[Callable[Asked, bool]], Generic[Asked]):
    """One suffices."""

    def holds(self, *asked: Asked.args, **named: Asked.kwargs) -> bool:
        return any(hook.call(*asked, **named) for hook in self.hooks)


class FirstTier(Point[Callable[[Subject], bool]], Generic[Subject]):
    """The first tier in which any plugin registered decides, and all of it must agree; without one it does not hold."""

    def holds(self, subject: Subject) -> bool:
        hooks = self.hooks
        for hook in hooks:
            if hook.tier != hooks[0].tier:
                break
            if not hook.call(subject):
                return False
        return bool(hooks)


class Keys(Point[Callable[[Subject], float]], Generic[Subject]):
    """Keys of an order, lower first; the first difference decides."""

    def of(self, subject: Subject) -> tuple[float, ...]:
        if len(self.hooks) == 1:  # asked about every member that waits
            return (self.hooks[0].call(subject),)
        return tuple([hook.call(subject) for hook in self.hooks])


class Ballot(Point[Callable[[Subject], Vote | Reason]], Generic[Subject]):
    """A rejection ends it within its tier; after a tier with a PERMIT lower tiers are not asked; no objection means yes."""

    def outcome(self, subject: Subject) -> Vote | Reason:
        """PERMIT, or the answer that rejects."""
        permitted_tier: int | None = None
        for hook in self.hooks:
            if permitted_tier is not None and hook.tier != permitted_tier:
                break
            answer = hook.call(subject)
            if is_rejection(answer):
                return answer
            if answer is Vote.PERMIT:
                permitted_tier = hook.tier
        return Vote.PERMIT

    def passes(self, subject: Subject) -> bool:
        return self.outcome(subject) is Vote.PERMIT

    def is_unopposed(self, subject: Subject) -> bool:
        """Whether no plugin of any tier rejects."""
        return not any(is_rejection(hook.call(subject)) for hook in self.hooks)


def is_rejection(answer: Vote | Reason) -> bool:
    return answer is Vote.REJECT or isinstance(answer, Reason)


class Notice(Point[Callable[Asked, None]], Generic[Asked]):
    """Every plugin is told."""

    def tell(self, *asked: Asked.args, **named: Asked.kwargs) -> None:
        for hook in self.hooks:
            hook.call(*asked, **named)


# ------------------------------------------------------------------------------------------------- readiness


class Readiness(Value, Generic[Subject]):
    test: Callable[[Subject], bool]
    until: Callable[[SubState, str], int | None] | None
    of_steady: bool


class Ready(Registrations[Readiness[Subject]], Generic[Subject]):
    """All must agree.

    `until`, beside the test, says how many more members of that role make it true, or None where no number of them can. It lets
    equal members be placed in one operation; a test without it is asked after every single one. `of_steady`: the test holds for every gang
    that runs and is whole (`Gang.is_steady`), so that those need not be asked about.
    """

    def __call__(
        self,
        test: Callable[[Subject], bool],
        until: Callable[[SubState, str], int | None] | None = None,
        *,
        of_steady: bool = False,
    ) -> None:
        self._add(Readiness(test, until, of_steady))

    @property
    def holds_of_steady(self) -> bool:
        return bool(self.hooks) and all(hook.call.of_steady for hook in self.hooks)

    def holds(self, subject: Subject) -> bool:
        for hook in self.hooks:  # noqa: SIM110 - asked for every member that is placed: a generator takes twice as long
            if not hook.call.test(subject):
                return False
        return True

    def until(self, sub: SubState, role: str, most: int) -> int:
        """How many equal members may be placed before the tests have to be asked again; at least one."""
        needed = 1
        for hook in self.hooks:
            if hook.call.until is None:
                return 1
            own = hook.call.until(sub, role)
            needed = most if own is None else max(needed, own)
        return min(needed, most)


# ------------------------------------------------------------------------------------------------- victims


class Victims(Registrations[Call]):
    """Tiers are fallbacks: the first one that leaves any victim decides alone. Within a tier lists are intersected.

    A shield takes its tasks off the candidates before any tier is asked, so that no fallback can choose what it protects.
    Volcano parity: a plugin that returns none ends its tier, but an intersection that comes out empty is forgotten, and the
    next plugin of that tier starts afresh. Not so with shields: what they protect is no candidate in any tier.
    """

    shield: Registrations[Call]
    """Leaves out candidates that must not be evicted, whichever tier decides; same call, same flag."""

    def _choose(
        self, candidates: Sequence[Task], ask: Callable[[Call, Sequence[Task]], Sequence[Task] | None]
    ) -> list[Task]:
        for hook in self.shield.hooks:
            candidates = ask(hook.call, candidates) or ()
        if not candidates:
            return []
        chosen: list[Task] | None = None
        tier, ended = None, False
        for hook in self.hooks:
            if hook.tier != tier:
                if chosen:
                    return chosen
                tier, chosen, ended = hook.tier, None, False
            if ended:
                continue
            own = ask(hook.call, candidates)
            if own is None:
                continue
            if not own:
                chosen, ended = None, True
            elif not chosen:
                chosen = list(own)
            else:
                kept = {task.uid for task in own}
                chosen = [task for task in chosen if task.uid in kept]
        return chosen or []


class Bound(Value):
    """A vote on the candidates of all nodes at once (see evicting/votes.py); none of them is of the claimant's own gang.

    `mask` has every candidate that the vote on one node would choose, whoever else is asked about; where it has any of those that are asked
    about, the vote chooses some (unless `doubtful`), and never abstains. It depends on the candidates, their gangs and the key alone; claimants
    with equal keys get equal votes. `exact`: the mask is the vote itself. `as_said_to` (claimant, other): the claimant is not asked about where an equal
    one was refused, and what was said to that one counts for it. `nobody` (claimant, queue): whether numbers alone say that the vote chooses none of the
    queue's pods, so that nobody need be asked about, nor be in columns.
    """

    key: Callable[[Task, VictimColumns], Hashable]
    mask: Callable[[Any, View], Mask]
    exact: bool = False
    doubtful: bool = False
    as_said_to: Callable[[str, str], None] | None = None
    nobody: Callable[[Task, str], bool] | None = None


TaskChoice = Callable[["Task", "Sequence[Task]"], "Sequence[Task] | None"]
GangChoice = Callable[["EvictionKind", "GangState", "Sequence[Task]"], "Sequence[Task] | None"]


class TaskVote(Value):
    """A plugin's vote on the candidates of one node, and, where it has one, its bound over those of all."""

    choose: TaskChoice
    bound: Bound | None


class TaskVotes(Registrations[TaskVote]):
    """Where votes on single victims are registered; one without a bound is heard on every node that could be opened, in turn."""

    def __call__(self, choose: TaskChoice, bound: Bound | None = None) -> None:
        self._add(TaskVote(choose, bound))


class TaskVictims(Victims[TaskVote], TaskVotes):
    """Victims for one task."""

    def __init__(self, registrar: Registrar, flag: str = "") -> None:
        super().__init__(registrar, flag)
        self.shield: TaskVotes = TaskVotes(registrar, flag)

    def of(self, claimant: Task, candidates: Sequence[Task]) -> list[Task]:
        return self._choose(candidates, lambda vote, tasks: vote.choose(claimant, tasks))


class GangVictims(Victims[GangChoice], Point[GangChoice]):
    """Victims for a gang as a whole."""

    def __init__(self, registrar: Registrar, flag: str = "") -> None:
        super().__init__(registrar, flag)
        self.shield: Point[GangChoice] = Point(registrar, flag)

    def of(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> list[Task]:
        return self._choose(candidates, lambda call, tasks: call(kind, claimant, tasks))


class ShuffleVictims(Point["Callable[[Sequence[Task]], Sequence[Task]]"]):
    """Within a tier all wishes are put together; the first tier that wishes for anything decides. Then guards have a say."""

    def __init__(self, registrar: Registrar, flag: str = "") -> None:
        super().__init__(registrar, flag)
        self.guard: Point[Callable[[Sequence[Task]], Sequence[Task]]] = Point(registrar, flag)
        """Once per shuffle action or broken deadlock, over those that others want evicted, in that order; what it leaves out stays."""

    def of(self, running: Sequence[Task]) -> list[Task]:
        chosen: dict[str, Task] = {}
        tier = None
        for hook in self.hooks:
            if hook.tier != tier and chosen:
                break
            tier = hook.tier
            chosen.update({task.uid: task for task in hook.call(running)})
        return self.allowed(list(chosen.values()))

    def allowed(self, victims: Sequence[Task]) -> list[Task]:
        """Those that no guard leaves out."""
        for hook in self.guard.hooks:
            victims = hook.call(victims)
        return list(victims)
