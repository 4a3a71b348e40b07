"""Division of a condition over a target and a source into the conjuncts of each side and the keys that connect both sides."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import Reference, has_column_outside_tree, has_query, parse, references, rewrite, tokens_of
from rowmerge.plan.expressions.operators import follows_dot, is_enclosed, split_at_and, top_level_comparisons
from rowmerge.plan.expressions.sides import Side, fields_along, is_same_name, resolve
from rowmerge.table.metadata.schema import Struct, backquote

NONDETERMINISTIC = frozenset(
    """rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length reflect java_method try_reflect""".split()
)
"""Spark's built-in functions whose expressions are Nondeterministic. `reflect` and similar functions can run arbitrary code."""
_OVER_ROWS = frozenset(
    """try_sum try_avg mean std every histogram_numeric count_min_sketch hll_sketch_agg hll_union_agg theta_sketch_agg theta_union_agg
    theta_intersection_agg kll_sketch_agg_bigint kll_sketch_agg_float kll_sketch_agg_double inline_outer json_tuple variant_explode
    variant_explode_outer""".split()
)
"""Spark's aggregate functions, and its functions that return several rows, that sqlglot does not know."""

COMPARISON_TREES: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NullSafeEQ: "<=>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""For each comparison operator, the operator with the same meaning after the operands are swapped."""


_NO_SIDE = Side("", (), ())
_NO_SCHEMA = Struct()


@dataclass(frozen=True)
class KeyPair:
    """A conjunct `column op source`. If the operands have the opposite order in the statement, `op` is the mirrored operator.

    `column` is the exact name of a top-level column of the target. `fields`: in a conjunct `column.a.b op source`, the exact names of the
    nested fields. `source` is the text of an expression over only the source.
    """

    column: str
    op: str
    source: str
    fields: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the compared value in the target: the column, followed by the nested fields."""
        return (self.column, *self.fields)


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


def divide_condition(
    text: str, target: Side, source: Side | None, *, case_sensitive: bool = False, target_schema: Struct = _NO_SCHEMA
) -> Condition:
    """Return a condition divided at its top-level ANDs into the conjuncts of each side.

    Args:
        text: The SQL text of the condition.
        target: The side of the changed table.
        source: The side of the source, or None for a condition over only the target.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        target_schema: The columns of the target. Nested fields of columns that it does not contain cannot be keys.

    Returns:
        The divided condition. If sqlglot cannot parse the text, `other` contains the whole text and `analysed` is false.
    """
    tree, tokens = parse(text), tokens_of(text)
    conjuncts = _conjuncts(_Operand(tree, tokens)) if tree is not None and tokens else None
    if conjuncts is None:
        return Condition(text, other=(text,), analysed=False)
    scope = _Scope(text, target, source, case_sensitive, target_schema)
    keys, target_only, source_only, other = list[KeyPair](), list[str](), list[str](), list[str]()
    for conjunct in conjuncts:
        sides, conjunct_text = scope.sides_of(conjunct), scope.conjunct_text(conjunct)
        key = scope.key_of(conjunct) if sides == {target, source} else None
        if key is not None:
            keys.append(key)
        elif sides is not None and sides <= {target}:  # a conjunct without columns, such as `1 = 1`, has no sides
            target_only.append(conjunct_text)
        elif sides == {source}:
            source_only.append(conjunct_text)
        else:
            other.append(conjunct_text)
    return Condition(text, tuple(target_only), tuple(source_only), tuple(keys), tuple(other))


def split_conjuncts(text: str) -> list[str]:
    """Return the conjuncts of a condition, each in parentheses if it is an OR. If sqlglot cannot parse it, return the whole text."""
    tree, tokens = parse(text), tokens_of(text)
    conjuncts = _conjuncts(_Operand(tree, tokens)) if tree is not None and tokens else None
    scope = _Scope(text, _NO_SIDE, None, case_sensitive=False)
    return [text] if conjuncts is None else [scope.conjunct_text(conjunct) for conjunct in conjuncts]


def comparison_operands(text: str) -> tuple[str, str, str] | None:
    """Return the text of the left operand, the operator and the text of the right operand of a comparison. None for other expressions."""
    tree, tokens = parse(text), tokens_of(text)
    comparison = _comparison(_Operand(tree, tokens).without_parentheses()) if tree is not None and tokens else None
    if comparison is None:
        return None
    op, first, second = comparison
    return text[first.start : first.end], op, text[second.start : second.end]


def membership_operands(text: str) -> tuple[str, str] | None:
    """Return the texts of `x` and of the query in the condition `x IN (query)`, or None for any other condition."""
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or not tokens:
        return None
    operand = _Operand(tree, tokens).without_parentheses()
    if not isinstance(operand.tree, exp.In) or operand.tree.args.get("query") is None or operand.tree.args.get("negate"):
        return None
    index = next((index for index, token in enumerate(operand.tokens) if token.token_type is TokenType.IN), 0)
    if index < 1 or operand.tokens[index - 1].token_type is TokenType.NOT or not is_enclosed(operand.tokens[index + 1 :]):
        return None
    value, query = operand.tokens[:index], operand.tokens[index + 2 : -1]
    return text[value[0].start : value[-1].end + 1], text[query[0].start : query[-1].end + 1]


def nondeterministic_function(text: str) -> str | None:
    """Return the name of the first nondeterministic function that a SQL text calls, such as `rand`, or None if it calls none."""
    return _called_function(text, NONDETERMINISTIC)


def _called_function(text: str, names: Collection[str]) -> str | None:
    """Return the first of these functions that a SQL text calls, or None if it calls none. `names`: in lower case."""
    tokens = tokens_of(text) or []
    for index, token in enumerate(tokens[:-1]):
        is_call = tokens[index + 1].token_type is TokenType.L_PAREN and token.token_type is not TokenType.STRING
        if is_call and not follows_dot(tokens, index) and token.text.lower() in names:
            return token.text.lower()
    return None


def can_be_evaluated_apart(tree: exp.Expr, text: str) -> bool:
    """Return whether an operand can be evaluated apart from the rest of the condition, for example as a filter on the target.

    Subqueries, aggregates, stars, parameters and nondeterministic functions would then have a different result, or no result.

    Args:
        tree: The syntax tree of the operand.
        text: The SQL text of the operand.
    """
    if has_query(tree) or tree.find(exp.AggFunc, exp.Window, exp.UDTF, exp.Star, exp.Placeholder, exp.Parameter):
        return False
    return _called_function(text, NONDETERMINISTIC | _OVER_ROWS) is None


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
        while isinstance(operand.tree, exp.Paren) and is_enclosed(operand.tokens):
            operand = _Operand(operand.tree.this, operand.tokens[1:-1])
        return operand


@dataclass(frozen=True)
class _Scope:
    """The text of a condition, and the sides whose columns the condition can use. `target_schema`: see `divide_condition`."""

    text: str
    target: Side
    source: Side | None
    case_sensitive: bool
    target_schema: Struct = _NO_SCHEMA

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
        """Return the sides (target and source) whose columns an operand uses, or None if the sides are uncertain.

        The result is {target} for `t.a > 1`, both sides for `t.a = s.b`, and the empty set for `1 = 1`. It is also None for an operand
        such as `rand() < t.a`, whose result could change if it were evaluated apart from the rest of the condition.
        """
        operand_references = references(operand.tree, self.text)
        if operand_references is None or not can_be_evaluated_apart(operand.tree, self.text_of(operand)):
            return None
        # sqlglot takes `unit` in `trunc(d, unit)` for a keyword and `"a"` for a string. Spark may read columns, which the references lack.
        if any(has_column_outside_tree(self.text, operand.tokens, operand_references, side.columns) for side in self.sides):
            return None
        columns = [resolve(reference.parts, self.sides, case_sensitive=self.case_sensitive) for reference in operand_references]
        if None in columns:  # an unknown or ambiguous name
            return None
        return {column.side for column in columns if column is not None}

    def key_of(self, conjunct: _Operand) -> KeyPair | None:
        """Return the key that a conjunct over both sides compares, or None if it does not compare a target column with the source."""
        comparison = _comparison(conjunct.without_parentheses())
        if comparison is None:
            return None
        op, first_operand, second_operand = comparison
        return self._key(first_operand, op, second_operand) or self._key(second_operand, MIRRORED[op], first_operand)

    def _key(self, column: _Operand, op: str, value: _Operand) -> KeyPair | None:
        """Return the key `column op value`, or None unless `column` names a value of the target and `value` uses only the source."""
        path = self._target_path(column)
        if path is None or self.sides_of(value) != {self.source}:
            return None
        value_references = references(value.tree, self.text)
        if value_references is None or any(not value.start <= reference.start < value.end for reference in value_references):
            return None
        return KeyPair(path[0], op, self._over_source_alias(value, value_references), path[1:])

    def _target_path(self, operand: _Operand) -> tuple[str, ...] | None:
        """Return the exact names of the target's column and the nested fields that an operand names, or None for any other expression."""
        name = operand.tree.unnest()
        column_references = references(operand.tree, self.text) if isinstance(name, exp.Column | exp.Dot) else None
        if column_references is None or len(column_references) != 1:
            return None
        (reference,) = column_references
        if len(reference.parts) != len(list(name.find_all(exp.Identifier))):
            return None  # a field of another expression, such as `f(x).a` or `x[0].a`
        if not operand.start <= reference.start <= reference.end <= operand.end:
            return None
        resolved = resolve(reference.parts, self.sides, case_sensitive=self.case_sensitive)
        if resolved is None or resolved.side != self.target:
            return None
        if not resolved.field_count:
            return (resolved.column,)
        names = reference.parts[resolved.qualifier_size + 1 :]
        fields = fields_along(self.target_schema, resolved.column, names, case_sensitive=self.case_sensitive)
        return None if fields is None else tuple(field.name for field in fields)

    def _over_source_alias(self, operand: _Operand, operand_references: Iterable[Reference]) -> str:
        """Return the text of an operand with each qualifier of the source replaced by the source's alias."""
        assert self.source is not None
        edits = []
        for reference in operand_references:
            resolved = resolve(reference.parts, (self.source,), case_sensitive=self.case_sensitive)
            qualifier = reference.parts[: resolved.qualifier_size] if resolved is not None else ()
            if qualifier and not is_same_name(qualifier, (self.source.alias,), self.case_sensitive):
                start, end = reference.start, reference.qualifier_end(len(qualifier))
                edits.append((start - operand.start, end - operand.start, backquote(self.source.alias)))
        return rewrite(self.text_of(operand), edits)


def _conjuncts(condition: _Operand) -> list[_Operand] | None:
    """Return the conjuncts of a condition, that is, the operands of its top-level ANDs, each with its tree and its tokens.

    For `a = 1 AND (b OR c)`, the conjuncts are `a = 1`, with the tokens `a`, `=`, `1`, and `(b OR c)`. sqlglot's tree determines the
    operands, but does not contain the position of a whole operand in the text. So the tokens are split at the same ANDs.

    Return None if this gives another number of operands, as for `between = 1 AND a` with a column `between`. The tree has two operands, but
    the tokens look like BETWEEN … AND and are not split.
    """
    if isinstance(condition.tree, exp.Paren):
        return _conjuncts_in_parentheses(condition)
    if not isinstance(condition.tree, exp.And):
        return [condition]
    operand_trees, operand_tokens = list(condition.tree.flatten(unnest=False)), split_at_and(condition.tokens)
    if operand_tokens is None or len(operand_tokens) != len(operand_trees):
        return None
    conjuncts: list[_Operand] = []
    for tree, tokens in zip(operand_trees, operand_tokens, strict=True):
        operand_conjuncts = _conjuncts(_Operand(tree, tokens))
        if operand_conjuncts is None:
            return None
        conjuncts += operand_conjuncts
    return conjuncts


def _conjuncts_in_parentheses(condition: _Operand) -> list[_Operand] | None:
    """Return the conjuncts of a parenthesized condition, as `_conjuncts` does. A single conjunct keeps its parentheses."""
    if not is_enclosed(condition.tokens):
        return None
    conjuncts = _conjuncts(_Operand(condition.tree.this, condition.tokens[1:-1]))
    return [condition] if conjuncts is not None and len(conjuncts) == 1 else conjuncts


def _comparison(operand: _Operand) -> tuple[str, _Operand, _Operand] | None:
    """Return the operator and the two operands of a comparison, or None for any other expression.

    `a <= b + 1` gives the operator `<=`, the operand `a` and the operand `b + 1`. sqlglot's tree has an operator and two operands too, but
    not their positions. So the tokens are split at the operator, which must be the operator of the tree. `NOT a = b` is no comparison,
    because its tree is a NOT.
    """
    operators = top_level_comparisons(operand.tokens)
    if len(operators) != 1:
        return None
    (operator,) = operators  # `start` and `end` are indexes in the tokens
    left_tokens, right_tokens = operand.tokens[: operator.start], operand.tokens[operator.end :]
    if operator.op != COMPARISON_TREES.get(type(operand.tree)) or not left_tokens or not right_tokens:
        return None
    return operator.op, _Operand(operand.tree.this, left_tokens), _Operand(operand.tree.expression, right_tokens)
