--- DROP PARTITION deletes whole partitions
create table t (id int, day date, p int) using delta partitioned by (day, p) tblproperties ({mode});
insert into t values (1, date '2024-01-01', 1), (2, date '2024-01-01', 2), (3, date '2024-01-02', 1), (4, null, 1), (5, date '2024-01-03', 1);
alter table t drop partition (day = '2024-01-01');
=> 2
alter table t drop if exists partition (day = date '2024-01-02', p = 1), partition (day = null), partition (p = 9);
=> 2
alter table t drop if exists partition (p = 9);
=> 0
select * from t;
=> 5 | 2024-01-03 | 1
alter table t drop partition (p = 9);
!> TableError: has no rows in PARTITION (p = 9). Add IF EXISTS
alter table t drop partition (p = 1), partition (p = 9);
!> TableError: has no rows in PARTITION (p = 9)
alter table t drop partition (id = 5);
!> PlanError: is not partitioned by `id`. It is partitioned by `day`, `p`
alter table t drop partition (nope = 5);
!> UnknownColumn: nope
alter table t drop partition (day);
!> Unparsable: needs a value for `day`
alter table t add partition (p = 3);
!> UnsupportedStatement: ADD PARTITION is not needed
alter table t add if not exists partition (p = 3);
!> UnsupportedStatement: Use INSERT INTO … PARTITION
alter table t partition (p = 1) rename to partition (p = 2);
!> UnsupportedStatement: UPDATE the partition column instead
alter table t recover partitions;
!> UnsupportedStatement: Every partition is in the metadata
select count(*) from t;
=> 1

--- delta: REPLACE COLUMNS moves, adds and comments columns, and keeps their values
create table t (id int not null comment 'key', v string, s struct<a: int, b: int>) using delta;
insert into t values (1, 'a', named_struct('a', 1, 'b', 2));
alter table t replace columns (v string comment 'text', id int, n date, s struct<b: int, a: int, c: string>);
=> -
describe t;
=> v | string | text
=> id | int | key
=> n | date | NULL
=> s | struct<b:int,a:int,c:string> | NULL
select * from t;
=> a | 1 | NULL | Row(b=2, a=1, c=None)
insert into t (v) values ('no id');
alter table t replace columns (v string, id int);
!> PlanError: column mapping
alter table t replace columns (v string, id bigint, n date, s struct<b: int, a: int, c: string>);
!> PlanError: cannot change the type of `id` from int to bigint
alter table t replace columns (v string, V int);
!> PlanError: The column `v` is defined twice
alter table t replace columns (v string not null);
!> UnsupportedStatement: only the name, the type and the comment
alter table t replace columns (v string first);
!> UnsupportedStatement: only the name, the type and the comment
alter table t set tblproperties ('delta.columnMapping.mode' = 'name');
alter table t replace columns (id int, v string);
alter table t replace columns (v string, n date, id int);
select * from t order by id;
=> no id | NULL | NULL
=> a | NULL | 1
alter table t add constraint c check (id is null or id > 0);
alter table t replace columns (v string);
!> PlanError: is used by the constraint

--- all columns of an Iceberg table are new after REPLACE COLUMNS, as in Iceberg on Spark
create table t (id int, v string) using iceberg;
insert into t values (1, 'a');
alter table t replace columns (id bigint comment 'key', w string);
describe t;
=> id | bigint | key
=> w | string | NULL
insert into t values (2, 'b');
select * from t order by id;
=> NULL | NULL
=> 2 | b
create table p (id int, day date) using iceberg partitioned by (day);
alter table p replace columns (id int, day date);
!> PlanError: First remove it: ALTER TABLE default.p DROP PARTITION FIELD
alter table p replace columns (id int, id int);
!> PlanError: twice

--- identifier fields of an Iceberg table must be able to identify rows
create table t (id int not null, v string, f double not null, s struct<x: int not null, y: int> not null, n struct<x: int not null>,
l array<int> not null, d date not null) using iceberg;
insert into t values (1, 'a', 1.5, named_struct('x', 1, 'y', 2), named_struct('x', 1), array(1), date '2024-01-01');
alter table t set identifier fields id, S.X;
=> -
alter table t set identifier fields v;
!> PlanError: v cannot be an identifier field of default.t: it or a struct around it can be NULL
alter table t set identifier fields f;
!> PlanError: floating-point numbers have no exact equality
alter table t set identifier fields s;
!> PlanError: it is a struct, an array or a map
alter table t set identifier fields n.x;
!> PlanError: it or a struct around it can be NULL
alter table t set identifier fields l.element;
!> PlanError: it is inside an array or a map
alter table t set identifier fields nope;
!> UnknownColumn: nope
alter table t drop identifier fields d;
!> PlanError: d is not an identifier field of default.t
alter table t drop column id;
!> PlanError: First run ALTER TABLE default.t DROP IDENTIFIER FIELDS id
alter table t drop column s;
!> PlanError: The identifier field s.x of default.t cannot be dropped
alter table t alter column id drop not null;
!> PlanError: id cannot be an identifier field
alter table t rename column id to key;
alter table t alter column key type bigint;
alter table t drop identifier fields s.x;
alter table t drop column s;
alter table t drop column key;
!> PlanError: DROP IDENTIFIER FIELDS key
create table u like t;
alter table u drop identifier fields key;
alter table u drop column key;
alter table t set identifier fields d;
alter table t drop column key;
select d from t;
=> 2024-01-01
alter table t set identifier fields;
!> Unparsable: a column's name

--- delta: identifier fields belong to Iceberg tables
create table t (id int not null) using delta;
alter table t set identifier fields id;
!> PlanError: has no identifier fields
