"""What keeps a plugin from doing its work."""

from typing import Final

from pumice.errors import BadInput

VARIABLE_BYTES_MAX: Final = 2**17 - 1  # Linux starts no process with a longer variable
OBJECT_BYTES_MAX: Final = 2**20  # of a ConfigMap or a Secret: API servers refuse more


class PluginFault(BadInput):
    """The Job asks for something that the plugin cannot do; its pods are not made until that is mended."""


def check_length(what: str, text: str, most: int) -> str:
    """The text, unless there are so many pods that no pod could read it."""
    if len(text) > most:
        raise PluginFault(
            f"{what} would have {len(text)} bytes, at most {most}: the job has too many pods for it; lower replicas"
        )
    return text
