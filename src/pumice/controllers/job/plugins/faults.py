"""What keeps a plugin from doing its work."""

from pumice.errors import BadInput


class PluginFault(BadInput):
    """The Job asks for something that the plugin cannot do; its pods are not made until that is mended."""
