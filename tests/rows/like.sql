--- a table like another one has its columns, partitioning, comments and properties, and no rows
create table a (id int not null comment 'key', v string, s struct<x: int comment 'inner'>, day date) using delta
partitioned by (day) comment 'about a' tblproperties ({mode}, 'team' = 'x');
insert into a values (1, 'a', named_struct('x', 1), date '2024-01-01');
create table b like a tblproperties ('owner' = 'me', 'team' = 'y');
=> -
select count(*) from b;
=> 0
describe b;
=> id | int | key
=> v | string | NULL
=> s | struct<x:int> | NULL
=> day | date | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> day | date | NULL
show tblproperties b ('team');
=> team | y
show tblproperties b ('owner');
=> owner | me
insert into b select * from a;
insert into b values (null, 'a', null, date '2024-01-01');
!> ConstraintViolated: NOT NULL of column `id`
create table if not exists b like a;
=> -
create table b like a;
!> AlreadyExists: b already exists
create or replace table b like a;
!> Unparsable: CREATE OR REPLACE TABLE cannot have LIKE
create table c like missing;
!> TableNotFound: missing
select * from b;
=> 1 | a | Row(x=1) | 2024-01-01

--- delta: a table like another one has its rules, and a column mapping of its own
create table a (id int, d int default 7, g int generated always as (id + 1), constraint positive check (id > 0)) using delta
tblproperties ('delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported', 'delta.appendOnly' = 'true');
alter table a rename column d to e;
create table b like a;
insert into b (id) values (1);
select * from b;
=> 1 | 7 | 2
insert into b (id) values (0);
!> ConstraintViolated: positive
delete from b;
!> AppendOnly: b
alter table b add column f int;
insert into b (id, f) values (2, 3);
select * from b order by id;
=> 1 | 7 | 2 | NULL
=> 2 | 7 | 3 | 3
create table c like a using iceberg;
!> UnsupportedTableFeature: CHECK constraint

--- a table can be like a view, a temporary view or a table of the session, and have another format
create table a (id int comment 'key', day date) using delta partitioned by (day) tblproperties ('team' = 'x', 'rowmerge.write.schema-evolution' = 'true');
create view v as select id, day from a;
create temporary view w as select 1 as one;
create table b like v using iceberg;
insert into b values (1, date '2024-01-01');
select * from b;
=> 1 | 2024-01-01
create table c like w using delta;
insert into c values (null);
select * from c;
=> NULL
create table d like a using iceberg;
show tblproperties d ('rowmerge.write.schema-evolution');
=> rowmerge.write.schema-evolution | true
create table e like d using delta;
describe e;
=> id | int | key
=> day | date | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> day | date | NULL
