"""What a policy would do with a workload: the real engine under virtual time, without an API server.

    from pumice.sim import Submission, nodes, simulate

    work = [
        Submission(at_s=0, run_s=3600, size=64, queue="research", user="ann"),
        *(Submission(at_s=30 * n, run_s=600, queue="product", user="bob") for n in range(500)),
    ]
    outcome = simulate(work, nodes("12x8"), queues={"research": 3, "product": 1}, policy=POLICY_TEXT, until_s=86_400)
    outcome.figures["mean_wait_s"], outcome.figures["utilisation"]
    outcome.runs[0].start_s                      # None: it never started
    outcome.usage("queue", step_s=3600)          # {"research": array of slots held, one for each hour, ...}

The same arguments give the same outcome. `workload` is what is submitted, and the reader of SWF files; `simulation` runs it over
`pumice.scheduling.time.forward`, which the forecast uses, too; `outcome` counts; `policies` are those that have a name.
"""

from pumice.sim.outcome import Outcome, Run
from pumice.sim.simulation import nodes, simulate
from pumice.sim.workload import Submission, read_swf

__all__ = ["Outcome", "Run", "Submission", "nodes", "read_swf", "simulate"]
