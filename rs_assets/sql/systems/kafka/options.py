"""Options of SQL tables for the access to Kafka and to a schema registry, by the names that Flink has for them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, get_args

from rs_assets.connectors.kafka.client.cluster import KafkaCluster, Mechanism, Protocols
from rs_assets.connectors.kafka.client.oauth import CALLBACK, KafkaOAuth
from rs_assets.connectors.kafka.client.oauth import MECHANISM as BY_TOKEN
from rs_assets.connectors.kafka.nodes import WrittenRecords
from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.errors import ConfigurationError
from rs_assets.sql.systems.secrets import secret_of, taken_secret

if TYPE_CHECKING:
    from rs_assets.sql.read.options import Options

PROPERTIES: Final = "properties."
SERVERS: Final = f"{PROPERTIES}bootstrap.servers"
PROTOCOL, MECHANISM = f"{PROPERTIES}security.protocol", f"{PROPERTIES}sasl.mechanism"
JAAS: Final = f"{PROPERTIES}sasl.jaas.config"
TOKEN_URL: Final = f"{PROPERTIES}sasl.oauthbearer.token.endpoint.url"
HANDLER: Final = f"{PROPERTIES}sasl.login.callback.handler.class"
TRUST, TRUST_TYPE = f"{PROPERTIES}ssl.truststore.location", f"{PROPERTIES}ssl.truststore.type"
FORMER_CALLBACK: Final = CALLBACK.replace("oauthbearer.", "oauthbearer.secured.")
# A login module with its options, in quotes.
LOGIN: Final = re.compile(r'\S+\s+required((?:\s+\w+\s*=\s*"(?:[^"\\]|\\.)*")*)\s*;?')
PAIR: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
JAAS_EXAMPLE: Final = (
    f"""'{PROTOCOL}' = 'SASL_SSL', '{JAAS}' = 'org.apache.kafka.common.security.plain.PlainLoginModule required"""
    ' username="shop" password="$KAFKA_PASSWORD";\''
)
OAUTH_EXAMPLE: Final = (
    f"""'{PROTOCOL}' = 'SASL_SSL', '{MECHANISM}' = '{BY_TOKEN}', '{TOKEN_URL}' = 'https://host/token', '{JAAS}' ="""
    """ 'a.LoginModule required clientId="shop" clientSecret="$SHOP_SECRET" scope="kafka";'"""
)
PROTOCOLS: Final = {name: name for name in get_args(Protocols)}
MECHANISMS: Final = {name: name for name in (*get_args(Mechanism), BY_TOKEN)}
PASSWORD, CLIENT, SCOPED = {"username", "password"}, {"clientId", "clientSecret"}, {"clientId", "clientSecret", "scope"}
FORMATS: Final = {"json": "json", "avro-confluent": "avro", "protobuf": "protobuf"}
# The beginning of the options of a format, by its name here.
OF_FORMATS: Final = {form: f"{name}." for name, form in FORMATS.items() if form != "json"}


def cluster_of(options: Options) -> KafkaCluster:
    """The cluster that a table names, with its login; SqlError if the options do not fit.

    A password `$NAME` is the environment variable NAME, read when a connection is made.
    """
    at = options.found.get(JAAS) or options.found.get(PROTOCOL)
    servers = options.need(SERVERS, "localhost:9092")
    mechanism = options.choice(MECHANISM, MECHANISMS, "PLAIN")
    if TRUST in options.found:
        options.choice(TRUST_TYPE, {"PEM": "PEM"}, "PEM")
    login = _client(options) if mechanism == BY_TOKEN else _user(options)
    protocol, ca_file = options.choice(PROTOCOL, PROTOCOLS, "PLAINTEXT"), options.take(TRUST)
    try:
        given = {"oauth": KafkaOAuth(**login)} if mechanism == BY_TOKEN else {"mechanism": mechanism, **login}
        return KafkaCluster(bootstrap_servers=servers, protocol=protocol, ca_file=ca_file, **given)
    except ConfigurationError as error:
        example = OAUTH_EXAMPLE if mechanism == BY_TOKEN else JAAS_EXAMPLE
        remedy = example if at is not None else error.remedy
        raise options.error(error.what, at=at[1].start if at else None, remedy=remedy) from error


def format_of(options: Options) -> WrittenRecords:
    """The format of the records; SqlError for an option that another one has."""
    form: WrittenRecords = options.choice("format", FORMATS, "json")
    for of, begin in OF_FORMATS.items():
        other = next((pair[0] for key, pair in options.found.items() if key.startswith(begin)), None)
        if form != of and other is not None:
            raise options.error(
                f"{other.text!r} is an option of the format {begin[:-1]!r}",
                at=other.start,
                remedy=f"'format' = '{begin[:-1]}'",
            )
    return form


def properties(options: Options, names: Iterable[str]) -> dict[str, str]:
    """The settings of Kafka's client among the options."""
    return {name: each for name in names if (each := options.take(f"{PROPERTIES}{name}")) is not None}


def registry_of(options: Options, form: WrittenRecords, *, needed: bool = True) -> SchemaRegistry | None:
    """The schema registry that a table of this format names, with its login; SqlError as for `cluster_of`.

    None for JSON, and if there is none and it is not `needed`.
    """
    begin = OF_FORMATS.get(form)
    if begin is None or (not needed and f"{begin}url" not in options.found):
        return None
    at = options.found[f"{begin}url"][1].start if f"{begin}url" in options.found else None
    url = options.need(f"{begin}url", "http://localhost:8081")
    for scheme, source in (("basic", "USER_INFO"), ("bearer", "STATIC_TOKEN")):
        options.choice(f"{begin}{scheme}-auth.credentials-source", {source: source}, source)
    user, _, password = (options.take(f"{begin}basic-auth.user-info") or "").partition(":")
    try:
        return SchemaRegistry(
            url=secret_of(url),
            username=user or None,
            password=secret_of(password) if password else None,
            token=taken_secret(options, f"{begin}bearer-auth.token"),
            ca_file=options.take(f"{begin}ssl.truststore.location"),
        )
    except ConfigurationError as error:
        raise options.error(error.what, at=at, remedy=registry_example(begin)) from error


def registry_example(begin: str) -> str:
    """The options of a registry with a login, in a format whose options begin so."""
    return f"'{begin}url' = 'http://host:8081', '{begin}basic-auth.user-info' = 'shop:$REGISTRY_PASSWORD'"


def message_of(options: Options, form: WrittenRecords) -> dict[str, str | None]:
    """The message of a table of Protobuf, by the arguments of `from_kafka` and `to_kafka`; nothing for others."""
    if form != "protobuf":
        return {}
    begin = OF_FORMATS[form]
    return {"descriptor": options.take(f"{begin}descriptor"), "message": options.take(f"{begin}message-name")}


def _user(options: Options) -> dict[str, Any]:
    """The login by a password, as KafkaCluster has it; {} without one."""
    login = _login(options, (PASSWORD,), "username and password", JAAS_EXAMPLE)
    return {"username": login["username"], "password": secret_of(login["password"])} if login else {}


def _client(options: Options) -> dict[str, Any]:
    """The login by tokens, as KafkaOAuth has it."""
    login = _login(options, (CLIENT, SCOPED), "clientId, clientSecret and perhaps scope", OAUTH_EXAMPLE)
    options.choice(HANDLER, {name: name for name in (CALLBACK, FORMER_CALLBACK)}, CALLBACK)
    return {
        "token_url": secret_of(options.need(TOKEN_URL, "https://host/token")),
        "client_id": login.get("clientId", ""),
        "client_secret": secret_of(login.get("clientSecret", "")),
        "scope": login.get("scope"),
    }


def _login(options: Options, ways: Container[AbstractSet[str]], what: str, example: str) -> dict[str, str]:
    """The options of the login module, which are those of one of the `ways`; {} if there is no login."""
    pair = options.found.get(JAAS)
    text = options.take(JAAS)
    if text is None:
        return {}
    found = LOGIN.fullmatch(text.strip())
    login = {name: re.sub(r"\\(.)", r"\1", value) for name, value in PAIR.findall(found[1])} if found else {}
    if login.keys() not in ways:
        raise options.error(
            f"{JAAS!r} has to name a login module, {what}, and nothing else",
            at=pair[1].start if pair else None,
            remedy=example,
        )
    return login
