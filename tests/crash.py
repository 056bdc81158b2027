"""A sink that fails once, at a commit."""

from __future__ import annotations

from rs_assets.connectors.sink import Staged
from rs_assets.errors import SinkError


class Crash:
    """Makes the next commit of a sink fail, before or behind its effect.

    With a name only the sink called so fails, `skip` commits later.
    """

    def __init__(self, monkeypatch, writer, *, behind, name=None, skip=0):
        self.armed = True
        original = writer.stage
        passed = 0

        def stage(sink, batch, mark):
            nonlocal passed
            staged = original(sink, batch, mark)
            meant = name is None or sink.name == name
            passed += meant
            if not meant or passed <= skip:
                return staged

            def commit():
                if self.armed and not behind:
                    self.armed = False
                    raise SinkError("crash before the commit")
                rows = staged.commit()
                if self.armed and rows:
                    self.armed = False
                    raise SinkError("crash behind the commit")
                return rows

            return Staged(commit)

        monkeypatch.setattr(writer, "stage", stage)
