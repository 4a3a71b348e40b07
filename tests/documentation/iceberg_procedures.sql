# Iceberg: procedures
# https://iceberg.apache.org/docs/latest/spark-procedures/

--- CALL catalog.system.rollback_to_snapshot('t', id)
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
call rowmerge.system.rollback_to_snapshot('t', {id -2 of t});
select * from t;
=> 1

--- CALL system.rollback_to_timestamp('t', timestamp)
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
call system.rollback_to_timestamp('t', timestamp'{time -1 of t}');
select * from t;
=> 1

--- CALL system.set_current_snapshot('t', id)
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
call system.set_current_snapshot('t', {id -2 of t});
select * from t;
=> 1

--- iceberg: CALL system.set_current_snapshot(table => 't', ref => 'name')
create table t (id int) using iceberg;
insert into t values (1);
alter table t create tag s1;
insert into t values (2);
call system.set_current_snapshot(table => 't', ref => 's1');
select * from t;
=> 1

--- iceberg: CALL system.cherrypick_snapshot('t', id), publish_changes('t', wap_id)
create table t (id int) using iceberg tblproperties ('write.wap.enabled' = 'true');
insert into t values (1);
set spark.wap.id = wap_id_1;
insert into t values (2);
reset spark.wap.id;
select count(*) from t;
=> 1
call system.publish_changes(wap_id => 'wap_id_1', table => 't');
select count(*) from t;
=> 2

--- iceberg: CALL system.fast_forward('t', 'main', 'branch')
create table t (id int) using iceberg;
insert into t values (1);
alter table t create branch `audit-branch`;
insert into t.`branch_audit-branch` values (2);
call system.fast_forward('t', 'main', 'audit-branch');
select count(*) from t;
=> 2

--- iceberg: CALL system.expire_snapshots('t', older_than, retain_last), snapshot_ids => array(…), clean_expired_metadata => true
create table t (id int) using iceberg;
insert into t values (1);
insert into t values (2);
insert into t values (3);
call system.expire_snapshots(table => 't', snapshot_ids => array({id 0 of t}));
call system.expire_snapshots('t', timestamp'2100-01-01 00:00:00.000', 1, stream_results => true, clean_expired_metadata => true);
select count(*) from t.snapshots;
=> 1

--- CALL system.remove_orphan_files(table => 't', dry_run, location, file_list_view, prefix_mismatch_mode, …)
create table t (id int) using delta;
insert into t values (1);
call system.remove_orphan_files(table => 't', dry_run => true);
call system.remove_orphan_files(table => 't', prefix_mismatch_mode => 'IGNORE', equal_schemes => map('file', 'file1'), equal_authorities => map('ns1', 'ns2'));
select * from t;
=> 1

--- CALL system.rewrite_data_files('t', options, where)
create table t (id int, name string) using delta;
insert into t values (3, 'foo');
insert into t values (3, 'foo');
call system.rewrite_data_files(table => 't', options => map('min-input-files', '2', 'remove-dangling-deletes', 'true'));
select count(*) from t.files;
=> 1
call system.rewrite_data_files(table => 't', where => 'id = 3 and name = "foo"');
select count(*) from t;
=> 2

--- rejected: CALL system.rewrite_data_files(table => 't', strategy => 'sort', sort_order => …)
create table t (id int) using delta;
call system.rewrite_data_files(table => 't', strategy => 'sort', sort_order => 'id DESC NULLS LAST');
!> PlanError: Rows are sorted by the table's own write order: ALTER TABLE … WRITE ORDERED BY …

--- iceberg: CALL system.rewrite_manifests('t', spec_id, sort_by)
create table t (id int, category string) using iceberg partitioned by (category);
insert into t values (1, 'a');
insert into t values (2, 'b');
call system.rewrite_manifests('t');
call system.rewrite_manifests(table => 't', spec_id => 0, sort_by => array('category'));
select count(*) from t.manifests;
=> 1

--- iceberg: CALL system.rewrite_position_delete_files('t', options)
create table t (id int) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select id from range(100);
delete from t where id = 1;
delete from t where id = 2;
call system.rewrite_position_delete_files(table => 't', options => map('rewrite-all', 'true'));
select count(*) from t;
=> 98

--- CALL system.snapshot('source', 't')
create table other (id int) using delta;
insert overwrite directory '{folder}/plain' using parquet select /*+ coalesce(1) */ id from range(3);
call system.snapshot(source_table => 'parquet.`{folder}/plain`', table => 'snap', properties => map('provider', '{format}'));
=> 1
insert into snap values (9);
select count(*) from snap;
=> 4
select count(*) from parquet.`{folder}/plain`;
=> 3

--- CALL system.add_files(table => 't', source_table => '`parquet`.`path`', partition_filter)
create table t (id bigint, p int) using delta partitioned by (p);
insert overwrite directory '{folder}/src/p=1' using parquet select id from range(3);
insert overwrite directory '{folder}/src/p=2' using parquet select id from range(4);
call system.add_files(table => 't', source_table => '`parquet`.`{folder}/src`', partition_filter => map('p', '1'));
select p, count(*) from t group by p;
=> 1 | 3

--- CALL system.register_table(table => 't', metadata_file => 'path')
create table t (id int) using delta location '{folder}/t';
insert into t values (1);
call system.register_table(table => 'u', metadata_file => '{folder}/t/{newest metadata}');
insert into u values (2);
select count(*) from t;
=> 2

--- CALL system.ancestors_of('t', id)
create table t (id int) using delta;
insert into t values (1);
call system.ancestors_of('t');
~> {id -1 of t}
call system.ancestors_of(snapshot_id => {id -1 of t}, table => 't');
~> {id -1 of t}

--- CALL system.create_changelog_view(table => 't', options, changelog_view, identifier_columns, net_changes)
create table t (id int, name string) using delta {change feed};
insert into t values (1, 'a');
insert into t values (2, 'b');
call system.create_changelog_view(table => 't', options => map('start-snapshot-id', '{id -2 of t}', 'end-snapshot-id', '{id -1 of t}'));
select id, name, _change_type from t_changes;
=> 2 | b | INSERT

--- iceberg: SELECT … FROM t.changes
create table t (id int) using iceberg;
insert into t values (1);
select id, _change_type, _change_ordinal from t.changes;
=> 1 | INSERT | 0

--- iceberg: CALL system.compute_table_stats('t', snapshot_id, columns)
create table t (id int, v string) using iceberg;
insert into t values (1, 'a'), (2, 'b');
call system.compute_table_stats(table => 't', columns => array('id', 'v'));
~> .stats
describe extended t v;
~> distinct_count | 2

--- iceberg: CALL system.compute_partition_stats('t', snapshot_id)
create table t (id int, p int) using iceberg partitioned by (p);
insert into t values (1, 1), (2, 2);
call system.compute_partition_stats('t');
~> partition-stats

--- iceberg: CALL system.rewrite_table_path(table => 't', source_prefix, target_prefix, …)
create table t (id int) using iceberg location '{folder}/t';
insert into t values (1);
call system.rewrite_table_path(table => 't', source_prefix => '{folder}/t', target_prefix => '{folder}/copy');
~> metadata.json
