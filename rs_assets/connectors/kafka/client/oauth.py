"""Logins by tokens of OAuth 2.0: a service exchanges a client's id and secret for a token, which the brokers accept."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import orjson

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.kafka.client.jaas import jaas
from rs_assets.errors import ConfigurationError, RsError, SourceReadError

if TYPE_CHECKING:
    from rs_assets.connectors.http.client import Answer

MECHANISM: Final = "OAUTHBEARER"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
CALLBACK: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
FORM: Final[Mapping[str, str]] = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
# A token that ends sooner than this is not used again.
LEFT_S: Final = 30.0
EXAMPLE: Final = "KafkaOAuth(token_url='https://host/token', client_id='shop', client_secret=EnvVar('...'))"
PATIENCE: Final = timedelta(seconds=30)


@dataclass(slots=True)
class _Held:
    """The token of a client, and the moment of the monotonic clock at which it ends. Never shown."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    token: str = field(default="", repr=False)
    until: float = 0.0


# The tokens of this process by client.
_HELD: Final[dict[tuple[str, ...], _Held]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOAuth:
    """A client of OAuth 2.0 (client credentials), whose tokens the brokers accept: SASL's mechanism OAUTHBEARER.

    - `token_url`: where the service gives tokens: `https://host/path`, or Dagster's `EnvVar`.
    - `client_id`, `client_secret`: sent as basic authentication. The secret is text or, better, `EnvVar("NAME")`; it is
      never shown, compared or stored.
    - `scope`: what the token is for, if the service asks for it.

    Tokens must be JSON Web Tokens, because Kafka's Java client reads their end from them. Both clients get another one
    before it ends.

    >>> KafkaOAuth(token_url="https://login.example.org/token", client_id="shop", client_secret="s", scope="kafka")
    KafkaOAuth(token_url='https://login.example.org/token', client_id='shop', scope='kafka')
    """

    token_url: str | Deferred = field(metadata=NO_EFFECT)
    client_id: str = field(metadata=NO_EFFECT)
    client_secret: Secret = field(repr=False, compare=False, metadata=NO_EFFECT)
    scope: str | None = field(default=None, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Hide a secret given as text; ConfigurationError for a malformed address, and for an empty id or secret."""
        object.__setattr__(self, "token_url", revealed(self.token_url, what="token_url for Kafka"))
        if not isinstance(self.client_secret, Deferred):
            object.__setattr__(self, "client_secret", Hidden(self.client_secret))
        if not self.client_id:
            raise ConfigurationError("a client of OAuth must have an id", remedy=EXAMPLE)
        try:
            self._endpoint()
        except ConfigurationError as error:
            error.remedy = EXAMPLE
            raise

    def __repr__(self) -> str:
        """The settings without the secret and without defaults."""
        shown = {"token_url": self.where, "client_id": self.client_id, "scope": self.scope}
        return f"KafkaOAuth({', '.join(f'{name}={value!r}' for name, value in shown.items() if value)})"

    @property
    def where(self) -> str:
        """The address of the service for people, without what follows a question mark."""
        return self._endpoint().where

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's connector, including the secret: pass them to Spark only."""
        login = {"clientId": self.client_id, "clientSecret": self._secret()}
        if self.scope is not None:
            login["scope"] = self.scope
        return {
            "kafka.sasl.mechanism": MECHANISM,
            "kafka.sasl.jaas.config": jaas(MODULE, login),
            "kafka.sasl.oauthbearer.token.endpoint.url": str(self.token_url),
            "kafka.sasl.login.callback.handler.class": CALLBACK,
        }

    def for_python(self) -> dict[str, Any]:
        """Arguments of kafka-python's clients. Errors as of `token`."""
        from kafka.net.sasl.oauth import AbstractTokenProvider

        AbstractTokenProvider.register(Tokens)
        self.token()
        return {"sasl_mechanism": MECHANISM, "sasl_oauth_token_provider": Tokens(self)}

    def token(self) -> str:
        """A token that is valid for half a minute at least, if the service gives such.

        SourceReadError if the service refuses the client, does not answer within 30 s, or answers something else.
        """
        held = _HELD.setdefault((str(self.token_url), self.client_id, self._secret(), self.scope or ""), _Held())
        with held.lock:
            if time.monotonic() + LEFT_S > held.until:
                held.token, seconds = self._asked()
                held.until = time.monotonic() + seconds
            return held.token

    def _asked(self) -> tuple[str, float]:
        """A new token, and the seconds for which it is valid, 0 if that is not known."""
        from rs_assets.connectors.http.client import HttpClient

        asked = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope is not None else {})}
        with HttpClient(endpoint=self._endpoint(), step=MECHANISM, failure=SourceReadError) as service:
            try:
                answer = service.ask("POST", urlencode(asked).encode(), FORM)
            except RsError as error:
                error.remedy = "see that the service of token_url answers, then start again"
                raise
            if not answer.good:
                raise SourceReadError(
                    f"{self.where} gives the client {self.client_id!r} no token: {service.said(answer)}",
                    remedy="check client_id, client_secret and scope of KafkaOAuth, then start again",
                )
        return self._read(answer)

    def _read(self, answer: Answer) -> tuple[str, float]:
        try:
            return _token_of(answer)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # The cause may show a token.
            raise SourceReadError(
                f"the answer of {self.where} is not that of a token service: {type(error).__name__}",
                remedy="set token_url to the address which the service calls its token endpoint",
            ) from None

    def _endpoint(self) -> HttpEndpoint:
        return HttpEndpoint(url=self.token_url, username=self.client_id, password=self.client_secret, patience=PATIENCE)

    def _secret(self) -> str:
        return revealed(self.client_secret, what="client_secret for Kafka")


def _token_of(answer: Answer) -> tuple[str, float]:
    """The token of an answer, and its seconds; an error without text for a token or a time that is none."""
    found = orjson.loads(answer.body)
    token, seconds = found["access_token"], float(found.get("expires_in") or 0)
    if not (isinstance(token, str) and token and math.isfinite(seconds)):
        raise ValueError
    return token, seconds


@dataclass(frozen=True, slots=True)
class Tokens:
    """What kafka-python asks for a token with each connection: one of its token providers, by registration."""

    oauth: KafkaOAuth

    def token(self) -> str:
        """The token of a new connection."""
        return self.oauth.token()

    def extensions(self) -> dict[str, str]:
        """None."""
        return {}
