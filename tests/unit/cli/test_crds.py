import subprocess
import sys

from click.testing import CliRunner

from pumice.api.kinds import CUSTOM_KINDS
from pumice.cli.crds import crds, manifests


def test_pumice_crds_prints_the_manifests_as_one_stream_of_documents():
    result = CliRunner().invoke(crds)
    assert result.exit_code == 0
    assert result.output == manifests()
    assert result.output.count("\n---\n") == len(CUSTOM_KINDS) - 1
    assert result.output.startswith("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")


def test_printing_the_manifests_loads_neither_yaml_nor_the_typed_api():
    code = "import sys, pumice.cli.crds as c; c.manifests(); print({'yaml', 'msgspec', 'numpy', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
