"""The operators and type words of conditions: their spellings and canonical names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Each operator with all its spellings.
_SPELLED = {
    "=": "= ==",
    "!=": "!= <>",
    ">": ">",
    ">=": ">=",
    "<": "<",
    "<=": "<=",
    "in": "in ~in",
    "!in": "!in ~!in notIn",
    "like": "like",
    "!like": "!like notLike",
    "regex": "regex dipperregex",
    "~regex": "~regex regexCaseInsensitive",
    "!regex": "!regex notRegex",
    "~!regex": "~!regex !~regex notRegexCaseInsensitive",
    "contains": "contains contain",
    "~contains": "~contains containsCaseInsensitive containsCaseInsensitiveFunction",
    "!contains": "!contains notContains",
    "~!contains": "~!contains ~notContains notContainsCaseInsensitive notContainsCaseInsensitiveFunction",
    "isnull": "isNull null",
    "isnotnull": "isNotNull notNull !null !isNull",
    "ipcontains": "ipContains",
}
OPERATORS: Mapping[str, str] = MappingProxyType(
    {spelled.casefold(): name for name, words in _SPELLED.items() for spelled in words.split()}
)
COMPARISONS = ("=", "!=", ">", ">=", "<", "<=")

# The type words of a condition, and the Spark type that values are compared as.
TYPES: Mapping[str, str] = MappingProxyType(
    {
        "int": "int",
        "integer": "int",
        "long": "bigint",
        "bigint": "bigint",
        "short": "smallint",
        "byte": "tinyint",
        "double": "double",
        "float": "float",
        "number": "double",
        "boolean": "boolean",
        "string": "string",
        "date": "timestamp",
        "datetime": "timestamp",
        "timestamp": "timestamp",
    }
)
