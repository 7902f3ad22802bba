"""What `pumice queue create` and `set` write, looked over before the server is asked: not every cluster has our admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice import quantity
from pumice.api import validation
from pumice.api.decoding import UNREADABLE
from pumice.api.scheduling import ROOT_QUEUE, Queue
from pumice.cli.leader import Leader, Unanswered
from pumice.errors import BadInput, NotFound, Refused
from pumice.readmodel.model import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.kube.client import Client
    from pumice.readmodel.model import Policy

_EXAMPLE = "such as cpu=8 or nvidia.com/gpu=4"
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")  # what nodes have without a domain in its name
_PLAIN_PREFIXES = ("hugepages-", "attachable-volumes-")
_READERS = {  # plugins that read a field of a queue
    "weight": ("proportion", "fairshare"),
    "guarantee": ("proportion", "capacity"),
    "deserved": ("capacity",),
    "capability": ("proportion", "capacity"),
}


def spec(
    *,
    weight: int | None,
    reclaimable: bool | None,
    parent: str | None,
    guarantee: str | None,
    deserved: str | None,
    capability: str | None,
    removing: bool = False,
) -> Json:
    """The fields of a Queue's spec that were named; with `removing`, `NAME-` is null: a patch takes that resource out."""
    found: Json = {}
    if weight is not None:
        found["weight"] = weight
    if reclaimable is not None:
        found["reclaimable"] = reclaimable
    if parent:
        found["parent"] = parent
    for name, text in (("deserved", deserved), ("capability", capability)):
        if text is not None:
            found[name] = amounts(text, f"--{name}", removing=removing)
    if guarantee is not None:
        found["guarantee"] = {"resource": amounts(guarantee, "--guarantee", removing=removing)}
    return found


def amounts(text: str, flag: str, *, removing: bool = False) -> dict[str, str | None]:
    """`cpu=8,nvidia.com/gpu=4`, and with `removing` also `memory-`."""
    found: dict[str, str | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = part.partition("=")
        is_removed = not equals and name.endswith("-")
        if is_removed and removing:
            name = name[:-1]
        elif not equals:
            raise BadInput(f"{flag} {part!r}: expected NAME=AMOUNT, {_EXAMPLE}")
        if not name:
            raise BadInput(f"{flag} {part!r}: names no resource; expected NAME=AMOUNT, {_EXAMPLE}")
        if name in found:
            raise BadInput(f"{flag}: {name} is given twice; keep one of them")
        if not (is_removed or "/" in name or name in _PLAIN or name.startswith(_PLAIN_PREFIXES)):
            raise BadInput(f"{flag} {part!r}: no node can have a resource {name!r}; write {', '.join(_PLAIN)}, or the whole name of a card, such as nvidia.com/gpu")  # fmt: skip
        found[name] = None if is_removed else _amount(amount, f"{flag} {part!r}")
    if not found:
        raise BadInput(f"{flag} {text!r}: no amounts; expected NAME=AMOUNT, {_EXAMPLE}")
    return found


def _amount(text: str, where: str) -> str:
    try:
        if quantity.parse_milli(text) < 0:
            raise BadInput(f"{where}: below zero; expected an amount, {_EXAMPLE}")
    except quantity.QuantityError as error:
        raise BadInput(f"{where}: {error}") from error
    return text


def changed(obj: Json, change: Mapping[str, Any]) -> Json:
    """The object as it will be after the patch of its spec."""
    return {**obj, "spec": _merged(obj.get("spec") or {}, change)}


def _merged(old: Json, new: Mapping[str, Any]) -> Json:
    found = dict(old)
    for name, value in new.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            found[name] = _merged(found.get(name) or {}, value)
        else:
            found[name] = value
    return found


def without_effect(fields: Mapping[str, Any], policy: Policy) -> list[str]:
    """What is to be said of fields that are written and that no plugin of the policy reads."""
    found = []
    if fields.get("parent") not in (None, "", ROOT_QUEUE) and "capacity" not in policy.plugins:
        found.append(
            f"limits of {fields['parent']} do not hold for it under the policy in force ({policy.source}): only plugin capacity "
            "with enableHierarchy knows them; give it limits of its own, or give the scheduler such a policy"
        )
    for field, readers in _READERS.items():
        if not _says_something(field, fields.get(field)) or not set(readers).isdisjoint(policy.plugins):
            continue
        why, instead = f"no plugin {' or '.join(readers)}", ""
        if "proportion" in policy.plugins:
            why, instead = "plugin proportion shares by weight", "set the weight, or "
        elif "capacity" in policy.plugins:
            why, instead = "plugin capacity shares what is written as deserved", "set what it deserves, or "
        found.append(
            f"{field} has no effect under the policy in force ({policy.source}): {why}; {instead}"
            f"give the scheduler a policy with plugin {' or '.join(readers)}"
        )
    return found


def _says_something(field: str, value: Any) -> bool:
    if field == "weight":
        return value not in (None, 1)  # every queue has one
    amounts = (value or {}).get("resource") if field == "guarantee" else value
    return any(amount is not None for amount in (amounts or {}).values())


async def warn(access: ClusterAccess, name: str, fields: Mapping[str, Any]) -> None:
    """Say on standard error what has no effect, where the leading scheduler tells its policy."""
    if fields.keys().isdisjoint({*_READERS, "parent"}):
        return
    try:
        answer = await Leader(access).ask(("/v1/state", {"kind": "queues"}))
        policy = msgspec.json.decode(answer, type=State).policy
    except (*UNREADABLE, Unanswered):
        return  # what cannot be known is not said
    say_without_effect(name, fields, policy)


def say_without_effect(name: str, fields: Mapping[str, Any], policy: Policy) -> None:
    for line in without_effect(fields, policy):
        click.echo(f"pumice: queue {name}: {line}", err=True)


async def check(client: Client, new: Json, old: Json | None = None) -> None:
    """Raises where the amounts do not fit together, or the parent does not exist; the server has the last word."""
    operation = validation.Operation.CREATE if old is None else validation.Operation.UPDATE
    found = validation.review("Queue", validation.Request(operation, new=new, old=old))
    if found.errors:
        raise BadInput(f"queue {new['metadata']['name']}: {validation.message(found.errors)}")
    parent, name = new["spec"].get("parent", ""), new["metadata"]["name"]
    if parent == name:
        raise BadInput(f"--parent {parent}: a queue cannot be its own parent; name another one")
    if parent and parent != ((old or {}).get("spec") or {}).get("parent"):
        try:
            await client.get(Queue, parent)
        except NotFound as error:
            cause = (
                "no such queue; create it first, or correct the object: `pumice queue list` shows those that there are"
            )
            raise Refused(f'spec.parent: "{parent}": {cause}') from error
