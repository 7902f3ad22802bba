import pytest

from pumice import selectors
from pumice.selectors import EVERYTHING, NOTHING, SelectorError, parse_field_selector, parse_label_selector

WEB = {"app": "web", "tier": "front", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("   ", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("missing=", False),
        ("empty=", True),
        ("empty", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! app", False),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("app notin (web,db)", False),
        ("missing notin (x)", True),
        ("empty in ()", True),
        ("empty in (a,)", True),
        ("cores>7", True),
        ("cores>8", False),
        ("cores<9", True),
        ("cores<8", False),
        ("app>1", False),
        ("missing<1", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("\tapp\n=\r web , !missing", True),
    ],
)
def test_a_label_selector_matches_as_kubectl_says(text, matches):
    assert parse_label_selector(text).matches(WEB) is matches


def test_in_and_notin_may_be_keys_and_values():
    assert parse_label_selector("in in (in,notin),notin=in").matches({"in": "notin", "notin": "in"})


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("b=1,a==2", "a==2,b=1"),
        ("x in (c, a,,b)", "x in (,a,b,c)"),
        ("x notin ()", "x notin ()"),
        ("!gone , here", "!gone,here"),
        ("n>3,m<4", "m<4,n>3"),
        ("a!=", "a!="),
        ("x in (a,a)", "x in (a)"),
    ],
)
def test_a_label_selector_prints_in_canonical_form(text, printed):
    assert str(parse_label_selector(text)) == printed


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (",", "found ',' where a label's key should be"),
        ("a,", "it ends where a label's key should be"),
        ("a,,b", "found ',' where a label's key should be"),
        ("a b", "found 'b' where =, ==, !=, in, notin, < or > should be"),
        ("!a=b", "found '=' where a comma or the end should be"),
        ("!", "it ends where a label's key should be"),
        ("a=b c", "found 'c' where a comma or the end should be"),
        ("a===b", "found '=' where a value should be"),
        ("a in b", "found 'b' where values in parentheses should be"),
        ("a in", "it ends where values in parentheses should be"),
        ("a in (b", "it ends where a comma or a closing parenthesis should be"),
        ("a in (b c)", "found 'c' where a comma or a closing parenthesis should be"),
        ("a in (b=c)", "found '=' where a comma or a closing parenthesis should be"),
        ("a>b", "Gt needs exactly one value, a 64 bit integer"),
        ("a>9223372036854775808", "a 64 bit integer"),
        ("-a=b", "a key's name has 1 to 63"),
        ("A.b/c=d", "must be a DNS name in lower case"),
        ("/c", "must be a DNS name in lower case"),
        ("a/b/c", "must be a DNS name in lower case"),
        ("a/", "a key's name has 1 to 63"),
        ("a=b_", "value 'b_': a value is empty or has at most 63"),
        (f"{'a' * 64}=b", "1 to 63"),
        (f"a={'b' * 64}", "at most 63"),
        (f"{'a' * 254}/b", "at most 253"),
        ("ä=b", "letters"),
    ],
)
def test_a_broken_label_selector_is_refused_with_its_cause(text, cause):
    with pytest.raises(SelectorError) as failure:
        parse_label_selector(text)
    assert cause in str(failure.value)
    assert "; " in str(failure.value), "the next step is missing"


def test_selectors_of_any_length_are_refused():
    with pytest.raises(SelectorError, match="65537 characters, at most 65536"):
        parse_label_selector("a" * 65537)
    with pytest.raises(SelectorError, match="65537 characters, at most 65536"):
        parse_field_selector("a" * 65537)


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything():
    assert selectors.label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.matches(WEB)
    for empty in ({}, {"matchLabels": {}}, {"matchLabels": None, "matchExpressions": []}):
        assert selectors.label_selector(empty) == EVERYTHING
    assert EVERYTHING.matches({})
    assert NOTHING != EVERYTHING


def test_the_text_of_nothing_cannot_be_read_back_as_everything():
    with pytest.raises(SelectorError):
        parse_label_selector(str(NOTHING))


def test_a_selector_object_joins_its_labels_and_expressions():
    selector = selectors.label_selector(
        {
            "matchLabels": {"tier": "front", "app": "web"},
            "matchExpressions": [
                {"key": "cores", "operator": "In", "values": ["8", "16"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "empty", "operator": "Exists", "values": []},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
            ],
        }
    )
    assert selector.matches(WEB)
    assert not selector.matches({**WEB, "old": ""})
    assert str(selector) == "app=web,cores in (16,8),empty,!old,tier=front,zone notin (z)"


def test_pieces_of_typed_objects_compile_to_the_same_selector():
    pieces = selectors.label_selector_of({"a": "b"}, [("c", "In", ("d",))])
    manifest = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]}
    assert pieces == selectors.label_selector(manifest)
    assert hash(pieces) == hash(selectors.label_selector(manifest))


@pytest.mark.parametrize(
    ("selector", "cause"),
    [
        ({"matchLabels": {"a": 1}}, "quote numbers and booleans"),
        ({"matchLabels": ["a"]}, "must map keys to text"),
        ({"matchLabels": {"a": "b c"}}, "value 'b c'"),
        ({"matchExpressions": {"key": "a"}}, "must be a list of objects"),
        ({"matchExpressions": ["a"]}, "must be a list of objects"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, r"matchExpressions\[0\].values"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}, r"matchExpressions\[0\] needs"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "In needs at least one value"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "Exists takes no values"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            "unknown operator 'Gt'; use one of In",
        ),
        ({"matchExpressions": [{"key": "a"}]}, "unknown operator ''"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "a key's name has 1 to 63"),
    ],
)
def test_a_broken_selector_object_is_refused_with_its_cause(selector, cause):
    with pytest.raises(SelectorError, match=cause):
        selectors.label_selector(selector)


def test_a_requirement_with_an_unknown_operator_is_refused():
    with pytest.raises(SelectorError, match="unknown operator 'Is'; use one of In, NotIn"):
        selectors.requirement_of("a", "Is", ["b"])


def test_equality_takes_labels_as_they_are():
    selector = selectors.equality_of({"b": "not valid!", "a": "1"})
    assert selector.matches({"b": "not valid!", "a": "1", "c": ""})
    assert not selector.matches({"a": "1"})
    assert str(selector) == "a=1,b=not valid!"


POD = {"metadata.name": "p", "spec.nodeName": "n1", "odd": r"a,b=c\d"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=n2", False),
        ("spec.nodeName=n1,metadata.name!=q", True),
        ("missing=", True),
        ("missing!=x", True),
        (r"odd=a\,b\=c\\d", True),
        (",,spec.nodeName=n1,", True),
        ("=", True),
        ("!=", True),
    ],
)
def test_a_field_selector_matches_as_kubectl_says(text, matches):
    assert parse_field_selector(text).matches(POD) is matches


@pytest.mark.parametrize(
    ("text", "printed"),
    [("b==1,a!=2", "a!=2,b=1"), (r"a=\\\,\=", r"a=\\\,\="), ("a=!b", "a=!b"), ("", "")],
)
def test_a_field_selector_prints_in_canonical_form(text, printed):
    assert str(parse_field_selector(text)) == printed


@pytest.mark.parametrize("text", ["a", "a=b,c", "a=b=c", "a=\\", r"a=\b", "a===b"])
def test_a_broken_field_selector_is_refused(text):
    with pytest.raises(SelectorError, match=r"field selector .*; write "):
        parse_field_selector(text)


def a_term(*expressions, fields=()):
    def entries(items):
        return [(key, operator, values) for key, operator, *values in items]

    return entries(expressions), entries(fields)


NODE = {"zone": "a", "cores": "8"}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([a_term()], False),
        ([a_term(("zone", "In", "a", "b"))], True),
        ([a_term(("zone", "In", "b"))], False),
        ([a_term(("zone", "In", "b")), a_term(("zone", "NotIn", "b"))], True),
        ([a_term(("zone", "In", "a"), ("cores", "Gt", "8"))], False),
        ([a_term(("cores", "Gt", "7"), ("cores", "Lt", "9"))], True),
        ([a_term(("zone", "Exists"), ("gone", "DoesNotExist"))], True),
        ([a_term(("zone", "Gt", "1"))], False),
        ([a_term(fields=[("metadata.name", "In", "n1")])], True),
        ([a_term(fields=[("metadata.name", "In", "n2")])], False),
        ([a_term(fields=[("metadata.name", "NotIn", "n2")])], True),
        ([a_term(fields=[("other", "NotIn", "x")])], True),
        ([a_term(("zone", "In", "b"), fields=[("metadata.name", "In", "n1")])], False),
        ([a_term(("zone", "Is", "a")), a_term(("zone", "In", "a"))], True),
        ([a_term(("zone", "In", "not valid!"))], False),
    ],
)
def test_node_affinity_terms_are_ored_and_their_requirements_anded(terms, matches):
    selector = selectors.node_selector_of(terms)
    assert selector.matches(NODE, node_name="n1") is matches


def test_a_broken_term_is_reported_and_does_not_spoil_the_others():
    terms = [
        a_term(("zone", "In", "a b")),
        a_term(fields=[("metadata.name", "In", "n1", "n2")]),
        a_term(("zone", "Exists")),
    ]
    selector = selectors.node_selector_of(terms)
    assert len(selector.terms) == 1
    assert [problem.partition(":")[0] for problem in selector.problems] == [
        "nodeSelectorTerms[0]",
        "nodeSelectorTerms[1]",
    ]
    assert "use In or NotIn with exactly one value" in selector.problems[1]
