"""What lies between a client and the embedded server: it may lose calls and answers, and be late with both."""

import itertools

from pumice.kube import errors

LOST = errors.Unreachable("the answer was lost", acted=True)
NEVER_SENT = errors.Unreachable("connection refused", acted=False)
LATE = object()


def status(code):
    return errors.from_status(errors.Status(code=code, reason="Said", message="so"), asked="something")


def calls_to(end, *harms, method=None):
    """What becomes of the first calls whose path ends so, one after the other; without harms, each is refused."""
    left = iter(harms) if harms else itertools.repeat(status(403))
    return lambda request: (
        next(left, None) if request.path.endswith(end) and request.method == (method or request.method) else None
    )


class Network:
    """`harm(request)` says what becomes of a call: None (nothing), an error instead of the answer, or LATE.

    `late` holds calls whose sender has given up: they arrive when the test lets them. `delay(request)` is awaited after the server has acted.
    """

    def __init__(self, inner):
        self.inner = inner
        self.harm = lambda request: None
        self.delay = nobody_waits
        self.late = []
        self.calls = []

    async def call(self, request):
        self.calls.append((request.method, request.path))
        harm = self.harm(request)
        if harm is LATE:
            self.late.append(request)
            raise LOST
        if harm is not None and not errors.is_open(harm):
            raise harm
        response = await self.inner.call(request)
        await self.delay(request)
        if harm is not None:
            raise harm
        return response

    async def arrive(self):
        """What was late; the statuses of the answers that nobody hears."""
        return [(await self.inner.call(request)).status for request in self.late]

    async def close(self):
        await self.inner.close()


async def nobody_waits(request):
    pass
