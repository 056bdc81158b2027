"""The modules of a project that this process has imported, with digests of their files as they were then."""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

OURS: Final = "rs_assets"
# The folders of installed packages.
INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
# Programs are not imported by others.
PROGRAMS: Final = frozenset({"__main__", "__mp_main__"})
# By name: what says that a module was imported again, and the digest of its file when it was seen first.
_SEEN: Final[dict[str, tuple[object, str]]] = {}


def note_modules() -> Mapping[str, str]:
    """The digests of the files of all modules of the project, by name. A file that changes later keeps its digest.

    It does not count what is not a file of Python: compiled modules, those of an archive, and installed packages.
    """
    names = [name for name in list(sys.modules) if name not in PROGRAMS and not _elsewhere(name.partition(".")[0])]
    return digests_of(names)


def digests_of(names: Iterable[str]) -> Mapping[str, str]:
    """The same of those of some modules that this process has imported."""
    return {name: digest for name in names if (digest := _digest(name))}


def renew(wanted: Mapping[str, str]) -> None:
    """Forget the modules in `wanted` if one was imported from an earlier file than the wanted one, which is there now.

    They are imported again when they are needed, as by `pickle`.
    """
    if not any(_is_behind(name, digest) for name, digest in wanted.items()):
        return
    for name in wanted:
        _SEEN.pop(name, None)
        sys.modules.pop(name, None)
        # A package without a file of its own stays, and would still have it.
        package, _, child = name.rpartition(".")
        if child in vars(sys.modules.get(package, object)):
            delattr(sys.modules[package], child)
    importlib.invalidate_caches()


def _is_behind(name: str, wanted: str) -> bool:
    known = _digest(name)
    return known not in ("", wanted) and _of_file(sys.modules[name]) == wanted


def _digest(name: str) -> str:
    """The digest of a module's file as it was; empty if there is none."""
    module = sys.modules.get(name)
    if module is None:
        return ""
    # A module that is loaded again has another one.
    spec = getattr(module, "__spec__", None)
    known = _SEEN.get(name)
    if known is None or known[0] is not spec:
        known = _SEEN[name] = (spec, _of_file(module))
    return known[1]


def _of_file(module: object) -> str:
    file = getattr(module, "__file__", None) or ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file.endswith(".py") else ""
    except OSError:
        return ""


def _elsewhere(top: str) -> bool:
    return top == OURS or installed(top)


@functools.cache
def installed(top: str) -> bool:
    """Whether a package or module is Python's, or was installed."""
    if top in sys.stdlib_module_names:
        return True
    module = sys.modules.get(top)
    places = [getattr(module, "__file__", None) or "", *(getattr(module, "__path__", None) or ())]
    return any(not INSTALLED.isdisjoint(Path(place).parts) for place in places)
