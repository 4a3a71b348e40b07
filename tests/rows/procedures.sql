--- expired snapshots become unreadable, and their files are counted
create table t (id int, v string) using iceberg tblproperties ('rowmerge.write.mode' = 'copy-on-write');
insert into t select /*+ coalesce(1) */ id, 'a' from range(10);
update t set v = 'b' where id = 1;
update t set v = 'c' where id = 2;
call system.expire_snapshots(table => 't', older_than => timestamp '2001-01-01', retain_last => 1);
=> 0 | 0 | 0 | 0 | 0 | 0
call rowmerge.system.expire_snapshots('t', current_timestamp() + interval 1 hour, 2);
=> 1 | 0 | 0 | 1 | 1 | 0
call system.expire_snapshots('t', current_timestamp() + interval 1 hour);
=> 1 | 0 | 0 | 2 | 1 | 0
select count(*), count_if(v = 'a'), sum(id) from t;
=> 10 | 8 | 45
update t set v = 'd' where id = 3;
=> 1

--- expiry of referenced snapshots is rejected
create table t (id int) using iceberg;
insert into t values (1);
call system.expire_snapshots(table => 't', retain_last => 0);
!> PlanError: An expiry retains at least 1 snapshot
call system.expire_snapshots(table => 't', snapshot_ids => array(1, 2));
!> VersionNotFound: has no snapshot 1
call system.expire_snapshots(table => 't', retain_last => 'x');
!> TypeMismatch: The argument retain_last of expire_snapshots is 'x', but it must be a whole number
call system.expire_snapshots(table => 5);
!> TypeMismatch: the name of a table, as a string
alter table t set tblproperties ('gc.enabled' = 'false');
call system.expire_snapshots('t');
!> PlanError: gc.enabled is false
vacuum t;
!> PlanError: gc.enabled is false

--- orphan files are listed, and a time that is too recent is rejected
create table t (id int) using iceberg;
insert into t values (1);
call system.remove_orphan_files(table => 't', dry_run => true);
=> -
call system.remove_orphan_files(table => 't', older_than => current_timestamp());
!> PlanError: Set older_than to at least 24 hours ago
call system.remove_orphan_files('t', current_timestamp() - interval 25 hours);
=> -

--- data files are rewritten, and the rows stay equal
create table t (id int, v string) using iceberg tblproperties ({mode});
insert into t select /*+ coalesce(1) */ id, 'a' from range(10);
insert into t select /*+ coalesce(1) */ id + 10, 'b' from range(100);
delete from t where id = 13;
call system.rewrite_data_files(table => 't', strategy => 'z');
!> PlanError: no strategy 'z'
call system.rewrite_data_files(table => 't', options => map('rewrite-some', 'true'));
!> PlanError: has no option rewrite-some
call system.rewrite_data_files(table => 't', options => map('min-input-files', '5'));
select count(distinct f) from (select input_file_name() as f from t);
=> 2
call system.rewrite_data_files(table => 't');
select count(distinct f), count(*), sum(id) from (select id, input_file_name() as f from t);
=> 1 | 109 | 5982
merge into t using (values (1, 'x'), (500, 'y')) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1

--- data files of the partitions of a condition
create table t (id int, p string) using iceberg partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, 'a'), (4, 'b');
call system.rewrite_data_files(table => 't', where => 'p = "a"');
select p, count(distinct f) from (select p, input_file_name() as f from t) group by p order by p;
=> a | 1
=> b | 2
call system.rewrite_data_files(table => 't', where => 'nothing = 1');
!> UnknownColumn: nothing

--- data files that can contain rows of a condition, by their bounds
create table t (id int, v string) using iceberg tblproperties ({mode});
insert into t values (1, 'a'), (5, 'e');
insert into t values (2, 'b'), (6, 'f');
insert into t values (100, 'x');
insert into t values (101, 'y');
call system.rewrite_data_files(table => 't', where => 't.id between 3 and 7 and length(v) = 1');
select count(distinct f), count(distinct if(id < 50, f, null)), sum(id) from (select id, input_file_name() as f from t);
=> 3 | 1 | 215
call system.rewrite_data_files(table => 't', where => 'id = "');
!> Unparsable
call system.rewrite_data_files(table => 't', where => 'id + nothing > 3');
!> UnknownColumn: nothing
call system.rewrite_data_files(table => 't', where => 'id > 99', options => map('min-input-files', '2', 'max-concurrent-file-group-rewrites', '5'));
select count(distinct f), sum(id) from (select id, input_file_name() as f from t);
=> 2 | 215

--- options select the data files to rewrite
create table t (id int, v string) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select /*+ coalesce(1) */ id, 'a' from range(100);
insert into t select /*+ coalesce(1) */ id + 100, 'b' from range(100);
delete from t where id = 3;
call system.rewrite_data_files(table => 't', options => map('min-file-size-bytes', '1', 'min-input-files', '1'));
=> 0 | 0 | 0 | 0 | 0
call system.rewrite_data_files(table => 't', options => map('min-file-size-bytes', '1', 'delete-ratio-threshold', '0.5'));
=> 0 | 0 | 0 | 0 | 0
call system.rewrite_data_files(table => 't', options => map('delete-file-threshold', '1', 'min-file-size-bytes', '1', 'rewrite-job-order', 'none'));
select count(distinct f), sum(id) from (select id, input_file_name() as f from t);
=> 2 | 19897
call system.rewrite_data_files(table => 't', options => map('delete-file-threshold', '1', 'min-file-size-bytes', '1'));
=> 0 | 0 | 0 | 0 | 0
call system.rewrite_data_files(table => 't', options => map('delete-file-threshold', '2'));
!> PlanError: or set delete-ratio-threshold to the fraction of deleted rows
call system.rewrite_data_files(table => 't', options => map('delete-ratio-threshold', '2'));
!> PlanError: The option delete-ratio-threshold of rewrite_data_files is '2'. Set it to a number from 0 to 1.
call system.rewrite_data_files(table => 't', options => map('max-file-size-byte', '2'));
!> PlanError: has no option max-file-size-byte. Did you mean max-file-size-bytes?
call system.rewrite_data_files(table => 't', options => map('min-input-files', 'x'));
!> PlanError: The option min-input-files of rewrite_data_files is 'x'. Set it to a whole number greater than 0.

--- manifests are rewritten
create table t (id int) using iceberg;
insert into t values (1);
insert into t values (2);
insert into t values (3);
call system.rewrite_manifests('t');
=> 3 | 1
call system.rewrite_manifests(table => 't', use_caching => false);
=> 0 | 0
select * from t order by id;
=> 1
=> 2
=> 3

--- a single delete file of a data file is not rewritten
create table t (id int) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select id from range(50);
delete from t where id = 3;
call system.rewrite_position_delete_files('t');
=> 0 | 0 | 0 | 0

--- delta: procedures without a meaning for Delta name the statement to use
create table d (id int) using delta;
call system.expire_snapshots('d');
!> PlanError: The procedure expire_snapshots supports only Iceberg tables, and d is not one. Use VACUUM d instead.
call system.rewrite_position_delete_files('default.d');
!> PlanError: Use REORG TABLE default.d APPLY (PURGE) instead.
call system.rewrite_manifests('d');
!> PlanError: Use OPTIMIZE d instead.
call system.fast_forward('d', 'main', 'audit');
!> PlanError: Use RESTORE TABLE d instead.
call system.set_current_snapshot(table => 'd', ref => 'main');
!> PlanError: Specify snapshot_id, a version number.
call system.rewrite_manifests('nothing');
!> TableNotFound: nothing

--- delta: versions of a Delta table
create table d (id int) using delta;
insert into d values (1);
insert into d values (2);
call system.rollback_to_snapshot('d', 1);
=> 2 | 3
select * from d;
=> 1
call system.set_current_snapshot('d', 2);
=> 3 | 4
call system.set_current_snapshot('d', 4);
=> 4 | 4
select max(id) from d;
=> 2
call system.rollback_to_snapshot('d', 9);
!> VersionNotFound
call system.rollback_to_timestamp('d', timestamp '2001-01-01');
!> VersionNotFound
call system.rollback_to_timestamp('d', current_timestamp() + interval 1 hour);
=> 4 | 4
select count(*), min(snapshot_id) from (select * from d);
!> UnknownColumn

--- files of both formats are compacted
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, 'a'), (4, 'b');
call system.rewrite_data_files(table => 't', where => 'p = "a"');
select p, count(distinct f) from (select p, input_file_name() as f from t) group by p order by p;
=> a | 1
=> b | 2
call system.rewrite_data_files(table => 't', sort_order => 'id');
!> PlanError: does not support the argument sort_order
call system.rewrite_data_files(table => 't', options => map('compression-factor', '2'));
!> PlanError: does not support the option compression-factor
call system.rewrite_data_files(table => 't', options => map('partial-progress.enabled', 'perhaps'));
!> PlanError: Set it to true or false
call system.rewrite_data_files(table => 't', branch => 'audit');
!> RowmergeError

--- files to which no version refers are listed and removed
create table t (id int) using delta tblproperties ({mode});
insert into t values (1);
call system.remove_orphan_files(table => 't', dry_run => true);
=> -
call system.remove_orphan_files(table => 't', older_than => current_timestamp());
!> PlanError: Set older_than to at least 24 hours ago
call system.remove_orphan_files(table => 't', location => '/elsewhere');
!> PlanError: is not in the folder
call system.remove_orphan_files(table => 't', prefix_mismatch_mode => 'maybe');
!> PlanError: Set it to one of error, ignore, delete
call system.remove_orphan_files(table => 't', max_concurrent_deletes => 0);
!> PlanError: must be 1 or more
call system.remove_orphan_files(table => null);
!> UnsupportedStatement: needs the argument table
select count(*) from t;
=> 1

--- an unknown procedure or argument names the valid ones
call system.rewrite_data_file('t');
!> UnsupportedStatement: Did you mean rewrite_data_files
call system.ancestors_of(table => 't', snapshot => 1);
!> UnsupportedStatement: Did you mean snapshot_id
call system.add_files(table => 't');
!> UnsupportedStatement: add_files needs the argument source_table
call system.ancestors_of(table => 't', snapshot_id => 'one');
!> TypeMismatch: it must be a whole number

--- manifests of one partition spec are sorted by fields
create table t (id int, p string, q string) using iceberg partitioned by (p, q);
insert into t values (1, 'b', 'x');
insert into t values (2, 'a', 'y');
call system.rewrite_manifests(table => 't', spec_id => 7);
!> PlanError: has no partition spec 7. There are: 0
call system.rewrite_manifests(table => 't', sort_by => array('r'));
!> PlanError: The fields are: p, q
call system.rewrite_manifests(table => 't', sort_by => array());
!> PlanError: sort_by of rewrite_manifests is empty
call system.rewrite_manifests(table => 't', spec_id => 0, sort_by => array('q'));
=> 2 | 1
select id from t order by id;
=> 1
=> 2

--- position deletes of selected partitions are rewritten
create table t (id int, p string) using iceberg partitioned by (p) tblproperties ('rowmerge.write.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition', 'format-version' = '2');
insert into t select /*+ coalesce(1) */ id, 'a' from range(20);
insert into t select /*+ coalesce(1) */ id + 20, 'a' from range(20);
insert into t select /*+ coalesce(1) */ id + 40, 'b' from range(20);
insert into t select /*+ coalesce(1) */ id + 60, 'b' from range(20);
delete from t where id in (1, 21, 41, 61);
call system.rewrite_position_delete_files(table => 't', options => map('target-file-size-bytes', '10'));
!> PlanError: does not support the option target-file-size-bytes
call system.rewrite_position_delete_files(table => 't', options => map('rewrite', 'true'));
!> PlanError: Did you mean rewrite-all?
call system.rewrite_position_delete_files(table => 't', options => map('min-input-files', '2'));
=> 0 | 0 | 0 | 0
call system.rewrite_position_delete_files(table => 't', options => map('min-file-size-bytes', '1'));
=> 0 | 0 | 0 | 0
call system.rewrite_position_delete_files(table => 't', where => 'p = "c"');
=> 0 | 0 | 0 | 0
call system.rewrite_position_delete_files(table => 't', where => 'p = "a"');
select count(*), sum(id) from t;
=> 76 | 3036
select partition.p, count(*) from t.delete_files group by 1 order by 1;
=> a | 2
=> b | 1
call system.rewrite_position_delete_files(table => 't', options => map('rewrite-all', 'true', 'max-files-to-rewrite', '2'));
select partition.p, count(*) from t.delete_files group by 1 order by 1;
=> a | 2
=> b | 1

--- vacuum of an Iceberg table keeps the newest snapshot
create table t (id int, v string) using iceberg tblproperties ({mode});
insert into t select /*+ coalesce(1) */ id, 'a' from range(10);
update t set v = 'b' where id < 5;
delete from t where id = 7;
vacuum t retain 1 hours;
!> PlanError: RETAIN 1 HOURS is shorter than 24 hours
vacuum t retain 24 hours dry run;
=> -
vacuum t;
set spark.databricks.delta.retentionDurationCheck.enabled = false;
vacuum t retain 0 hours;
set spark.databricks.delta.retentionDurationCheck.enabled = true;
select count(*), sum(id), count_if(v = 'b') from t;
=> 9 | 38 | 5
update t set v = 'c' where id = 1;
=> 1

--- a branch is fast-forwarded if the table has no other commit
create table t (id int) using iceberg;
insert into t values (1);
alter table t create branch audit;
alter table t create tag eod;
insert into t.branch_audit values (2);
call system.fast_forward('t', 'main', 'audit');
select id from t order by id;
=> 1
=> 2
insert into t values (3);
call system.fast_forward(table => 't', branch => 'main', to => 'audit');
!> PlanError: its snapshot is not an ancestor of audit
call system.fast_forward('t', 'eod', 'main');
!> PlanError: eod of default.t is a tag
call system.fast_forward('t', 'main', 'audits');
!> VersionNotFound: Did you mean audit?
call system.fast_forward('t', 'audit', 'main');
select max(id) from t.branch_audit;
=> 3

--- changes between versions are a view
create table t (id int, v string) using delta tblproperties ({mode});
insert into t select /*+ coalesce(1) */ id, 'a' from range(3);
update t set v = 'b' where id = 1;
delete from t where id = 2;
insert into t values (2, 'a');
call system.create_changelog_view(table => 't');
=> `t_changes`
select id, v, _change_type, dense_rank() over (order by _change_ordinal) from t_changes order by 4, 1, 3;
=> 0 | a | INSERT | 1
=> 1 | a | INSERT | 1
=> 2 | a | INSERT | 1
=> 1 | a | DELETE | 2
=> 1 | b | INSERT | 2
=> 2 | a | DELETE | 3
=> 2 | a | INSERT | 4
call system.create_changelog_view(table => 't', changelog_view => 'c', identifier_columns => array('id'));
=> c
select id, v, _change_type from c where _change_type like 'UPDATE%' order by 3;
=> 1 | b | UPDATE_AFTER
=> 1 | a | UPDATE_BEFORE
call system.create_changelog_view(table => 't', changelog_view => 'c', net_changes => true);
=> c
select id, v, _change_type from c order by id;
=> 0 | a | INSERT
=> 1 | b | INSERT
=> 2 | a | INSERT
alter table t add column w int;
call system.create_changelog_view(table => 't', net_changes => true);
select * except (_change_type, _change_ordinal, _commit_snapshot_id) from t_changes order by id limit 1;
=> 0 | a | NULL
call system.create_changelog_view(table => 't', net_changes => true, compute_updates => true, identifier_columns => array('id'));
!> PlanError: Set one of them to false
call system.create_changelog_view(table => 't', compute_updates => true);
!> PlanError: has no identifier fields
call system.create_changelog_view(table => 't', options => map('start-snapshot-id', '77'));
!> VersionNotFound: is not an ancestor
call system.create_changelog_view(table => 't', options => map('starting', '1'));
!> PlanError: has no option starting

--- iceberg: the metadata table changes has the rows of added and removed files
create table t (id int, v string) using iceberg tblproperties ('rowmerge.write.mode' = 'copy-on-write');
select * from t.changes;
=> -
insert into t select /*+ coalesce(1) */ id, 'a' from range(2);
update t set v = 'b' where id = 1;
alter table t set tblproperties ('rowmerge.write.mode' = 'merge-on-read');
call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'));
delete from t where id = 0;
alter table t add column m map<string, int>;
select id, v, m, _change_type, _change_ordinal from default.t.changes order by _change_ordinal, id, _change_type;
=> 0 | a | NULL | INSERT | 0
=> 1 | a | NULL | INSERT | 0
=> 0 | a | NULL | DELETE | 1
=> 0 | a | NULL | INSERT | 1
=> 1 | a | NULL | DELETE | 1
=> 1 | b | NULL | INSERT | 1
=> 0 | a | NULL | DELETE | 2
select c._change_type from t.changes c join t.snapshots s on s.snapshot_id = c._commit_snapshot_id where s.operation = 'delete';
=> DELETE
select * from t.changes version as of 1;
!> PlanError: describes all versions

--- delta: the changes of a Delta table are those of table_changes
create table t (id int) using delta;
select * from t.changes;
!> PlanError: Use table_changes('default.t', 0)
