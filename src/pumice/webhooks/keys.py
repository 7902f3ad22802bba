"""The webhooks' authority and serving pair, and when the next ones are due. Pure: time is an argument.

    due            the newest authority, or the serving pair, has lived two thirds of its life
    announced      a new authority stands beside the old ones in the bundle that API servers trust; the old pair still serves
    taken up       once the bundle stands in the configurations and API servers have had time to read it, a pair signed by the new authority serves
    forgotten      old authorities leave the bundle when they expire

So at every moment every certificate that a replica may still serve is signed by an authority that every API server trusts.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from pumice import certificates
from pumice.certificates import Pair
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AUTHORITY_NAME: Final = "pumice-webhooks-ca"
AUTHORITIES_MAX: Final = 4  # in a bundle
# As in Secrets of type kubernetes.io/tls, and cert-manager's; the last one is ours.
CERTIFICATE, KEY, BUNDLE, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"


class Lives(Value):
    """How long things last, and how long API servers get to notice a new authority."""

    authority: dt.timedelta = dt.timedelta(days=3_650)
    pair: dt.timedelta = dt.timedelta(days=90)
    settle: dt.timedelta = dt.timedelta(minutes=2)


class Keys(Value):
    """What all replicas share: authorities, the newest first and with its key, and the pair that they serve with."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    pair: Pair

    @property
    def bundle(self) -> bytes:
        """What API servers are to trust."""
        return b"".join(self.authorities)

    @property
    def newest(self) -> Pair:
        return Pair(self.authorities[0], self.authority_key)

    def data(self) -> dict[str, str]:
        """As a Secret keeps it."""
        parts = {CERTIFICATE: self.pair.certificate, KEY: self.pair.key, BUNDLE: self.bundle}
        return {
            key: base64.b64encode(value).decode()
            for key, value in (parts | {AUTHORITY_KEY: self.authority_key}).items()
        }


def read(data: Mapping[str, str]) -> Keys | None:
    """The keys of a Secret; None where it has none yet, BadInput where they are no keys."""
    if not data.get(CERTIFICATE) or not data.get(AUTHORITY_KEY):
        return None
    try:
        parts = {
            key: base64.b64decode(data.get(key, ""), validate=True) for key in (CERTIFICATE, KEY, BUNDLE, AUTHORITY_KEY)
        }
        bundle = x509.load_pem_x509_certificates(parts[BUNDLE])
        x509.load_pem_x509_certificate(parts[CERTIFICATE])
    except (ValueError, binascii.Error) as error:
        raise BadInput(
            f"the webhooks' Secret holds no certificates: {error}; delete it, and new ones are made"
        ) from error
    authorities = tuple(each.public_bytes(certificates.PEM) for each in bundle)
    return Keys(authorities, parts[AUTHORITY_KEY], Pair(parts[CERTIFICATE], parts[KEY]))


def renew(keys: Keys | None, hosts: Sequence[str], *, now: dt.datetime, lives: Lives, trusted: bytes) -> Keys:
    """The keys as they should be now, `trusted` being the bundle in the configurations: the same object where nothing is due."""
    if keys is None or _expires(keys.authorities[0]) <= now:
        authority = certificates.authority(AUTHORITY_NAME, now=now, life=lives.authority)
        pair = certificates.serving_pair(authority, hosts, now=now, life=lives.pair)
        return Keys((authority.certificate,), authority.key, pair)
    living = tuple(each for each in keys.authorities if _expires(each) > now)[:AUTHORITIES_MAX]
    if living != keys.authorities:
        keys = msgspec.structs.replace(keys, authorities=living)
    if keys.newest.is_due(now):
        authority = certificates.authority(AUTHORITY_NAME, now=now, life=lives.authority)
        announced = (authority.certificate, *keys.authorities)[:AUTHORITIES_MAX]
        return msgspec.structs.replace(keys, authorities=announced, authority_key=authority.key)
    is_old = keys.pair.is_due(now) or not is_signed(keys) or not _serves(keys.pair, hosts)
    has_settled = now - keys.newest.issued >= lives.settle and keys.authorities[0] in trusted
    # No client accepts a pair that has expired: nothing is lost by taking the new one at once.
    if is_old and (has_settled or keys.pair.expires <= now):
        pair = certificates.serving_pair(keys.newest, hosts, now=now, life=lives.pair)
        return msgspec.structs.replace(keys, pair=pair)
    return keys


def _load(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate)


def _expires(certificate: bytes) -> dt.datetime:
    return _load(certificate).not_valid_after_utc


def is_signed(keys: Keys) -> bool:
    """True where the newest authority signed the pair; all of them have the same name, but not the same key."""
    try:
        _load(keys.pair.certificate).verify_directly_issued_by(_load(keys.authorities[0]))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _serves(pair: Pair, hosts: Sequence[str]) -> bool:
    """True where the pair is good for all these names and addresses."""
    try:
        found = _load(pair.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    known = {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}
    return known.issuperset(hosts)
