"""Our values against Kubernetes' own libraries, on thousands of random inputs, valid and broken.

A failure names its seed in the test's id; the same id makes the same inputs again.
"""

from __future__ import annotations

import json
import math
import random
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from pumice import instant, quantity, selectors, yamltext
from pumice.api.decoding import decode_value
from pumice.api.pods import NodeSelector
from pumice.cluster.matching import compile_terms
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kube.conftest import Kubectl
    from tools.kube.oracle_client import Oracle

ROUNDS = 3000
INT64_MAX = 2**63 - 1

seeds = pytest.mark.parametrize("seed", [1, 2])


def outcome(read: Callable[[Any], Any], value: Any) -> Any:
    """What we make of the value, or our error."""
    try:
        return read(value)
    except BadInput as error:
        return error


def refused(answer: Any) -> bool:
    return isinstance(answer, BadInput)


def soup(chance: random.Random, ingredients: list[str], most: int) -> str:
    return "".join(chance.choices(ingredients, k=chance.randint(0, most)))


# ------------------------------------------------------------------------------------------------------ quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


def a_quantity(chance: random.Random) -> str:
    if chance.random() < 0.15:
        text = soup(chance, [*"0123456789+-.eEinumkKMGTP", "00", " ", "x"], 8)
        return re.sub(r"([eE][+-]?[0-9]{2})[0-9]+", r"\1", text)  # apimachinery writes 1e99999 out in full
    whole = soup(chance, [*"0123456789", "0", "000"], chance.choice([2, 6, 19]))
    fraction = "." + soup(chance, [*"0123456789", "000"], chance.choice([1, 4, 12])) if chance.random() < 0.5 else ""
    exponent = f"{chance.choice('eE')}{chance.choice(['', '+', '-'])}{chance.randint(0, 25)}"
    suffix = exponent if chance.random() < 0.2 else chance.choice(SUFFIXES)
    return f"{chance.choice(['', '', '', '+', '-'])}{whole}{fraction}{suffix}"


@seeds
def test_quantities_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        text = a_quantity(chance)
        # Space around a quantity in JSON is cut off before apimachinery's reader sees it.
        (answer,) = oracle.ask_all([{"op": "quantity", "value": text.strip()}])
        ours = outcome(quantity.canonical, text)
        number = re.split("[eEinumkKMGTP]", text, maxsplit=1)[0]
        if "error" in answer:
            assert refused(ours), text
        elif not any(digit in number for digit in "0123456789"):
            assert refused(ours), f"{text!r} holds no digit: we refuse it on purpose"
        else:
            assert not refused(ours), f"{text!r}: {ours}"
            agree_on_quantity(text, ours, answer["ok"])


def agree_on_quantity(text: str, ours: str, theirs: dict[str, Any]) -> None:
    assert quantity.compare(text, theirs["dec"]) == 0, text
    exponent = re.search(r"e([0-9]+)$", ours)
    if exponent and int(exponent.group(1)) > 18 and not re.search("[eE][+-]?[0-9]", text):
        assert quantity.compare(ours, theirs["dec"]) == 0, "apimachinery forgets the exponent, we print it"
    else:
        assert ours == theirs["string"], text
    exact = Fraction(theirs["dec"])
    for unit, mine, field in (
        (1, quantity.parse_value(text), "value"),
        (1000, quantity.parse_milli(text), "milliValue"),
    ):
        amount = exact * unit
        if abs(amount) > INT64_MAX:
            assert abs(mine) >= INT64_MAX, f"{text!r}: apimachinery overflows to {theirs[field]}, we saturate"
        elif amount < 0:
            # apimachinery misreads negative amounts that need its big numbers ("-2.Ei" is 0); we keep to its documentation.
            assert mine == math.floor(amount), text
        else:
            assert mine == theirs[field], text


@seeds
def test_quantities_compare_as_in_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        a = a_quantity(chance).strip()
        rounded = outcome(lambda text: quantity.format_milli(quantity.parse_milli(text)), a)
        b = chance.choice([a_quantity(chance).strip(), rounded])  # as often a close one as any
        if refused(rounded) or refused(outcome(quantity.canonical, b)):
            continue
        ours = quantity.compare(a, b)
        assert (ours > 0) - (ours < 0) == oracle.ask("quantity_cmp", a=a, b=b)["cmp"], (a, b)


# ----------------------------------------------------------------------------------------------------- selectors

KEYS = ["a", "b", "zone", "example.com/gpu", "in", "notin"]
VALUES = ["", "x", "y", "in", "8", "16", "007", "9223372036854775807"]
BROKEN = ["-a", "a b", "Ü", "A.B/c", "a/b/c", "x" * 64, "a_", "9223372036854775808", "-5", "+5"]


def a_label_set(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randint(0, 4))}


def an_expression(chance: random.Random, operators: list[str]) -> dict[str, Any]:
    operator = chance.choice(operators)
    fitting = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, chance.randint(1, 3))
    count = fitting if chance.random() < 0.9 else chance.randint(0, 2)
    words = VALUES + (BROKEN if chance.random() < 0.1 else [])
    return {
        "key": chance.choice(KEYS + (BROKEN if chance.random() < 0.05 else [])),
        "operator": operator,
        "values": [chance.choice(words) for _ in range(count)],
    }


def a_selector_text(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return soup(
            chance, ["a", "b", "in", "notin", "=", "==", "!=", "!", "(", ")", ",", "<", ">", " ", "\t", "8", "Ü"], 9
        )
    parts = []
    for _ in range(chance.randint(0, 4)):
        key, value = chance.choice([*KEYS, *BROKEN[:1]]), chance.choice([*VALUES, *BROKEN[1:2]])
        several = ",".join(chance.choices(VALUES, k=chance.randint(0, 3)))
        symbol = chance.choice(["=", " = ", "==", "!=", ">", "<"])
        parts.append(
            chance.choice([key, f"!{key}", f"{key}{symbol}{value}", f"{key} in ({several})", f"{key} notin({several})"])
        )
    return chance.choice([",", " , "]).join(parts)


@seeds
def test_label_selectors_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        text, labels = a_selector_text(chance), a_label_set(chance)
        (answer,) = oracle.ask_all([{"op": "label_selector", "selector": text, "labels": labels}])
        ours = outcome(selectors.parse_label_selector, text)
        assert refused(ours) == ("error" in answer), (text, ours, answer)
        if not refused(ours):
            assert {"match": ours.matches(labels), "string": str(ours)} == answer["ok"], (text, labels)


@seeds
def test_label_selector_objects_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    operators = ["In", "NotIn", "Exists", "DoesNotExist"]
    for _ in range(ROUNDS):
        selector: dict[str, Any] | None = {
            "matchLabels": a_label_set(chance),
            "matchExpressions": [
                an_expression(chance, [*operators, *(["Gt", ""] if chance.random() < 0.05 else [])])
                for _ in range(chance.randint(0, 3))
            ],
        }
        selector = chance.choice([selector, selector, selector, {}, None])
        labels = a_label_set(chance)
        (answer,) = oracle.ask_all([{"op": "label_selector_object", "selector": selector, "labels": labels}])
        ours = outcome(selectors.label_selector, selector)
        assert refused(ours) == ("error" in answer), (selector, ours, answer)
        if not refused(ours):
            assert ours.matches(labels) == answer["ok"]["match"], (selector, labels)
            assert ours is selectors.NOTHING or str(ours) == answer["ok"]["string"], selector


@seeds
def test_field_selectors_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    names = ["metadata.name", "spec.nodeName", "x"]
    for _ in range(ROUNDS):
        values = ["", "a", "b", r"a\,b", r"a\=b", r"a\\b", "a b", "a=b", "\\a", "!"]
        terms = [f"{chance.choice(names)}{chance.choice(['=', '==', '!='])}{chance.choice(values)}" for _ in range(3)]
        text = chance.choice([",".join(terms[: chance.randint(0, 3)]), soup(chance, [*"ab=!,\\", "==", "Ü"], 8)])
        fields = {name: chance.choice(["", "a", "b", "a,b", "a=b", "a\\b", "!"]) for name in chance.sample(names, 2)}
        (answer,) = oracle.ask_all([{"op": "field_selector", "selector": text, "fields": fields}])
        ours = outcome(selectors.parse_field_selector, text)
        assert refused(ours) == ("error" in answer), (text, ours, answer)
        if not refused(ours):
            assert {"match": ours.matches(fields), "string": str(ours)} == answer["ok"], (text, fields)


@seeds
def test_node_affinity_agrees_with_the_default_scheduler(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    for _ in range(ROUNDS):
        terms = []
        for _ in range(chance.randint(0, 3)):
            extra = ["Is"] if chance.random() < 0.05 else []
            fields = [
                {
                    "key": chance.choice(["metadata.name", "other"]),
                    "operator": chance.choice(["In", "NotIn", *extra]),
                    "values": values,
                }
                for values in chance.choices(
                    [["n1"], ["n2"], [""], ["n1", "n2"], []], [9, 9, 3, 1, 1], k=chance.randint(0, 1)
                )
            ]
            expressions = [an_expression(chance, [*operators, *extra]) for _ in range(chance.randint(0, 2))]
            terms.append({"matchExpressions": expressions, "matchFields": fields})
        labels = a_label_set(chance)
        node = {"metadata": {"name": "n1", "labels": labels}}
        question = {"op": "node_selector_term", "selector": {"nodeSelectorTerms": terms}, "node": node}
        (answer,) = oracle.ask_all([question])
        ours = compile_terms(decode_value(NodeSelector, {"nodeSelectorTerms": terms}))
        matches = ours.matches(labels, node_name="n1")
        if "error" in answer:
            assert ours.problems, (terms, answer)
            assert not matches, (terms, answer)
        else:
            assert matches == answer["ok"]["match"], (terms, labels)
            assert matches or not ours.problems, (terms, ours.problems)


# ----------------------------------------------------------------------------------------- instants and durations


@seeds
def test_durations_agree_with_go(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    units = ["h", "m", "s", "ms", "us", "\u00b5s", "\u03bcs", "ns"]
    for _ in range(ROUNDS):
        parts = [
            soup(chance, [*"0123456789"], 4)
            + chance.choice(["", "", "." + soup(chance, [*"0123456789"], 22)])
            + chance.choice(units)
            for _ in range(chance.randint(1, 3))
        ]
        text = chance.choice(["", "", "-", "+"]) + "".join(parts)
        if chance.random() < 0.2:
            text = soup(chance, [*"0123456789.-+hms", "\u00b5s", "000000000000", "Ü", " "], 8)
        (answer,) = oracle.ask_all([{"op": "duration", "value": text}])
        ours = outcome(instant.parse_duration, text)
        assert refused(ours) == ("error" in answer), (text, ours, answer)
        if not refused(ours):
            assert ours == answer["ok"]["nanoseconds"], text
            assert instant.format_duration(ours) == answer["ok"]["string"], text


def a_time(chance: random.Random) -> str:
    def number(most: int, width: int = 2) -> str:
        return f"{chance.randint(0 if width == 2 else 1000, most):0{width}}"

    date = f"{number(9998, 4)}-{number(13)}-{number(32)}"
    zone = chance.choice(["Z", "Z", f"{chance.choice('+-')}{number(25)}:{number(61)}", "z", "", "+01", "+0100"])
    fraction = chance.choice(["", ".", ","]) + soup(chance, [*"0123456789"], 12) if chance.random() < 0.5 else ""
    hour = chance.choice([number(24), str(chance.randint(0, 9))])
    return f"{date}{chance.choice(['T'] * 9 + ['t', ' '])}{hour}:{number(60)}:{number(60)}{fraction}{zone}"


@seeds
def test_times_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        text = a_time(chance)
        (answer,) = oracle.ask_all([{"op": "time", "value": text}])
        ours = outcome(instant.parse_instant, text)
        assert refused(ours) == ("error" in answer), (text, ours, answer)
        if not refused(ours):
            assert divmod(ours, instant.SECOND) == (answer["ok"]["seconds"], answer["ok"]["nanoseconds"]), text
            assert instant.format_instant(ours) == answer["ok"]["printed"], text


@seeds
def test_micro_times_agree_with_apimachinery(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        micros = chance.randint(-(10**16), 10**17)
        written = instant.format_micro_instant(micros * instant.MICROSECOND)
        answer = oracle.ask("time", value=written, micro=True)
        assert answer["printed"] == written
        assert answer["seconds"] * 10**6 + answer["nanoseconds"] // 1000 == micros


# ---------------------------------------------------------------------------------------------------------- YAML

WORDS = [
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "N",
    "true",
    "False",
    "null",
    "~",
    "Null",
    "<<",
    "=",
    ".inf",
    "-.INF",
    ".nan",
    ".NaN",
]
WORDS += [
    "1e3",
    "0x1F",
    "0o17",
    "010",
    "08",
    "0b11",
    "1_000",
    "+1",
    "-1",
    ".5",
    "1.",
    "12:30:45",
    "2026-01-31",
    "1Gi",
    "a b",
]
WORDS += [
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "1e400",
    "1e21",
    "1e-7",
    "123456789.125",
]
SCALAR_SOUP = [*"0123456789", *"+-._eExXoObB:aynN~", "00", "1_0", "0x", "0b", ".inf"]


def same(ours: Any, theirs: Any) -> bool:
    """Equal in values and in types; JSON's integers beyond 64 bits are floats to Kubernetes."""
    if isinstance(theirs, int) and not -(2**63) <= theirs < 2**64:
        theirs = float(theirs)
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def load(text: str) -> Any:
    documents = yamltext.load_all(text, source="random.yaml")
    assert len(documents) <= 1, text
    return documents[0] if documents else None


@seeds
def test_scalars_and_keys_agree_with_go_yaml(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        scalar = chance.choice([chance.choice(WORDS), soup(chance, SCALAR_SOUP, 7)])
        tag = chance.choice(["", "", "", "!!str ", "!!int ", "!!float ", "!!bool ", "!own ", "! "])
        text = chance.choice([f"k: {tag}{scalar}", f"k: {tag}'{scalar}'", f"{scalar}: v", f"- {scalar}\n- {scalar}"])
        (answer,) = oracle.ask_all([{"op": "yaml", "text": text, "strict": True}])
        ours = outcome(load, text)
        if re.search(r'"(-?\.inf|\.nan)":', answer.get("ok", {}).get("json", "")):
            assert refused(ours), (
                f"{text!r}: go-yaml makes a text of a key beyond 32 bit floats, we refuse it on purpose"
            )
            continue
        if re.search("cannot decode !!int .* as a !!float", answer.get("error", "")):
            continue  # go-yaml forgets integers beyond 63 bits there
        assert refused(ours) == ("error" in answer), (text, ours, answer)
        if not refused(ours):
            assert same(ours, json.loads(answer["ok"]["json"])), (text, ours, answer)


@seeds
def test_structures_agree_with_go_yaml(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    # Without "? ": libyaml takes a question mark in places where go-yaml does not.
    ingredients = [*"ab[]{}'\"\n\t", ": ", "- ", "\n  ", ", ", "&x ", "*x", "<<: ", "# c", "|\n", ">-\n"]
    both = 0
    for _ in range(2 * ROUNDS):
        text = "k:\n  " + soup(chance, ingredients, 9)
        (answer,) = oracle.ask_all([{"op": "yaml", "text": text, "strict": False}])
        ours = outcome(load, text)
        if not refused(ours) and "error" not in answer:
            assert same(ours, json.loads(answer["ok"]["json"])), (text, ours, answer)
            both += 1
        elif not refused(ours) or ("error" not in answer and "occurs twice" not in str(ours)):
            pytest.fail(f"{text!r}: ours {ours!r}, theirs {answer!r}")
    assert both > ROUNDS / 10, "too few valid texts to mean something"


def a_document(chance: random.Random, depth: int = 0) -> Any:
    text = chance.choice(
        [chance.choice(WORDS), soup(chance, SCALAR_SOUP, 6), soup(chance, [*"ab\n #:-'\"\\{[,&*!|>%@`Ü😀", "\t"], 8)]
    )
    kind = chance.random()
    if depth > 3 or kind < 0.5:
        return chance.choice([text, text, chance.randint(-(2**63), 2**64 - 1), chance.random() * 10**9, True, None])
    if kind < 0.7:
        return [a_document(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return {
        f"{text}{number}"[chance.randint(0, 1) :]: a_document(chance, depth + 1)
        for number in range(chance.randint(0, 3))
    }


@seeds
def test_what_we_write_reads_back_the_same_in_go(oracle: Oracle, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        document = {"k": a_document(chance)}
        text = yamltext.dump(document)
        assert same(document, json.loads(oracle.ask("yaml", text=text, strict=True)["json"])), text


def test_kubectl_reads_the_same_documents(kubectl: Kubectl) -> None:
    def config_map(name: str, data: str) -> str:
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{data}"

    # Not in JSON: infinities. Not in kubectl's memory: integers beyond 63 bits, which become floats there.
    words = [word for word in WORDS if not re.search(r"(?i)\.(inf|nan)|^(92|184)[0-9]{17}", word)]
    stream = "---\n# nothing\n---\n" + "\n---\n".join(
        [
            config_map("scalars", "".join(f"  k{index}: {word}\n" for index, word in enumerate(words))),
            config_map("anchors", "  a: &a {b: 1}\n  c: {<<: *a, d: yes}\n  e: {b: 2, <<: *a}\n"),
            "~",
            config_map("blocks", "  a: |\n    x\n    y\n  b: >-\n    x\n    y\n"),
        ]
    )
    answer = kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", input=stream).stdout
    theirs = yamltext.load_all(answer, source="kubectl")
    for document in theirs:
        document["metadata"].pop("namespace", None)
    ours = yamltext.load_all(stream, source="stream")
    assert ours == theirs
    assert same(ours, theirs), "a type differs"
