"""Training of the class archive (`startup.class_archive`): statements that load the Spark classes of typical models and queries."""

from __future__ import annotations

from rowmerge.session.session import connect


def train(folder: str, java_options: str) -> None:
    """Run typical statements on small tables of both formats, so that Java loads the classes to archive.

    Args:
        folder: The folder in which the tables are created.
        java_options: The Java options of the embedded Spark, with which Java writes the archive when it ends.
    """
    session = connect(f"{folder}/warehouse", spark_config={"spark.driver.extraJavaOptions": java_options})
    for statement in ("create schema training", *_training_statements("delta"), *_training_statements("iceberg")):
        session.sql(statement).collect()
    session.close()


def _training_statements(format_: str) -> list[str]:
    """Return SQL statements whose execution loads the Spark classes that typical models and queries of a table format use.

    They use the usual column types, MERGE, UPDATE and DELETE with subqueries, aggregates, joins, partitions and OPTIMIZE.
    """
    table, source = f"training.{format_}_rows", f"{format_}_source"
    return [
        f"create table {table} (id bigint, name string, amount decimal(12, 2), at timestamp, day date, price double) using {format_}",
        f"insert into {table} select id, concat('row ', id), cast(id as decimal(12, 2)), timestamp'2020-01-01 00:00:00', "
        f"date_add(date'2020-01-01', cast(id % 30 as int)), id / 7 from range(20000)",
        f"create or replace temporary view {source} as select id * 3 as id, 'new' as name, cast(1 as decimal(9, 2)) as amount, "
        "current_timestamp() as at, current_date() as day, 0.5d as price, row_number() over (order by id) as number from range(9000)",
        f"merge into {table} as t using {source} as s on t.id = s.id when matched and s.number % 5 = 0 then delete "
        f"when matched then update set name = s.name, amount = t.amount + s.amount when not matched then insert (id, name) "
        f"values (s.id, s.name)",
        f"update {table} set price = price + 1 where id % 100 = 7",
        f"delete from {table} where id between 10 and 20 or name like '%99'",
        f"delete from {table} where id in (select id from {source} where number < 10)",
        f"select day, count(*), sum(amount), avg(price), max(name) from {table} group by day having count(*) > 1 order by day limit 10",
        f"select t.id, s.number from {table} as t left join {source} as s on t.id = s.id where t.id < 50 order by 1",
        f"create table training.{format_}_days using {format_} partitioned by (day) as select * from {table} where id < 300",
        f"insert overwrite training.{format_}_days select * from {table} where id between 100 and 200",
        f"optimize {table}",
        f"describe table extended {table}",
    ]
