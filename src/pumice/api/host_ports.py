"""Host ports: two pods on one node cannot have the same port of the same address, and no address means all of them."""

from typing import NamedTuple, Self

from pumice.api.pods import PodSpec

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  what Kubernetes writes for "all addresses"; nothing is bound here


class HostPort(NamedTuple):
    address: str
    protocol: str
    number: int

    def conflicts(self, other: Self) -> bool:
        """Whether both cannot be on one node."""
        if (self.protocol, self.number) != (other.protocol, other.number):
            return False
        return self.address == other.address or EVERY_ADDRESS in {self.address, other.address}


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports that the pod's containers and sidecars take of their node."""
    sidecars = [container for container in spec.init_containers if container.is_sidecar] if spec.init_containers else ()
    return tuple(
        HostPort(port.host_ip or EVERY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )
