"""A folder on a disk or in an object store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rs_assets.common.storage import is_remote
from rs_assets.common.uri import shown_uri
from rs_assets.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Address:
    """A folder in an object store, with the operations of a Path that need no disk.

    >>> str(Address("s3://lake/rs/") / "catalog")
    's3://lake/rs/catalog'
    """

    uri: str

    def __post_init__(self) -> None:
        """Without the slash at its end, so that one folder has one address."""
        object.__setattr__(self, "uri", self.uri.rstrip("/"))

    def __truediv__(self, name: str) -> Address:
        """The folder `name` in it."""
        return Address(f"{self.uri}/{name}")

    def __str__(self) -> str:
        """The address."""
        return self.uri


Folder: TypeAlias = Path | Address


def folder_at(place: str) -> Folder:
    """The folder at a path, which is made absolute, or at an address in an object store.

    ConfigurationError for any other address.

    >>> folder_at("s3://lake/catalog")
    Address(uri='s3://lake/catalog')
    """
    if is_remote(place):
        return Address(place)
    if "://" in place:
        raise ConfigurationError(
            f"{shown_uri(place)} is neither a path nor an address in an object store",
            remedy="give a path, or an address such as s3://bucket/folder",
        )
    return Path(place).expanduser().absolute()


def make_folder(folder: Folder) -> None:
    """Create a folder of a disk with its parents; an object store has no folders. OSError if it cannot be made."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
