--- a tag is read after the rows changed and older snapshots expired
create table t (id int) using iceberg tblproperties ({mode});
insert into t select /*+ coalesce(1) */ id from range(3);
alter table t create tag before;
insert into t values (7);
alter table t create branch side;
delete from t where id in (1, 7);
=> 2
call system.expire_snapshots('t', current_timestamp() + interval 1 hour);
select id from t version as of 'before' order by id;
=> 0
=> 1
=> 2
select t.id from t for version as of 'side' where t.id > 1 order by id;
=> 2
=> 7
select id from t version as of 'main' order by id;
=> 0
=> 2
select * from t version as of 'nothing';
!> VersionNotFound: no branch or tag nothing. There are: before, main, side
alter table t drop tag before;
alter table t drop branch side;
select * from t version as of 'before';
!> VersionNotFound: There are: main
call system.expire_snapshots('t', current_timestamp() + interval 1 hour);
select id from t order by id;
=> 0
=> 2

--- rows are written to a branch without changing the table
create table t (id int, v string) using iceberg partitioned by (bucket(2, id)) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
alter table t create branch audit;
insert into t.branch_audit values (3, 'c');
insert into default.t.branch_audit select id + 10, v from t;
update default.t.branch_audit set v = 'updated' where t.id = 3;
=> 1
delete from spark_catalog.default.t.branch_audit where id = 11;
=> 1
merge into t.branch_audit t using (select * from t.branch_audit union all select * from t) s on t.id = s.id + 1 and s.id = 1 when matched then update set v = concat(t.v, s.v) when not matched and s.id > 3 then insert (id, v) values (s.id + 100, s.v);
!> MultipleSourceRowsMatch
merge into t.branch_audit t using (select id + 1 as id, v from t where id = 1) s on t.id = s.id when matched then update set v = concat(t.v, s.v);
=> 1 | 1 | 0 | 0
select id, v from t.branch_audit order by id;
=> 1 | a
=> 2 | ba
=> 3 | updated
=> 12 | b
select * from t order by id;
=> 1 | a
=> 2 | b
insert into t values (4, 'main');
insert into t.branch_main values (5, 'main');
select max(id) from t version as of 'main';
=> 5
insert overwrite t.branch_audit select id, v from t.branch_audit where id < 3;
select t.id, t.v from default.t.branch_audit t order by id;
=> 1 | a
=> 2 | ba
truncate table t.branch_audit;
select count(*) from t.branch_audit;
=> 0
select count(*) from t;
=> 4

--- a branch has the table's current columns, and a tag has its old columns
create table t (id int, a int) using iceberg tblproperties ({mode});
insert into t values (1, 10);
alter table t create branch side;
alter table t create tag old;
alter table t rename column a to b;
alter table t add column c int;
insert into t.branch_side values (2, 20, 200);
insert with schema evolution into t.branch_side select 3 as id, 30 as b, 300 as c, 3000 as d;
select id, b, c, d from t.branch_side order by id;
=> 1 | 10 | NULL | NULL
=> 2 | 20 | 200 | NULL
=> 3 | 30 | 300 | 3000
select id, b, c from t version as of 'side' order by id;
=> 1 | 10 | NULL
=> 2 | 20 | 200
=> 3 | 30 | 300
select id, a from t.tag_old;
=> 1 | 10
select id, a from t version as of 'old';
=> 1 | 10

--- errors of writes to branches and tags
create table t (id int) using iceberg;
insert into t values (1);
alter table t create branch audit;
alter table t create tag eod;
insert into t.branch_audits values (2);
!> VersionNotFound: default.t has no branch or tag audits. Did you mean audit?
delete from t.branch_nothing;
!> VersionNotFound: There are: audit, eod, main
insert into t.tag_eod values (2);
!> PlanError: eod of default.t is a tag, which always refers to the same snapshot and accepts no writes
select * from t.branch_audit version as of 'main';
!> PlanError: already selects audit
create view v as select 1 as id;
insert into v.branch_x values (1);
!> TableError
select * from t.branch_audit;
=> 1
explain delete from t.branch_audit;

--- a table can have the name of a branch
create schema s;
create table s.branch_x (id int) using iceberg;
insert into s.branch_x values (1);
select * from s.branch_x;
=> 1

--- delta: a Delta table has no branch to write to
create table t (id int) using delta;
insert into t.branch_x values (1);
!> PlanError: default.t is not an Iceberg table, so it has no branch x
select * from t.branch_x;
!> PlanError: it has no branches or tags

--- errors of statements on branches and tags
create table t (id int) using iceberg;
alter table t create tag v1;
!> VersionNotFound: has no snapshot yet
insert into t values (1);
alter table t create tag v1;
alter table t create tag v1;
!> AlreadyExists: use CREATE OR REPLACE TAG
alter table t create tag if not exists v1;
alter table t create or replace tag v1 retain 5 days;
alter table t replace tag v2;
!> VersionNotFound: has no tag v2. There are: v1
alter table t create or replace branch v1;
!> PlanError: v1 of default.t is a tag, not a branch
alter table t create tag v2 as of version 5;
!> VersionNotFound: has no snapshot 5
alter table t drop branch main;
!> PlanError: The branch main of default.t is the default branch
alter table t drop branch v1;
!> PlanError: Use DROP TAG v1
alter table t drop tag v3;
!> VersionNotFound: has no tag v3
alter table t drop tag if exists v3;
select count(*) from t version as of 'v1';
=> 1

--- delta: statements on branches and tags are rejected
create table t (id int) using delta;
alter table t create tag v1;
!> PlanError: t is not an Iceberg table, so it has no branches or tags
select * from t version as of 'v1';
!> PlanError: Use VERSION AS OF with a version number
