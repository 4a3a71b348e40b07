--- a renamed table has its rows and its history, and its old name is free
create table a (id int) using delta tblproperties ({mode});
insert into a values (1), (2);
alter table a rename to b;
=> -
select * from b order by id;
=> 1
=> 2
select * from a;
!> TableNotFound: There is no table or view a
show tables;
=> default | b | false
delete from b where id = 1;
=> 1
create table a (v string) using delta;
insert into a values ('new');
select * from a;
=> new
select * from b;
=> 2
select count(*) > 1 from b.history;
=> true
drop table b;
select * from a;
=> new
show tables;
=> default | a | false

--- a new table with an old name keeps its rows when either table is vacuumed or dropped
create table a (id int) using delta;
insert into a values (1);
alter table a rename to b;
create table a as select 'new' as v;
set spark.databricks.delta.retentionDurationCheck.enabled = false;
vacuum a retain 0 hours;
vacuum b retain 0 hours;
select * from a;
=> new
select * from b;
=> 1
drop table a;
select * from b;
=> 1
create table a as select 'newer' as v;
drop table b;
select * from a;
=> newer
alter table a rename to b;
select * from b;
=> newer

--- names can be exchanged, and a table can get its first name again
create table a as select 1 as id;
create table b as select 2 as id;
alter table a rename to c;
alter table b rename to a;
alter table c rename to b;
select a.id, b.id from a, b;
=> 2 | 1
alter table b rename to c;
alter table a rename to b;
alter table c rename to a;
select a.id, b.id from a, b;
=> 1 | 2

--- a new name without a schema stays in the schema of the table, and a name with a schema moves it
create schema other;
create table other.a (id int) using delta;
insert into other.a values (1);
alter table other.a rename to b;
select * from other.b;
=> 1
alter table other.b rename to default.c;
select * from c;
=> 1
show tables in other;
=> -
drop schema other cascade;
select * from c;
=> 1
alter table rowmerge.default.c rename to rowmerge.default.d;
select * from d;
=> 1

--- a rename to a name that exists, of a missing table, or into a missing schema changes nothing
create table a (id int) using delta;
insert into a values (1);
create table b as select 2 as id;
create view v as select * from a;
create temporary view t as select 1 as id;
alter table a rename to b;
!> AlreadyExists: default.b already exists
alter table a rename to a;
!> AlreadyExists: default.a already exists
alter table a rename to v;
!> AlreadyExists: default.v already exists
alter table a rename to missing.b;
!> SchemaNotFound: missing
alter table missing rename to c;
!> TableNotFound: missing
alter table v rename to w;
!> TableError: default.v is a view. Rename it with ALTER VIEW … RENAME TO
alter view a rename to c;
!> TableError: default.a is a table. Rename it with ALTER TABLE … RENAME TO
alter view t rename to u;
!> PlanError: is a temporary view
alter table a rename to x.y.z;
!> TableNotFound: x
select a.id, b.id, v.id from a, b, v;
=> 1 | 2 | 1
show tables;
=> default | a | false
=> default | b | false
=> default | v | false

--- a view can be renamed, replaced and dropped under its new name
create table a as select 1 as id;
create view v as select id from a;
alter view v rename to w;
select * from w;
=> 1
create view v as select 2 as id;
create or replace view w as select 3 as id;
alter view w set tblproperties ('k' = 'x');
select v.id, w.id from v, w;
=> 2 | 3
drop view w;
select * from v;
=> 2
create view w as select 4 as id;
select * from w;
=> 4
