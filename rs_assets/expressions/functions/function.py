"""Functions of the languages: a signature, and the Spark SQL of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.kinds import KINDS, coerced

# Makes the SQL text of a call from the SQL texts of its arguments, by parameter name.
Template = Callable[[Mapping[str, str]], str]

# The type of a result that only Spark knows, or the arguments of a call.
UNKNOWN = "unknown"
_PARAMETER = re.compile(r"(?P<name>\w+) (?P<kind>\w+)(?P<more>\.\.\.)?(?: = (?P<default>.+))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter. Its `kind` says what an argument is cast to, or which literal it must be (KINDS).

    `default` is the SQL text of an omitted argument, None if the argument is required.
    """

    name: str
    kind: str
    default: str | None = None
    variadic: bool = False

    def __str__(self) -> str:
        default = f" = {self.default}" if self.default is not None else ""
        return f"{self.name} {self.kind}{'...' if self.variadic else ''}{default}"


@dataclass(frozen=True, slots=True)
class Example:
    """A call, in the language of scripts, and its result: a golden row."""

    call: str
    result: Any


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the languages, total for all values: a result that cannot be computed is null, and nothing raises.

    `returns` is the Spark type of the result: empty if it is the common type of the arguments of kind `any`,
    "unknown" if only Spark knows it, or if `typed` makes it from the arguments of a call.
    """

    name: str
    family: str
    parameters: tuple[Parameter, ...]
    template: Template
    returns: str
    doc: str
    aliases: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    # Identifies the code of a Python function, so that other code under its name is noticed.
    code: str = ""
    typed: Template | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def signature(self) -> str:
        """The signature of a call: `lpad(s text, n long, pad text)`."""
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    def accepts(self, arity: int) -> bool:
        """Whether it accepts `arity` arguments."""
        fixed = [each for each in self.parameters if not each.variadic]
        needed = sum(each.default is None for each in fixed)
        return needed <= arity and (arity <= len(fixed) or len(fixed) < len(self.parameters))

    def kind_at(self, place: int) -> str:
        """The kind of the parameter of the argument at this position."""
        return self.parameters[min(place, len(self.parameters) - 1)].kind

    def sql(self, *arguments: str, zone: str = "UTC") -> str:
        """The Spark SQL of a call with these SQL texts; `zone` applies to times without a zone.

        TopologyError if the number of arguments is wrong, or a literal argument is missing or invalid.

        >>> from rs_assets.expressions.functions.registry import function_named
        >>> function_named("toUpper", 1).sql("page")
        'upper(cast(page as string))'
        """
        if not self.accepts(len(arguments)):
            raise TopologyError(
                f"wrong number of arguments for {self.name}: {len(arguments)}", remedy=f"write {self.signature}"
            )
        return self.template(self._texts(arguments, zone))

    def casts(self, *arguments: str, zone: str = "UTC") -> Mapping[str, str]:
        """The SQL texts of the arguments of a call, cast to the parameter kinds, by parameter name."""
        return self._texts(arguments, zone)

    def type_of(self, *arguments: str) -> str:
        """The Spark type of the result of a call, empty if it is the common type of the arguments.

        >>> from rs_assets.expressions.functions.registry import function_named
        >>> function_named("cast", 2).type_of("a", "'long'")
        'bigint'
        """
        if self.typed is not None:
            return self.typed(self._texts(arguments, "UTC"))
        return self.returns.format_map(self._texts(arguments, "UTC")) if "{" in self.returns else self.returns

    def _texts(self, arguments: tuple[str, ...], zone: str) -> Mapping[str, str]:
        """The SQL texts of the arguments, by parameter name; those of `more any...` also each alone: `more 1`."""
        texts = {"zone": zone}
        for place, parameter in enumerate(self.parameters):
            given = arguments[place:] if parameter.variadic else arguments[place : place + 1] or (parameter.default,)
            made = [coerced(str(text), parameter.kind, f"{parameter.name} of {self.name}", zone) for text in given]
            texts[parameter.name] = ", ".join(made)
            if parameter.variadic:
                texts.update((f"{parameter.name} {number}", each) for number, each in enumerate(made, 1))
        return texts


def parameters_of(signature: str) -> tuple[Parameter, ...]:
    """The parameters of a signature.

    >>> [str(each) for each in parameters_of("s text, n long = 1, more any...")]
    ['s text', 'n long = 1', 'more any...']
    """
    made = []
    for part in filter(None, signature.split(", ")):
        found = _PARAMETER.fullmatch(part)
        if found is None or found["kind"] not in KINDS:
            raise ValueError(f"{part!r} is not a parameter")
        made.append(Parameter(found["name"], found["kind"], found["default"], bool(found["more"])))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Family:
    """Makes the functions of one table: `rows` collects them."""

    name: str

    def row(
        self,
        names: str,
        signature: str,
        template: str | Template,
        returns: str | Template,
        doc: str,
        golden: Mapping[str, Any] = MappingProxyType({}),
    ) -> Function:
        """Adds a function: its `names`, the canonical one first; SQL with parameters in braces, or a template.

        `returns` is a Spark type, or makes it from the arguments of a call.
        """
        name, *aliases = names.split()
        return Function(
            name=name,
            aliases=tuple(aliases),
            family=self.name,
            parameters=parameters_of(signature),
            template=template.format_map if isinstance(template, str) else template,
            returns=returns if isinstance(returns, str) else UNKNOWN,
            typed=None if isinstance(returns, str) else returns,
            doc=doc,
            examples=tuple(Example(call, result) for call, result in golden.items()),
        )
