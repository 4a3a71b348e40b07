--- a select is inserted by position, not by name
create table t (id int, v string) using delta;
insert into t select 1 as v, 'a' as id;
=> 1 | 1
select * from t;
=> 1 | a

--- insert into table equals insert into
create table t (id int) using delta;
insert into table t values (1), (2), (3);
=> 3 | 3
select count(*) from t;
=> 3

--- a whole table is inserted by its name
create table t (id int, v string) using delta;
create table s (id int, v string) using delta;
insert into s values (1, 'a'), (2, 'b');
insert into t table s;
=> 2 | 2
select * from t order by id;
=> 1 | a
=> 2 | b

--- a query can begin with from
create table t (id int, v string) using delta;
create table s (id int, v string) using delta;
insert into s values (1, 'a'), (2, 'b');
insert into t from s select id + 10, v where id = 2;
=> 1 | 1
select * from t;
=> 12 | b

--- a common table expression can follow insert into
create table t (id int, v string) using delta;
insert into t with a as (select 1 as id), b as (select id, 'x' as v from a) select * from b;
=> 1 | 1
select * from t;
=> 1 | x

--- a common table expression can precede insert into
create table t (id int, v string) using delta;
with a as (select 1 as id), b as (select id, 'x' as v from a) insert into t select * from b;
=> 1 | 1
with a as (select 2 as id) insert into t with b as (select id, 'y' as v from a) select * from b;
=> 1 | 1
select * from t order by id;
=> 1 | x
=> 2 | y

--- a query in parentheses, a union and a sorted query are queries
create table t (id int) using delta;
insert into t (select 1);
insert into t select 2 union all select 3;
insert into t select id from range(10) order by id desc limit 1;
select id from t order by id;
=> 1
=> 2
=> 3
=> 9

--- the name can be qualified by schema and catalog
create schema a;
create table a.t (id int) using delta;
insert into a.t values (1);
insert into spark_catalog.a.t values (2);
insert into `A`.`T` values (3);
select id from a.t order by id;
=> 1
=> 2
=> 3

--- a column list can have any order and case
create table t (id int, name string, v double) using delta;
insert into t (V, ID, name) values (1.5, 1, 'a');
select * from t;
=> 1 | a | 1.5

--- columns that the list omits are null
create table t (id int, name string, v double) using delta;
insert into t (name) values ('a'), ('b');
select id, name, v from t order by name;
=> NULL | a | NULL
=> NULL | b | NULL

--- a not null column that the list omits fails the insert
create table t (id int not null, name string) using delta;
insert into t (name) values ('a');
!> ConstraintViolated: `id`
select count(*) from t;
=> 0

--- a column list with a duplicate column is rejected
create table t (id int, v string) using delta;
insert into t (id, v, ID) values (1, 'a', 2);
!> PlanError: `id` occurs twice

--- a column list with an unknown column is rejected
create table t (id int, v string) using delta;
insert into t (id, w) values (1, 'a');
!> UnknownColumn: `w`

--- a column list and a query of different lengths are rejected with both lengths
create table t (id int, v string) using delta;
insert into t (id, v) select 1;
!> PlanError: the query has 1 column(s) (1), but 2 are required (id, v)
insert into t (id) values (1, 'a');
!> PlanError: the query has 2 column(s) (col1, col2), but 1 are required (id)
insert into t values (1, 'a', 2.0);
!> PlanError: the query has 3 column(s)
select count(*) from t;
=> 0

--- by name accepts columns in any order and case
create table t (id int, name string, v double) using delta;
insert into t by name select 1.5d as V, 'a' as Name, 1 as id;
select * from t;
=> 1 | a | 1.5

--- by name sets missing columns to null
create table t (id int, name string, v double) using delta;
insert into t by name select 'a' as name;
select * from t;
=> NULL | a | NULL

--- by name rejects a column that the table lacks
create table t (id int) using delta;
insert into t by name select 1 as id, 2 as extra;
!> UnknownColumn: `extra`

--- by name rejects a duplicate column
create table t (id int, v int) using delta;
insert into t by name select 1 as id, 2 as ID;
!> PlanError: `id` occurs twice

--- by name accepts a values list with names
create table t (id int, v string) using delta;
insert into t by name select * from values ('a', 1) as x(v, id);
select * from t;
=> 1 | a

--- by name without a not null column fails
create table t (id int not null, v string) using delta;
insert into t by name select 'a' as v;
!> ConstraintViolated: `id`

--- columns with odd names are inserted by position, list and name
create table t (`a-b` int, `c.d` string, `e``f` int, `ü` string, `select` int) using delta;
insert into t values (1, 'x', 2, 'y', 3);
insert into t (`select`, `c.d`, `e``f`) values (30, 'xx', 20);
insert into t by name select 5 as `e``f`, 'z' as `ü`;
select * from t order by `e``f`;
=> 1 | x | 2 | y | 3
=> NULL | NULL | 5 | z | NULL
=> NULL | xx | 20 | NULL | 30

--- delta: an insert without rows writes no version
create table t (id int) using delta;
insert into t select 1 where false;
=> 0 | 0
insert into t select * from t;
=> 0 | 0
select * from t version as of 0;
=> -
select * from t version as of 1;
!> VersionNotFound: 1

--- a table can be inserted into itself
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t select id + 10, v from t;
=> 2 | 2
insert into t select t.id + a.id, a.v from t join t as a on t.id = a.id where t.id > 10;
=> 2 | 2
select id from t order by id;
=> 1
=> 2
=> 11
=> 12
=> 22
=> 24

--- delta: an insert can read an old version of its table
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
insert into t select id + 10 from t version as of 1;
=> 1 | 1
select id from t order by id;
=> 1
=> 2
=> 11

--- rows of values get a common type
create table t (id bigint, v double) using delta;
insert into t values (1, 1), (2L, 1.5), (cast(3 as tinyint), null);
select * from t order by id;
=> 1 | 1.0
=> 2 | 1.5
=> 3 | NULL

--- rows of values of different lengths are rejected
create table t (id int, v int) using delta;
insert into t values (1, 2), (3);
!> RowmergeError:

--- null literals can be inserted into columns of every type
create table t (a int, b string, c array<int>, d struct<x: int>, e map<string, int>, f timestamp, g decimal(5, 2), h binary) using delta;
insert into t values (null, null, null, null, null, null, null, null);
insert into t select null, null, null, null, null, null, null, null;
select count(*) from t where a is null and b is null and c is null and d is null and e is null and f is null and g is null and h is null;
=> 2

--- an insert into a view is rejected by name
create table t (id int) using delta;
create view v as select * from t;
insert into v values (1);
!> TableError: default.v is a view
insert overwrite v values (1);
!> TableError: default.v is a view

--- an insert into a temporary view is rejected by name
create temporary view v as select 1 as id;
insert into v values (1);
!> TableError: v is a temporary view
create table v (id int) using delta;
insert into default.v values (2);
select * from default.v;
=> 2

--- an insert into an unknown table reports its name
insert into nothing values (1);
!> TableNotFound: nothing
insert into nowhere.nothing values (1);
!> SchemaNotFound: nowhere

--- several inserts in one statement are rejected by name
create table t (id int) using delta;
create table u (id int) using delta;
from t insert into t select id insert into u select id;
!> UnsupportedStatement: INSERT after FROM is not supported
with x as (select 1 as id) from x insert overwrite t select id;
!> UnsupportedStatement: INSERT after FROM is not supported
insert into t values (1) insert into u values (2);
!> RowmergeError:

--- unknown syntax is rejected with its position
create table t (id int) using delta;
insert t values (1);
!> Unparsable: Expected INTO or OVERWRITE
insert into t;
!> Unparsable: Expected a query
insert into t (id);
!> Unparsable: Expected a query
insert into t (id, ) values (1);
!> Unparsable: a column's name
insert into t as x values (1);
!> Unparsable: The alias `x` is allowed only with REPLACE ON
insert into t if not exists values (1);
!> Unparsable: IF NOT EXISTS is allowed only with INSERT OVERWRITE
insert into t version as of 1 values (1);
!> Unparsable: version

--- few rows are written to one file, even if their source has several partitions
create table t (id int) using delta;
insert into t values (1), (2), (3), (4);
insert into t select id from range(4);
select count(*) from t;
=> 8
