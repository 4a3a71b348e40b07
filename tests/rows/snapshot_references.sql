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

--- what goes wrong with branches and tags
create table t (id int) using iceberg;
alter table t create tag v1;
!> VersionNotFound: has no snapshot yet
insert into t values (1);
alter table t create tag v1;
alter table t create tag v1;
!> AlreadyExists: write CREATE OR REPLACE TAG
alter table t create tag if not exists v1;
alter table t create or replace tag v1 retain 5 days;
alter table t replace tag v2;
!> VersionNotFound: has no tag v2. There are: v1
alter table t create or replace branch v1;
!> PlanError: v1 of default.t is a tag and not a branch
alter table t create tag v2 as of version 5;
!> VersionNotFound: has no snapshot 5
alter table t drop branch main;
!> PlanError: The branch main is what default.t is read at
alter table t drop branch v1;
!> PlanError: Write DROP TAG v1
alter table t drop tag v3;
!> VersionNotFound: has no tag v3
alter table t drop tag if exists v3;
select count(*) from t version as of 'v1';
=> 1

--- delta: there are no branches and tags
create table t (id int) using delta;
alter table t create tag v1;
!> PlanError: t is no Iceberg table, and has no branches and tags
select * from t version as of 'v1';
!> PlanError: Write VERSION AS OF and a number
