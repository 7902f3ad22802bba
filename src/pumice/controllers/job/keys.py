"""Key pairs for the ssh plugin: made by the executor, because they take chance and time."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pumice.controllers.job.plugins.ssh import AUTHORIZED, PRIVATE, PUBLIC
from pumice.errors import BadInput

if TYPE_CHECKING:
    from pumice.api.meta import Json

KEY_BITS = 2048
_EXPONENT = 65_537


async def fill(secret: Json) -> Json:
    """The Secret with a fresh pair, or with the public key that belongs to the private one in it."""
    return await asyncio.to_thread(fill_keys, secret)


def fill_keys(secret: Json) -> Json:
    data = secret["data"]
    if PRIVATE in data:
        private = base64.b64decode(data[PRIVATE])
        public = _public_of(private)
    else:
        private, public = _pair()
    line = base64.b64encode(public).decode()
    more = {PRIVATE: base64.b64encode(private).decode(), PUBLIC: line, AUTHORIZED: line}
    return {**secret, "data": {**data, **more}}


def _pair() -> tuple[bytes, bytes]:
    key = rsa.generate_private_key(_EXPONENT, KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return private, key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def _public_of(private: bytes) -> bytes:
    read = serialization.load_ssh_private_key if b"OPENSSH" in private else serialization.load_pem_private_key
    try:
        key = read(private, password=None)
        return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInput(
            f"plugin ssh: --ssh-private-key cannot be read: {error}; give a PEM key without a password, or --ssh-public-key too"
        ) from error
