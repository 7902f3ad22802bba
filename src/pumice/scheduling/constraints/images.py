"""Container images that nodes already hold: a pod starts sooner where its images are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.scheduling.points import Indexes
    from pumice.scheduling.session import Session


class NodeImages:
    """Which nodes hold an image, and what that is worth there; looked up when first asked for."""

    def __init__(self, session: Session) -> None:
        objects = session.room.table.objects
        self._nodes = len(objects)
        self._holders = [(index, node.status.images) for index, node in enumerate(objects) if node.status.images]
        self._worth: dict[str, tuple[Indexes, int] | None] = {}

    def bytes_at_hand(self, images: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        """For each node the bytes of these images that it holds, less where few nodes hold them; None where no node does."""
        total = None
        for image in images:
            found = self._find(normalised(image))
            if found is not None:
                if total is None:
                    total = np.zeros(self._nodes, dtype=np.int64)
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
        return np.array(where, dtype=np.intp), int(size * (len(where) / self._nodes))


def normalised(image: str) -> str:
    """An image without a tag means the tag `latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
