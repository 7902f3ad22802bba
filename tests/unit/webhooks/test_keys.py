"""Rotation: at every moment every certificate in use is signed by an authority that API servers trust."""

import datetime as dt
import ssl

import pytest
from cryptography import x509

from pumice import certificates
from pumice.errors import BadInput
from pumice.webhooks import keys
from pumice.webhooks.certificate_store import ServingContext
from pumice.webhooks.keys import AUTHORITIES_MAX, Lives, read, renew

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOSTS = ("pumice-webhooks.pumice-system.svc", "127.0.0.1")
DAY = dt.timedelta(days=1)
LIVES = Lives(authority=90 * DAY, pair=30 * DAY, settle=dt.timedelta(minutes=2))


def at(days, known, *, trusted=None):
    bundle = known.bundle if trusted is None and known is not None else trusted or b""
    return renew(known, HOSTS, now=START + days * DAY, lives=LIVES, trusted=bundle)


def is_trusted(pair, bundle):
    """True where somebody who trusts the bundle accepts the pair."""
    served = x509.load_pem_x509_certificate(pair.certificate)
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            served.verify_directly_issued_by(authority)
        except Exception:  # noqa: BLE001  another one may have signed it
            continue
        return True
    return False


def test_the_first_keys_fit_together():
    made = at(0, None)
    assert is_trusted(made.pair, made.bundle)
    assert made.pair.expires == START + 30 * DAY


def test_nothing_is_renewed_before_two_thirds_of_its_life():
    made = at(0, None)
    assert at(19, made) is made


def test_after_two_thirds_of_its_life_the_pair_is_renewed_by_the_same_authority():
    made = at(0, None)
    after = at(20.5, made)
    assert after.authorities == made.authorities
    assert after.pair != made.pair
    assert is_trusted(after.pair, made.bundle)


def test_a_new_authority_is_announced_before_anything_that_it_signed_is_served():
    made = at(0, None)
    made = at(20.5, made)
    made = at(41, made)
    announced = at(60.5, made)
    assert len(announced.authorities) == 2
    assert announced.authorities[1:] == made.authorities
    assert announced.pair == made.pair


def test_a_new_authority_is_taken_up_once_it_is_trusted_and_has_settled():
    before = at(41, at(20.5, at(0, None)))
    announced = at(60.5, before)
    minute = 1 / 24 / 60
    assert at(60.5 + minute, announced) is announced, "API servers may not have read it"
    assert at(60.5 + 3 * minute, announced, trusted=before.bundle) is announced, "the configurations do not hold it"
    taken_up = at(60.5 + 3 * minute, announced)
    assert taken_up.pair != announced.pair
    assert is_trusted(taken_up.pair, announced.bundle)
    assert is_trusted(taken_up.pair, announced.authorities[0])


def test_an_expired_authority_leaves_the_bundle():
    made = at(0, None)
    announced = at(60.5, made)
    assert len(at(91, announced).authorities) == 1


def test_what_is_served_is_trusted_all_through_a_year():
    """API servers read a bundle one look late; replicas take up pairs at once or one look late."""
    known, trusted, before = None, b"", None
    for hour in range(0, 24 * 365, 8):
        known = renew(known, HOSTS, now=START + hour * DAY / 24, lives=LIVES, trusted=trusted)
        for pair in (known.pair, before or known.pair):
            assert is_trusted(pair, trusted or known.bundle), f"hour {hour}"
            assert pair.expires > START + hour * DAY / 24, f"hour {hour}"
        assert len(known.authorities) <= AUTHORITIES_MAX
        trusted, before = known.bundle, known.pair


def test_after_a_long_sleep_everything_is_made_anew():
    made = at(0, None)
    after = at(400, made)
    assert set(after.authorities).isdisjoint(made.authorities)
    assert is_trusted(after.pair, after.bundle)


def test_a_pair_that_expired_is_replaced_at_once():
    made = at(0, None)
    after = at(31, made, trusted=b"")
    assert after.pair.expires > START + 31 * DAY


def test_a_new_name_brings_a_new_pair():
    made = at(0, None)
    hosts = (*HOSTS, "localhost")
    after = renew(made, hosts, now=START + DAY, lives=LIVES, trusted=made.bundle)
    assert after.authorities == made.authorities
    assert after.pair != made.pair


def test_a_secret_keeps_keys_as_they_are():
    made = at(60.5, at(0, None))
    assert read(made.data()) == made


def test_an_empty_secret_holds_no_keys():
    assert read({}) is None


def test_a_secret_with_something_else_is_refused_with_a_next_step():
    data = at(0, None).data() | {keys.BUNDLE: "bm8="}
    with pytest.raises(BadInput, match="delete it"):
        read(data)


# ------------------------------------------------------------------------------------------------------------ serving


def test_a_context_takes_up_a_pair_once():
    context, made = ServingContext(), at(0, None)
    assert context.take_up(made.pair)
    assert not context.take_up(made.pair)
    assert context.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_pair_that_does_not_fit_together_is_refused_and_the_old_one_stays():
    context, made, other = ServingContext(), at(0, None), at(0, None)
    context.take_up(made.pair)
    with pytest.raises(BadInput, match="renew them"):
        context.take_up(certificates.Pair(made.pair.certificate, other.pair.key))
    assert not context.take_up(made.pair)
