"""Conditions over a target and a source, taken apart: which conjuncts belong to which side, and which tie the two together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import Reference, has_query, parse, references, rewrite, tokens_of, unread_names
from rowmerge.table.metadata.schema import backquote

NONDETERMINISTIC = frozenset(
    """rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length reflect java_method try_reflect""".split()
)
"""Spark's built-in functions whose expressions are Nondeterministic (reflect and its kin may be anything)."""

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_COMPARISONS: dict[TokenType, str] = {
    TokenType.EQ: "=",
    TokenType.NULLSAFE_EQ: "<=>",
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
}
_TREES: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NullSafeEQ: "<=>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_NOT_DISTINCT = [TokenType.IS, TokenType.NOT, TokenType.DISTINCT, TokenType.FROM]
MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its sides swapped."""


@dataclass(frozen=True)
class Side:
    """One input of a statement: the qualifier its columns carry, other qualifiers that mean it, and its columns."""

    alias: str
    names: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class KeyPair:
    """A conjunct `column op source`, mirrored where it was written the other way round.

    `column` is the exact name of a top-level column of the target; `source` is SQL over the source alone, in the user's words.
    """

    column: str
    op: str
    source: str


@dataclass(frozen=True)
class Condition:
    """A condition as the AND of its parts. Every part is text that may stand beside others with AND, as long as `analysed` is true.

    `other` holds what ties both sides without being a key, subqueries, nondeterministic parts and everything not understood.
    """

    text: str
    target_only: tuple[str, ...] = ()
    source_only: tuple[str, ...] = ()
    keys: tuple[KeyPair, ...] = ()
    other: tuple[str, ...] = ()
    analysed: bool = True

    @property
    def equi(self) -> bool:
        """Whether a join on equality is possible."""
        return any(key.op in ("=", "<=>") for key in self.keys)

    @property
    def keys_alone(self) -> bool:
        """Whether the keys are all that it says."""
        return self.analysed and bool(self.keys) and not (self.target_only or self.source_only or self.other)


@dataclass(frozen=True)
class Resolved:
    """What a reference means: a column of a side (its exact name), and how many of its parts come before and after that column."""

    side: Side
    column: str
    qualifiers: int
    fields: int


def resolve(parts: Sequence[str], sides: Sequence[Side], *, case_sensitive: bool = False) -> Resolved | None:
    """The one column that a dotted name means, as Spark resolves it: with a qualifier (the longest first), else without.

    None when no side has it, or more than one column answers to it. `*` after a qualifier is no column.
    """
    qualified = [
        (len(name), Resolved(side, column, len(name), len(parts) - len(name) - 1))
        for side in sides
        for name in {(side.alias,), *side.names}
        if len(name) < len(parts) and _same(name, parts[: len(name)], case_sensitive)
        for column in side.columns
        if _same((column,), (parts[len(name)],), case_sensitive)
    ]
    if qualified:
        longest = max(length for length, _ in qualified)
        found = [resolved for length, resolved in qualified if length == longest]
    else:
        found = [
            Resolved(side, column, 0, len(parts) - 1)
            for side in sides
            for column in side.columns
            if _same((column,), (parts[0],), case_sensitive)
        ]
    return found[0] if len(found) == 1 else None


def analyse(text: str, target: Side, source: Side | None, *, case_sensitive: bool = False) -> Condition:
    """Take a condition apart at its top-level ANDs. What sqlglot cannot parse comes back whole, in `other`, with `analysed` false."""
    tree, tokens = parse(text), tokens_of(text)
    conjuncts = _conjuncts(tree, tokens) if tree is not None and tokens else None
    if conjuncts is None:
        return Condition(text, other=(text,), analysed=False)
    sides = (target,) if source is None else (target, source)
    parts: dict[str, list[str]] = {"target": [], "source": [], "other": []}
    keys = []
    for node, words in conjuncts:
        piece = text[words[0].start : words[-1].end + 1]
        mentioned = _sides(node, text, words, sides, case_sensitive)
        if mentioned is None:
            parts["other"].append(_standing(node, piece))
        elif not mentioned or mentioned == {target}:
            parts["target"].append(_standing(node, piece))
        elif mentioned == {source}:
            parts["source"].append(_standing(node, piece))
        elif source is not None and (key := _key(node, text, words, target, source, case_sensitive)):
            keys.append(key)
        else:
            parts["other"].append(_standing(node, piece))
    return Condition(text, tuple(parts["target"]), tuple(parts["source"]), tuple(keys), tuple(parts["other"]))


def nondeterministic(text: str) -> str | None:
    """The name of the first function in the text that gives another value each time it is asked, or None."""
    tokens = tokens_of(text) or []
    for index, token in enumerate(tokens[:-1]):
        called = tokens[index + 1].token_type is TokenType.L_PAREN
        member = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if called and not member and token.token_type is not TokenType.STRING and token.text.lower() in NONDETERMINISTIC:
            return token.text.lower()
    return None


def _same(left: Sequence[str], right: Sequence[str], case_sensitive: bool) -> bool:
    if case_sensitive:
        return tuple(left) == tuple(right)
    return [part.lower() for part in left] == [part.lower() for part in right]


def _conjuncts(tree: exp.Expr, tokens: list[Token]) -> list[tuple[exp.Expr, list[Token]]] | None:
    """The operands of the top-level ANDs with their tokens; None when tree and tokens do not tell the same."""
    if isinstance(tree, exp.Paren):
        if not _enclosed(tokens):
            return None
        inner = _conjuncts(tree.this, tokens[1:-1])
        return inner if inner is None or len(inner) > 1 else [(tree, tokens)]
    if not isinstance(tree, exp.And):
        return [(tree, tokens)]
    nodes: list[exp.Expr] = []
    node: exp.Expr = tree
    while isinstance(node, exp.And):
        nodes.append(node.expression)
        node = node.this
    nodes.append(node)
    pieces = _split_at_and(tokens)
    if pieces is None or len(pieces) != len(nodes):
        return None
    conjuncts = []
    for node, piece in zip(reversed(nodes), pieces, strict=True):
        inner = _conjuncts(node, piece)
        if inner is None:
            return None
        conjuncts += inner
    return conjuncts


def _depths(tokens: list[Token]) -> list[int] | None:
    """How deep each token stands in brackets and CASE … END; the brackets themselves count as inside."""
    depths, depth = [], 0
    for index, token in enumerate(tokens):
        named = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        depth += token.token_type in _OPEN and not named
        depths.append(depth)
        depth -= token.token_type in _CLOSE and not named
        if depth < 0:
            return None
    return depths if depth == 0 else None


def _enclosed(tokens: list[Token]) -> bool:
    """Whether the first and the last token are the parentheses around all the rest."""
    depths = _depths(tokens)
    if depths is None or len(tokens) < 3 or tokens[0].token_type is not TokenType.L_PAREN:
        return False
    inner = _depths(tokens[1:-1])
    return tokens[-1].token_type is TokenType.R_PAREN and inner is not None


def _split_at_and(tokens: list[Token]) -> list[list[Token]] | None:
    depths = _depths(tokens)
    if depths is None:
        return None
    pieces: list[list[Token]] = [[]]
    betweens = 0
    for index, (token, depth) in enumerate(zip(tokens, depths, strict=True)):
        word = depth == 0 and (index == 0 or tokens[index - 1].token_type is not TokenType.DOT)
        if word and token.token_type is TokenType.BETWEEN:
            betweens += 1
        if word and token.token_type is TokenType.AND:
            if not betweens:
                pieces.append([])
                continue
            betweens -= 1
        pieces[-1].append(token)
    return pieces if all(pieces) else None


def _standing(node: exp.Expr, piece: str) -> str:
    """The text of a conjunct such that AND may stand beside it."""
    return f"({piece})" if isinstance(node, exp.Or | exp.Xor) else piece


def _sides(node: exp.Expr, text: str, words: list[Token], sides: Sequence[Side], case_sensitive: bool) -> set[Side | None] | None:
    """The sides that a conjunct mentions; None when that is not certain, or the conjunct must not be moved."""
    if has_query(node) or node.find(exp.AggFunc, exp.Window, exp.UDTF, exp.Star, exp.Placeholder, exp.Parameter):
        return None
    found = references(node, text)
    if found is None or nondeterministic(text[words[0].start : words[-1].end + 1]):
        return None
    mentioned: set[Side | None] = set()
    for reference in found:
        resolved = resolve(reference.parts, sides, case_sensitive=case_sensitive)
        if resolved is None:
            return None
        mentioned.add(resolved.side)
    hidden = {name.lower() for name in unread_names(text, words, found)}
    if any(column.lower() in hidden for side in sides for column in side.columns):
        return None
    return mentioned


def _key(node: exp.Expr, text: str, words: list[Token], target: Side, source: Side, case_sensitive: bool) -> KeyPair | None:
    while isinstance(node, exp.Paren) and _enclosed(words):
        node, words = node.this, words[1:-1]
    op = _TREES.get(type(node))
    cut = _comparison(words)
    if op is None or cut is None or cut[0] != op:
        return None
    left, right = words[: cut[1]], words[cut[2] :]
    sides = (target, source)
    for operand, tokens, other, others, operator in (
        (node.this, left, node.expression, right, op),
        (node.expression, right, node.this, left, MIRRORED[op]),
    ):
        column = _top_level_column(operand, text, tokens, sides, case_sensitive)
        if column is None or column.side != target or _sides(other, text, others, sides, case_sensitive) != {source}:
            continue
        found = references(other, text)
        start, end = others[0].start, others[-1].end + 1
        if found is None or any(not start <= reference.starts[0] < end for reference in found):
            return None
        return KeyPair(column.column, operator, _over_alias(text[start:end], start, found, source, case_sensitive))
    return None


def _comparison(words: list[Token]) -> tuple[str, int, int] | None:
    """The only comparison outside of brackets: its operator, and where the left side ends and the right one begins."""
    depths = _depths(words)
    if depths is None:
        return None
    found = []
    for index, (token, depth) in enumerate(zip(words, depths, strict=True)):
        if depth:
            continue
        if op := _COMPARISONS.get(token.token_type):
            found.append((op, index, index + 1))
        elif [word.token_type for word in words[index : index + 4]] == _NOT_DISTINCT:
            found.append(("<=>", index, index + 4))
    if len(found) != 1 or found[0][1] == 0 or found[0][2] == len(words):
        return None
    return found[0]


def _top_level_column(node: exp.Expr, text: str, tokens: list[Token], sides: Sequence[Side], case_sensitive: bool) -> Resolved | None:
    """The column that an operand is, when it is nothing else."""
    if not isinstance(node.unnest(), exp.Column):
        return None
    found = references(node, text)
    if not found or len(found) != 1 or not tokens[0].start <= found[0].starts[0] <= found[0].ends[-1] <= tokens[-1].end + 1:
        return None
    resolved = resolve(found[0].parts, sides, case_sensitive=case_sensitive)
    return resolved if resolved is not None and resolved.fields == 0 else None


def _over_alias(piece: str, offset: int, found: Iterable[Reference], side: Side, case_sensitive: bool) -> str:
    """A slice of the text with other names of the side replaced by its alias."""
    edits = []
    for reference in found:
        resolved = resolve(reference.parts, (side,), case_sensitive=case_sensitive)
        if resolved is None or not resolved.qualifiers:
            continue
        written = reference.parts[: resolved.qualifiers]
        if not _same(written, (side.alias,), case_sensitive):
            edits.append((reference.starts[0] - offset, reference.ends[resolved.qualifiers - 1] - offset, backquote(side.alias)))
    return rewrite(piece, edits)
