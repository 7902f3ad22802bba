"""What the deployment is made from stands in the code once; this writes the rest from it.

    python -m tools.deploy.generate            write deploy/helm/pumice/admission/, the policy in values.yaml, and deploy/pumice.yaml
    python -m tools.deploy.generate --check    exit code 1 if a file is not what it would write

The chart's webhook configurations and admission policies come from pumice.webhooks, with places for the names that a release chooses.
The plain manifest comes from the chart, by Helm, which tools/kube/build.py builds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from pumice import yamltext
from pumice.scheduling.core import builtin
from pumice.webhooks import policies
from pumice.webhooks.registration import AccessMode, Registration
from tools.kube import build

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "pumice"
ADMISSION = CHART / "admission"
MANIFEST = ROOT / "deploy" / "pumice.yaml"
NAMESPACE = "pumice-system"
HELM_S_MAX = 120.0

HEAD = "Written by `python -m tools.deploy.generate`; change the {source}, not this file."
PLAIN = f"""\
# {HEAD.format(source="chart")}
#   kubectl apply --server-side -f pumice.yaml
---
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
"""


def admission_files() -> dict[Path, str]:
    """The chart's webhook configurations and admission policies for each mode, with @PLACES@ that its template fills."""
    found = {}
    for mode in AccessMode:
        registration = Registration(
            namespace="@NAMESPACE@",
            service="@SERVICE@",
            configuration="@CONFIGURATION@",
            scheduler_names=("@SCHEDULER@", "@SCHEDULERS@"),  # the first one is also the default of Jobs
            access=mode,
            controllers=("@CONTROLLERS@",),
        )
        for manifest in registration.manifests():
            kind = manifest["kind"].removesuffix("WebhookConfiguration").lower()
            text = f"# {HEAD.format(source='code')}\n{yamltext.dump(manifest)}"
            found[ADMISSION / f"{mode.value}-{kind}.yaml"] = text
        stand_ins = "".join(f"---\n{yamltext.dump(each)}" for each in policies.manifests(registration))
        found[ADMISSION / f"{mode.value}-policies.yaml"] = f"# {HEAD.format(source='code')}\n{stand_ins}"
    return found


def values_file() -> dict[Path, str]:
    """The chart's values, with the built-in policy in them."""
    path = CHART / "values.yaml"
    before, key, rest = path.read_text().partition("  policy: |\n")
    after = re.sub(r"\A(?:    .*\n)+", "", rest)
    return {path: before + key + textwrap.indent(builtin.TEXT, "    ") + after}


def template(*arguments: str) -> str:
    """What Helm makes of the chart."""
    helm = build.require() / "helm"
    command = [str(helm), "template", "pumice", str(CHART), "--namespace", NAMESPACE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HELM_S_MAX, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def manifest_file() -> dict[Path, str]:
    """The plain manifest. It must be asked for after the other files are up to date."""
    return {MANIFEST: PLAIN + template("--include-crds", "--skip-tests")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of deploy/.")
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    check = parser.parse_args().check
    stale = []
    for make in (admission_files, values_file, manifest_file):
        for path, text in make().items():
            if path.exists() and path.read_text() == text:
                continue
            stale.append(path.relative_to(ROOT))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    for path in stale:
        print(f"{path} {'is stale: run python -m tools.deploy.generate' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
