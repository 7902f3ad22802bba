"""Where the programs begin: Ctrl-C while the rest is being imported ends the process as it ends any other, without a traceback."""

import signal


def main() -> None:
    """Run the command line and end the process with its exit code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored, as with nohup
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pumice.cli.main import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
