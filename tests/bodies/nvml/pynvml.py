"""Stands where `nvidia-ml-py` would: a machine with one recorded H200, for programs that are run with this folder on their path."""

from tests.bodies.recorded_nvml import RecordedNvml

_machine = RecordedNvml()
globals().update({name: getattr(_machine, name) for name in dir(_machine) if name.startswith(("nvml", "NVML"))})
