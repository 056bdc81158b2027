"""The binaries of a MariaDB server for tests: an installed one's, else those of Debian's packages, only unpacked.

Run as a module it fetches them (9 MB), as the first server otherwise does. Neither needs the rights of root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rs_assets.errors import ConfigurationError
from rs_assets.testing.servers.debian import unpack

# The server, and libraries that a machine may lack; their names differ between releases.
SERVER: Final = "mariadb-server-core"
LIBRARIES: Final = ("libaio1", "libaio1t64", "liburing2")
REMEDY: Final = f"install a MariaDB server, on Debian {SERVER}; or give the folder with usr/sbin/mariadbd: RS_MARIADB"
# Where an installed server is, and its messages.
BINARIES: Final = ("usr/sbin/mariadbd", "usr/libexec/mariadbd", "usr/bin/mariadbd")
SHARED: Final = ("usr/share/mariadb", "usr/share/mysql")
TABLES: Final = ("system_tables.sql", "system_tables_data.sql")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A MariaDB server below `root`: `/`, or a folder into which packages were unpacked."""

    root: Path

    @property
    def server(self) -> Path | None:
        """The server, None if there is none."""
        return next((path for name in BINARIES if (path := self.root / name).is_file()), None)

    @property
    def shared(self) -> Path | None:
        """The folder of its messages and of the statements that make its tables; None if there is none."""
        found = (self.root / name for name in SHARED)
        return next((path for path in found if [*path.glob(f"*_{TABLES[0]}")]), None)

    @property
    def complete(self) -> bool:
        """Whether a server can be made with them."""
        return self.server is not None and self.shared is not None

    def bootstrap(self) -> bytes:
        """The statements that make the server's own tables."""
        found = [path for name in TABLES for path in sorted((self.shared or self.root).glob(f"*_{name}"))]
        # Each on a line of its own: the server reads statements line by line.
        return b"create database mysql;\nuse mysql;\n" + b"".join(path.read_bytes() for path in found)

    def command(self, *options: str) -> list[str]:
        """The server with options, in the environment of `environment`."""
        shared = self.shared or self.root
        own = (f"--lc-messages-dir={shared}", f"--character-sets-dir={shared / 'charsets'}")
        return [str(self.server), "--no-defaults", *own, *options]

    def environment(self) -> Mapping[str, str]:
        """The variables by which it finds its libraries."""
        folders = [str(path.parent) for path in self.root.glob("usr/lib/*/lib*.so*")] if self.root != Path("/") else []
        return {"LD_LIBRARY_PATH": ":".join(dict.fromkeys(folders))} if folders else {}


def folder() -> Path:
    """Where unpacked packages are: RS_MARIADB, else below this Python; it may not exist."""
    named = os.environ.get("RS_MARIADB")
    return Path(named).expanduser().absolute() if named else Path(sys.prefix) / "share" / "rs_assets" / "mariadb"


def find_binaries() -> Binaries | None:
    """Unpacked packages, else the installed server; None if there is none."""
    return next((found for found in (Binaries(folder()), Binaries(Path("/"))) if found.complete), None)


def fetch() -> Binaries:
    """The binaries; they are fetched if there are none. ConfigurationError if that fails."""
    found = find_binaries()
    if found is not None:
        return found
    why = unpack((SERVER,), place := folder(), libraries=LIBRARIES)
    if why:
        raise ConfigurationError(f"MariaDB is not installed, and Debian's was not fetched: {why}", remedy=REMEDY)
    if not Binaries(place).complete:
        raise ConfigurationError("the packages of MariaDB have no server that is known here", remedy=REMEDY)
    return Binaries(place)


def main() -> None:
    """Fetch, and print a line."""
    try:
        found = fetch()
    except ConfigurationError as refusal:
        sys.exit(f"error: {refusal}")
    sys.stdout.write(f"{found.server}\n")


if __name__ == "__main__":
    main()
