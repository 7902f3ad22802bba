"""What dispatch cannot do."""

from pumice.errors import PumiceError


class PreparationFailed(PumiceError):
    """What a gang needs before its first bind cannot be had; no member of it was bound."""
