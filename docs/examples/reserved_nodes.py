"""reserved-nodes: a node with the label `example.com/reserved-for: QUEUE` takes only gangs of that queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice import sdk

if TYPE_CHECKING:
    from collections.abc import Sequence


class Args(sdk.Args, frozen=True, kw_only=True):
    """Arguments as they stand in the policy file."""

    label: Annotated[str, msgspec.Meta(description="the label that names a node's queue")] = msgspec.field(
        name="reserved-nodes.label", default="example.com/reserved-for"
    )


class ReservedNodes(sdk.Plugin):
    """Refuses nodes that are reserved for another queue."""

    args_type = Args
    args: Args

    def open(self, session: sdk.Session) -> None:
        self.session = session
        # One pass over the nodes when the cycle opens; afterwards everything is a comparison of columns.
        nodes = session.room.table.objects
        self.owners = np.array([node.metadata.labels.get(self.args.label, "") for node in nodes], dtype=object)
        # The answer depends on the pod's gang, so pods of different gangs are different shapes.
        session.on.declare(sdk.Reads.GANG)
        session.on.filter(self.filter)

    def filter(self, shape: sdk.Shape) -> Sequence[sdk.Denial]:
        queue = self.session.gangs[shape.example.gang].queue
        refused = (self.owners != "") & (self.owners != queue)
        why = sdk.Facts(text="node(s) were reserved for another queue")
        return [sdk.Denial(sdk.Code.PLUGIN, "reserved-nodes", refused, sdk.Cure.CHANGE, why)]
