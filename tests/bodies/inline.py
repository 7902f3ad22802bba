"""An executor for schedulers under virtual time."""

import concurrent.futures


class Inline(concurrent.futures.Executor):
    """Plans where it is asked to: under virtual time there are no threads."""

    def submit(self, work, /, *arguments, **named):
        done = concurrent.futures.Future()
        done.set_result(work(*arguments, **named))
        return done
