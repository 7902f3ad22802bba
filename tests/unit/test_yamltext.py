import pytest

from pumice import yamltext
from pumice.yamltext import YamlError


def load(text):
    return yamltext.load_all(text, source="job.yaml")


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("TRUE", True),
        ("no", False),
        ("off", False),
        ("N", False),
        ("yEs", "yEs"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("1_000", 1000),
        ("010", 8),
        ("08", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("9223372036854775808", 2**63),
        ("18446744073709551616", 2.0**64),
        ("1234567890123456789.0", 1234567890123456800),
        ("0xFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFF"),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1.0", 1),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1.", 1),
        ("1e400", "1e400"),
        ("0b-11", -3),
        (".5_5", 0.55),
        ("._5", "._5"),
        ("9" * 5000, "9" * 5000),
        ("1.2.3", "1.2.3"),
        ("12:30:45", "12:30:45"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("1Gi", "1Gi"),
        ("'12'", "12"),
        ('"yes"', "yes"),
        ("!!str 12", "12"),
        ("!!int 0x10", 16),
        ("!!float 3", 3),
        ("!!float 9007199254740993", 9007199254740992),
        ("!!bool on", True),
        ("!!null null", None),
        ("!custom 12", "12"),
        ("! 12", "12"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_a_scalar_has_the_type_that_kubectl_sees(scalar, value):
    [document] = load(f"key: {scalar}\n")
    assert document == {"key": value}
    assert type(document["key"]) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("12", "12"),
        ("0x10", "16"),
        ("1.10", "1.1"),
        ("1.28", "1.28"),
        ("0.1", "0.1"),
        ("1e3", "1000"),
        ("1e6", "1e+06"),
        ("1e-5", "1e-05"),
        ("yes", "true"),
        ("off", "false"),
        ("2026-01-31", "2026-01-31"),
        ("'<<'", "<<"),
    ],
)
def test_a_key_becomes_text_as_in_json(key, text):
    assert load(f"{key}: x") == [{text: "x"}]


def test_several_documents_are_read_and_empty_ones_dropped():
    assert load("---\na: 1\n---\n# nothing\n---\n~\n--- # more\n- b\n...\n---\n{}\n") == [{"a": 1}, ["b"], {}]
    assert load("") == []
    assert load("# only a comment\n") == []


def test_json_is_read_alone_and_as_a_stream():
    assert load('\n {"a": [1, 2.50, 1.0, "\\ud83d\\ude00"]} ') == [{"a": [1, 2.5, 1, "😀"]}]
    assert load('{"a": 1}{"b": 2}\n{"c": 3}') == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert load('{"a": 1}\n---\n{"b": yes}\n') == [{"a": 1}, {"b": True}]
    assert load("{a: 1}") == [{"a": 1}]


def test_bytes_are_utf_8_with_or_without_a_mark():
    assert load("a: ü".encode()) == [{"a": "ü"}]
    assert load("\ufeffa: ü".encode()) == [{"a": "ü"}]
    assert load("\ufeffa: ü") == [{"a": "ü"}]


def test_an_alias_is_a_copy_of_its_anchor():
    [document] = load("a: &x {k: [1]}\nb: *x\n")
    document["a"]["k"].append(2)
    assert document["b"] == {"k": [1]}


def test_merged_objects_give_way_to_the_keys_that_follow_and_override_those_before():
    text = "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nall: {<<: [*one, *two], c: 3}\nsingle: {<<: *two, d: 4}\n"
    text += "late: {c: 3, <<: *two}\n"
    [document] = load(text)
    assert document["all"] == {"a": 1, "b": 1, "c": 3}
    assert document["single"] == {"b": 2, "c": 2, "d": 4}
    assert document["late"] == {"b": 2, "c": 2}


def test_an_anchored_key_can_be_used_again():
    assert load("&k name: v\nagain: *k") == [{"name": "v", "again": "name"}]


def test_anchors_end_with_their_document():
    with pytest.raises(YamlError, match=r"line 3: alias \*x has no anchor"):
        load("a: &x 1\n---\nb: *x\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "job.yaml, line 3: key 'a' occurs twice in one object; remove one of them"),
        ("a: {b: 1,\n b: 2}", "job.yaml, line 2: key 'b' occurs twice in one object; remove one of them"),
        ("1: x\n'1': y", "job.yaml, line 2: key '1' occurs twice in one object; remove one of them"),
        ('{"a": 1,\n"a": 2}', "job.yaml, line 2: key 'a' occurs twice in one object; remove one of them"),
        (
            '{}\n{"a": 1, "a": 2}',
            "job.yaml, JSON object of line 2: key 'a' occurs twice in one object; correct the JSON",
        ),
        ('{}\n{"a": NaN}', "job.yaml, JSON object of line 2: JSON knows no number NaN"),
        ('{}\n{"a": 1e999}', "job.yaml, JSON object of line 2: number 1e999 is too large"),
        (
            "a:\n\t- b",
            "job.yaml, line 2: while scanning for the next token found character that cannot start any token; indent with",
        ),
        ("a: b: c", "job.yaml, line 1: mapping values are not allowed in this context; correct the YAML there"),
        ("a: [1", "; correct the YAML there"),
        ("x: y\na: \x01", "job.yaml, line 2: control characters are not allowed; remove or escape the character"),
        ("a: &a [*a]", "job.yaml, line 1: the value of &a contains itself; write it out"),
        ("a: .inf", "job.yaml, line 1: JSON knows no number '.inf'"),
        ("a: .NaN", "job.yaml, line 1: JSON knows no number '.NaN'"),
        ("a: !!int x", "job.yaml, line 1: 'x' is no int"),
        ("a: !!binary eA==", "job.yaml, line 1: !!binary has no meaning in JSON"),
        ("~: 1", "job.yaml, line 1: a key of type NoneType, but JSON keys are text"),
        ("? [a]\n: 1", "job.yaml, line 1: a key of type list, but JSON keys are text"),
        ("18446744073709551615: 1", "job.yaml, line 1: a key of type int, but JSON keys are text"),
        (".inf: 1", "job.yaml, line 1: a key of type float, but JSON keys are text"),
        ("1e300: 1", "job.yaml, line 1: a key of type float, but JSON keys are text"),
        ("<<: 3", "job.yaml, line 1: << takes an object"),
        (b"a: \xff", "job.yaml: not UTF-8"),
        ("a: \ud800", "job.yaml: not UTF-8"),
    ],
)
def test_a_broken_text_is_refused_with_source_line_and_next_step(text, message):
    with pytest.raises(YamlError) as failure:
        load(text)
    assert message in str(failure.value)


def test_aliases_that_explode_are_refused():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(YamlError, match=r"line 6: aliases add more than 100000 values"):
        load("\n".join(levels))


@pytest.mark.parametrize("text", ["[" * 252 + "]" * 252, '{"a":' * 252 + "1" + "}" * 252, '{"a":' * 100_000])
def test_deep_nesting_is_refused(text):
    with pytest.raises(YamlError, match="nested deeper than 250 levels"):
        load(text)


@pytest.mark.parametrize("text", ["[" * 250 + "]" * 250, '{"a":' * 250 + "1" + "}" * 250])
def test_nesting_up_to_the_limit_is_read(text):
    assert load(text)


def test_a_huge_text_is_refused():
    with pytest.raises(YamlError, match="at most 16777216; split it"):
        load(b"#" * (16 * 2**20 + 1))


def test_an_object_is_written_in_block_style_in_its_own_order():
    manifest = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "spec": {
            "tasks": [{"name": "a", "command": ["sh", "-c", "echo 1\necho 2\n"]}],
            "plugins": {"ssh": []},
            "x": {},
        },
    }
    assert yamltext.dump(manifest) == (
        "kind: Job\n"
        "apiVersion: batch.volcano.sh/v1alpha1\n"
        "spec:\n"
        "  tasks:\n"
        "  - name: a\n"
        "    command:\n"
        "    - sh\n"
        "    - -c\n"
        "    - |\n"
        "      echo 1\n"
        "      echo 2\n"
        "  plugins:\n"
        "    ssh: []\n"
        "  x: {}\n"
    )


@pytest.mark.parametrize(
    "text", ["yes", "n", "1e3", "0o17", "1_000", "~", "", "null", ".5", "12:30:45", "2026-01-31", "010"]
)
def test_text_that_looks_like_something_else_is_quoted(text):
    assert yamltext.dump({"key": text}) == f"key: '{text}'\n"
    assert yamltext.dump({text: 1}) == f"'{text}': 1\n"


def test_long_text_stays_on_one_line_and_shared_values_are_written_out():
    shared = ["word " * 60 + "end"]
    assert yamltext.dump({"a": shared, "b": shared}) == f"a:\n- {shared[0]}\nb:\n- {shared[0]}\n"
