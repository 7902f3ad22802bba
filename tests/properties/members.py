"""Members are placed, as many per operation as a property wants."""

from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement


def place_members(session, statement, gang, most):
    """Nodes of the gang's waiting members in their order, at most so many per operation, until one finds no room."""
    found, members = [], session.in_placement_order(gang.tasks_in(Status.PENDING))
    while members:
        shape = session.shape(members[0])
        chosen = session.placer.fill(shape, min(most, len(members)), None, members[0])
        if not chosen.nodes:
            break
        batch, members = members[: len(chosen.nodes)], members[len(chosen.nodes) :]
        statement.place(Placement(gang, shape, batch, chosen.nodes, Status.ALLOCATED))
        found += chosen.nodes
    return found
