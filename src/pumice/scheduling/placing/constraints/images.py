"""Container images that nodes already hold: a pod starts sooner where its images are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.core import ContainerImage
    from pumice.cluster.columns import Column
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session


class NodeImages:
    """Which nodes hold an image, and what that is worth there; looked up when first asked for."""

    def __init__(self, session: Session) -> None:
        self._objects = session.room.table.objects
        self._worth: dict[str, tuple[Indexes, int] | None] = {}

    @once
    def _holders(self) -> list[tuple[int, tuple[ContainerImage, ...]]]:
        return [(index, node.status.images) for index, node in enumerate(self._objects) if node.status.images]

    def bytes_at_hand(self, images: Sequence[str]) -> Column | None:
        """For each node the bytes of these images that it holds, less where few nodes hold them; None where no node does."""
        total = None
        for image in images:
            found = self._find(with_tag(image))
            if found is not None:
                if total is None:
                    total = np.zeros(len(self._objects), dtype=np.int64)
                total[found[0]] += found[1]
        return total

    def _find(self, name: str) -> tuple[Indexes, int] | None:
        if name not in self._worth:
            self._worth[name] = self._search(name) if self._holders else None
        return self._worth[name]

    def _search(self, name: str) -> tuple[Indexes, int] | None:
        """The nodes that hold the image, and its size scaled by how common it is: rare images draw no crowds."""
        size, where = 0, []
        for index, images in self._holders:
            for image in images:
                if name in image.names:
                    size = size or image.size_bytes
                    where.append(index)
                    break
        if not where:
            return None
        return np.array(where, dtype=np.intp), int(size * (len(where) / len(self._objects)))


def with_tag(image: str) -> str:
    """An image without a tag means the tag `latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
