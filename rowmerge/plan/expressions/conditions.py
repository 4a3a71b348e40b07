"""Division of a condition over a target and a source into the conjuncts of each side and the keys that connect both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import Reference, has_column_outside_tree, has_query, parse, references, rewrite, tokens_of
from rowmerge.table.metadata.schema import backquote

NONDETERMINISTIC = frozenset(
    """rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length reflect java_method try_reflect""".split()
)
"""Spark's built-in functions whose expressions are Nondeterministic. `reflect` and similar functions can run arbitrary code."""

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_COMPARISONS = {
    TokenType.EQ: "=",
    TokenType.NULLSAFE_EQ: "<=>",
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
}
COMPARISON_TREES: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NullSafeEQ: "<=>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_NOT_DISTINCT = [TokenType.IS, TokenType.NOT, TokenType.DISTINCT, TokenType.FROM]
MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""For each comparison operator, the operator with the same meaning after the operands are swapped."""


@dataclass(frozen=True)
class Side:
    """One input of a row-level statement: the target or the source.

    `names`: the dotted names other than the alias that can qualify the input's columns. `columns`: the names of these columns.
    """

    alias: str
    names: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class KeyPair:
    """A conjunct `column op source`. If the operands have the opposite order in the statement, `op` is the mirrored operator.

    `column` is the exact name of a top-level column of the target. `source` is the text of an expression over only the source.
    """

    column: str
    op: str
    source: str


@dataclass(frozen=True)
class Condition:
    """A condition as the AND of its conjuncts. `text` is the SQL text of the whole condition.

    `other` contains the conjuncts over both sides that are not keys, conjuncts with subqueries or nondeterministic functions, and text that
    sqlglot cannot parse. If `analysed` is true, further conjuncts can be joined to each conjunct with AND.
    """

    text: str
    target_only: tuple[str, ...] = ()
    source_only: tuple[str, ...] = ()
    keys: tuple[KeyPair, ...] = ()
    other: tuple[str, ...] = ()
    analysed: bool = True

    @property
    def keys_alone(self) -> bool:
        """Return whether the condition consists only of keys."""
        return self.analysed and bool(self.keys) and not (self.target_only or self.source_only or self.other)


@dataclass(frozen=True)
class Resolved:
    """The column to which a reference resolves: its side, its exact name, and the number of name parts before and after the column name.

    For the column `address` in `analytics.orders.address.city`, `qualifier_size` is 2 and `field_count` is 1.
    """

    side: Side
    column: str
    qualifier_size: int
    field_count: int


def resolve(parts: Sequence[str], sides: Sequence[Side], *, case_sensitive: bool = False) -> Resolved | None:
    """Return the column to which a dotted name resolves. As in Spark, the longest matching qualifier takes precedence.

    In `t.a`, `t` can be a table with the column `a`, or a column with the field `a`. The table takes precedence.

    Args:
        parts: The parts of the name: an optional qualifier, the column, and nested fields. `*` does not resolve to a column.
        sides: The inputs of the statement to which the name can refer.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Returns:
        The column, or None if no column or more than one column matches.
    """
    for qualifier_size in range(len(parts) - 1, -1, -1):
        qualifier, name = parts[:qualifier_size], parts[qualifier_size]
        qualified_sides = [side for side in sides if not qualifier or _is_qualifier(qualifier, side, case_sensitive)]
        matches: list[tuple[Side, str]] = []
        for side in qualified_sides:
            matches += [(side, column) for column in side.columns if is_same_name((column,), (name,), case_sensitive)]
        if len(matches) == 1:
            return Resolved(*matches[0], qualifier_size, field_count=len(parts) - qualifier_size - 1)
        if matches:
            return None  # ambiguous
    return None


def _is_qualifier(parts: Sequence[str], side: Side, case_sensitive: bool) -> bool:
    return any(is_same_name(name, parts, case_sensitive) for name in {(side.alias,), *side.names})


def is_same_name(name: Sequence[str], other: Sequence[str], case_sensitive: bool) -> bool:
    """Return whether two dotted names are the same.

    Args:
        name: The parts of a name.
        other: The parts of the other name.
        case_sensitive: Whether names that differ only in case are different.
    """
    if case_sensitive:
        return tuple(name) == tuple(other)
    return [part.lower() for part in name] == [part.lower() for part in other]


def divide_condition(text: str, target: Side, source: Side | None, *, case_sensitive: bool = False) -> Condition:
    """Return a condition divided at its top-level ANDs into the conjuncts of each side.

    Args:
        text: The SQL text of the condition.
        target: The side of the changed table.
        source: The side of the source, or None for a condition over only the target.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Returns:
        The divided condition. If sqlglot cannot parse the text, `other` contains the whole text and `analysed` is false.
    """
    tree, tokens = parse(text), tokens_of(text)
    conjuncts = _conjuncts(_Operand(tree, tokens)) if tree is not None and tokens else None
    if conjuncts is None:
        return Condition(text, other=(text,), analysed=False)
    scope = _Scope(text, target, source, case_sensitive)
    keys, target_only, source_only, other = list[KeyPair](), list[str](), list[str](), list[str]()
    for conjunct in conjuncts:
        sides, conjunct_text = scope.sides_of(conjunct), scope.conjunct_text(conjunct)
        key = scope.key_of(conjunct) if sides == {target, source} else None
        if key is not None:
            keys.append(key)
        elif sides is not None and sides <= {target}:
            target_only.append(conjunct_text)
        elif sides == {source}:
            source_only.append(conjunct_text)
        else:
            other.append(conjunct_text)
    return Condition(text, tuple(target_only), tuple(source_only), tuple(keys), tuple(other))


def nondeterministic_function(text: str) -> str | None:
    """Return the name of the first nondeterministic function that a SQL text calls, such as `rand`, or None if it calls none."""
    tokens = tokens_of(text) or []
    for index, token in enumerate(tokens[:-1]):
        is_call = tokens[index + 1].token_type is TokenType.L_PAREN and token.token_type is not TokenType.STRING
        if is_call and not _follows_dot(tokens, index) and token.text.lower() in NONDETERMINISTIC:
            return token.text.lower()
    return None


def _follows_dot(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token follows a dot and is therefore part of a name, even if it is a keyword."""
    return index > 0 and tokens[index - 1].token_type is TokenType.DOT


@dataclass(frozen=True)
class _Operand:
    """A condition, or an expression inside a condition: the syntax tree, and the tokens of the text."""

    tree: exp.Expr
    tokens: list[Token]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end + 1

    def without_parentheses(self) -> _Operand:
        """Return the operand without the parentheses that enclose the whole operand."""
        operand = self
        while isinstance(operand.tree, exp.Paren) and _is_enclosed(operand.tokens):
            operand = _Operand(operand.tree.this, operand.tokens[1:-1])
        return operand


@dataclass(frozen=True)
class _Scope:
    """The text of a condition, and the sides whose columns the condition can use."""

    text: str
    target: Side
    source: Side | None
    case_sensitive: bool

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.target,) if self.source is None else (self.target, self.source)

    def text_of(self, operand: _Operand) -> str:
        return self.text[operand.start : operand.end]

    def conjunct_text(self, conjunct: _Operand) -> str:
        """Return the text of a conjunct, in parentheses if it is an OR, so that it can be joined to other conjuncts with AND."""
        text = self.text_of(conjunct)
        return f"({text})" if isinstance(conjunct.tree, exp.Or | exp.Xor) else text

    def sides_of(self, operand: _Operand) -> set[Side] | None:
        """Return the sides whose columns an operand uses, or None if the sides are uncertain or the operand cannot be moved.

        Moving an operand means evaluating it apart from the rest of the condition, for example as a filter on the target. Subqueries,
        aggregates, stars, parameters and nondeterministic functions would then have a different result, or no result.
        """
        if has_query(operand.tree) or operand.tree.find(exp.AggFunc, exp.Window, exp.UDTF, exp.Star, exp.Placeholder, exp.Parameter):
            return None
        operand_references = references(operand.tree, self.text)
        if operand_references is None or nondeterministic_function(self.text_of(operand)):
            return None
        # sqlglot can take a column for a keyword or a string, and then the references lack that column.
        if any(has_column_outside_tree(self.text, operand.tokens, operand_references, side.columns) for side in self.sides):
            return None
        columns = [resolve(reference.parts, self.sides, case_sensitive=self.case_sensitive) for reference in operand_references]
        sides = {column.side for column in columns if column is not None}
        return None if None in columns else sides  # None stands for an unknown or ambiguous name

    def key_of(self, conjunct: _Operand) -> KeyPair | None:
        """Return the key that a conjunct over both sides compares, or None if it does not compare a target column with the source."""
        comparison = _comparison(conjunct.without_parentheses())
        if comparison is None:
            return None
        op, first_operand, second_operand = comparison
        return self._key(first_operand, op, second_operand) or self._key(second_operand, MIRRORED[op], first_operand)

    def _key(self, column: _Operand, op: str, value: _Operand) -> KeyPair | None:
        """Return the key `column op value`, or None unless `column` is a column of the target and `value` uses only the source."""
        resolved = self._top_level_column(column)
        if resolved is None or resolved.side != self.target or self.sides_of(value) != {self.source}:
            return None
        value_references = references(value.tree, self.text)
        if value_references is None or any(not value.start <= reference.starts[0] < value.end for reference in value_references):
            return None
        return KeyPair(resolved.column, op, self._over_source_alias(value, value_references))

    def _top_level_column(self, operand: _Operand) -> Resolved | None:
        """Return the top-level column of which an operand consists, or None if the operand is any other expression."""
        column_references = references(operand.tree, self.text) if isinstance(operand.tree.unnest(), exp.Column) else None
        if column_references is None or len(column_references) != 1:
            return None
        (reference,) = column_references
        if not operand.start <= reference.starts[0] <= reference.ends[-1] <= operand.end:
            return None
        resolved = resolve(reference.parts, self.sides, case_sensitive=self.case_sensitive)
        return resolved if resolved is not None and resolved.field_count == 0 else None

    def _over_source_alias(self, operand: _Operand, operand_references: Iterable[Reference]) -> str:
        """Return the text of an operand with each qualifier of the source replaced by the source's alias."""
        assert self.source is not None
        edits = []
        for reference in operand_references:
            resolved = resolve(reference.parts, (self.source,), case_sensitive=self.case_sensitive)
            qualifier = reference.parts[: resolved.qualifier_size] if resolved is not None else ()
            if qualifier and not is_same_name(qualifier, (self.source.alias,), self.case_sensitive):
                start, end = reference.starts[0], reference.ends[len(qualifier) - 1]
                edits.append((start - operand.start, end - operand.start, backquote(self.source.alias)))
        return rewrite(self.text_of(operand), edits)


def _conjuncts(condition: _Operand) -> list[_Operand] | None:
    """Return the conjuncts of a condition, that is, the operands of its top-level ANDs, each with its tree and its tokens.

    sqlglot's tree determines the operands, but does not contain the position of a whole operand in the text. The tokens provide it. Return
    None if the number of operands in the tree differs from the number found by searching the tokens for AND.
    """
    if isinstance(condition.tree, exp.Paren):
        return _conjuncts_in_parentheses(condition)
    if not isinstance(condition.tree, exp.And):
        return [condition]
    trees, token_lists = list(condition.tree.flatten(unnest=False)), _split_at_and(condition.tokens)
    if token_lists is None or len(token_lists) != len(trees):
        return None
    conjuncts: list[_Operand] = []
    for tree, tokens in zip(trees, token_lists, strict=True):
        operand_conjuncts = _conjuncts(_Operand(tree, tokens))
        if operand_conjuncts is None:
            return None
        conjuncts += operand_conjuncts
    return conjuncts


def _conjuncts_in_parentheses(condition: _Operand) -> list[_Operand] | None:
    """Return the conjuncts of a parenthesized condition, as `_conjuncts` does. A single conjunct keeps its parentheses."""
    if not _is_enclosed(condition.tokens):
        return None
    conjuncts = _conjuncts(_Operand(condition.tree.this, condition.tokens[1:-1]))
    return [condition] if conjuncts is not None and len(conjuncts) == 1 else conjuncts


def _depths(tokens: list[Token]) -> list[int] | None:
    """Return the nesting depth of each token in brackets and CASE … END, or None if they are unbalanced. Brackets enclose themselves."""
    depths, depth = [], 0
    for index, token in enumerate(tokens):
        is_name = _follows_dot(tokens, index)
        depth += token.token_type in _OPEN and not is_name
        depths.append(depth)
        depth -= token.token_type in _CLOSE and not is_name
        if depth < 0:
            return None
    return depths if depth == 0 else None


def _is_enclosed(tokens: list[Token]) -> bool:
    """Return whether the first and the last token are parentheses that enclose all other tokens."""
    if len(tokens) < 3 or tokens[0].token_type is not TokenType.L_PAREN or tokens[-1].token_type is not TokenType.R_PAREN:
        return False
    return _depths(tokens) is not None and _depths(tokens[1:-1]) is not None


def _split_at_and(tokens: list[Token]) -> list[list[Token]] | None:
    """Return the tokens of each operand of the top-level ANDs, or None if brackets are unbalanced or an operand is empty."""
    depths = _depths(tokens)
    if depths is None:
        return None
    # In `s.and`, the keyword is the name of a field.
    keyword_indexes = [index for index, depth in enumerate(depths) if depth == 0 and not _follows_dot(tokens, index)]
    borders = [-1, *_and_indexes(tokens, keyword_indexes), len(tokens)]
    operands = [tokens[border + 1 : next_border] for border, next_border in pairwise(borders)]
    return operands if all(operands) else None


def _and_indexes(tokens: list[Token], candidates: Iterable[int]) -> list[int]:
    """Return the candidate indexes at which the token is an AND that joins conditions rather than the AND of a BETWEEN."""
    and_indexes, open_betweens = [], 0
    for index in candidates:
        keyword = tokens[index].token_type
        if keyword is TokenType.BETWEEN:
            open_betweens += 1
        elif keyword is TokenType.AND and open_betweens:
            open_betweens -= 1
        elif keyword is TokenType.AND:
            and_indexes.append(index)
    return and_indexes


def _comparison(operand: _Operand) -> tuple[str, _Operand, _Operand] | None:
    """Return the operator and the two operands of a comparison, or None for any other expression.

    sqlglot's tree determines whether the expression is a comparison, but does not contain the positions of whole operands. The tokens
    provide them: the only comparison operator outside brackets separates the operands. Return None if tree and tokens have different
    operators.
    """
    tree, tokens, depths = operand.tree, operand.tokens, _depths(operand.tokens)
    if depths is None:  # the brackets are unbalanced
        return None
    top_level_operators = [_comparison_operator(tokens, index) for index, depth in enumerate(depths) if depth == 0]
    operators = [operator for operator in top_level_operators if operator is not None]
    if len(operators) != 1:
        return None
    op, operator_start, operator_end = operators[0]
    left_tokens, right_tokens = tokens[:operator_start], tokens[operator_end:]
    if op != COMPARISON_TREES.get(type(tree)) or not left_tokens or not right_tokens:
        return None
    return op, _Operand(tree.this, left_tokens), _Operand(tree.expression, right_tokens)


def _comparison_operator(tokens: list[Token], index: int) -> tuple[str, int, int] | None:
    """Return the comparison operator that begins at a token, the index of its first token, and the index of the token after it."""
    if op := _COMPARISONS.get(tokens[index].token_type):
        return op, index, index + 1
    is_distinct_from = [token.token_type for token in tokens[index : index + 4]] == _NOT_DISTINCT
    return ("<=>", index, index + 4) if is_distinct_from else None
