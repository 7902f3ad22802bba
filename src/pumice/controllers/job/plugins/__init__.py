"""Job plugins: what a framework needs around its pods, with Volcano's names, arguments and variables.

A plugin is one class in one file and one line in PLUGINS. Objects that it makes belong to the Job, are made before the first pod,
survive restarts, and go when the Job is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.controllers.job.plugins.env import Env
from pumice.controllers.job.plugins.hcclrank import HcclRank
from pumice.controllers.job.plugins.mpi import Mpi
from pumice.controllers.job.plugins.plugin import JobPlugin, PluginFault
from pumice.controllers.job.plugins.pytorch import PyTorch
from pumice.controllers.job.plugins.ray import Ray
from pumice.controllers.job.plugins.ssh import Ssh
from pumice.controllers.job.plugins.svc import Svc
from pumice.controllers.job.plugins.tensorflow import TensorFlow

if TYPE_CHECKING:
    from pumice.api.batch import Job


# In this order they see a pod: hcclrank looks for the RANK that pytorch sets.
PLUGINS: dict[str, type[JobPlugin]] = {
    "env": Env,
    "svc": Svc,
    "ssh": Ssh,
    "tensorflow": TensorFlow,
    "pytorch": PyTorch,
    "mpi": Mpi,
    "ray": Ray,
    "hcclrank": HcclRank,
}


def plugins_of(job: Job) -> list[JobPlugin]:
    """The Job's plugins; PluginFault where one of them is not known."""
    wanted = job.spec.plugins or {}
    for name in wanted:
        if name not in PLUGINS:
            raise PluginFault(f"unable to find job plugin: {name}; choose of {', '.join(PLUGINS)}")
    return [plugin(wanted[name]) for name, plugin in PLUGINS.items() if name in wanted]
