"""Calls of the warehouse's functions in SQL text, and their replacement by expressions and functions that Spark executes.

A call is replaced by the function's expression, with the arguments cast to the parameter types, so that conditions with calls prune files.
Where the expression would have a different meaning, the call is replaced by a call of a function registered in Spark. This is the case for
a Python function, a body with a subquery or a lambda, and an argument that would be computed twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rowmerge.commands.functions import FunctionDefinition
from rowmerge.commands.names import TableName
from rowmerge.errors import PlanError
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import QUERY_WORDS, begins_query
from rowmerge.sql.lexing.lexer import CLOSING, Kind, Token, Tokens, tokenize


class Edit(NamedTuple):
    """The replacement of the text in a half-open range of offsets."""

    start: int
    end: int
    replacement: str


# fmt: off
_BEFORE_CALL = frozenset({
    "ALL", "AND", "ANTI", "ANY", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "FROM", "HAVING", "ILIKE", "IN", "LIKE", "LIMIT",
    "MOD", "NOT", "OFFSET", "ON", "OR", "QUALIFY", "REGEXP", "RLIKE", "SELECT", "THEN", "VALUES", "WHEN", "WHERE", "RETURN",
})
"""Words after which an expression can begin."""
_NO_NAMES = _BEFORE_CALL | {
    "AS", "CAST", "CHAR", "DEC", "DECIMAL", "EXCEPT", "EXISTS", "EXTRACT", "IF", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "NUMERIC",
    "OVER", "PARTITION", "SET", "STRUCT", "TRY_CAST", "UNION", "UPDATE", "USING", "VARCHAR", "WITH",
}
"""Words before a parenthesis that are not the name of a function."""
_NOT_INLINED = frozenset(
    """DATE TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TIME INTERVAL YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND STRING INT
    INTEGER BIGINT LONG SMALLINT TINYINT FLOAT DOUBLE DECIMAL BOOLEAN BINARY CASE WHEN THEN ELSE END NULL TRUE FALSE LEADING
    TRAILING BOTH FROM FOR ESCAPE NULLS FIRST LAST""".split()
)
"""Parameter names that are keywords in some parts of an expression. A function with such a parameter is not inlined."""
_ENDS_SELECT_LIST = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL", "WINDOW", "QUALIFY",
    "DISTINCT", "SORT", "CLUSTER", "DISTRIBUTE", "OFFSET", "AS", ",", "|>",
})
# fmt: on


@dataclass(frozen=True)
class CalledFunction:
    """The function to which a call refers.

    `name` is used in messages. `body` is the body of a SQL function, in which tables and calls are already replaced. `register` registers
    the function in Spark and returns its quoted name in Spark.
    """

    name: str
    definition: FunctionDefinition
    body: str
    register: Callable[[], str]


ResolveFunction = Callable[[TableName], CalledFunction | None]


@dataclass(frozen=True)
class _Call:
    """A function call: the function's name, and the token indexes of the name's first part and of the two parentheses."""

    name: TableName
    name_index: int
    opening_index: int
    closing_index: int


def add_call_edits(cursor: Cursor, resolve: ResolveFunction, edits: list[Edit]) -> list[Edit]:
    """Return `edits` together with an edit for each call of a function that `resolve` returns, in text order.

    The edit of a call supersedes the edits inside the call, which are applied to the call's arguments.

    Args:
        cursor: The tokens of the text.
        resolve: A function that returns the function to which a name refers, or None to keep the call.
        edits: Edits of the same text that do not overlap.

    Raises:
        PlanError: The arguments of a call do not match the function's parameters.
        UnsupportedStatement: The engine cannot replace the call of an aggregate function, because the call has DISTINCT, FILTER or OVER.
    """
    calls = [(call, resolve(call.name)) for call in _find_calls(cursor.tokens)]
    edits = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for call, function in reversed(calls):  # a call in an argument is replaced before the call around it
        if function is None:
            continue
        _refuse_aggregate(cursor, call, function)
        start, end = cursor.tokens.starts[call.name_index], cursor.tokens.ends[call.closing_index]
        inside_call = _slice_between(edits, start, end)
        arguments = _bind_arguments(cursor, call, function, inner_edits=edits[inside_call])
        # One edit of the whole call replaces the edits inside the call, which the arguments already contain.
        edits[inside_call] = [Edit(start, end, replacement_of_call(function, arguments))]
    return edits


def _slice_between(edits: list[Edit], start: int, end: int) -> slice:
    """Return the slice of sorted edits between two offsets. Edits do not overlap, so that both their starts and their ends are sorted."""
    first = bisect_left(edits, start, key=lambda edit: edit.start)
    return slice(first, bisect_right(edits, end, key=lambda edit: edit.end))


def apply_edits(text: str, edits: list[Edit], start: int = 0, end: int | None = None) -> str:
    """Return the text between two offsets with the edits applied.

    Args:
        text: The whole text.
        edits: Edits that do not overlap, in any order. Their offsets count from the beginning of `text`.
        start: The offset at which the returned text begins.
        end: The offset at which the returned text ends, or None for the end of `text`.
    """
    pieces, offset = [], start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[offset : edit.start], edit.replacement]
        offset = edit.end
    return "".join(pieces) + text[offset:end]


def _inline(definition: FunctionDefinition, body: str, arguments: Mapping[str, str]) -> str:
    """Return the body of a SQL function as an expression, with each parameter replaced by its argument, cast to the parameter type."""
    text = expression_of(body)
    tokens = tokenize(text)
    types = {parameter.name.lower(): parameter.type for parameter in definition.parameters}
    edits = [
        Edit(tokens.starts[index], tokens.ends[index], f"cast({arguments[name]} as {types[name]})")
        for index, name in _find_mentions(tokens, frozenset(types))
    ]
    return f"cast(({apply_edits(text, edits)}) as {definition.returns})"


@lru_cache(maxsize=256)
def expression_of(body: str) -> str:
    """Return a function body as an expression: `price * 2` for `SELECT price * 2`, and a scalar subquery for every other query."""
    tokens = tokenize(body).without_semicolons()
    cursor = Cursor(tokens)
    start, end = tokens.starts[0], tokens.ends[-1]
    if not begins_query(cursor):
        return body[start:end]
    if cursor.next_is("SELECT") and _ENDS_SELECT_LIST.isdisjoint(_outside_brackets(tokens.keys[1:-1])):
        return body[tokens.starts[1] : end]
    return f"({body[start:end]})"


def replacement_of_call(function: CalledFunction, arguments: Mapping[str, str]) -> str:
    """Return the SQL text that replaces a call: the function's body or, if it cannot be inlined, a call of a registered function.

    With an inlined body, Spark optimizes the query as if the user had written the expression. Otherwise, register the function in Spark and
    return a call of its registered name.

    Args:
        function: The called function.
        arguments: The SQL text of each argument, by the lower-case name of its parameter. A parameter without a type has no cast.
    """
    definition = function.definition
    if definition.language == "sql" and (definition.aggregate or _fits_inline(definition, function.body, arguments)):
        return _inline(definition, function.body, arguments)
    values = [(arguments[p.name.lower()], p.type) for p in definition.parameters]
    cast_arguments = ", ".join(f"cast({value} as {type_})" if type_ else value for value, type_ in values)
    registered_name = function.register()
    return f"{registered_name}({cast_arguments})"


def _fits_inline(definition: FunctionDefinition, body: str, arguments: Mapping[str, str]) -> bool:
    """Return whether the body can replace a call: names in arguments keep their meaning, and no `rand()` is computed twice."""
    if any(parameter.name.upper() in _NOT_INLINED for parameter in definition.parameters):
        return False
    tokens = tokenize(expression_of(body))
    if any(key == "->" or key in QUERY_WORDS - {"FROM"} for key in tokens.keys):
        return False
    mentions = Counter(name for _, name in _find_mentions(tokens, frozenset(arguments)))
    return all("(" not in text or mentions[name] < 2 for name, text in arguments.items())


def _find_mentions(tokens: Tokens, parameters: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the index of each token of a body that refers to a parameter, and the parameter's name in lower case."""
    for index, token in enumerate(tokens):
        name = token.name.lower()
        if not token.is_name or name not in parameters:
            continue
        following = tokens[index + 1]
        is_literal_prefix = following.kind is Kind.STRING  # `x'1F'`
        if tokens.keys[index - 1] != "." and following.key not in ("(", "=>") and not is_literal_prefix:
            yield index, name


def _outside_brackets(keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys of the tokens outside all brackets."""
    depth = 0
    for key in keys:
        depth -= key in CLOSING.values()
        if not depth:
            yield key
        depth += key in CLOSING


def _find_calls(tokens: Tokens) -> Iterator[_Call]:
    """Yield the possible calls in text order: each dotted name before a parenthesis at a position where an expression can begin."""
    for opening in range(1, len(tokens)):
        if tokens.keys[opening] != "(" or not _ends_function_name(tokens, opening - 1):
            continue
        first = _first_of_dotted_name(tokens, opening - 1)
        closing = tokens.closings[opening]
        previous = tokens[first - 1] if first else None
        if closing < len(tokens) - 1 and _begins_expression(previous):  # the parenthesis is closed before END
            name = TableName(tuple(token.name for token in tokens[first:opening:2]))
            yield _Call(name, first, opening, closing)


def _ends_function_name(tokens: Tokens, index: int) -> bool:
    """Return whether a token before a parenthesis is a name rather than a keyword such as IN. A keyword after a dot is a name."""
    is_keyword = tokens.keys[index] in _NO_NAMES and tokens.keys[index - 1] != "."
    return tokens.is_name(index) and not is_keyword


def _first_of_dotted_name(tokens: Tokens, last: int) -> int:
    """Return the index of the first token of the dotted name that ends with token `last`."""
    first = last
    while first > 1 and tokens.keys[first - 1] == "." and tokens.is_name(first - 2):
        first -= 2
    return first


def _begins_expression(previous: Token | None) -> bool:
    """Return whether an expression can begin after a token. None stands for the beginning of the text."""
    if previous is None or previous.key in _BEFORE_CALL:
        return True
    return previous.kind is Kind.SYMBOL and previous.key not in (".", *CLOSING.values())


def _bind_arguments(cursor: Cursor, call: _Call, function: CalledFunction, inner_edits: list[Edit]) -> dict[str, str]:
    """Return the SQL text of each argument or default, by lower-case parameter name.

    `inner_edits`: the edits inside the call, such as replaced calls in its arguments, which are applied to the arguments.
    """
    offsets_by_name = _find_given_arguments(cursor.tokens, call, function)
    arguments: dict[str, str] = {}
    for parameter in function.definition.parameters:
        name = parameter.name.lower()
        if name in offsets_by_name:
            start, end = offsets_by_name[name]
            argument_edits = [edit for edit in inner_edits if start <= edit.start and edit.end <= end]
            arguments[name] = apply_edits(cursor.text, argument_edits, start, end)
        elif parameter.default is not None:
            arguments[name] = parameter.default
        else:
            raise _argument_error(function, f"needs the argument {parameter.name}, which has no default")
    return arguments


def _find_given_arguments(tokens: Tokens, call: _Call, function: CalledFunction) -> dict[str, tuple[int, int]]:
    """Return the offsets of each argument in the text, by lower-case parameter name. Raise PlanError for an unknown parameter."""
    parameter_names = {parameter.name.lower() for parameter in function.definition.parameters}
    offsets_by_name: dict[str, tuple[int, int]] = {}
    for position, (first_index, last_index) in enumerate(_argument_spans(tokens, call)):
        is_named = tokens.is_name(first_index) and tokens.keys[first_index + 1] == "=>"
        name = tokens[first_index].name.lower() if is_named else _parameter_at(position, function)
        if name in offsets_by_name:
            raise _argument_error(function, f"takes the argument {name} only once")
        if name not in parameter_names:
            raise _argument_error(function, f"has no parameter {name}")
        value_index = first_index + 2 if is_named else first_index  # after `name =>`
        offsets_by_name[name] = tokens.starts[value_index], tokens.ends[last_index]
    return offsets_by_name


def _parameter_at(position: int, function: CalledFunction) -> str:
    """Return the lower-case name of the parameter that an argument without a name sets. `position` counts from 0."""
    parameters = function.definition.parameters
    if position >= len(parameters):
        plural = "" if len(parameters) == 1 else "s"
        raise _argument_error(function, f"takes at most {len(parameters)} argument{plural}")
    return parameters[position].name.lower()


def _argument_spans(tokens: Tokens, call: _Call) -> list[tuple[int, int]]:
    """Return the indexes of the first and the last token of each argument. Leave out empty arguments."""
    delimiters = [call.opening_index]  # the parentheses of the call, and the commas between its arguments
    bracket_depth = 0  # brackets inside an argument, whose commas do not separate arguments
    for index in range(call.opening_index + 1, call.closing_index + 1):
        key = tokens.keys[index]
        if not bracket_depth and (key == "," or index == call.closing_index):
            delimiters.append(index)
        bracket_depth += (key in CLOSING) - (key in CLOSING.values())
    return [(delimiter + 1, following - 1) for delimiter, following in pairwise(delimiters) if following - delimiter > 1]


def _argument_error(function: CalledFunction, problem: str) -> PlanError:
    """Return the error for a call with wrong arguments. `problem`: the predicate of the error message, whose subject is the function."""
    parameters = function.definition.signature.partition(" RETURNS ")[0]
    return PlanError(f"The function {function.name} {problem}. Call it as {function.name}{parameters}.")


def _refuse_aggregate(cursor: Cursor, call: _Call, function: CalledFunction) -> None:
    """Raise UnsupportedStatement for a call of an aggregate with DISTINCT or FILTER, and for a call of a SQL aggregate with OVER."""
    if not function.definition.aggregate:
        return
    first_argument, following = cursor.tokens[call.opening_index + 1], cursor.tokens[call.closing_index + 1]
    if first_argument.key == "DISTINCT":
        reason = f"The aggregate {function.name} does not support DISTINCT. Select the distinct rows in a subquery"
        raise cursor.unsupported(reason, first_argument)
    if following.key == "FILTER" or (following.key == "OVER" and function.definition.language == "sql"):
        reason = f"The aggregate {function.name} does not support {following.key}. Aggregate in a subquery, and filter or join there"
        raise cursor.unsupported(reason, following)
