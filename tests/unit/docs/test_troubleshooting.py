"""Every message that the guide quotes is one that the code prints."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "troubleshooting.md"
SYMPTOMS_MIN = 15
LETTERS_MIN = 6  # in a text of the code, so that a chance word proves nothing
COVERED_MIN = 0.9  # of a quote; the rest are names and numbers between two texts


def quotes():
    """The lines of all `text` blocks."""
    blocks = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def printed():
    """Every line of every string in the code, as its fixed pieces: between two of them anything may stand."""
    found = set()
    for path in (ROOT / "src" / "pumice").rglob("*.py"):
        tree = ast.parse(path.read_text())
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                found.update(lines_of(node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                found.update(lines_of([node]))
    return found


def lines_of(parts):
    text = "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in parts)
    text = re.sub(r"\{[^{}]*\}", "\0", text)  # a pattern over the facts of a reason
    for line in text.splitlines():
        pieces = tuple(piece for piece in line.strip(" \0").split("\0") if piece)
        if len(re.findall(r"[a-zA-Z]", "".join(pieces))) >= LETTERS_MIN:
            yield pieces


def covered(quote, known):
    """The share of the quote's letters that texts of the code account for."""
    seen = bytearray(len(quote))
    for pieces in known:
        if all(piece in quote for piece in pieces):
            for match in re.finditer(".+?".join(map(re.escape, pieces)), quote):
                seen[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    letters = [index for index, letter in enumerate(quote) if letter.isalpha()]
    return sum(seen[index] for index in letters) / len(letters)


def test_the_guide_has_many_symptoms():
    assert GUIDE.read_text().count("\n### ") >= SYMPTOMS_MIN


def test_the_code_prints_every_message_that_the_guide_quotes():
    known = printed()
    assert covered("the scheduler is tired and went home early today", known) < COVERED_MIN  # the measure can say no
    assert [quote for quote in quotes() if covered(strip_names(quote), known) < COVERED_MIN] == []


def strip_names(quote):
    """Names of the example are not in the code; they stand for what its texts leave open."""
    names = r"nvidia\.com/gpu|research|product|science|sciense|train-worker-\d|default/r4|data|laptop|gagn|team|rack|block|spine"
    return re.sub(rf"\b({names})\b", "1", quote)
