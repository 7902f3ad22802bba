"""Certificate authorities and pairs signed by them, for the embedded server, its clients and the webhooks.

Elliptic keys (P-256), because they are made in a millisecond; files with keys are readable by their owner alone.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AUTHORITY_LIFE = dt.timedelta(days=3_650)
PAIR_LIFE = dt.timedelta(days=365)
PEM = serialization.Encoding.PEM
# A peer whose clock is a little behind must not find the certificate from the future.
CLOCK_SKEW = dt.timedelta(minutes=5)
_SKEW_SHARE = 20  # of a short life at most one in so many parts lies before its beginning


class Pair(Value):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        """Puts both into files; the key's is never readable by others, not even for a moment."""
        certificate.write_bytes(self.certificate)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # a file that was there keeps its mode otherwise
            file.write(self.key)

    @property
    def expires(self) -> dt.datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    @property
    def issued(self) -> dt.datetime:
        """When it was made, which is a little after it began to be valid."""
        loaded = x509.load_pem_x509_certificate(self.certificate)
        start, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
        return start + min(CLOCK_SKEW, (end - start) / (_SKEW_SHARE + 1))

    def is_whole(self, authority: Pair) -> bool:
        """Whether key and certificate belong together and the authority has signed them; a crash may have come between two files."""
        try:
            loaded = x509.load_pem_x509_certificate(self.certificate)
            loaded.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
            return loaded.public_key() == serialization.load_pem_private_key(self.key, None).public_key()
        except (ValueError, TypeError, InvalidSignature):
            return False

    def is_due(self, now: dt.datetime) -> bool:
        """True after two thirds of the certificate's life: time to make a new one."""
        loaded = x509.load_pem_x509_certificate(self.certificate)
        start, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
        return now >= start + (end - start) * 2 / 3


def _name(common_name: str, organisations: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation) for organisation in organisations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def authority(common_name: str, *, now: dt.datetime, life: dt.timedelta = AUTHORITY_LIFE) -> Pair:
    """A self-signed authority that may sign pairs but no further authorities."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(common_name)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key(), now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(PEM), _key_pem(key))


def serving_pair(signer: Pair, hosts: Sequence[str], *, now: dt.datetime, life: dt.timedelta = PAIR_LIFE) -> Pair:
    """A pair for a server that is reached under these names and addresses."""
    alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    return _sign(signer, _name(hosts[0]), ExtendedKeyUsageOID.SERVER_AUTH, alternatives, now, life)


def client_pair(signer: Pair, user: str, groups: Sequence[str] = (), *, now: dt.datetime) -> Pair:
    """A pair by which a client proves its user name (CN) and groups (O)."""
    return _sign(signer, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None, now)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime, life: dt.timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(CLOCK_SKEW, life / _SKEW_SHARE))
        .not_valid_after(now + life)
    )


def _sign(
    signer: Pair,
    subject: x509.Name,
    usage: x509.ObjectIdentifier,
    alternatives: x509.SubjectAlternativeName | None,
    now: dt.datetime,
    life: dt.timedelta = PAIR_LIFE,
) -> Pair:
    issuer = x509.load_pem_x509_certificate(signer.certificate)
    issuer_key = serialization.load_pem_private_key(signer.key, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return Pair(certificate.public_bytes(PEM), _key_pem(key))
