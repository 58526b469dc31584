"""Bearer tokens that an identity provider signed: JWT, checked against its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jwt

from grundlag_bus.errors import ConfigurationError, UnauthenticatedError
from grundlag_bus.gateway.access import is_user_id
from grundlag_bus.gateway.key_set import KeySet

if TYPE_CHECKING:
    from collections.abc import Sequence

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The ones whose key cannot sign: with HS256, who knows the public key could."""
LEEWAY_SECONDS = 30.0


class JwtTokens:
    """Knows users by the `sub` of tokens that are signed, in time, by this issuer and for this audience."""

    def __init__(self, jwks: str, *, audience: str, issuer: str, algorithms: Sequence[str] = ALGORITHMS) -> None:
        """jwks: an https:// address, or a file. Raises ConfigurationError."""
        if not audience or not issuer:
            raise ConfigurationError("Tokens by a JWKS need an audience and an issuer, or any token of it would do.")
        if not algorithms or not set(algorithms) <= set(ALGORITHMS):
            raise ConfigurationError(f"Tokens are checked by {', '.join(ALGORITHMS)}, and by no other algorithm.")
        self._keys = KeySet(jwks)
        self._audience = audience
        self._issuer = issuer
        self._algorithms = list(algorithms)

    async def user_id(self, token: str) -> str:
        """See `Authenticator.user_id`. Raises Refused while the keys cannot be had."""
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in self._algorithms:
                raise UnauthenticatedError("The token is signed by an algorithm that this host does not take.")
            key = await self._keys.find(head.get("kid"))
            if key is None:
                raise UnauthenticatedError("The token is signed by a key that its issuer does not publish.")
            claims = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "sub", "aud", "iss"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise UnauthenticatedError(f"The token is not valid here: {_why(error)}.") from error
        user_id = claims["sub"]
        if not is_user_id(user_id):
            raise UnauthenticatedError(
                "The subject of the token is no user id, which is 1 to 256 printable characters."
            )
        return str(user_id)


_WHY: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "its time has not come"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "it lacks a claim (exp, sub, aud and iss are needed)"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
)


def _why(error: Exception) -> str:
    """Say why in words of our own: what a token holds is the sender's."""
    return next((why for kind, why in _WHY if isinstance(error, kind)), "it is no token that can be read")
