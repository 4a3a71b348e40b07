# Iceberg: queries
# https://iceberg.apache.org/docs/latest/spark-queries/

--- SELECT … FROM catalog.schema.t
create table t (id int) using delta;
insert into t values (1);
select * from rowmerge.default.t;
=> 1

--- SELECT system.iceberg_version(), system.bucket(n, value), system.years(value), system.months, system.days, system.hours
create table t (id bigint, ts timestamp_ntz) using delta;
insert into t values (34, timestamp_ntz'2017-11-16 22:31:08'), (null, null);
select system.bucket(16, id), system.days(ts), system.months(ts), system.years(ts), system.hours(ts) from t order by id desc;
=> 3 | 2017-11-16 | 574 | 47 | 419686
=> NULL | NULL | NULL | NULL | NULL
select rowmerge.system.bucket(100, 'iceberg'), system.iceberg_version() like 'pyiceberg %';
=> 89 | true

--- rejected: SELECT system.truncate(width, value)
create table t (id int) using delta;
select system.truncate(10, id) from t;
!> PlanError: Write substring(value, 1, width) or value - pmod(value, width)

--- SELECT … TIMESTAMP AS OF '…'
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t timestamp as of '{time -2 of t}';
=> 1

--- SELECT … VERSION AS OF version
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t version as of {id -2 of t};
=> 1

--- iceberg: SELECT … VERSION AS OF 'branch', 'tag'
create table t (id int) using iceberg;
insert into t values (1);
alter table t create branch `audit-branch`;
alter table t create tag `historical-snapshot`;
insert into t values (2);
select count(*) from t version as of 'audit-branch';
=> 1
select count(*) from t version as of 'historical-snapshot';
=> 1
select count(*) from t.`branch_audit-branch`;
=> 1
select count(*) from t.`tag_historical-snapshot`;
=> 1

--- SELECT … FOR SYSTEM_TIME AS OF, FOR SYSTEM_VERSION AS OF
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t for system_version as of {id -2 of t};
=> 1
select count(*) from t for system_time as of '{time -2 of t}';
=> 1

--- SELECT … TIMESTAMP AS OF seconds
create table t (id int) using delta;
insert into t values (1);
select count(*) from t timestamp as of 4102444800;
=> 1
select count(*) from t for system_time as of 499162860;
!> VersionNotFound: t

--- iceberg: the schema of a snapshot, a branch and a tag
create table orders (id bigint, status string) using iceberg;
insert into orders values (1, 'NEW'), (2, 'PAID');
alter table orders create branch audit_branch;
alter table orders create tag first_load;
alter table orders add column total double;
insert into orders values (3, 'PAID', 100.0);
select * from orders version as of {id 0 of orders} order by id;
=> 1 | NEW
=> 2 | PAID
select * from orders version as of 'audit_branch' order by id;
=> 1 | NEW | NULL
=> 2 | PAID | NULL
select * from orders.tag_first_load order by id;
=> 1 | NEW
=> 2 | PAID

--- SELECT … FROM t.history
create table t (id int) using delta;
insert into t values (1);
select count(*) > 0, min(is_current_ancestor) from t.history;
=> true | true

--- iceberg: SELECT … FROM t.metadata_log_entries
create table t (id int) using iceberg;
insert into t values (1);
select count(*) from t.metadata_log_entries;
=> 2

--- SELECT … FROM t.snapshots
create table t (id int) using delta;
insert into t values (1);
select max(committed_at) <= current_timestamp() + interval 1 minute from t.snapshots;
=> true

--- SELECT … FROM t.history JOIN t.snapshots
create table t (id int) using delta;
insert into t values (1);
select count(*) = (select count(*) from t.snapshots) from t.history h join t.snapshots s on h.snapshot_id = s.snapshot_id;
=> true

--- iceberg: SELECT … FROM t.entries, t.all_entries
create table t (id int) using iceberg;
insert into t values (1);
insert into t values (2);
select count(*) from t.entries;
=> 2
select count(distinct data_file.file_path) from t.all_entries;
=> 2

--- SELECT … FROM t.files, t.data_files, t.delete_files
create table t (id int) using delta;
insert into t values (1), (2);
select content, lower(file_format), record_count from t.files;
=> 0 | parquet | 2
select count(*) from t.data_files;
=> 1
select count(*) from t.delete_files;
=> 0

--- iceberg: SELECT … FROM t.manifests, t.all_manifests
create table t (id int) using iceberg;
insert into t values (1);
select content, added_data_files_count, existing_data_files_count from t.manifests;
=> 0 | 1 | 0
select count(*) from t.all_manifests;
=> 1

--- SELECT … FROM t.partitions
create table t (id int, part int) using delta partitioned by (part);
insert into t values (1, 1), (2, 1), (3, 2);
select partition.part, record_count, file_count from t.partitions order by 1;
=> 1 | 2 | 1
=> 2 | 1 | 1

--- SELECT … FROM t.position_deletes
create table t (id int) using delta {deletion vectors};
insert into t select id from range(100);
delete from t where id = 7;
select count(*) from t.position_deletes;
=> 1

--- iceberg: SELECT … FROM t.all_data_files, t.all_delete_files, t.all_files
create table t (id int) using iceberg;
insert into t values (1);
insert overwrite t values (2);
select count(*) from t.files;
=> 1
select count(distinct file_path) from t.all_data_files;
=> 2
select count(*) from t.all_delete_files;
=> 0

--- SELECT … FROM t.refs
create table t (id int) using delta;
insert into t values (1);
select name, type from t.refs;
=> main | BRANCH

--- SELECT … FROM t.files VERSION AS OF, t.partitions TIMESTAMP AS OF
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t.files version as of {id -2 of t};
=> 1
select record_count from t.partitions timestamp as of '{time -2 of t}';
=> 1

--- iceberg: SELECT _file, _pos, _spec_id, _partition, _deleted
create table t (id int) using iceberg;
insert into t values (5);
select _file like '%.parquet', _pos, _spec_id, _deleted, id from t;
=> true | 0 | 0 | false | 5
select * from t;
=> 5
