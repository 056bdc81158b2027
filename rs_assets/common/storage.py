"""Access to object stores: options that are given once, for delta-rs, fsspec and Spark.

Their names are those of the environment variables of each cloud, which all of these read by themselves: whoever sets
`AWS_ENDPOINT_URL` and the like needs nothing here. Options given to `use_storage` are used instead of the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed
from rs_assets.errors import ConfigurationError

ENDPOINT, REGION, HTTP = "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ALLOW_HTTP"
KEY, PASSWORD, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
# Which options belong to which addresses.
PREFIXES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "AWS_": ("s3", "s3a"),
        "GOOGLE_": ("gs", "gcs"),
        "AZURE_": ("az", "abfs", "abfss", "azure", "adl"),
    }
)
SCHEMES: Final = frozenset(scheme for schemes in PREFIXES.values() for scheme in schemes)
# The names of the options in fsspec's packages for S3, Google's and Azure's stores.
OF_FSSPEC: Final[Mapping[str, str]] = MappingProxyType(
    {
        ENDPOINT: "endpoint_url",
        KEY: "key",
        PASSWORD: "secret",
        TOKEN: "token",
        "GOOGLE_APPLICATION_CREDENTIALS": "token",
        "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
        "AZURE_STORAGE_ACCOUNT_KEY": "account_key",
    }
)
OF_SPARK: Final[Mapping[str, str]] = MappingProxyType(
    {
        ENDPOINT: "fs.s3a.endpoint",
        REGION: "fs.s3a.endpoint.region",
        KEY: "fs.s3a.access.key",
        PASSWORD: "fs.s3a.secret.key",
        TOKEN: "fs.s3a.session.token",
    }
)

_given: dict[str, Secret] = {}


def use_storage(options: Mapping[str, Secret]) -> None:
    """Use these options for all object stores in this process, and no earlier ones; call it before a run.

    Names are those of environment variables: AWS_ENDPOINT_URL (for stores that are compatible with S3), AWS_REGION,
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, and the names of delta-rs for other clouds. A value is
    a text or a reference such as Dagster's `EnvVar`; neither is shown. ConfigurationError for any other name, and for a
    reference without a value.

    >>> use_storage({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_SECRET_ACCESS_KEY": "hidden"})
    >>> storage_options("s3://bucket/orders")["AWS_ALLOW_HTTP"], storage_options("/data/orders")
    ('true', None)
    >>> use_storage({})
    """
    unknown = [name for name in options if not name.startswith(tuple(PREFIXES))]
    if unknown:
        raise ConfigurationError(
            f"{unknown[0]!r} is not an option of an object store",
            remedy="use the name of the environment variable, such as AWS_ENDPOINT_URL",
        )
    # Dagster's EnvVar is a text, too: the name of its variable.
    given = {name: value if isinstance(value, Deferred) else Hidden(value) for name, value in options.items()}
    _given.clear()
    _given.update(given)
    _tell_fsspec()


def is_remote(path: str) -> bool:
    """Whether a path is an address in an object store.

    >>> is_remote("s3://bucket/t"), is_remote("/data/t"), is_remote("hdfs://host/t")
    (True, False, False)
    """
    scheme, there, _ = path.partition("://")
    return bool(there) and scheme in SCHEMES


def storage_options(path: str) -> dict[str, str] | None:
    """The options for delta-rs; None for a path of a file system, or if nothing was given."""
    if not is_remote(path):
        return None
    options = _of_scheme(path.partition("://")[0])
    if (options.get(ENDPOINT) or os.environ.get(ENDPOINT, "")).startswith("http://"):
        options.setdefault(HTTP, "true")
    return options or None


def spark_options() -> Mapping[str, str]:
    """Hadoop's settings for reading from S3 by Spark, which itself reads only keys from the environment."""
    options = {name: os.environ[name] for name in OF_SPARK if os.environ.get(name)} | _of_scheme("s3")
    made = {name: options[option] for option, name in OF_SPARK.items() if option in options}
    if ENDPOINT in options:
        # Stores that are compatible with S3 have no host for each bucket.
        made["fs.s3a.path.style.access"] = "true"
    return made


def _of_scheme(scheme: str) -> dict[str, str]:
    """The given options for the addresses of a scheme."""
    prefixes = tuple(prefix for prefix, schemes in PREFIXES.items() if scheme in schemes)
    found = {name: value for name, value in _given.items() if name.startswith(prefixes)} if prefixes else {}
    return {name: revealed(value, what=f"option {name} of object stores") for name, value in found.items()}


def _tell_fsspec() -> None:
    """Make the options fsspec's own defaults: savepoints are written by it."""
    import fsspec.config  # type: ignore[import-untyped]

    for schemes in PREFIXES.values():
        for scheme in schemes:
            given = _of_scheme(scheme)
            options: dict[str, object] = {OF_FSSPEC[name]: given[name] for name in given if name in OF_FSSPEC}
            if REGION in given:
                options["client_kwargs"] = {"region_name": given[REGION]}
            fsspec.config.conf[scheme] = options
