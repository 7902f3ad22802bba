"""Inputs that nobody meant: bytes and JSON trees, changed a little from ones that somebody did. The same seed gives the same inputs."""

import copy
import json
import random

TOKENS = (
    b"", b"\x00", b"\xff", b"\xed\xa0\x80", b"null", b"{}", b"[]", b"-1", b"1e999", b"9" * 400, b"NaN", b"\n", b"\r\n", b"\t", b"---\n", b"&a", b"*a", b"<<: *a",
    b"!!python/object", b'"', b"'", b",", b"=", b"!=", b" in (", b")", b"Ki", b"m", b"E", b"..", b"/", b"%", b"$(", b"\xe2\x80\xae", b"\xf0\x9f\x92\xa5",
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 2**31, 2**63, 2**64, 10**40, 0.5, -0.0, 1e308, "", " ", "0", "-1", "1e999", "null", "\x00", "\ud83d\ude00", "a" * 300, "../..", "$patch", [], {}, [None], [[]],
    [{}], {"": ""}, {"a": None}, {"$patch": "delete"}, {"metadata": None}, ["a"] * 50,
)  # fmt: skip
CHANGES_MAX = 4


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """The seed with a few changes: to its tree where it is JSON and chance says so, else to its bytes."""
    try:
        tree = json.loads(seed)
    except ValueError:
        tree = None
    if isinstance(tree, dict | list) and chance.random() < 0.7:
        for _ in range(chance.randint(1, CHANGES_MAX)):
            tree = _tree(copy.deepcopy(tree), chance)
        return json.dumps(tree).encode()
    data = bytearray(seed)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        data = _bytes(data, chance)
    return bytes(data)


def _bytes(data: bytearray, chance: random.Random) -> bytearray:
    at, to = sorted(chance.randint(0, len(data)) for _ in range(2))
    match chance.randint(0, 4):
        case 0:
            return data[:at] + chance.choice(TOKENS) + data[at:]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:to] + data[at:to] * chance.randint(1, 3) + data[to:]
        case 3 if data:
            place = min(at, len(data) - 1)
            data[place] ^= 1 << chance.randint(0, 7)
            return data
    return data[:at] + chance.choice(TOKENS) + data[to:]


def _tree(tree, chance: random.Random):
    """One place of the tree is another value, gone, or there twice."""
    places = list(_places(tree))
    if not places:
        return chance.choice(VALUES)
    owner, key = chance.choice(places)
    match chance.randint(0, 3):
        case 0 if isinstance(owner, dict):
            del owner[key]
        case 0:
            owner.insert(key, copy.deepcopy(owner[key]))
        case 1 if isinstance(owner, dict):
            owner[chance.choice(("", "\x00", "a/b", "$retainKeys", "x" * 300, "status"))] = owner[key]
        case _:
            owner[key] = copy.deepcopy(chance.choice(VALUES))
    return tree


def _places(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from _places(value)
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield tree, place
            yield from _places(value)
