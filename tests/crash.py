"""A sink that fails once, at a commit."""

from __future__ import annotations

from rs_assets.engine.sink.base import Staged
from rs_assets.errors import SinkError


class Crash:
    """Makes the next commit of a sink fail, before or behind its effect."""

    def __init__(self, monkeypatch, writer, *, behind):
        self.armed = True
        original = writer.stage

        def stage(sink, batch, mark):
            staged = original(sink, batch, mark)

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
