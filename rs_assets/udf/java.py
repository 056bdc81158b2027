"""Functions of Java and Scala: a class in jars, with one method in the shape of Flink, Hive or Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Function, Parameter
from rs_assets.expressions.functions.udf import JAVA, UDF, JavaBody
from rs_assets.udf.class_file import (
    ABSTRACT,
    BRIDGE,
    PUBLIC,
    STATIC,
    SYNTHETIC,
    JavaClass,
    Method,
    java_class,
)
from rs_assets.udf.jars import class_path, opened
from rs_assets.udf.names import check_names

# The method that is called: of Flink's ScalarFunction, of Hive's UDF, and of Spark's UDF0 to UDF22.
SHAPES: Final = ("eval", "evaluate", "call")
# What prepares an object of Flink, which is not called. Flink's own classes have an empty one.
OPEN: Final = "open"
FLINK: Final = "org.apache.flink."
# The Spark type of a value by its descriptor. Primitive ones are not called for null.
PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {"Z": "boolean", "B": "tinyint", "S": "smallint", "I": "int", "J": "bigint", "F": "float", "D": "double"}
)
TYPES: Mapping[str, str] = MappingProxyType(
    {
        **PRIMITIVES,
        "Ljava/lang/String;": "string",
        "Ljava/lang/Boolean;": "boolean",
        "Ljava/lang/Byte;": "tinyint",
        "Ljava/lang/Short;": "smallint",
        "Ljava/lang/Integer;": "int",
        "Ljava/lang/Long;": "bigint",
        "Ljava/lang/Float;": "float",
        "Ljava/lang/Double;": "double",
        "Ljava/math/BigDecimal;": "decimal(38,18)",
        "Ljava/time/LocalDate;": "date",
        "Ljava/time/Instant;": "timestamp",
        "Ljava/time/LocalDateTime;": "timestamp",
        "[B": "binary",
    }
)


def java(cls: str, name: str, jars: Sequence[Path]) -> Function:
    """A class of the jars as a scalar function; TopologyError if it cannot be one.

    It has a public constructor without parameters, and one public method `eval`, `evaluate` or `call`, whose types are
    those of the function. The jars, in the order of the class path, and those that their manifests name must be at
    these places on all machines.
    """
    check_names((name,))
    jars = class_path(jars)
    found = _class_of(cls, jars)
    method = _method(found, cls)
    if _is_opened(found, jars):
        remedy = f"prepare it in its constructor; {OPEN} is not called"
        raise TopologyError(f"the class {cls!r} has a method {OPEN!r}", remedy=remedy)
    *takes, gives = (_spark_type(each, cls, method) for each in method.types)
    digest = hashlib.sha256(cls.encode())
    for jar in jars:
        digest.update(hashlib.sha256(jar.read_bytes()).digest())
    needs = tuple(each in PRIMITIVES for each in method.types[:-1])
    paths = tuple(str(each) for each in jars)
    code, called = f"{JAVA}{name}_{digest.hexdigest()[:12]}", f"{method.name}{method.descriptor}"
    body = JavaBody(code, name, paths, cls, called, needs, gives)
    parameters = tuple(Parameter(f"a{number}", kind) for number, kind in enumerate(takes, 1))

    def template(texts: Mapping[str, str]) -> str:
        return body.sql([texts[each.name] for each in parameters])

    return Function(name, UDF, parameters, template, gives, "", code=body.name)


def _class_of(cls: str, jars: Sequence[Path]) -> JavaClass:
    """The class, from the first jar that has it; TopologyError if none has."""
    known = list[str]()
    found = _first(cls, jars, known)
    if found is None:
        near = get_close_matches(cls, known, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "name a class of the jars with its package: 'shop.Region'"
        raise TopologyError(f"there is no class {cls!r} in the jars", remedy=remedy)
    return found


def _first(cls: str, jars: Sequence[Path], known: list[str]) -> JavaClass | None:
    """The class, from the first jar that has it; the names of the classes of jars without it are added to `known`."""
    entry = f"{cls.replace('.', '/')}.class"
    for jar in jars:
        with opened(jar) as archive:
            names = archive.namelist()
            if entry in names:
                return java_class(archive.read(entry))
        known += [each.removesuffix(".class").replace("/", ".") for each in names if each.endswith(".class")]
    return None


def _is_opened(found: JavaClass, jars: Sequence[Path]) -> bool:
    """Whether the class, or one above it in the jars, has a method that Flink would call first."""
    each: JavaClass | None = found
    while each is not None:
        if any(method.name == OPEN and method.has(PUBLIC) for method in each.methods):
            return True
        each = None if each.above.startswith(FLINK) else _first(each.above, jars, [])
    return False


def _method(found: JavaClass, cls: str) -> Method:
    """The method that is called."""
    plain = [each for each in found.methods if each.has(PUBLIC) and not each.flags & (BRIDGE | SYNTHETIC)]
    made = any((each.name, each.descriptor) == ("<init>", "()V") for each in plain)
    if not made or found.flags & ABSTRACT or not found.flags & PUBLIC:
        remedy = "make it a public class with a public constructor without parameters"
        raise TopologyError(f"no object of {cls!r} can be made", remedy=remedy)
    shaped = [each for each in plain if each.name in SHAPES and not each.has(STATIC)]
    if len(shaped) != 1:
        remedy = f"give it one public method, named {', '.join(SHAPES[:-1])} or {SHAPES[-1]}"
        raise TopologyError(f"the class {cls!r} has {len(shaped)} methods that could be called", remedy=remedy)
    return shaped[0]


def _spark_type(descriptor: str, cls: str, method: Method) -> str:
    kind = TYPES.get(descriptor)
    if kind is None:
        plain = descriptor.removeprefix("L").removesuffix(";").replace("/", ".")
        known = sorted({each.removeprefix("L").removesuffix(";").rpartition("/")[2] for each in TYPES if len(each) > 2})
        remedy = f"use {', '.join(known)}, byte[] or primitive types"
        raise TopologyError(f"{cls}.{method.name} has the type {plain!r}, which is not supported", remedy=remedy)
    return kind
