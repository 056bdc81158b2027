"""Packages with functions, found by the entry points of the group GROUP.

    [project.entry-points."rs_assets.functions"]
    shop = "shop.functions"

Importing the module declares its functions. It is imported when a name is otherwise unknown.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from rs_assets.errors import TopologyError

GROUP: Final = "rs_assets.functions"


@cache
def load_packages() -> tuple[str, ...]:
    """Imports the modules of all packages once, and returns their names; TopologyError if an import fails."""
    # This import takes a tenth of the start of the command line, and most pipelines need no package.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda each: each.name)
    for each in found:
        try:
            each.load()
        except Exception as error:
            raise TopologyError(
                f"the functions of the entry point {each.name!r} cannot be imported: {type(error).__name__}: {error}",
                remedy=f"fix {each.value}, or uninstall the package",
            ) from error
    return tuple(each.value for each in found)
