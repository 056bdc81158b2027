"""Lines of pairs, `src=10.0.0.1 msg=not found`, as Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import quote, separated_by, unquote

_row = Family("grok").row
# The parts between the equals signs; `p` is their array, `i` the number of a pair.
_WITHOUT_END: Final = "regexp_replace(get(p, {at}), {end}, '')"
_LAST_WORD: Final = "substring_index({part}, {sep}, -1)"
_KEY: Final = "trim(if(i = 1, get(p, 0), {word}))"
_BEFORE: Final = "if(instr({part}, {sep}) = 0, '', left({part}, length({part}) - length({word}) - length({sep})))"
_PAIR: Final = "struct({key} as k, if(i = size(p) - 1, trim(get(p, i)), {before}) as v)"
_PAIRS: Final = "transform(sequence(1, size(p) - 1), i -> {pair})"
# Of several pairs of one key the last one counts.
_LAST_OF_KEY: Final = "filter(e, (x, n) -> not exists(slice(e, n + 2, size(e)), y -> y.k = x.k))"
_MAP: Final = "map_from_entries({last})"


def pairs_map(texts: Mapping[str, str]) -> str:
    """The SQL of a map of the pairs of `s`, whose words `sep` separates; null without an equals sign."""
    separator = unquote(texts["sep"])
    if not separator:
        raise TopologyError("the separator of parse_express is empty or null", remedy="write a blank: ' '")
    sep, end = quote(separator), quote(f"(?:{unquote(separated_by(quote(separator)))})+\\z")
    before, part = _WITHOUT_END.format(at="i - 1", end=end), _WITHOUT_END.format(at="i", end=end)
    key = _KEY.format(word=_LAST_WORD.format(part=before, sep=sep))
    value = _BEFORE.format(part=part, sep=sep, word=_LAST_WORD.format(part=part, sep=sep))
    pairs = _PAIRS.format(pair=_PAIR.format(key=key, before=value))
    entries = f"get(transform(array({pairs}), e -> {_MAP.format(last=_LAST_OF_KEY)}), 0)"
    return f"get(transform(array(split({texts['s']}, '=')), p -> if(size(p) > 1, {entries}, null)), 0)"


LOG_PAIRS: Final = (
    _row(
        "parse_express express",
        "s text, sep word",
        pairs_map,
        "map<string,string>",
        "A map of the pairs of a line: a key is the last word before an equals sign, a value may have several words.",
        {
            "parse_express('src=10.0.0.1 msg=not found',' ')": {"src": "10.0.0.1", "msg": "not found"},
            "parse_express('none',' ')": None,
        },
    ),
)
