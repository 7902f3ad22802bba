"""Who of those that wait comes before the reservation of a session that stays open, and who has to leave it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.time.crowd import CREATED, FITS_NOWHERE, LENGTH, LINE, NOBODY, PODS, SORT

if TYPE_CHECKING:
    from pumice.cluster.columns import Mask
    from pumice.instant import Instant
    from pumice.scheduling.time.crowd import Crowd
    from pumice.scheduling.time.open_reservation import OpenReservation


class Precedence:
    """In one queue the turn decides, be it by age alone or, with `ranks`, by where lines stand; another queue's reservation nobody comes before."""

    def __init__(self, crowd: Crowd, reservation: OpenReservation, *, ranks: bool) -> None:
        self._crowd = crowd
        self.reservation = reservation
        self._ranks = ranks

    @property
    def holder(self) -> int:
        """The row of the gang that has it."""
        holder = self.reservation.holder
        return NOBODY if holder is None else self._crowd.row_of(holder.turn)

    def comes_before(self, holder: int) -> Mask:
        """Those that the holder has to make way for."""
        if self._ranks:
            return self._crowd.before(holder)
        found: Mask = self._crowd[LINE] == self._crowd[LINE][holder]
        found[holder:] = False
        return found

    def may_be_next(self) -> Mask:
        """Who would have it before anybody else."""
        holder = self.holder
        return np.ones(len(self._crowd), dtype=bool) if holder == NOBODY else self.comes_before(holder)

    def may_reserve(self, now: Instant) -> Mask:
        """Who would get it for want of room."""
        crowd = self._crowd
        found: Mask = (crowd[CREATED] <= now - self.reservation.patience) & (crowd[FITS_NOWHERE] == 0)
        holder = self.holder
        return found if holder == NOBODY else found & self.comes_before(holder)

    def binds(self, row: int, now: Instant) -> bool:
        """Whether the gang, if it started now, would have to leave it alone."""
        holder = self.holder
        if holder in {NOBODY, row} or self._crowd[LENGTH][row] <= self.reservation.time - now:
            return False
        return not self.comes_before(holder)[row]

    def let_pass(self, fitting: Mask, now: Instant) -> Mask:
        """Of those for whom there is room, the ones that it does not bind, and those that find room beside it for all we know."""
        crowd, reservation, holder = self._crowd, self.reservation, self.holder
        if holder == NOBODY or not fitting.any():
            return fitting
        bound = fitting & (crowd[LENGTH] > reservation.time - now) & ~self.comes_before(holder)
        bound[holder] = False
        if not bound.any():
            return fitting
        sorts = np.unique(crowd[SORT][bound]).tolist()
        anywhere = np.zeros(len(crowd.sorts), dtype=np.int64)
        anywhere[sorts] = [reservation.places_beside(crowd.sorts[sort].shape)[1] for sort in sorts]
        return fitting & ~(bound & (crowd[PODS] > anywhere[crowd[SORT]]))
