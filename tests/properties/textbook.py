"""Textbook backfill over one kind of slots, written for the tests alone: it shares nothing with the engine.

A job is (submitted, size, length); the answer is the start of each. First come, first served decides the order; with true lengths.
"""

import heapq


def first_come(jobs, slots):
    """No job starts before those that came before it."""
    return _simulate(jobs, slots, _head_only)


def easy(jobs, slots):
    """EASY: the first that waits has a reservation, others may start if they leave it standing."""
    return _simulate(jobs, slots, _easy)


def conservative(jobs, slots):
    """Every job that waits has a reservation, made in order of arrival."""
    return _simulate(jobs, slots, _conservative)


def _simulate(jobs, slots, choose):
    starts = [None] * len(jobs)
    events = [(job[0], 1, number) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    waiting, running, free = [], [], slots
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, kind, number = heapq.heappop(events)
            if kind == 1:
                waiting.append(number)
            else:
                free += jobs[number][1]
                running = [each for each in running if each[1] != number]
        for number in choose(jobs, waiting, running, free, now):
            starts[number] = now
            waiting.remove(number)
            _, size, length = jobs[number]
            free -= size
            running.append((now + length, number))
            heapq.heappush(events, (now + length, 0, number))
    return starts


def _head_only(jobs, waiting, running, free, now):
    chosen = []
    for number in waiting:
        if jobs[number][1] > free:
            break
        free -= jobs[number][1]
        chosen.append(number)
    return chosen


def _easy(jobs, waiting, running, free, now):
    chosen = _head_only(jobs, waiting, running, free, now)
    free -= sum(jobs[number][1] for number in chosen)
    left = waiting[len(chosen) :]
    if not left:
        return chosen
    ends = sorted([*running, *((now + jobs[number][2], number) for number in chosen)])
    needed, available, shadow = jobs[left[0]][1], free, now
    for end, number in ends:
        available += jobs[number][1]
        if available >= needed:
            shadow = end
            # All that ends at the same moment counts too.
            available += sum(jobs[other][1] for at, other in ends if at == end and (at, other) > (end, number))
            break
    extra = available - needed
    for number in left[1:]:
        _, size, length = jobs[number]
        if size <= free and (now + length <= shadow or size <= extra):
            chosen.append(number)
            free -= size
            if now + length > shadow:
                extra -= size
    return chosen


def _conservative(jobs, waiting, running, free, now):
    """Each in order at the earliest moment at which the profile has room for as long as it runs; now means start."""
    profile = [[now, free]]
    for end, number in sorted(running):
        if profile[-1][0] == end:
            profile[-1][1] += jobs[number][1]
        else:
            profile.append([end, profile[-1][1] + jobs[number][1]])
    chosen = []
    for number in waiting:
        _, size, length = jobs[number]
        start = _earliest(profile, size, length)
        _take(profile, start, start + length, size)
        if start == now:
            chosen.append(number)
    return chosen


def _earliest(profile, size, length):
    for place, (start, _) in enumerate(profile):
        within = [free for at, free in profile[place:] if at < start + length]
        if all(free >= size for free in within):
            return start
    raise AssertionError("a job is larger than the machine")


def _take(profile, start, end, size):
    for moment in (start, end):
        place = next((place for place, each in enumerate(profile) if each[0] >= moment), len(profile))
        if place == len(profile) or profile[place][0] != moment:
            profile.insert(place, [moment, profile[place - 1][1]])
    for each in profile:
        if start <= each[0] < end:
            each[1] -= size
