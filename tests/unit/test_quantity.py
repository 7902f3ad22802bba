import pytest

from pumice import quantity
from pumice.quantity import QuantityError

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("1", 1000),
        ("+1", 1000),
        ("-1", -1000),
        ("007", 7000),
        ("500m", 500),
        ("1.5", 1500),
        (".5", 500),
        ("1.", 1000),
        ("100n", 1),
        ("1500u", 2),
        ("2k", 2_000_000),
        ("1M", 10**9),
        ("1G", 10**12),
        ("1T", 10**15),
        ("1P", 10**18),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1536 * 2**20 * 1000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("12e-3", 12),
        ("1e-1000", 1),
        ("-1n", -1),
        (" 2 ", 2000),
        (3, 3000),
        (0.1, 100),
        (1e-05, 1),
        (1e22, INT64_MAX),
    ],
)
def test_an_amount_is_read_in_thousandths_rounded_away_from_zero(text, milli):
    assert quantity.parse_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1m", 1),
        ("-1m", -1),
        ("1001m", 2),
        ("0.1Ki", 103),
        ("-0.3Ki", -308),
        ("1Mi", 2**20),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1E", 10**18),
        ("263854752Ki", 263854752 * 1024),
    ],
)
def test_an_amount_is_read_in_whole_units_rounded_away_from_zero(text, value):
    assert quantity.parse_value(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "8Ei", "1e2000000000", "100000000000000000000000"])
def test_an_amount_beyond_int64_saturates_and_never_looks_like_nothing(text):
    assert quantity.parse_value(text) == INT64_MAX
    assert quantity.parse_milli(text) == INT64_MAX
    assert quantity.parse_milli(f"-{text}") <= -INT64_MAX


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1025Mi", "1025Mi"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("100Ki", "100Ki"),
        ("8Ei", "9223372036854775807"),
        ("1e3", "1e3"),
        ("12345e1", "123450"),
        ("1000e3", "1e6"),
        ("0.1n", "1n"),
        ("1e-10", "1e-9"),
        ("1000E", "1e21"),
        (2, "2"),
        (1.0, "1"),
        # Short texts that look canonical to apimachinery stay as they are.
        ("+5", "+5"),
        ("1.250", "1.250"),
        ("1E3", "1E3"),
        ("0007", "0007"),
    ],
)
def test_a_quantity_prints_as_an_api_server_prints_it(text, printed):
    assert quantity.canonical(text) == printed


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("1", "1000m", 0),
        ("1Gi", "1G", 1),
        ("1n", "2n", -1),
        ("-1", "1", -1),
        ("-2", "-1", -1),
        ("0", "-1", 1),
        ("0", "0Ki", 0),
        ("1e2000000000", "1e1999999999", 1),
        ("-1e2000000000", "5", -1),
        ("10e5", "1e6", 0),
    ],
)
def test_quantities_are_compared_exactly(left, right, order):
    result = quantity.compare(left, right)
    assert (result > 0) - (result < 0) == order


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        "+",
        "-",
        ".",
        "Ki",
        "1 Gi",
        "1e",
        "1e+",
        "1e5.5",
        "1ki",
        "1Kb",
        "0x10",
        "1_000",
        "--1",
        "1..2",
        "1,5",
        "٣",
    ],
)
def test_a_broken_text_is_refused(text):
    with pytest.raises(QuantityError, match="quantity "):
        quantity.parse_milli(text)


@pytest.mark.parametrize("number", [True, float("nan"), float("inf"), None])
def test_what_is_not_a_finite_number_is_refused(number):
    with pytest.raises(QuantityError, match="quantity"):
        quantity.parse_value(number)


def test_an_error_names_the_text_the_cause_and_what_to_write():
    with pytest.raises(QuantityError) as failure:
        quantity.parse_value("16GB")
    assert str(failure.value) == (
        "quantity '16GB': not a number with an optional suffix; did you mean G (powers of 1000) or Gi (powers of 1024)?"
    )
    with pytest.raises(QuantityError, match=r"unknown suffix 'K'; did you mean k \(powers of 1000\) or Ki"):
        quantity.parse_value("1K")
    with pytest.raises(QuantityError, match='write for example "500m"'):
        quantity.parse_value("lots")


def test_a_text_beyond_the_limits_is_refused():
    with pytest.raises(QuantityError, match="513 characters, at most 512"):
        quantity.parse_value("1" * 513)
    assert quantity.parse_value("1" * 512) == INT64_MAX
    with pytest.raises(QuantityError, match="far beyond 64 bits"):
        quantity.parse_value(10**5000)
    with pytest.raises(QuantityError, match="32 bits"):
        quantity.parse_value(f"1e{2**31}")


@pytest.mark.parametrize(("milli", "text"), [(0, "0"), (1500, "1500m"), (2000, "2"), (-250, "-250m"), (10**6, "1k")])
def test_thousandths_print_as_a_decimal_quantity(milli, text):
    assert quantity.format_milli(milli) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1000, "1k"),
        (1024, "1Ki"),
        (2**30, "1Gi"),
        (2**30 + 1, "1073741825"),
        (-(2**20), "-1Mi"),
    ],
)
def test_bytes_print_as_a_binary_quantity(value, text):
    assert quantity.format_bytes(value) == text
