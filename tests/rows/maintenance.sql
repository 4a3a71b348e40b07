--- delta: vacuum deletes files that only older versions need
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

--- delta: vacuum with an unsafe retention is rejected
create table t (id int) using delta;
insert into t values (1);
vacuum t retain 1 hours;
!> PlanError: RETAIN 1 HOURS is shorter than the table's retention period of 168 hours
vacuum t retain 0 hours dry run;
!> PlanError: spark.databricks.delta.retentionDurationCheck.enabled
alter table t set tblproperties ('delta.deletedFileRetentionDuration' = 'interval 1 hour');
vacuum t retain 1 hours dry run;
=> -

--- delta: a checkpoint cleans the log up by the table's properties
create table t (id int) using delta tblproperties ('delta.checkpointInterval' = '2', 'delta.enableExpiredLogCleanup' = 'false',
    'delta.logRetentionDuration' = 'interval 0 seconds');
insert into t values (1);
insert into t values (2);
insert into t values (3);
insert into t values (4);
select count(*) from t version as of 1;
=> 1
alter table t set tblproperties ('delta.enableExpiredLogCleanup' = 'true');
insert into t values (5);
select count(*) from t;
=> 5
select count(*) from t version as of 6;
=> 5
select count(*) from t version as of 5;
!> VersionNotFound: versions 6 to 6 can be read
alter table t set tblproperties ('delta.logRetentionDuration' = '2 months');
!> ConfigurationError: without months or years
alter table t set tblproperties ('delta.requireCheckpointProtectionBeforeVersion' = '1');
!> ConfigurationError: delta.requireCheckpointProtectionBeforeVersion of default.t cannot be changed
merge into t using (values (1), (9)) s (id) on t.id = s.id when matched then delete when not matched then insert *;
=> 2 | 0 | 1 | 1

--- vacuum of views and unknown tables is rejected
create view v as select 1 as x;
vacuum missing;
!> TableNotFound: missing
vacuum v;
!> TableError: is a view

--- delta: optimize combines files and changes no row
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, null), (4, 'd');
alter table t add columns (w int);
insert into t values (5, 'e', 50), (6, 'f', 60);
delete from t where id = 2;
optimize t;
select count(distinct f) from (select input_file_name() as f from t);
=> 1
select * from t order by id;
=> 1 | a | NULL
=> 3 | NULL | NULL
=> 4 | d | NULL
=> 5 | e | 50
=> 6 | f | 60
update t set w = 1 where id in (1, 6);
=> 2
merge into t using (values (3, 'x'), (9, 'y')) s (id, v) on t.id = s.id when matched then delete when not matched then insert (id, v) values (s.id, s.v);
=> 2 | 0 | 1 | 1
select id from t version as of 5 order by id;
=> 1
=> 3
=> 4
=> 5
=> 6
select count(*), sum(w) from t;
=> 5 | 52

--- optimize rewrites only the partitions of its condition
create table t (id int, p string, q date) using delta partitioned by (p, q);
insert into t values (1, 'a', date '2024-01-01'), (2, 'b', date '2024-01-01'), (3, null, date '2024-02-01');
insert into t values (4, 'a', date '2024-01-01'), (5, 'b', date '2024-01-01'), (6, null, date '2024-02-01');
optimize t where upper(p) = 'A' and t.q < date '2024-02-01';
select p, count(distinct f) from (select p, input_file_name() as f from t) group by p order by p;
=> NULL | 2
=> a | 1
=> b | 2
optimize t where p is null;
select p, count(distinct f) from (select p, input_file_name() as f from t) group by p order by p;
=> NULL | 1
=> a | 1
=> b | 2
optimize t where id = 1;
!> PlanError: `id` is not a partition column (partition columns: `p`, `q`)
optimize t where nothing = 1;
!> UnknownColumn: nothing
select id, p, q from t order by id;
=> 1 | a | 2024-01-01
=> 2 | b | 2024-01-01
=> 3 | NULL | 2024-02-01
=> 4 | a | 2024-01-01
=> 5 | b | 2024-01-01
=> 6 | NULL | 2024-02-01

--- delta: reorg removes deleted rows from the files
create table t (id int, v string) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select /*+ coalesce(1) */ id, 'a' from range(100);
insert into t values (200, 'b');
delete from t where id < 3;
=> 3
reorg table t apply (purge);
set spark.databricks.delta.retentionDurationCheck.enabled = false;
vacuum t retain 0 hours;
set spark.databricks.delta.retentionDurationCheck.enabled = true;
select count(*), min(id) from t;
=> 98 | 3
select * from t version as of 1;
!> MissingDataFile: VERSION AS OF
reorg table t apply (purge);
optimize t;
select count(distinct f), sum(id) from (select id, input_file_name() as f from t);
=> 1 | 5147

--- delta: optimize of an append-only table
create table t (id int, p int) using delta partitioned by (p) tblproperties ('delta.appendOnly' = 'true');
insert into t values (1, 1), (2, 1);
insert into t values (3, 1), (4, 2);
optimize t;
select p, count(distinct f), sum(id) from (select *, input_file_name() as f from t) group by p order by p;
=> 1 | 1 | 6
=> 2 | 1 | 4

--- delta: restore brings back rows, columns and deleted rows
create table t (id int, v string) using delta tblproperties ({mode});
insert into t select id, 'a' from range(6);
delete from t where id in (1, 4);
alter table t add columns (w int);
insert into t values (9, 'i', 1);
restore table t to version as of 2;
select * from t order by id;
=> 0 | a
=> 2 | a
=> 3 | a
=> 5 | a
restore t version as of 1;
select count(*), sum(id) from t;
=> 6 | 15
delete from t where id = 0;
=> 1
restore table t to version as of 4;
select count(*), sum(w) from t;
=> 5 | 1
restore table t to version as of 7;
select count(*), sum(id) from t;
=> 5 | 15

--- delta: restore to an unknown version is rejected
create table t (id int) using delta;
insert into t values (1);
restore table t to version as of 1;
!> PlanError: is already at version 1
restore table t to version as of 7;
!> VersionNotFound: versions 0 to 1 can be read
restore table t to timestamp as of '2001-01-01';
!> VersionNotFound: Choose a later time
restore table t to timestamp as of current_timestamp();
!> PlanError: is already at version 1
select * from t;
=> 1

--- delta: generate of symlink manifests returns no rows, and only tables without deletion vectors have manifests
create table t (id int, p string) using delta partitioned by (p) tblproperties ('rowmerge.write.mode' = 'copy-on-write');
insert into t values (1, 'a'), (2, null);
generate symlink_format_manifest for table t;
create table d (id int) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into d select /*+ coalesce(1) */ id from range(100);
delete from d where id < 3;
=> 3
generate symlink_format_manifest for table d;
!> PlanError: Run REORG TABLE
alter table d set tblproperties ('delta.compatibility.symlinkFormatManifest.enabled' = 'true');
!> ConfigurationError: delta.compatibility.symlinkFormatManifest.enabled = true excludes
alter table d set tblproperties ('delta.compatibility.symlinkFormatManifest.enabled' = 'true', 'delta.enableDeletionVectors' = 'false',
    'rowmerge.write.mode' = 'auto');
!> PlanError: run REORG TABLE
reorg table d apply (purge);
alter table d set tblproperties ('delta.compatibility.symlinkFormatManifest.enabled' = 'true', 'delta.enableDeletionVectors' = 'false',
    'rowmerge.write.mode' = 'auto');
delete from d where id < 5;
=> 2
generate symlink_format_manifest for table d;
create view v as select 1 as id;
generate symlink_format_manifest for table v;
!> TableError: default.v is a view

--- iceberg: generate of symlink manifests is rejected
create table t (id int) using iceberg;
generate symlink_format_manifest for table t;
!> PlanError: is not a Delta table, so it has no symlink manifests

--- delta: a table with V2 checkpoints, random folders and manifests is dropped and created again
create table t (id int, p string) using delta partitioned by (p) tblproperties ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2',
    'delta.randomizeFilePrefixes' = 'true', 'delta.compatibility.symlinkFormatManifest.enabled' = 'true');
insert into t values (1, 'a'), (2, 'b');
update t set id = 3 where id = 1;
delete from t where p = 'b';
update t set p = 'c';
select * from t;
=> 3 | c
drop table t;
create table t (id int) using delta tblproperties ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1');
insert into t values (7);
insert into t values (8);
select * from t order by id;
=> 7
=> 8
