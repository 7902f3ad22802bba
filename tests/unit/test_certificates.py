"""Certificates that TLS itself accepts, and refuses where it should."""

import datetime as dt
import ssl
import stat

import pytest

from pumice import certificates

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.fixture
def folder(tmp_path):
    now = dt.datetime.now(dt.UTC)
    authority = certificates.authority("test", now=now)
    authority.write(tmp_path / "ca.crt", tmp_path / "ca.key")
    certificates.serving_pair(authority, ["localhost", "127.0.0.1"], now=now).write(
        tmp_path / "s.crt", tmp_path / "s.key"
    )
    certificates.client_pair(authority, "ann", ["team", "other"], now=now).write(tmp_path / "c.crt", tmp_path / "c.key")
    return tmp_path


def handshake(server, client, name):
    """Both ends in memory; returns the server's picture of its peer."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    a = server.wrap_bio(to_server, to_client, server_side=True)
    b = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for end in (b, a):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return a.getpeercert()


def contexts(folder):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "s.crt", folder / "s.key")
    server.load_verify_locations(folder / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client.load_cert_chain(folder / "c.crt", folder / "c.key")
    return server, client


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_both_sides_trust_what_the_authority_signed(folder, name):
    peer = handshake(*contexts(folder), name)
    subject = [part for relative in peer["subject"] for part in relative]
    assert subject == [("organizationName", "team"), ("organizationName", "other"), ("commonName", "ann")]


def test_another_name_is_not_trusted(folder):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(*contexts(folder), "example.com")


def test_another_authority_is_not_trusted(folder):
    certificates.authority("other", now=dt.datetime.now(dt.UTC)).write(folder / "ca.crt", folder / "ca.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(*contexts(folder), "localhost")


def test_a_client_certificate_cannot_serve(folder):
    server, client = contexts(folder)
    server.load_cert_chain(folder / "c.crt", folder / "c.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "localhost")


def test_keys_are_written_for_their_owner_alone_even_over_an_open_file(tmp_path):
    key = tmp_path / "k"
    key.write_text("old")
    key.chmod(0o644)
    certificates.authority("test", now=NOW).write(tmp_path / "c", key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")


def test_a_pair_is_due_after_two_thirds_of_its_life():
    pair = certificates.serving_pair(certificates.authority("test", now=NOW), ["localhost"], now=NOW)
    assert not pair.is_due(NOW + dt.timedelta(days=242))
    assert pair.is_due(NOW + dt.timedelta(days=244))
    assert pair.expires == NOW + dt.timedelta(days=365)
