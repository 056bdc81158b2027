"""Rules over a stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Self

from rs_assets.common.names import one_or_more
from rs_assets.errors import TopologyError
from rs_assets.expressions.rules.spec import Rules
from rs_assets.stream.draft import late_sink
from rs_assets.topology.nodes.match import MatchForm, MatchRules
from rs_assets.topology.nodes.rule_windows import RuleWindows
from rs_assets.topology.nodes.timed import NONE

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft


class RuleSteps:
    """The rules of a stream; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def match(
        self,
        rules: Rules,
        *,
        into: str = "rules",
        form: MatchForm = "matched",
        carry: Sequence[str] = (),
        name: str | None = None,
    ) -> Self:
        r"""Name the rules that hold for each row. All are evaluated in one pass, as they are when the batch begins.

        Typical uses: detections that analysts change while the stream runs, routing, tagging. See docs/rules.md.

        - `rules` (Rules): conditions, of the program or of a table.
        - `into` (str, default "rules"): the field for the names of the rules that hold, an array by priority and name.
        - `form` (str, default "matched"): "matched" keeps the rows for which a rule holds, "all" keeps every row,
          "per_match" gives a row for each row and rule, with the fields `rule` and `carry` instead of the array.
        - `carry` (sequence of str, default none): the columns of the rules that rows per match get.
        - `name` (str, default `match_1`, ...): the versions of the rules are stored under it.

        Each row has the version of the rules that has judged it, in `rules_version` (named after `into`), or
        `rule_version` in rows per match. A batch that is computed again is judged by the same version. A rule of a
        table that cannot be evaluated is left out and reported; a rule of the program is refused: TopologyError.

        >>> from rs_assets import Rules, StreamBuilder
        >>> rules = Rules.of({"slow": "(ms,>,100)", "shell": r"(page,regex,'\.sh$')"})
        >>> hits = StreamBuilder.data_stream("docs", "judged").from_array([{"page": "/a.sh", "ms": 120}])
        >>> print(hits.match(rules).to_print().build().describe())
        docs.judged  fingerprint ...
          array  array_source  [1 row]
          match_1  match_rules <- array  [matched by rules[2]()]
          print  print_sink <- match_1
        """
        step = self.draft.auto_name("match", name, after=self.step)
        if not isinstance(rules, Rules):
            raise TopologyError(
                f"step {step!r} matches with a {type(rules).__name__}, which is not a set of rules",
                remedy="write Rules.of({'slow': '(ms,>,100)'}), Rules.from_delta(...) or Rules.from_file(...)",
                step=step,
            )
        node = MatchRules(
            name=step,
            inputs=(self.step,),
            dimension=rules.dimension,
            into=into,
            form=form,
            carry=one_or_more(carry),
            reads=rules.reads,
        )
        return self._then(node)

    def alerts(
        self,
        time_field: str | None = None,
        *,
        carry: str | Sequence[str] = (),
        water_mark: timedelta = NONE,
        late_to: str | PathLike[str] | None = None,
        name: str = "alerts",
    ) -> Self:
        """Fire each rule once in each window in which enough of its matches come together, as its `having` says.

        Typical uses: ten failed logins of a user within five minutes, a gigabyte from a host within an hour. Follows
        `match(rules, form="per_match", carry=["having"])`. See docs/rules.md.

        - `time_field` (str, default None: the time of arrival): the event time of a match.
        - `carry` (str or sequence of str, default none): fields of the matches that alerts have, such as "severity".
          They should be the same in all matches of a rule, such as columns of the rules.
        - `water_mark` (timedelta, default 0): how far a match may be older than the greatest time seen before it is
          late, once its window is over.
        - `late_to` (str or Path, default None): a Delta table for late matches, as for windows.
        - `name` (str, default "alerts"): the state is stored under it.

        An alert has the fields `rule`, `having`, `by` (a map of the fields that it counts by), `value` (what was
        reached after the batch in which it was enough), `start_time`, `end_time`, `fire_time` and those of `carry`.
        Rules without `having` give none.

        >>> from rs_assets import Rules, StreamBuilder
        >>> logins = [
        ...     {"user": user, "ok": False, "ts": at * 1000} for at, user in enumerate(["ann", "bo", "ann", "ann"])
        ... ]
        >>> rules = Rules.of([
        ...     {"rule": "guessing", "condition": "(ok,=,false)", "having": "count >= 3 within 5 minutes by user"}
        ... ])  # fmt: skip
        >>> failed = StreamBuilder.data_stream("docs", "guessing").from_array(logins)
        >>> alerts = failed.match(rules, form="per_match", carry=["having"]).alerts("ts")
        >>> [(row["rule"], row["by"], row["value"]) for row in alerts.preview()]
        [('guessing', {'user': 'ann'}, 3.0)]
        """
        node = RuleWindows(
            name=name,
            inputs=(self.step,),
            time_field=time_field,
            carry=one_or_more(carry),
            water_mark=water_mark,
        )
        stream = self._then(node)
        if late_to is not None:
            self.draft.add(late_sink(name, late_to))
        return stream

    def _then(self, node: Node) -> Self:
        raise NotImplementedError
