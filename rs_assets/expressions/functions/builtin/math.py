"""Numbers: functions of mathematics, over doubles unless stated otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family, Template

_row = Family("math").row

# From here on a double has no decimals, and Spark's integers end soon after.
LARGE = "9e15"


def _whole(builtin: str) -> str:
    return f"if(abs({{x}}) < {LARGE}, cast({builtin}({{x}}) as double), {{x}})"


def _computed(kind: str) -> Template:
    """`a` and `b` joined by an operator that is a literal; null if there is no result."""
    joined = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "%": "try_mod", "/": "try_divide"}

    def template(texts: Mapping[str, str]) -> str:
        operator = texts["op"].strip("'")
        if operator not in joined:
            raise TopologyError(f"unknown operator {operator!r}", remedy=f"use one of: {' '.join(joined)}")
        if operator == "/" and kind != "double":
            return f"cast({divided(texts)} as {kind})"
        return f"{joined[operator]}({texts['a']}, {texts['b']})"

    return template


def divided(texts: Mapping[str, str]) -> str:
    """Integer division without intermediate doubles; null for a zero divisor or a result out of range."""
    a, b = texts["a"], texts["b"]
    return f"case when {b} = -1 then try_subtract(try_subtract({a}, {a}), {a}) when {b} != 0 then {a} div {b} end"


def _truncated(texts: Mapping[str, str]) -> str:
    """Truncates the decimal digits of the number: as a double, 0.29 * 100 is less than 29."""
    places = int(texts["n"])
    if not -18 <= places <= 18:
        raise TopologyError(f"cannot truncate to {places} places", remedy="use -18 to 18")
    cut = f"floor(try_cast({texts['x']} as decimal(38,18)), {places})"
    return f"coalesce(cast({cut} as double), {texts['x']})"


MATH = (
    _row("abs", "x number", "abs({x})", "double", "The value without its sign.", {"abs(-1.5)": 1.5, "abs('x')": None}),
    _row("sign signum", "x number", "sign({x})", "double", "The sign: -1, 0 or 1.", {"sign(-3)": -1.0, "sign(0)": 0.0}),
    _row("negative negate", "x number", "-{x}", "double", "The value with the opposite sign.", {"negative(2)": -2.0}),
    _row("sin", "x number", "sin({x})", "double", "The sine.", {"sin(0)": 0.0}),
    _row("sinh", "x number", "sinh({x})", "double", "The hyperbolic sine.", {"sinh(0)": 0.0}),
    _row("asin", "x number", "asin({x})", "double", "The arc sine.", {"asin(1)": math.pi / 2, "asin(2)": math.nan}),
    _row("asinh", "x number", "asinh({x})", "double", "The inverse of sinh.", {"asinh(0)": 0.0}),
    _row("cos", "x number", "cos({x})", "double", "The cosine.", {"cos(0)": 1.0}),
    _row("cosh", "x number", "cosh({x})", "double", "The hyperbolic cosine.", {"cosh(0)": 1.0}),
    _row("acos", "x number", "acos({x})", "double", "The arc cosine.", {"acos(1)": 0.0}),
    _row("acosh", "x number", "acosh({x})", "double", "The inverse of cosh.", {"acosh(1)": 0.0}),
    _row("tan", "x number", "tan({x})", "double", "The tangent.", {"tan(0)": 0.0}),
    _row("tanh", "x number", "tanh({x})", "double", "The hyperbolic tangent.", {"tanh(0)": 0.0}),
    _row("atan", "x number", "atan({x})", "double", "The arc tangent.", {"atan(1)": math.pi / 4}),
    _row("atanh", "x number", "atanh({x})", "double", "The inverse of tanh.", {"atanh(0)": 0.0}),
    _row(
        "atan2", "y number, x number", "atan2({y}, {x})", "double", "The angle of a point.", {"atan2(1,1)": math.pi / 4}
    ),
    _row("cot", "x number", "cot({x})", "double", "The cotangent.", {"cot(1)": 1 / math.tan(1)}),
    _row("sec", "x number", "sec({x})", "double", "The secant.", {"sec(0)": 1.0}),
    _row("csc", "x number", "csc({x})", "double", "The cosecant.", {"csc(1)": 1 / math.sin(1)}),
    _row(
        "hypot",
        "a number, b number",
        "hypot({a}, {b})",
        "double",
        "The hypotenuse of a right triangle.",
        {"hypot(3,4)": 5.0},
    ),
    _row("exp", "x number", "exp({x})", "double", "e to the power of x.", {"exp(0)": 1.0, "exp(1000)": math.inf}),
    _row("expm1", "x number", "expm1({x})", "double", "exp(x) - 1, exact near zero.", {"expm1(0)": 0.0}),
    _row(
        "ln",
        "x number",
        "ln({x})",
        "double",
        "The natural logarithm; null for zero or less.",
        {"ln(1)": 0.0, "ln(0)": None},
    ),
    _row("log log_e", "x number", "ln({x})", "double", "The natural logarithm.", {"log(1)": 0.0}),
    _row(
        "log", "base number, x number", "log({base}, {x})", "double", "The logarithm to a base.", {"log(10,100)": 2.0}
    ),
    _row("log2", "x number", "log2({x})", "double", "The logarithm to base 2.", {"log2(8)": 3.0, "log2(-1)": None}),
    _row("log10", "x number", "log10({x})", "double", "The logarithm to base 10.", {"log10(1000)": 3.0}),
    _row("log1p", "x number", "log1p({x})", "double", "ln(x + 1), exact near zero.", {"log1p(0)": 0.0}),
    _row(
        "sqrt",
        "x number",
        "sqrt({x})",
        "double",
        "The square root; NaN below zero.",
        {"sqrt(9)": 3.0, "sqrt(-1)": math.nan},
    ),
    _row("cbrt", "x number", "cbrt({x})", "double", "The cube root.", {"cbrt(27)": 3.0}),
    _row(
        "power pow", "x number, y number", "power({x}, {y})", "double", "x to the power of y.", {"power(2,10)": 1024.0}
    ),
    _row("pi", "", "pi()", "double", "The number pi.", {"pi()": math.pi}),
    _row("e", "", "e()", "double", "The number e.", {"e()": math.e}),
    _row("degrees", "x number", "degrees({x})", "double", "Radians as degrees.", {"degrees(pi())": 180.0}),
    _row("radians", "x number", "radians({x})", "double", "Degrees as radians.", {"radians(180)": math.pi}),
    _row(
        "ceil ceiling",
        "x number",
        _whole("ceil"),
        "double",
        "The least whole number that is not less.",
        {"ceil(1.2)": 2.0, "ceil('-1.2')": -1.0, "ceil('1e300')": 1e300},
    ),
    _row(
        "floor",
        "x number",
        _whole("floor"),
        "double",
        "The greatest whole number that is not greater.",
        {"floor(1.8)": 1.0, "floor(-1.2)": -2.0, "floor('x')": None},
    ),
    _row(
        "rint",
        "x number",
        "rint({x})",
        "double",
        "The nearest whole number; halves round to even.",
        {"rint(2.5)": 2.0, "rint(3.5)": 4.0},
    ),
    _row(
        "round",
        "x number, n whole = 0",
        "round({x}, {n})",
        "double",
        "Rounded to `n` places; halves round away from zero.",
        {"round(2.5)": 3.0, "round(125.315,2)": 125.32, "round(-2.5,0)": -3.0, "round(1250,-2)": 1300.0},
    ),
    _row(
        "bround roundHalfEven",
        "x number, n whole",
        "bround({x}, {n})",
        "double",
        "Rounded to `n` places; halves round to even.",
        {"bround(2.5,0)": 2.0, "bround(0.125,2)": 0.12},
    ),
    _row(
        "trunc truncate",
        "x number, n whole = 0",
        _truncated,
        "double",
        "Rounded down to `n` places.",
        {
            "trunc(125.815,1)": 125.8,
            "trunc(-1.25,1)": -1.3,
            "trunc(7.9)": 7.0,
            "trunc(0.29,2)": 0.29,
            "trunc(125,-1)": 120.0,
        },
    ),
    _row(
        "mod",
        "a long, b long",
        "coalesce(try_mod({a}, {b}), -1)",
        "bigint",
        "The remainder of a division; -1 if there is none.",
        {"mod(7,3)": 1, "mod(7,0)": -1, "mod(null,3)": -1},
    ),
    _row(
        "pmod positiveMod",
        "a number, b number",
        "if({b} = 0, null, pmod({a}, abs({b})))",
        "double",
        "The remainder of a division, never negative.",
        {"pmod(-7,3)": 2.0, "pmod(1,0)": None, "pmod(-7,-3)": 2.0},
    ),
    _row(
        "factorial",
        "n int",
        "factorial({n})",
        "bigint",
        "The factorial; null outside 0 to 20.",
        {"factorial(5)": 120, "factorial(21)": None, "factorial(-1)": None},
    ),
    _row("addition plusNumber", "a number, b number", "({a} + {b})", "double", "The sum.", {"addition('1.5',2)": 3.5}),
    _row("subtraction", "a number, b number", "({a} - {b})", "double", "The difference.", {"subtraction(3,0.5)": 2.5}),
    _row(
        "multiplication", "a number, b number", "({a} * {b})", "double", "The product.", {"multiplication(3,0.5)": 1.5}
    ),
    _row(
        "division",
        "a number, b number",
        "try_divide({a}, {b})",
        "double",
        "The quotient; null if the divisor is zero.",
        {"division(3,2)": 1.5, "division(3,0)": None},
    ),
    _row(
        "add",
        "a int, b int",
        "try_add({a}, {b})",
        "int",
        "The sum of two ints; null if it is out of range.",
        {"add(1,2)": 3, "add(2147483647,1)": None},
    ),
    _row(
        "minus subtract",
        "a int, b int",
        "try_subtract({a}, {b})",
        "int",
        "The difference of two ints.",
        {"minus(5,3)": 2},
    ),
    _row(
        "multiply", "a int, b int", "try_multiply({a}, {b})", "int", "The product of two ints.", {"multiply(5,3)": 15}
    ),
    _row(
        "divide",
        "a int, b int",
        lambda texts: f"cast({divided(texts)} as int)",
        "int",
        "The integer quotient of two ints.",
        {"divide(7,2)": 3, "divide(-7,2)": -3, "divide(1,0)": None, "divide(-2147483648,-1)": None},
    ),
    _row(
        "math mathd",
        "op word, a number, b number",
        _computed("double"),
        "double",
        "The result of + - * / or % on two doubles.",
        {"math('+',1,2.5)": 3.5, "math('/',1,0)": None, "mathd('*','2','x')": None},
    ),
    _row(
        "mathi",
        "op word, a int, b int",
        _computed("int"),
        "int",
        "The result of + - * / or % on two ints; null if it is not an int.",
        {"mathi('+',1,2)": 3, "mathi('/',7,2)": 3, "mathi('/',7,0)": None},
    ),
    _row(
        "mathl",
        "op word, a long, b long",
        _computed("bigint"),
        "bigint",
        "The result of + - * / or % on two longs.",
        {"mathl('-',1,2)": -1, "mathl('%',7,4)": 3, "mathl('/',9007199254740993,1)": 9007199254740993},
    ),
    _row(
        "isNan is_nan",
        "x number",
        "coalesce(isnan({x}), false)",
        "boolean",
        "Whether it is NaN.",
        {"isNan('NaN')": True, "isNan(1)": False, "isNan(null)": False},
    ),
    _row(
        "nanvl",
        "x number, other number",
        "nanvl({x}, {other})",
        "double",
        "The first number, or the other if the first is NaN.",
        {"nanvl('NaN',1)": 1.0},
    ),
)
