"""Simulations that run at the same time, each in a process of its own: what they hand over."""

import json

from tests.unit.cli.test_simulate import DUMP, answered


def test_gangs_of_a_dump_are_simulated_under_several_policies(capsys, tmp_path):
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps(DUMP))
    arguments = ("--workload", str(dump), "--cluster", str(dump), "--run-time", "60", "--per-job", "-o", "json")
    found = json.loads(answered(capsys, *arguments, "--policy", "builtin", "--policy", "one-by-one"))["policies"]
    for name in ("builtin", "one-by-one"):
        alone = json.loads(answered(capsys, *arguments, "--policy", name))["policies"]
        assert found[name] == alone[name]
