--- a shallow clone has its source's rows, and changes of one do not affect the other
create table t (id int, v string, p int) using delta partitioned by (p) tblproperties ({mode}, 'team' = 'x');
insert into t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', null);
delete from t where id = 2;
create table c shallow clone t tblproperties ('team' = 'y');
insert into t values (5, 'source', 1);
select * from c order by id;
=> 1 | a | 1
=> 3 | c | 2
=> 4 | d | NULL
merge into c using (values (1, 'A', 1), (6, 'new', 2)) as s (id, v, p) on c.id = s.id
when matched then update set * when not matched then insert * when not matched by source and c.id = 4 then delete;
=> 3 | 1 | 1 | 1
delete from c where id = 3;
=> 1
select * from c order by id;
=> 1 | A | 1
=> 6 | new | 2
select id, v from t order by id;
=> 1 | a
=> 3 | c
=> 4 | d
=> 5 | source
show tblproperties c ('team');
=> team | y
create table cc shallow clone c;
drop table c;
create table c (id int) using delta;
select id, v from t order by id;
=> 1 | a
=> 3 | c
=> 4 | d
=> 5 | source
drop table cc;

--- a clone is created once, and not of itself
create table t (id int) using delta;
insert into t values (1);
create table c shallow clone t;
create table c shallow clone t;
!> AlreadyExists: Add IF NOT EXISTS or OR REPLACE
create table if not exists c shallow clone t;
=> -
create or replace table t shallow clone t;
!> PlanError: would be a clone of itself
create view v as select 1 as id;
create table d shallow clone v;
!> TableError: is a view
create or replace table v shallow clone t;
!> AlreadyExists: is a view
create table d deep clone v;
!> TableError: is a view
create or replace table t clone t;
!> PlanError: would be a clone of itself
create table d shallow clone missing;
!> TableNotFound: missing

--- delta: the result counts the source's files, and a clone of an older version has its rows and columns
create table t (id int) using delta;
insert into t values (1), (2);
alter table t add columns (v string);
insert into t values (3, 'x');
create table old shallow clone t version as of 1;
select * from old order by id;
=> 1
=> 2
create table now shallow clone t@v3;
select count(*) from now where v = 'x';
=> 1
create table e (id int) using delta;
create table ee shallow clone e;
=> 0 | 0 | 0 | 0 | 0 | 0
select count(*) from ee;
=> 0

--- delta: OR REPLACE keeps the clone's history and its own versions
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2), (3);
create table c shallow clone t;
insert into c values (10);
insert into t values (4);
delete from t where id = 2;
create or replace table c shallow clone t;
select * from c order by id;
=> 1
=> 3
=> 4
create or replace table c shallow clone t;
select * from c order by id;
=> 1
=> 3
=> 4
select * from c version as of 1 order by id;
=> 1
=> 2
=> 3
=> 10
restore table c to version as of 0;
select * from c order by id;
=> 1
=> 2
=> 3

--- only iceberg: an Iceberg table is not replaced by a clone, and VACUUM of a clone deletes no files of its source
create table t (id int) using iceberg;
insert into t values (1);
create table c shallow clone t;
create or replace table c shallow clone t;
!> PlanError: DROP TABLE default.c first
create table d shallow clone t tblproperties ('gc.enabled' = 'true');
!> ConfigurationError: gc.enabled must be false for a clone
vacuum c;
!> PlanError: its property gc.enabled is false
select * from c;
=> 1

--- delta: the changes of a clone begin with its source's rows
create table t (id int) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read', 'delta.enableChangeDataFeed' = 'true');
insert into t values (1), (2), (3);
delete from t where id = 2;
create table c shallow clone t;
insert into t values (4);
update c set id = 30 where id = 3;
create or replace table c shallow clone t;
select id, _change_type, _commit_version from table_changes('c', 0) order by _commit_version, id, _change_type;
=> 1 | insert | 0
=> 3 | insert | 0
=> 3 | update_preimage | 1
=> 30 | update_postimage | 1
=> 3 | insert | 2
=> 4 | insert | 2
=> 30 | delete | 2

--- a deep clone has copies of all files, and a repeated one copies only new files
create table t (id int, v string, p int) using delta partitioned by (p) tblproperties ({mode}, 'team' = 'x');
insert into t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', null);
delete from t where id = 2;
create table c deep clone t tblproperties ('team' = 'y');
insert into t values (5, 'source', 1);
delete from t where id = 3;
select * from c order by id;
=> 1 | a | 1
=> 3 | c | 2
=> 4 | d | NULL
insert into c values (9, 'own', 9);
create or replace table c clone t;
alter table t add column n int;
insert into t values (6, 'wide', 1, 7);
create or replace table c deep clone t;
create table if not exists c clone t;
=> -
create table c clone t;
!> AlreadyExists
drop table t;
select * from c order by id;
=> 1 | a | 1 | NULL
=> 4 | d | NULL | NULL
=> 5 | source | 1 | NULL
=> 6 | wide | 1 | 7
update c set v = 'changed' where id = 4;
delete from c where id = 1;
select id, v from c order by id;
=> 4 | changed
=> 5 | source
=> 6 | wide
show tblproperties c ('team');
=> team | x

--- a deep clone replaces only an iceberg table whose columns have the ids of the source
create table t (id int) using iceberg;
insert into t values (1);
create table c clone t;
alter table c add column own int;
create or replace table c clone t;
!> PlanError: other ids of columns
select * from c;
=> 1 | NULL
create or replace table c shallow clone t;
!> PlanError: cannot be replaced by a shallow clone
