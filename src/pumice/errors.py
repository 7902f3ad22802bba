"""The root of every error that is meant to be read by a person.

PumiceError            subject, cause and next step in one sentence; packages hang their own trees below it
|- BadInput            what the user wrote cannot be right: nothing was done (exit code 2)
|- NotFound            what the user named is not there (exit code 3)
|- Refused             the server knows who asks and says no (exit code 4)
`- Conflict            another writer was faster, or time ran out: ask again (exit code 5)
"""


class PumiceError(Exception):
    """Something went wrong that a person can act on; its text names the subject, the cause and the next step."""

    @property
    def plain(self) -> str:
        """The text for a user who did not ask for details."""
        return str(self)


class BadInput(PumiceError):
    """What the user wrote cannot be right; nothing was done."""


class NotFound(PumiceError):
    """What the user named does not exist."""


class Refused(PumiceError):
    """The server knows who asks and says no."""


class Conflict(PumiceError):
    """Another writer was faster, or time ran out; asking again may help."""
