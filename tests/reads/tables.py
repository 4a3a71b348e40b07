"""Random tables as SQL scripts: columns, partitions, statistics, evolution of schemas and partitions, and deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.reads.conditions import Conditions
from tests.reads.values import ANYWHERE, MOST_CENTRE, Column, Spot, name_in_sql, value

_TYPES = {
    "k": ["bigint", "int", "bigint", "int", "smallint", "decimal(10, 0)"],
    "v": ["int", "int", "tinyint"],
    "n": ["decimal(10, 2)", "decimal(18, 6)", "decimal(38, 10)", "decimal(5, 0)"],
    "x": ["double", "float"],
    "s": ["string"],
    "w": ["string", "varchar(40)"],
    "c": ["char(6)"],
    "d": ["date"],
    "ts": ["timestamp"],
    "tn": ["timestamp_ntz"],
    "b": ["boolean"],
    "h": ["binary"],
    "r": ["struct<f: int, g: string, e: struct<d: date>>"],
    "Val": ["int", "string", "double"],
    "odd, name": ["string", "int", "date"],
}
_GENERATED = [
    ("ts", "ts_day", "date", "cast(ts as date)"),
    ("ts", "ts_hour", "int", "hour(ts)"),
    ("ts", "ts_month", "string", "date_format(ts, 'yyyy-MM')"),
    ("ts", "ts_year", "int", "year(ts)"),
    ("d", "d_year", "int", "year(d)"),
    ("d", "d_month", "int", "month(d)"),
    ("d", "d_text", "string", "date_format(d, 'yyyy-MM')"),
    ("s", "s_start", "string", "substring(s, 1, 2)"),
]
_WIDER = {"int": ["bigint"], "smallint": ["int", "bigint"], "tinyint": ["int"], "float": ["double"], "decimal(10, 2)": ["decimal(20, 2)"]}
_METRICS = ["none", "counts", "truncate(3)", "truncate(16)", "full"]


@dataclass
class TableScript:
    """The SQL statements that create and fill a table.

    `columns`: the columns after the last statement. `generated`: the names of generated columns, which an INSERT leaves out. `marks`: the
    names of versions with the current columns. A statement `-- mark NAME` stands at the place of each.
    """

    name: str
    format: str
    columns: list[Column]
    statements: list[str] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)
    partitioned_by: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    has_change_feed: bool = False


class TableWriter:
    """A writer of random table scripts."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.conditions = Conditions(random, portable=True)

    def table(self, name: str, format_: str, most_inserts: int) -> TableScript:
        """Return a random table. `most_inserts`: the greatest number of INSERT statements."""
        names = ["k", "v", *(other for other in list(_TYPES)[2:] if self.random.random() < 0.6)]
        table = TableScript(name, format_, [Column(column, self.random.choice(_TYPES[column])) for column in names])
        if format_ == "delta":
            self._create_delta(table)
        else:
            self._create_iceberg(table)
        self._fill(table, self.random.randint(3, most_inserts))
        return table

    def _create_delta(self, table: TableScript) -> None:
        random, by = self.random, ""
        definitions = [f"{name_in_sql(column.name)} {column.type}" for column in table.columns]
        candidates = [entry for entry in _GENERATED if any(column.name == entry[0] for column in table.columns)]
        if candidates and random.random() < 0.35:
            _, name, type_, expression = random.choice(candidates)
            definitions.append(f"{name} {type_} generated always as ({expression})")
            table.columns.append(Column(name, type_))
            table.generated, table.partitioned_by = [name], [name]
        elif random.random() < 0.6:
            table.partitioned_by = self._identities(table, ("struct", "binary"))
        if table.partitioned_by:
            by = f" partitioned by ({', '.join(name_in_sql(name) for name in table.partitioned_by)})"
        properties = self._delta_properties(table)
        table.statements.append(_create(table, definitions, by, properties))

    def _delta_properties(self, table: TableScript) -> dict[str, str]:
        random = self.random
        properties = {
            "delta.columnMapping.mode": random.choice(["name", "id"]),
            "delta.enableTypeWidening": "true",
            "delta.feature.allowColumnDefaults": "supported",
        }
        if random.random() < 0.3:
            properties["delta.dataSkippingNumIndexedCols"] = random.choice(["0", "1", "2", "4", "-1"])
        elif random.random() < 0.2:
            properties["delta.dataSkippingStatsColumns"] = ",".join(random.sample([c.name for c in table.columns if c.name in "kvxsd"], 2))
        if random.random() < 0.3:
            properties["delta.checkpointInterval"] = "3"
            properties["delta.checkpoint.writeStatsAsJson"] = random.choice(["true", "false"])
        if random.random() < 0.5:
            properties["delta.enableChangeDataFeed"] = "true"
            table.has_change_feed = True
        return properties

    def _create_iceberg(self, table: TableScript) -> None:
        random, by = self.random, ""
        if random.random() < 0.75:
            table.partitioned_by = self._fields(table, random.choice([1, 1, 2]))
            by = f" partitioned by ({', '.join(table.partitioned_by)})"
        properties = {
            "format-version": random.choice(["2", "2", "3"]),
        }
        if random.random() < 0.5:
            properties["write.metadata.metrics.default"] = random.choice(_METRICS)
        if random.random() < 0.5:
            properties[f"write.metadata.metrics.column.{random.choice('kvsd')}"] = random.choice(_METRICS)
        if random.random() < 0.3:
            properties["commit.manifest.min-count-to-merge"] = "3"
        definitions = [f"{name_in_sql(column.name)} {column.type}" for column in table.columns]
        table.statements.append(_create(table, definitions, by, properties))
        # Iceberg has no types below 32 bits, and no CHAR and VARCHAR.
        iceberg_types = {"tinyint": "int", "smallint": "int", "char(6)": "string", "varchar(40)": "string"}
        table.columns = [Column(column.name, iceberg_types.get(column.type, column.type)) for column in table.columns]

    def _identities(self, table: TableScript, without: Sequence[str]) -> list[str]:
        candidates = [column.name for column in table.columns if column.kind not in without]
        return self.random.sample(candidates, min(len(candidates) - 1, self.random.choice([1, 1, 2])))

    def _fields(self, table: TableScript, count: int) -> list[str]:
        candidates = self.random.sample(table.columns, len(table.columns))
        return [self._transform(column) for column in candidates][:count]

    def _transform(self, column: Column) -> str:
        """Return a random partition transform of a column."""
        name, choices = name_in_sql(column.name), ["{0}"]
        match column.kind:
            case "decimal":
                # Truncating rounds down, so the type of the column does not hold the lowest values with a width above 1.
                choices = ["{0}", "bucket(3, {0})", "bucket(7, {0})", "truncate(1, {0})"]
            case "integer":
                choices = ["{0}", "bucket(3, {0})", "bucket(7, {0})", "truncate(10, {0})", "truncate(3, {0})"]
            case "string" | "char":
                choices = ["{0}", "bucket(4, {0})", "truncate(1, {0})", "truncate(3, {0})"]
            case "date":
                choices = ["{0}", "years({0})", "months({0})", "days({0})", "bucket(3, {0})"]
            case "timestamp" | "timestamp_ntz":
                choices = ["years({0})", "months({0})", "days({0})", "hours({0})", "bucket(3, {0})"]
            case "binary":
                choices = ["bucket(3, {0})", "truncate(1, {0})"]
            case "struct":
                choices = ["{0}.f", "bucket(3, {0}.g)", "truncate(1, {0}.g)", "days({0}.e.d)", "months({0}.e.d)"]
        return self.random.choice(choices).format(name)

    def _fill(self, table: TableScript, inserts: int) -> None:
        """Append the statements that insert and delete rows, change the table and mark versions."""
        random = self.random
        changes = sorted(random.sample(range(inserts), min(inserts, random.choice([0, 0, 1, 2, 3]))))
        self._insert(table)
        for number in range(inserts):
            if number in changes:
                self._alter(table, number)
            self._insert(table)
            if random.random() < 0.2:
                self._delete(table)
            if number >= max(changes, default=0) and random.random() < 0.25 and number < inserts - 1 and len(table.marks) < 2:
                table.marks.append(f"m{number}")
                table.statements.append(f"-- mark m{number}")

    def _insert(self, table: TableScript) -> None:
        """Append an INSERT of some rows. Each column has its own spot, or only NULL."""
        random = self.random
        columns = [column for column in table.columns if column.name not in table.generated]
        centre = random.randint(0, MOST_CENTRE)
        spots = [
            Spot(centre if random.random() < 0.6 else random.randint(0, MOST_CENTRE), random.choice([0, 1, 2, 5, 30])) for _ in columns
        ]
        nulls = [random.choice([0, 0, 0, 0.2, 0.2, 0.5, 1]) for _ in columns]
        rows = [
            ", ".join(
                "null" if random.random() < share else value(random, column.type, spot)
                for column, spot, share in zip(columns, spots, nulls, strict=True)
            )
            for _ in range(random.choice([1, 3, 6, 10]))
        ]
        names = ", ".join(name_in_sql(column.name) for column in columns)
        table.statements.append(f"insert into {table.name} ({names}) values {', '.join(f'({row})' for row in rows)}")

    def _delete(self, table: TableScript) -> None:
        column = self.random.choice(table.columns)
        literal = value(self.random, column.type, ANYWHERE)
        name = name_in_sql(column.name)
        choice = self.random.random()
        if choice < 0.3:
            table.statements.append(f"delete from {table.name} where {name} <=> {literal}")
        elif choice < 0.6:
            table.statements.append(f"delete from {table.name} where k % {self.random.randint(3, 9)} = 1")
        elif choice < 0.9 or table.format == "delta":
            table.statements.append(f"update {table.name} set v = 100 where k % {self.random.randint(3, 9)} = 0")
        else:
            table.statements.append(
                f"call system.rewrite_data_files(table => 'default.{table.name}', options => map('min-input-files', '2'))"
            )

    def _alter(self, table: TableScript, number: int) -> None:
        """Append a change of the columns, the partition fields or the statistics."""
        random = self.random
        alterations = [self._add_column, self._drop_column, self._rename_column, self._widen_column, self._change_statistics]
        if table.format == "iceberg":
            alterations += [self._change_partitions] * 4
        random.choice(alterations)(table, number)

    def _add_column(self, table: TableScript, number: int) -> None:
        random = self.random
        type_ = random.choice(["int", "string", "date", "double", "decimal(10, 2)", "timestamp"])
        column = Column(f"new{number}", type_)
        default = ""
        if table.format == "iceberg" and "'format-version' = '3'" in table.statements[0] and random.random() < 0.7:
            literal = value(random, type_, ANYWHERE)
            # Without a zone, the default would depend on the session.
            default = f" default {literal[:-1]}Z'" if literal.startswith("timestamp '") else f" default {literal}"
        table.statements.append(f"alter table {table.name} add column {column.name} {type_}{default}")
        if table.format == "delta" and random.random() < 0.4:
            table.statements.append(f"alter table {table.name} alter column {column.name} set default {value(random, type_, ANYWHERE)}")
        table.columns.append(column)

    def _free_columns(self, table: TableScript) -> list[Column]:
        """Return the columns that no partition field and no generated column needs."""
        quoted_names = [name_in_sql(name) for name in table.partitioned_by]
        needed = " ".join(
            [*table.partitioned_by, *quoted_names, *table.generated, table.statements[0].partition(" generated always as ")[2]]
        )
        return [column for column in table.columns if column.name not in ("k", "v") and name_in_sql(column.name) not in needed]

    def _drop_column(self, table: TableScript, number: int) -> None:
        if free := self._free_columns(table):
            column = self.random.choice(free)
            table.statements.append(f"alter table {table.name} drop column {name_in_sql(column.name)}")
            table.columns.remove(column)
            if self.random.random() < 0.5:  # another column with the same name
                table.statements.append(f"alter table {table.name} add column {name_in_sql(column.name)} string")
                table.columns.append(Column(column.name, "string"))

    def _rename_column(self, table: TableScript, number: int) -> None:
        if free := self._free_columns(table):
            column = self.random.choice(free)
            renamed = Column(f"{column.name[:3]}_{number}" if column.name.isidentifier() else f"re{number}", column.type)
            table.statements.append(f"alter table {table.name} rename column {name_in_sql(column.name)} to {renamed.name}")
            table.columns[table.columns.index(column)] = renamed

    def _widen_column(self, table: TableScript, number: int) -> None:
        partitioned_by = " ".join(table.partitioned_by)
        narrow = [
            column for column in table.columns if column.type in _WIDER and column.name not in partitioned_by + " ".join(table.generated)
        ]
        if narrow:
            column = self.random.choice(narrow)
            wider = Column(column.name, self.random.choice(_WIDER[column.type]))
            table.statements.append(f"alter table {table.name} alter column {name_in_sql(column.name)} type {wider.type}")
            table.columns[table.columns.index(column)] = wider

    def _change_statistics(self, table: TableScript, number: int) -> None:
        name, choices = "delta.dataSkippingNumIndexedCols", ["0", "1", "3", "-1"]
        if table.format == "iceberg":
            name, choices = "write.metadata.metrics.default", _METRICS
        table.statements.append(f"alter table {table.name} set tblproperties ('{name}' = '{self.random.choice(choices)}')")

    def _change_partitions(self, table: TableScript, number: int) -> None:
        random = self.random
        old = random.choice(table.partitioned_by) if table.partitioned_by else None
        choice, columns = random.random(), [column for column in table.columns if column.kind != "struct"]
        unused = [column for column in columns if name_in_sql(column.name) not in " ".join(table.partitioned_by)]
        if old is not None and (choice < 0.3 or not unused):
            table.statements.append(f"alter table {table.name} drop partition field {old}")
            table.partitioned_by.remove(old)
        elif unused:
            new = self._transform(random.choice(unused))
            if old is not None and choice < 0.7:
                table.statements.append(f"alter table {table.name} replace partition field {old} with {new}")
                table.partitioned_by.remove(old)
            else:
                table.statements.append(f"alter table {table.name} add partition field {new}")
            table.partitioned_by.append(new)


def _create(table: TableScript, definitions: Sequence[str], partitioned_by: str, properties: dict[str, str]) -> str:
    mode = ("copy-on-write", "merge-on-read", "auto")[len(definitions) % 3]
    text = ", ".join(f"'{name}' = '{setting}'" for name, setting in properties.items())
    head = f"create table {table.name} ({', '.join(definitions)}) using {table.format}{partitioned_by}"
    return f"{head} tblproperties ('rowmerge.write.mode' = '{mode}', {text})"
