"""Who is calling: static tokens, service accounts' tokens, client certificates."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.local.apiserver.request_parsing import Caller
from pumice.local.apiserver.store import decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.local.apiserver.backend import Backend

ISSUER = "https://kubernetes.default.svc.cluster.local"
TOKEN_SECONDS_DEFAULT = 3_600
TOKEN_SECONDS_MIN, TOKEN_SECONDS_MAX = 600, 2**32
TOKEN_CHARS_MAX = 8_192
AUTHENTICATED = "system:authenticated"
ACCOUNT_PREFIX = "system:serviceaccount:"
_HEADER = {"alg": "HS256", "typ": "JWT"}


class Authenticator:
    """Turns credentials into callers. `key` signs service accounts' tokens; without it they could be forged."""

    def __init__(self, backend: Backend, *, key: bytes, tokens: Mapping[str, Caller]) -> None:
        self.backend = backend
        self._key = key
        # Compared by digest, so that the time of a look-up says nothing about a token.
        self._tokens = {hashlib.sha256(token.encode()).digest(): caller for token, caller in tokens.items()}

    def by_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Caller | None:
        if len(token) > TOKEN_CHARS_MAX:
            return None
        known = self._tokens.get(hashlib.sha256(token.encode()).digest())
        if known is not None:
            return known if ISSUER in audiences else None
        claims = self.claims(token)
        return self._account(claims, audiences) if claims else None

    def by_certificate(self, name: str, organisations: tuple[str, ...]) -> Caller | None:
        """The caller that a certificate names, once TLS has verified it."""
        return Caller(name, (*organisations, AUTHENTICATED)) if name else None

    def issue(
        self, account: dict[str, Any], *, seconds: int, audiences: list[str], bound: dict[str, Any] | None
    ) -> tuple[str, int]:
        """A token for a service account, and the second at which it ends."""
        metadata = account["metadata"]
        now = self.backend.now() // instant.SECOND
        inner: dict[str, Any] = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound:
            inner[bound["kind"].lower()] = {"name": bound["name"], "uid": bound.get("uid", "")}
        claims = {
            "iss": ISSUER,
            "sub": f"{ACCOUNT_PREFIX}{metadata['namespace']}:{metadata['name']}",
            "aud": audiences or [ISSUER],
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "kubernetes.io": inner,
        }
        body = f"{_part(_HEADER)}.{_part(claims)}"
        return f"{body}.{_text(self._sign(body))}", now + seconds

    def _sign(self, body: str) -> bytes:
        return hmac.new(self._key, body.encode(), hashlib.sha256).digest()

    def claims(self, token: str) -> dict[str, Any] | None:
        """What a token of ours says, if its signature and its time are good."""
        body, _, signature = token.rpartition(".")
        try:
            given = _bytes(signature)
            header, claims = (decode(_bytes(part)) for part in body.split("."))
        except (ValueError, binascii.Error):
            return None
        if header != _HEADER or not hmac.compare_digest(given, self._sign(body)) or not isinstance(claims, dict):
            return None
        now = self.backend.now() // instant.SECOND
        return claims if claims["nbf"] <= now < claims["exp"] else None

    def _account(self, claims: dict[str, Any], audiences: Sequence[str]) -> Caller | None:
        """The account, while it (and the pod that the token is bound to) still stands."""
        inner = claims["kubernetes.io"]
        namespace, account = inner["namespace"], inner["serviceaccount"]
        if not set(audiences) & set(claims["aud"]):
            return None
        for kind, held in (("serviceaccounts", account), ("pods", inner.get("pod")), ("secrets", inner.get("secret"))):
            if held:
                entry = self.backend.store.get(kind, namespace, held["name"])
                if entry is None or (held.get("uid") and entry.uid != held["uid"]):
                    return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return Caller(claims["sub"], groups, uid=account["uid"])


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _part(value: Any) -> str:
    return _text(encode(value))


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
