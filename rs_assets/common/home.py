"""RS_HOME: the folder of all stored data."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rs_assets.common.folder import Address, Folder, folder_at
from rs_assets.common.names import checked_path
from rs_assets.common.project import anchored, project_folder
from rs_assets.common.storage import is_remote
from rs_assets.common.uri import LOCAL, shown_uri
from rs_assets.errors import ConfigurationError

DEFAULT_HOME = ".rs"


@dataclass(frozen=True, slots=True)
class Database:
    """A database by its SQLAlchemy URL, which is not shown: it may have a password."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """Its URL without secrets."""
        return shown_uri(self.url)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of catalog, checkpoints and tables; a relative path is resolved against the working directory at once.

    `tables_of` is another home: a table that is given by name is there, all else is here. `apart`: catalog, leases,
    savepoints and dead letters are in this folder, whatever the environment says, as for a trial or a test.
    ConfigurationError for a file, and for a path that Delta and Spark would read as a different one.

    >>> home = Home(Path("/data/rs"))
    >>> str(home.job("shop", "clicks"))
    '/data/rs/checkpoints/shop/clicks'
    """

    root: Path
    tables_of: Home | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        """Make the path absolute and check it."""
        object.__setattr__(self, "root", Path(self.root).expanduser().absolute())
        checked_path(str(self.root), what="the home")
        if self.root.is_file():
            raise ConfigurationError(
                "the home must be a folder, not a file", remedy="name another: RS_HOME", home=self.root
            )

    @classmethod
    def default(cls) -> Home:
        """The home in the environment variable RS_HOME, else `.rs` in the project's folder."""
        named = os.environ.get("RS_HOME")
        return cls.at(named) if named else cls(project_folder() / DEFAULT_HOME)

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> Home:
        """The home in a folder given by the user; ConfigurationError for a URI.

        >>> Home.at("/data/rs") == Home.at(Path("/data/rs"))
        True
        """
        path = os.fspath(folder)
        if "://" in path:
            raise ConfigurationError(
                "the home is a URI, but checkpoints need a folder of this machine or one that is mounted",
                remedy="give a path; savepoints and the catalog may go to a URI: RS_SAVEPOINTS, RS_CATALOG",
                home=path.partition("://")[0] + "://",
            )
        return cls(Path(path))

    @property
    def catalog(self) -> Folder:
        """The folder of Delta tables about the pipelines themselves: that in RS_CATALOG, else one of the home."""
        named = self._named("RS_CATALOG")
        return folder_at(named) if named else self.root / "catalog"

    @property
    def leases(self) -> Folder | Database:
        """The leases: which process runs which pipeline. A table of the catalog, or where RS_LEASES says.

        That is a path, an address in an object store, or the SQLAlchemy URL of a database.
        """
        named = self._named("RS_LEASES")
        if not named:
            return self.catalog / "leases"
        return Database(named) if "://" in named and not is_remote(named) else folder_at(named)

    @property
    def exchange(self) -> Address | None:
        """Where the machines of a cluster write state, in RS_STATE; None: in the checkpoint, which they must share.

        ConfigurationError for anything but an address in S3.
        """
        named = os.environ.get("RS_STATE")
        if named and not named.startswith(("s3://", "s3a://")):
            raise ConfigurationError(
                f"RS_STATE is {shown_uri(named)!r}, which is not an address in S3",
                remedy="set it to an address such as s3://bucket/state; leave it out if the machines share the home",
            )
        return Address(named) if named else None

    @property
    def deployments(self) -> Folder:
        """The Delta table of deployed pipeline texts, one row a version."""
        return self.catalog / "deployments"

    @property
    def savepoints(self) -> str:
        """The root of savepoints: the URI in the environment variable RS_SAVEPOINTS, else a folder of the home."""
        return self._named("RS_SAVEPOINTS") or str(self.root / "savepoints")

    @property
    def dead_letters(self) -> str:
        """The Delta table of dead letters: the path or address in RS_DEAD_LETTERS, else a folder of the catalog."""
        return self._named("RS_DEAD_LETTERS") or str(self.catalog / "dead_letters")

    @property
    def state(self) -> Path:
        """Exported state: one Delta table a step, by namespace and job."""
        return self.root / "state"

    @property
    def shuffles(self) -> Path:
        """Notes of how far the topics between the queries of a pipeline are complete."""
        return self.root / "shuffles"

    @property
    def collected(self) -> Path:
        """The logs of collectors, by namespace, job and source."""
        return self.root / "collected"

    @property
    def served(self) -> Path:
        """Copies of state for lookups in milliseconds."""
        return self.root / "served"

    def store(self, namespace: str, store: str) -> Path:
        """The file of a store, which answers queries."""
        return self.root / "stores" / namespace / f"{store}.db"

    def dimensions(self, namespace: str, job: str) -> Path:
        """The folder of the dimensions of a job, with one folder a step."""
        return self.root / "dimensions" / namespace / job

    def dimension(self, namespace: str, job: str, step: str) -> Path:
        """The folder of the versions of the dimension of one lookup step."""
        return self.dimensions(namespace, job) / step

    def job(self, namespace: str, job: str) -> Path:
        """The folder of one job's checkpoints and of its manifest."""
        return self.root / "checkpoints" / namespace / job

    def table(self, namespace: str, table: str) -> str:
        """The path of a Delta table: a plain name is below `tables/`, paths are relative to the project's folder.

        >>> Home(Path("/rs")).table("shop", "file:/lake/orders"), Home(Path("/rs")).table("shop", "s3://lake/orders")
        ('/lake/orders', 's3://lake/orders')
        """
        place = LOCAL.sub("", table)
        if "://" in place:
            return place
        if "/" in place:
            return anchored(place)
        return str((self.tables_of or self).root / "tables" / namespace / table)

    def _named(self, variable: str) -> str | None:
        """The place in an environment variable; None if it has none, or this home is apart."""
        return None if self.apart else os.environ.get(variable)
