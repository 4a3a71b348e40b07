--- delta: types are widened, and rows of older files are read, changed and deleted
create table t (id int, b tinyint, s smallint, i int, f float, d int, c decimal(5, 2), w int, n struct<x: smallint>, a array<int>, m map<int, float>)
  using delta tblproperties ({mode}, 'delta.enableTypeWidening' = 'true');
insert into t values (1, 1, 2, 3, 1.5, 4, 5.25, 6, named_struct('x', 7), array(8), map(9, 0.5)), (2, -128, -32768, -2147483648, -0.25, 0, -1.00, 0, null, null, null);
alter table t alter column b type smallint;
alter table t alter column b type bigint;
alter table t alter column s type int;
alter table t alter column i type bigint;
alter table t alter column f type double;
alter table t alter column d type double;
alter table t alter column c type decimal(12, 4);
alter table t alter column w type decimal(14, 2);
alter table t alter column n.x type int;
alter table t alter column a.element type bigint;
alter table t alter column m.key type bigint;
alter table t alter column m.value type double;
insert into t values (3, 3000000000, 100000, 3000000000, 1e100, 0.5, 12345678.1234, 1.5, named_struct('x', 100000), array(3000000000), map(3000000000, 1e100));
select * from t order by id;
=> 1 | 1 | 2 | 3 | 1.5 | 4.0 | 5.2500 | 6.00 | Row(x=7) | [8] | {9: 0.5}
=> 2 | -128 | -32768 | -2147483648 | -0.25 | 0.0 | -1.0000 | 0.00 | NULL | NULL | NULL
=> 3 | 3000000000 | 100000 | 3000000000 | 1e+100 | 0.5 | 12345678.1234 | 1.50 | Row(x=100000) | [3000000000] | {3000000000: 1e+100}
delete from t where i = -2147483648;
merge into t using (values (1, 4000000000), (4, 5000000000)) n (id, v) on t.b = n.id when matched then update set i = n.v;
select id, i from t where b = 1 and c = 5.25 and w = 6;
=> 1 | 4000000000
update t set a = null where n.x = 7;
select id, b, w, a from t order by id;
=> 1 | 1 | 6.00 | NULL
=> 3 | 3000000000 | 1.50 | [3000000000]

--- delta: rewritten rows have the wider type
create table t (id int, i int, s struct<x: int>, c decimal(5, 2), f float) using delta
  tblproperties ({mode}, 'delta.enableTypeWidening' = 'true', 'delta.columnMapping.mode' = 'id');
insert into t select cast(id as int), cast(id as int), named_struct('x', cast(id as int)), 1.25, 0.5 from range(20);
alter table t alter column i type bigint;
alter table t alter column s.x type double;
alter table t alter column c type decimal(20, 4);
alter table t rename column f to g;
alter table t alter column g type double;
delete from t where id < 8;
delete from t where id < 15;
select id, i, s.x, c, g from t where i > 17 order by id;
=> 18 | 18 | 18.0 | 1.2500 | 0.5
=> 19 | 19 | 19.0 | 1.2500 | 0.5

--- delta: partition columns are widened, and dates to local timestamps
create table t (id int, p smallint, q date) using delta partitioned by (p) tblproperties ({mode}, 'delta.enableTypeWidening' = 'true');
insert into t values (1, 1, date'2024-01-01'), (2, null, null);
alter table t alter column p type bigint;
alter table t alter column q type timestamp_ntz;
insert into t values (3, 3000000000, timestamp_ntz'2024-01-01 12:00:00');
select id, p, q from t order by id;
=> 1 | 1 | 2024-01-01 00:00:00
=> 2 | NULL | NULL
=> 3 | 3000000000 | 2024-01-01 12:00:00
update t set q = timestamp_ntz'2030-01-01 00:00:00' where p = 1 and q = date'2024-01-01';
merge into t using (select bigint(3000000000) as p) n on t.p = n.p when matched then delete;
select id, q from t order by id;
=> 1 | 2030-01-01 00:00:00
=> 2 | NULL

--- delta: a partition column's dates become local timestamps (DuckDB does not read such a table)
create table t (id int, d date) using delta partitioned by (d) tblproperties ({mode}, 'delta.enableTypeWidening' = 'true');
insert into t values (1, date'2024-01-01'), (2, null);
alter table t alter column d type timestamp_ntz;
insert into t values (3, timestamp_ntz'2024-01-01 12:00:00');
delete from t where d = date'2024-01-01';
select id, d from t order by id;
=> 2 | NULL
=> 3 | 2024-01-01 12:00:00
drop table t;

--- delta: unsupported type changes are rejected, and the table must enable widening
create table t (id bigint, v varchar(5), c char(3), s struct<x: int>) using delta tblproperties ('delta.enableTypeWidening' = 'true');
alter table t alter column id type int;
!> PlanError: is bigint and cannot become int
alter table t alter column id type double;
!> PlanError: cannot become double
alter table t alter column s type struct<x: bigint>;
!> PlanError: Change its fields individually
alter table t alter column v type varchar(3);
!> PlanError: cannot become varchar(3)
alter table t alter column v type varchar(10);
alter table t alter column c type string;
insert into t values (1, '0123456789', 'longer', null);
select v, c from t;
=> 0123456789 | longer
create table u (id int) using delta;
alter table u alter column id type bigint;
!> PlanError: 'delta.enableTypeWidening' = 'true'
