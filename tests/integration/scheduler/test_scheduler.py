"""The scheduler on the embedded server; its bodies run on the real one too."""

from tests.bodies.scheduler import *  # noqa: F403
