"""What must hold for every quantity, selector, instant, duration and manifest."""

import math
from fractions import Fraction

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice import instant, quantity, selectors, yamltext
from pumice.errors import BadInput

INT64 = st.integers(-(2**63), 2**63 - 1)


def outcome(read, text):
    """What the text means, or the error that says why it means nothing."""
    try:
        return read(text)
    except BadInput as error:
        return error


# ------------------------------------------------------------------------------------------------------ quantity

POWERS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1, "k": 10**3, "M": 10**6,
    "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


@st.composite
def quantities(draw):
    """A text, and what it means."""
    digits = draw(st.integers(0, 10**14))
    places = draw(st.integers(0, 6))
    number = f"{digits // 10**places}.{digits % 10**places:0{places}}" if places else str(digits)
    value = Fraction(digits, 10**places)
    if draw(st.booleans()):
        exponent = draw(st.integers(-12, 6))
        suffix, power = f"{draw(st.sampled_from('eE'))}{exponent}", Fraction(10) ** exponent
    else:
        suffix, power = draw(st.sampled_from(sorted(POWERS.items())))
    sign = draw(st.sampled_from(["", "+", "-"]))
    value = value * power * (-1 if sign == "-" else 1)
    if suffix in {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}:
        value = max(-Fraction(2**63 - 1), min(Fraction(2**63 - 1), value))
    return f"{sign}{number}{suffix}", value


def away_from_zero(value):
    return math.ceil(value) if value >= 0 else math.floor(value)


def within_int64(value):
    return max(-(2**63), min(2**63 - 1, value))


@given(quantities())
def test_a_quantity_is_its_value_rounded_away_from_zero(text_and_value):
    text, value = text_and_value
    assert quantity.parse_value(text) == within_int64(away_from_zero(value))
    assert quantity.parse_milli(text) == within_int64(away_from_zero(value * 1000))


@given(quantities())
def test_a_canonical_quantity_is_equal_and_prints_as_itself(text_and_value):
    text, _ = text_and_value
    printed = quantity.canonical(text)
    assert quantity.compare(text, printed) == 0
    assert quantity.canonical(printed) == printed


@given(quantities(), quantities())
def test_quantities_are_ordered_as_their_values(first, second):
    nano = [away_from_zero(value * 10**9) for _, value in (first, second)]
    order = quantity.compare(first[0], second[0])
    assert (order > 0) - (order < 0) == (nano[0] > nano[1]) - (nano[0] < nano[1])


@given(INT64)
def test_formatted_integers_read_back(number):
    assert quantity.parse_milli(quantity.format_milli(number)) == number
    assert quantity.parse_value(quantity.format_bytes(number)) == max(number, -(2**63) + 1)


@given(st.text("0123456789+-.eEinumkKMGTP \t", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_quantity_or_a_clear_error(text):
    result = outcome(quantity.canonical, text)
    if isinstance(result, quantity.QuantityError):
        assert str(result).startswith("quantity ")
        assert ";" in str(result)
    else:
        assert quantity.compare(result, text) == 0


# ----------------------------------------------------------------------------------------------------- selectors

NAMES = st.from_regex(r"[a-z]([-a-z_.]{0,3}[a-z])?", fullmatch=True)
KEYS = NAMES | st.builds("{}/{}".format, st.sampled_from(["example.com", "volcano.sh"]), NAMES)
VALUES = st.just("") | NAMES | st.integers(0, 9).map(str)
LABELS = st.dictionaries(KEYS, VALUES, max_size=4)
EXPRESSIONS = st.tuples(KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=3)) | st.tuples(
    KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])
)
NEGATION = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


@given(LABELS, st.lists(EXPRESSIONS, max_size=3), LABELS)
def test_a_selector_reads_back_from_its_text(match_labels, expressions, labels):
    selector = selectors.label_selector_of(match_labels, expressions)
    again = selectors.parse_label_selector(str(selector))
    assert str(again) == str(selectors.parse_label_selector(str(again)))
    assert again.matches(labels) == selector.matches(labels)


@given(EXPRESSIONS, LABELS)
def test_an_expression_or_its_negation_matches_and_never_both(expression, labels):
    key, operator, values = expression
    plain = selectors.label_selector_of({}, [expression])
    negated = selectors.label_selector_of({}, [(key, NEGATION[operator], values)])
    assert plain.matches(labels) != negated.matches(labels)


@given(st.lists(EXPRESSIONS, max_size=3), LABELS)
def test_requirements_are_anded_and_node_terms_are_ored(expressions, labels):
    each = [selectors.label_selector_of({}, [expression]).matches(labels) for expression in expressions]
    assert selectors.label_selector_of({}, expressions).matches(labels) == all(each)
    terms = selectors.node_selector_of([([expression], []) for expression in expressions])
    assert terms.matches(labels, node_name="n") == any(each)


@given(LABELS)
def test_labels_match_the_selector_made_of_them(labels):
    assert selectors.label_selector({"matchLabels": labels}).matches(labels)
    assert selectors.equality_of(labels) == selectors.label_selector({"matchLabels": labels})


@given(st.dictionaries(st.text("ab.", min_size=1, max_size=3), st.text(max_size=5), max_size=3), st.booleans())
def test_a_field_selector_reads_back_from_its_text(fields, wanted):
    selector = selectors.FieldSelector(tuple((name, value, wanted) for name, value in fields.items()))
    again = selectors.parse_field_selector(str(selector))
    assert sorted(again.terms) == sorted(selector.terms)
    assert selector.matches(fields) is (wanted or not fields)


@given(st.text("ab=!(),<> \tin\\", max_size=12))
def test_any_text_is_a_selector_or_a_clear_error(text):
    for parse in (selectors.parse_label_selector, selectors.parse_field_selector):
        result = outcome(parse, text)
        if isinstance(result, selectors.SelectorError):
            assert ";" in str(result)
        else:
            assert parse(str(result)) == result


# ------------------------------------------------------------------------------------------------------- instant

INSTANTS = st.integers(-62_135_596_800 * 10**9, 253_402_300_800 * 10**9 - 1)


@given(INSTANTS)
def test_a_written_instant_reads_back_without_what_was_cut_off(value):
    assert instant.parse_instant(instant.format_instant(value)) == value - value % instant.SECOND
    assert instant.parse_instant(instant.format_micro_instant(value)) == value - value % instant.MICROSECOND


@given(INSTANTS, INSTANTS)
def test_micro_instants_sort_as_text(first, second):
    texts = instant.format_micro_instant(first), instant.format_micro_instant(second)
    assert (texts[0] < texts[1]) == (first // 1000 < second // 1000)


@given(INT64)
def test_a_written_duration_reads_back_exactly(duration):
    assert instant.parse_duration(instant.format_duration(duration)) == duration


@given(INT64, INT64)
def test_an_older_age_never_looks_younger(first, second):
    def seconds(age):
        text = instant.human_duration(age)
        units = {"y": 365 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}
        total, digits = 0, ""
        for letter in "-1s" if text == "<invalid>" else text:
            if letter in units:
                total, digits = total + int(digits) * units[letter], ""
            else:
                digits += letter
        return total

    younger, older = sorted((first, second))
    assert seconds(younger) <= seconds(older)


@given(st.text("0123456789.-+hmsnu\u00b5 ", max_size=12) | st.text("0123456789-:TZ.,+", max_size=30))
def test_any_text_is_a_time_or_a_clear_error(text):
    for parse in (instant.parse_duration, instant.parse_instant):
        result = outcome(parse, text)
        assert isinstance(result, int) or "; write " in str(result)


# ---------------------------------------------------------------------------------------------------------- yaml

TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.text("0123456789eE+-._xob:TZyn~ #\n", max_size=8)
    | st.sampled_from(
        ["yes", "No", "on", "y", "N", "null", "~", "<<", "=", "1e3", "0x1", "010", ".inf", "true", "- a", "a: b"]
    )
)
# As in JSON, a float that is a whole number comes back as an integer.
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not number.is_integer()
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, DOCUMENTS, max_size=4))
def test_a_dumped_document_reads_back_the_same(document):
    [again] = yamltext.load_all(yamltext.dump(document), source="dump")
    assert again == document
    assert list(again) == list(document)
    assert repr(again) == repr(document), "a type changed"


@given(st.dictionaries(TEXTS, DOCUMENTS, max_size=4))
def test_other_readers_of_yaml_see_the_same_text(document):
    def texts(value):
        if isinstance(value, dict):
            return {text for pair in value.items() for item in pair for text in texts(item)}
        if isinstance(value, list):
            return {text for item in value for text in texts(item)}
        return {value} if isinstance(value, str) else set()

    assert texts(yaml.load(yamltext.dump(document), yaml.CSafeLoader)) == texts(document)


@given(st.text("ab:-[]{},'\"&*!|>#\n \t?<~01.", max_size=30))
def test_any_text_is_yaml_or_a_clear_error(text):
    result = outcome(lambda text: yamltext.load_all(text, source="fuzz"), text)
    if isinstance(result, yamltext.YamlError):
        assert str(result).startswith("fuzz")
        assert ";" in str(result)
    else:
        assert None not in result
