"""Random WHERE clauses with subqueries: IN, EXISTS, comparisons with scalar subqueries, correlated or not."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reads.conditions import SHARED_KINDS, Ref
from tests.reads.relations import ORDERED_KINDS, Relation, RelationWriter
from tests.reads.values import ANYWHERE, value


class FilterWriter(RelationWriter):
    """A writer of random WHERE clauses."""

    def where(self, refs: Sequence[Ref], depth: int) -> str:
        """Return a WHERE clause, or an empty text."""
        random = self.random
        parts = [self.conditions.condition(refs) for _ in range(random.choice([0, 1, 1, 1, 2, 3]))]
        if depth < 2 and random.random() < 0.25:
            parts.append(self._subquery(refs, depth))
        random.shuffle(parts)
        return f" where {' and '.join(parts)}" if parts else ""

    def _subquery(self, refs: Sequence[Ref], depth: int) -> str:
        """Return a condition with a subquery."""
        random, inner = self.random, self.table()
        pairs = self.pairs(refs, inner.refs, ORDERED_KINDS)
        if not pairs:
            return self.conditions.condition(refs)
        a, b = random.choice(pairs)
        if a.column.kind not in SHARED_KINDS:
            self.only_in_spark()
        test = self._test(refs, inner, (a, b), depth)
        # A condition on the compared column can be pushed into the subquery.
        return f"{test} and {self.conditions.condition([a], 1)}" if random.random() < 0.4 else test

    def _test(self, refs: Sequence[Ref], inner: Relation, compared: tuple[Ref, Ref], depth: int) -> str:
        """Return a condition that compares a column with a subquery. `compared`: the outer and the inner column."""
        (a, b), random = compared, self.random
        filters = self.where(inner.refs, depth + 1)
        rows, also = f"from {inner.text}{filters}", f"{filters} and" if filters else " where"
        extreme, op = random.choice(["max", "min"]), random.choice([">", ">=", "<", "=", "<=>"])
        match random.randrange(8):
            case 0 | 1:
                return f"{a.text} {random.choice(['in', 'in', 'not in'])} (select {b.text} {rows})"
            case 2:
                return f"{a.text} not in (select {b.text} from {inner.text}{also} {b.text} is not null)"
            case 3:
                return f"{random.choice(['', 'not '])}exists (select 1 from {inner.text}{also} {b.text} = {a.text})"
            case 4:
                return f"{a.text} {op} (select {extreme}({b.text}) {rows})"
            case 5:
                return f"({a.text} in (select {b.text} {rows}) or {self.conditions.condition(refs, 1)})"
            case 6:
                return f"(select count({random.choice(inner.refs).text}) {rows}) > {random.choice([0, 0, 2, 30])}"
        return self._scalar(refs, inner.refs, compared, inner.text, also)

    def _scalar(self, refs: Sequence[Ref], inner: Sequence[Ref], compared: tuple[Ref, Ref], text: str, also: str) -> str:
        """Return a comparison with a correlated scalar subquery, or with one that has a default.

        Args:
            refs: The columns of the outer query.
            inner: The columns of the subquery.
            compared: The outer and the inner column.
            text: The item of FROM of the subquery.
            also: The beginning of a WHERE clause that another condition follows.
        """
        (a, b), keys = compared, self.pairs(refs, inner, ("integer", "date"))
        self.only_in_spark()
        if not keys or self.random.random() < 0.4:
            return f"{a.text} > (select coalesce(max({b.text}), {value(self.random, b.type, ANYWHERE)}) from {text})"
        outer_key, inner_key = self.random.choice(keys)
        also = f"{also} {self.conditions.condition([outer_key], 1)} and" if self.random.random() < 0.2 else also
        test = f"{a.text} = (select max({b.text}) from {text}{also} {inner_key.text} = {outer_key.text})"
        return f"{test} and {self.conditions.condition([outer_key], 1)}" if self.random.random() < 0.4 else test
