--- vacuum leaves the newest version and takes what older ones needed
create table t (id int, v string) using delta tblproperties ({mode});
insert into t select id, 'a' from range(10);
update t set v = 'b' where id < 5;
delete from t where id = 7;
vacuum t;
select sum(id) from t version as of 1;
=> 45
set spark.databricks.delta.retentionDurationCheck.enabled = false;
vacuum t retain 0 hours;
select count(*), sum(id), count_if(v = 'b') from t;
=> 9 | 38 | 5
set spark.databricks.delta.retentionDurationCheck.enabled = true;
update t set v = 'c' where id = 1;
=> 1

--- vacuum with a retention that is not safe is refused
create table t (id int) using delta;
insert into t values (1);
vacuum t retain 1 hours;
!> PlanError: RETAIN 1 HOURS is shorter than the table's retention of 168 hours
vacuum t retain 0 hours dry run;
!> PlanError: spark.databricks.delta.retentionDurationCheck.enabled
alter table t set tblproperties ('delta.deletedFileRetentionDuration' = 'interval 1 hour');
vacuum t retain 1 hours dry run;
=> -

--- vacuum of what is no table
create view v as select 1 as x;
vacuum missing;
!> TableNotFound: missing
vacuum v;
!> TableError: is a view
