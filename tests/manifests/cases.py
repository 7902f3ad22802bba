"""The manifests in this folder, for every server that must treat them alike.

`valid/` holds objects that must be accepted and come back with nothing missing; `invalid/` holds objects that the schema
must refuse, each below a line `# refused: <path of the field>`.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from pumice import yamltext

FOLDER = Path(__file__).parent


class Case(NamedTuple):
    id: str
    object: dict[str, Any]
    refused: str = ""  # path of the field that is wrong; empty: nothing is


def valid() -> list[Case]:
    return [
        Case(file.stem, document)
        for file in sorted((FOLDER / "valid").glob("*.yaml"))
        for document in yamltext.load_all(file.read_text(), source=file.name)
    ]


def invalid() -> list[Case]:
    return [
        _refused(file.name, number, text)
        for file in sorted((FOLDER / "invalid").glob("*.yaml"))
        for number, text in enumerate(file.read_text().split("---\n"), start=1)
    ]


def _refused(file: str, number: int, text: str) -> Case:
    (document,) = yamltext.load_all(text, source=f"{file}, document {number}")
    (path,) = re.findall(r"^# refused: (\S+)$", text, re.MULTILINE)
    return Case(f"{file.removesuffix('.yaml')}-{number}-{path}", document, path)
