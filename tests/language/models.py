"""What functions give, in plain Python: arguments are texts or ints, as the fields of a row are, or None."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
import zlib


def _total(function):
    """Null of null, and of what the function cannot compute."""

    def called(*arguments):
        if any(each is None for each in arguments):
            return None
        try:
            return function(*arguments)
        except (ValueError, IndexError, OverflowError, ZeroDivisionError):
            return None

    return called


def _false(function):
    return lambda *arguments: bool(_total(function)(*arguments))


def _substring(s, p, n=None):
    if p < -len(s):
        return ""
    start = p - 1 if p > 0 else len(s) + p if p < 0 else 0
    end = len(s) if n is None else max(start, start + n)
    return s[start:end]


def _padded(s, n, pad, *, left):
    if n < 0 or n > 10_000_000 or (pad == "" and n > len(s)):
        return None
    if n <= len(s):
        return s[:n]
    more = (pad * n)[: n - len(s)]
    return more + s if left else s + more


def _java_hash(s):
    units = s.encode("utf-16-be")
    found = 0
    for place in range(0, len(units), 2):
        found = (found * 31 + int.from_bytes(units[place : place + 2], "big")) & 0xFFFFFFFF
    return abs(found - 2**32 if found >= 2**31 else found)


def _substring_index(s, sep, n):
    if not sep or n == 0:
        return ""
    parts = s.split(sep)
    return sep.join(parts[:n] if n > 0 else parts[n:])


def _split_index(s, sep, i):
    parts = s.split(sep) if sep else None
    return parts[i] if parts is not None and 0 <= i < len(parts) else None


def _time(s):
    return dt.datetime.fromisoformat(re.sub(" +", " ", s.strip(" ")))


def _later(unit):
    return _total(lambda s, n: str(_time(s) + dt.timedelta(**{unit: n})))


def _int32(value):
    return value if -(2**31) <= value < 2**31 else None


def _pairs(s, pairs, equals):
    """Without the empty parts at the end; of equal keys the last one counts."""
    parts = s.split(pairs)
    while parts and not parts[-1]:
        parts.pop()
    return {part.split(equals, 1)[0]: part.split(equals, 1)[1] if equals in part else None for part in parts}


def _json(members):
    """An object of JSON, without what is null."""
    kept = {name: value for name, value in members.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


MODELS = {
    "upper(s)": _total(lambda s: s.upper()),
    "lower(s)": _total(lambda s: s.lower()),
    "trim(s)": _total(lambda s: s.strip(" ")),
    "ltrim(s)": _total(lambda s: s.lstrip(" ")),
    "rtrim(s)": _total(lambda s: s.rstrip(" ")),
    "reverse(s)": _total(lambda s: s[::-1]),
    "length(s)": _total(len),
    "char_length(s)": lambda s: len(s or ""),
    "lengthb(s)": _total(lambda s: len(s.encode())),
    "concat(s,'-',p)": lambda s, p: "".join(each for each in (s, "-", p) if each is not None),
    "concat_ws(p,s,'x')": lambda p, s: (p or "").join(each for each in (s, "x") if each is not None),
    "substring(s,i)": _total(_substring),
    "substring(s,i,3)": _total(lambda s, i: _substring(s, i, 3)),
    "left(s,i)": _total(lambda s, i: s[: max(i, 0)]),
    "right(s,i)": _total(lambda s, i: s[-i:] if i > 0 else ""),
    "lpad(s,i,p)": _total(lambda s, i, p: _padded(s, i, p, left=True)),
    "rpad(s,i,p)": _total(lambda s, i, p: _padded(s, i, p, left=False)),
    "repeat(s,i)": _total(lambda s, i: s * max(i, 0)),
    "instr(s,p)": lambda s, p: -1 if s is None or p is None else s.find(p),
    "contains(s,p)": _false(lambda s, p: p in s),
    "startsWith(s,p)": _false(lambda s, p: s.startswith(p)),
    "endsWith(s,p)": _false(lambda s, p: s.endswith(p)),
    "replace_text(s,p,'#')": _total(lambda s, p: s.replace(p, "#") if p else s),
    "split_index(s,p,i)": _total(_split_index),
    "substringindex(s,p,i)": _total(_substring_index),
    "is_digit(s)": _false(lambda s: re.fullmatch("[0-9]+", s)),
    "is_alpha(s)": _false(lambda s: re.fullmatch("[A-Za-z]+", s)),
    "is_number(s)": _false(lambda s: re.fullmatch(r"[-+]?[0-9]+([.][0-9]+)?", s)),
    "isNull(s)": lambda s: s is None or s.lower() in ("", "null"),
    "isBlank(s)": lambda s: s is None or not s.strip(" "),
    "in(s,p,'a')": lambda s, p: s is not None and s in (p, "a"),
    "!in(s,p,'a')": lambda s, p: s is None or s not in (p, "a"),
    "coalesce(s,p)": lambda s, p: s if s is not None else p,
    "nullif(s,p)": lambda s, p: None if s == p else s,
    "if(i>2,s,p)": lambda i, s, p: s if i is not None and i > 2 else p,
    "gt(s,p)": _false(lambda s, p: s > p),
    "le(s,p)": _false(lambda s, p: s <= p),
    "ltByField(s,p)": lambda s, p: bool(s and p and s < p),
    "equals(s,p)": lambda s, p: s == p,
    "equalsIgnoreCase(s,p)": _false(lambda s, p: s.lower() == p.lower()),
    "regexcount(s,'[ab]+')": _total(lambda s: len(re.findall("[ab]+", s))),
    "regex(s,'a.*b')": _false(lambda s: re.search("a.*b", s)),
    "regexp_extract(s,'(a)(b*)',2)": _total(lambda s: (m := re.search("(a)(b*)", s)) and m[2]),
    "regexp_replace(s,'[ab]','<$0>')": _total(lambda s: re.sub("[ab]", lambda m: f"<{m[0]}>", s)),
    "regexp_replace(s,'a',p)": _total(lambda s, p: s.replace("a", p)),
    "md5(s)": _total(lambda s: hashlib.md5(s.encode()).hexdigest()),
    "sha1(s)": _total(lambda s: hashlib.sha1(s.encode()).hexdigest()),
    "sha256(s)": _total(lambda s: hashlib.sha256(s.encode()).hexdigest()),
    "crc32(s)": _total(lambda s: zlib.crc32(s.encode())),
    "hash_code(s)": _total(_java_hash),
    "tobase64(s)": _total(lambda s: base64.b64encode(s.encode()).decode()),
    "encode16(s)": _total(lambda s: s.encode().hex()),
    "unhex(encode16(s))": _total(lambda s: s),
    "urldecode(urlencode(s))": _total(lambda s: s),
    "frombase64(tobase64(s))": _total(lambda s: s),
    "str_to_map(s)": _total(lambda s: _pairs(s, ",", "=")),
    "str_to_map(s,'[.]','-')": _total(lambda s: _pairs(s, ".", "-")),
    "json_create('a',s,'n',i)": lambda s, i: _json({"a": s, "n": i}),
    "json_add(json_create('a',s,'b',i),'a',p,'c',j)": lambda s, i, p, j: _json(
        {"a": s, "b": i, "c": j} if p is None else {"b": i, "a": p, "c": j}
    ),
    "json_remove(json_create('a',s,'b',i),p,'c')": lambda s, i, p: _json({"a": s, "b": i} | ({p: None} if p else {})),
    "add(i,j)": _total(lambda i, j: _int32(i + j)),
    "multiply(i,j)": _total(lambda i, j: _int32(i * j)),
    "divide(i,j)": _total(lambda i, j: _int32(abs(i) // abs(j) * (1 if (i < 0) == (j < 0) else -1))),
    "mod(i,j)": lambda i, j: -1 if i is None or j in (None, 0) else abs(i) % abs(j) * (-1 if i < 0 else 1),
    "addition(i,j)": _total(lambda i, j: float(i + j)),
    "division(i,j)": _total(lambda i, j: i / j),
    "abs(i)": _total(lambda i: float(abs(i))),
    "bitand(i,j)": _total(lambda i, j: i & j),
    "bitor(i,j)": _total(lambda i, j: i | j),
    "bitxor(i,j)": _total(lambda i, j: i ^ j),
    "bitnot(i)": _total(lambda i: ~i),
    "hex(i)": _total(lambda i: f"{i & 0xFFFFFFFFFFFFFFFF:x}"),
    "between(i,j,10)": lambda i, j: i is not None and j is not None and j <= i <= 10,
    "chr(i)": _total(lambda i: chr(i) if 0 <= i <= 255 else None),
    "greatest(i,j)": lambda i, j: max((float(each) for each in (i, j) if each is not None), default=None),
    "year(t)": _total(lambda t: _time(t).year),
    "dayofyear(t)": _total(lambda t: _time(t).timetuple().tm_yday),
    "weekofyear(t)": _total(lambda t: _time(t).isocalendar().week),
    "weekday(t)": _total(lambda t: _time(t).isoweekday() % 7),
    "date_format(t,'dd.MM.yy HH:mm')": _total(lambda t: _time(t).strftime("%d.%m.%y %H:%M")),
    "addDay(t,i)": _later("days"),
    "addSecond(t,i)": _later("seconds"),
    "unixtimestamp(t)": _total(lambda t: int(_time(t).replace(tzinfo=dt.UTC).timestamp())),
    "fromunixtime(i)": _total(lambda i: str(_time("1970-01-01 00:00:00") + dt.timedelta(seconds=i))),
    "isDate(t)": _false(_time),
    "lastday(t)": _total(
        lambda t: str(((_time(t).replace(day=28) + dt.timedelta(4)).replace(day=1) - dt.timedelta(1)).date())
    ),
}
