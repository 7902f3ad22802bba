"""Pumice starts a whole gang of pods or none of it, and can always say why a gang waits."""

__version__ = "0.1.0.dev0"
