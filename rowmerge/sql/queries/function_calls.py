"""Calls of the warehouse's functions in a text: found by their tokens, and replaced by what Spark knows.

The expression of a function replaces a call. Its arguments are cast to the parameter types. The result may stand wherever a value may
stand, and a condition with it prunes files.

Spark gets a registered function, under a name that is derived from the function's text, where the expression would mean something else: a
function in Python, a body with a subquery or a lambda, or an argument that would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rowmerge.commands.functions import FunctionDefinition
from rowmerge.commands.names import TableName
from rowmerge.errors import PlanError
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import QUERY_WORDS, begins_query
from rowmerge.sql.lexing.lexer import CLOSING, Kind, Token, Tokens, tokenize

Edit = tuple[int, int, str]
"""Offsets from and to, half open, and what stands there instead."""

# fmt: off
_BEFORE_CALL = frozenset({
    "ALL", "AND", "ANTI", "ANY", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "FROM", "HAVING", "ILIKE", "IN", "LIKE", "LIMIT",
    "MOD", "NOT", "OFFSET", "ON", "OR", "QUALIFY", "REGEXP", "RLIKE", "SELECT", "THEN", "VALUES", "WHEN", "WHERE", "RETURN",
})
"""Words behind which an expression may begin."""
_NO_NAMES = _BEFORE_CALL | {
    "AS", "CAST", "CHAR", "DEC", "DECIMAL", "EXCEPT", "EXISTS", "EXTRACT", "IF", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "NUMERIC",
    "OVER", "PARTITION", "SET", "STRUCT", "TRY_CAST", "UNION", "UPDATE", "USING", "VARCHAR", "WITH",
}
"""Words that stand before a bracket and are the name of no function."""
_NOT_INLINED = frozenset({
    "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME", "INTERVAL", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE",
    "SECOND", "STRING", "INT", "INTEGER", "BIGINT", "LONG", "SMALLINT", "TINYINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "BINARY",
    "CASE", "WHEN", "THEN", "ELSE", "END", "NULL", "TRUE", "FALSE", "LEADING", "TRAILING", "BOTH", "FROM", "FOR", "ESCAPE", "NULLS",
    "FIRST", "LAST",
})
"""Names of parameters that mean something else in some places of an expression."""
_ENDS_SELECT_LIST = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL", "WINDOW", "QUALIFY",
    "DISTINCT", "SORT", "CLUSTER", "DISTRIBUTE", "OFFSET", "AS", ",", "|>",
})
# fmt: on


@dataclass(frozen=True)
class CalledFunction:
    """What a called name means. `name` is for messages; `body` that of a function in SQL, its own names bound.

    `register` registers the function in Spark and returns its quoted name there.
    """

    name: str
    definition: FunctionDefinition
    body: str
    register: Callable[[], str]


ResolveFunction = Callable[[TableName], CalledFunction | None]


@dataclass(frozen=True)
class _Call:
    """Tokens of a call: its name from `first`, its brackets."""

    name: TableName
    first: int
    opening: int
    closing: int


def call_edits(cursor: Cursor, resolve: ResolveFunction, edits: list[Edit]) -> list[Edit]:
    """All edits of a text: those given, and for each call that `resolve` knows one that replaces the whole of it.

    Raises PlanError for arguments that do not fit the function, UnsupportedStatement for what cannot be done with an aggregate.
    """
    found = [(call, called) for call in _calls(cursor.tokens) if (called := resolve(call.name)) is not None]
    before, done = sorted(edits, key=lambda edit: edit[:2]), list[Edit]()
    for call, called in reversed(found):  # those in arguments come first
        start, end = cursor.tokens.starts[call.first], cursor.tokens.ends[call.closing]
        while before and before[-1][0] >= start:
            done.append(before.pop())
        inside: list[Edit] = []
        while done and done[-1][1] <= end:
            inside.append(done.pop())
        _check_place(cursor, call, called)
        done.append((start, end, call_of(called, _arguments(cursor, call, called, inside))))
    return before + done


def edited(text: str, edits: list[Edit], start: int = 0, end: int | None = None) -> str:
    """The text between two offsets, with the edits there made."""
    pieces, at = [], start
    for first, last, new in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [text[at:first], new]
        at = last
    return "".join(pieces) + text[at:end]


def inlined(definition: FunctionDefinition, body: str, arguments: Mapping[str, str]) -> str:
    """The value of a function in SQL as an expression: each parameter (in lower case) is its argument, cast to its type."""
    text = expression_of(body)
    tokens = tokenize(text)
    types = {parameter.name.lower(): parameter.type for parameter in definition.parameters}
    edits: list[Edit] = []
    for at, name in _mentions(tokens, frozenset(types)):
        edits.append((tokens[at].start, tokens[at].end, f"cast({arguments[name]} as {types[name]})"))
    return f"cast(({edited(text, edits)}) as {definition.returns})"


@lru_cache(maxsize=256)
def expression_of(body: str) -> str:
    """A body as an expression: `SELECT price * 2` says what `price * 2` does, every other query is a subquery of one value."""
    tokens = tokenize(body).without_semicolons()
    cursor = Cursor(tokens)
    end = tokens.ends[-1] if len(tokens) > 1 else 0
    if not begins_query(cursor):
        return body[tokens[0].start : end]
    outside = set(_outside_brackets(tokens.keys[1:-1]))
    if cursor.sees("SELECT") and not outside & _ENDS_SELECT_LIST:
        return body[tokens[1].start : end]
    return f"({body[tokens[0].start : end]})"


def can_be_inlined(definition: FunctionDefinition, body: str) -> bool:
    """Whether putting arguments into the body means what a call means: no name of the body, nor a column of it, can catch another's."""
    if definition.language != "sql" or any(parameter.name.upper() in _NOT_INLINED for parameter in definition.parameters):
        return False
    return not any(key == "->" or key in QUERY_WORDS - {"FROM"} for key in tokenize(expression_of(body)).keys)


def call_of(called: CalledFunction, arguments: Mapping[str, str]) -> str:
    """A call as Spark takes it: the value as an expression, or a call of what is registered. `arguments` by the parameter in lower case."""
    definition = called.definition
    if definition.language == "sql" and (definition.aggregate or _fits_inline(definition, called.body, arguments)):
        return inlined(definition, called.body, arguments)
    listed = ", ".join(f"cast({arguments[p.name.lower()]} as {p.type})" for p in definition.parameters)
    return f"{called.register()}({listed})"


def _fits_inline(definition: FunctionDefinition, body: str, arguments: Mapping[str, str]) -> bool:
    """Nothing that is computed is computed twice: it might give another value (`rand()`), or take long."""
    if not can_be_inlined(definition, body):
        return False
    mentioned = [name for _, name in _mentions(tokenize(expression_of(body)), frozenset(arguments))]
    return all("(" not in text or mentioned.count(name) < 2 for name, text in arguments.items())


def _mentions(tokens: Tokens, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Where a parameter's value is meant: index of the token, and the parameter in lower case."""
    for at, token in enumerate(tokens):
        if token.is_name and (name := token.name.lower()) in names:
            before, after = tokens[at - 1].key if at else "", tokens[at + 1]
            if before != "." and after.key not in ("(", "=>") and after.kind is not Kind.STRING:  # not `x'1F'`
                yield at, name


def _outside_brackets(keys: Sequence[str]) -> Iterator[str]:
    depth = 0
    for key in keys:
        depth -= key in CLOSING.values()
        if not depth:
            yield key
        depth += key in CLOSING


# ------------------------------------------------------------------ calls


def _calls(tokens: Tokens) -> Iterator[_Call]:
    """All that may be calls, in the order of the text: a name, and a bracket where an expression may stand."""
    keys, end = tokens.keys, len(tokens) - 1
    for at, key in enumerate(keys[:-1]):
        if keys[at + 1] != "(" or not tokens.is_name(at) or (key in _NO_NAMES and keys[at - 1] != "."):
            continue
        first = at
        while first > 1 and keys[first - 1] == "." and tokens.is_name(first - 2):
            first -= 2
        closing = tokens.closings[at + 1]
        if closing != end and _begins_expression(tokens[first - 1] if first else None):
            yield _Call(TableName(tuple(part.name for part in tokens[first : at + 1 : 2])), first, at + 1, closing)


def _begins_expression(before: Token | None) -> bool:
    if before is None or before.key in _BEFORE_CALL:
        return True
    return before.kind is Kind.SYMBOL and before.key not in (".", *CLOSING.values())


def _arguments(cursor: Cursor, call: _Call, called: CalledFunction, edits: list[Edit]) -> dict[str, str]:
    """The text of each parameter's argument, by the parameter in lower case: as given by place or by name, or else its default."""
    parameters = called.definition.parameters
    names = [parameter.name.lower() for parameter in parameters]
    given: dict[str, str] = {}
    for place, (first, last) in enumerate(_listed(cursor.tokens, call)):
        named = cursor.tokens[first].is_name and cursor.tokens[first + 1].key == "=>"
        if not named and place >= len(names):
            raise _misfit(called, f"takes no more than {len(names)} argument{'s' if len(names) != 1 else ''}")
        name = cursor.tokens[first].name.lower() if named else names[place]
        if name not in names or name in given:
            raise _misfit(called, f"is given {name} twice" if name in given else f"has no parameter {name}")
        start, end = cursor.tokens[first + 2 if named else first].start, cursor.tokens[last].end
        given[name] = edited(cursor.text, [edit for edit in edits if start <= edit[0] and edit[1] <= end], start, end)
    for parameter in parameters:
        if parameter.name.lower() not in given:
            if parameter.default is None:
                raise _misfit(called, f"is given no {parameter.name}, which has no default")
            given[parameter.name.lower()] = parameter.default
    return given


def _listed(tokens: Tokens, call: _Call) -> list[tuple[int, int]]:
    """First and last token of each argument."""
    found, first, depth = [], call.opening + 1, 0
    for at in range(call.opening + 1, call.closing + 1):
        key = tokens.keys[at]
        if not depth and at > first - 1 and (key == "," or at == call.closing):
            if at > first:
                found.append((first, at - 1))
            first = at + 1
        depth += (key in CLOSING) - (key in CLOSING.values())
    return found


def _misfit(called: CalledFunction, what: str) -> PlanError:
    return PlanError(f"The function {called.name} {what}. Call it as {called.name}{called.definition.signature.partition(' RETURNS ')[0]}.")


def _check_place(cursor: Cursor, call: _Call, called: CalledFunction) -> None:
    """Raises UnsupportedStatement for an aggregate over distinct values, or in SQL over a window or with a filter."""
    if not called.definition.aggregate:
        return
    behind = cursor.tokens[call.closing + 1]
    if cursor.tokens[call.opening + 1].key == "DISTINCT":
        reason = f"DISTINCT cannot stand in the aggregate {called.name}. Select the distinct rows in a subquery"
        raise cursor.unsupported(reason, cursor.tokens[call.opening + 1])
    if behind.key == "FILTER" or (behind.key == "OVER" and called.definition.language == "sql"):
        reason = f"{behind.key} cannot stand behind the aggregate {called.name}. Aggregate in a subquery, and filter or join there"
        raise cursor.unsupported(reason, behind)
