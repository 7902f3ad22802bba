"""Labels as columns: for each key that a rule asks about, the number of its value on every node or pod.

A column costs one pass over the objects, once a cycle; after that a selector is a few comparisons of integers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.matching import compile_terms
from pumice.selectors import NODE_NAME_FIELD, LabelSelector, equality_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pumice.api.pods import PodSpec
    from pumice.cluster.columns import Mask
    from pumice.scheduling.core.session import Session
    from pumice.selectors import NodeSelector, NodeSelectorTerm, Requirement

COLUMNS_MAX = 256  # keys that are known at a time: tenants choose them, and columns of nodes stay until a node changes
ABSENT = 0  # code of "this object has no such label"


class LabelColumn(Value, eq=False):
    """One key: a code per object, and what each code means; code 0 stands for absence."""

    codes: NDArray[np.intp]
    values: Sequence[str | None]
    code_of: Mapping[str | None, int]

    def __len__(self) -> int:
        """How many codes there are, absence included."""
        return len(self.values)


class LabelColumns:
    """Columns over any sequence of objects, built when first asked for; `labels` are asked for then."""

    def __init__(self, size: int, labels: Callable[[], Sequence[Mapping[str, str]]]) -> None:
        self._size = size
        self._labels = labels
        self._columns: dict[str, LabelColumn] = {}

    def __len__(self) -> int:
        return self._size

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.clear()
            column = self._columns[key] = label_column([labels.get(key) for labels in self._labels()])
        return column

    def matching(self, selector: LabelSelector) -> Mask:
        """The objects whose labels meet every requirement."""
        matched = np.ones(self._size, dtype=bool)
        for requirement in selector.requirements:
            matched &= self._meeting(requirement)
        return matched

    def _meeting(self, requirement: Requirement) -> Mask:
        column = self.column(requirement.key)
        match requirement.operator:
            case "Exists":
                mask: Mask = column.codes != ABSENT
            case "DoesNotExist":
                mask = column.codes == ABSENT
            case "Gt" | "Lt":
                alone = LabelSelector((requirement,))
                good = [value is not None and alone.matches({requirement.key: value}) for value in column.values]
                mask = np.array(good, dtype=bool)[column.codes]
            case operator:
                codes = [column.code_of[value] for value in requirement.values if value in column.code_of]
                mask = np.isin(column.codes, codes) if len(codes) != 1 else column.codes == codes[0]
                if operator in {"NotIn", "!="}:
                    mask = ~mask
        return mask


def label_column(values: Sequence[str | None]) -> LabelColumn:
    """Numbers for values, in order of appearance."""
    code_of: dict[str | None, int] = {None: ABSENT}
    for value in dict.fromkeys(values):
        code_of.setdefault(value, len(code_of))
    codes = np.fromiter(map(code_of.__getitem__, values), dtype=np.intp, count=len(values))
    return LabelColumn(codes, list(code_of), code_of)


class NodeLabels(LabelColumns):
    """The nodes' labels and names; one for all plugins of a session."""

    of_node_objects = True

    def __init__(self, session: Session) -> None:
        objects = session.room.table.objects
        super().__init__(len(objects), functools.cache(lambda: [node.metadata.labels for node in objects]))
        self._index = session.room.table.index

    def allowed_by(self, spec: PodSpec) -> Mask | None:
        """The nodes that the pod's nodeSelector and required node affinity allow; None where it has neither."""
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        selected = self.matching(equality_of(spec.node_selector)) if spec.node_selector else None
        if required is None:
            return selected
        terms = self.selected(compile_terms(required))
        return terms if selected is None else selected & terms

    def selected(self, selector: NodeSelector) -> Mask:
        """The nodes that at least one term of a node affinity matches."""
        matched = np.zeros(len(self), dtype=bool)
        for term in selector.terms:
            matched |= self._term(term)
        return matched

    def _term(self, term: NodeSelectorTerm) -> Mask:
        matched = self.matching(term.labels)
        for field, value, wanted in term.fields.terms:
            named = np.zeros(len(self), dtype=bool)
            index = self._index.get(value) if field == NODE_NAME_FIELD else None
            if index is not None:
                named[index] = True
            matched &= named if wanted else ~named
        return matched
