# Delta Lake: updates, deletes, merges and maintenance
# https://docs.delta.io/delta-update/

--- DELETE FROM t, format.`path`
create table t (id int, birthDate date) using delta location '{folder}/t';
insert into t values (1, date'1950-01-01'), (2, date'1990-01-01'), (3, date'1992-01-01');
delete from t where birthDate < '1955-01-01';
delete from `delta`.`{folder}/t` where birthDate < '1991-01-01';
select id from t;
=> 3

--- UPDATE t, format.`path`
create table t (id int, gender string) using delta location '{folder}/t';
insert into t values (1, 'F'), (2, 'M');
update t set gender = 'Female' where gender = 'F';
update `delta`.`{folder}/t` set gender = 'Male' where gender = 'M';
select * from t order by id;
=> 1 | Female
=> 2 | Male

--- MERGE INTO t USING updates … WHEN NOT MATCHED BY SOURCE [AND …] THEN UPDATE, DELETE
create table t (key int, lastSeen date, status string) using delta;
insert into t values (1, date'2024-01-01', 'active'), (2, current_date(), 'active');
merge into t using (values (3, date'2024-02-02')) source (key, seen) on source.key = t.key
when matched then update set t.lastSeen = source.seen
when not matched then insert (key, lastSeen, status) values (source.key, source.seen, 'active')
when not matched by source and t.lastSeen >= (current_date() - interval '5' day) then update set t.status = 'inactive'
when not matched by source then delete;
select key, status from t order by key;
=> 2 | inactive
=> 3 | active

--- MERGE INTO format.`path` USING temporary view
create table `delta`.`{folder}/t` using delta as select cast(id as int) as id from range(3);
create temp view newData as select col1 as id from values (1), (9);
merge into `delta`.`{folder}/t` as oldData using newData on oldData.id = newData.id when matched then update set id = newData.id when not matched then insert (id) values (newData.id);
select count(*) from `delta`.`{folder}/t`;
=> 4

--- delta: ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)
create table t (id int) using delta;
alter table t set tblproperties ('delta.enableDeletionVectors' = true);
insert into t select id from range(100);
delete from t where id = 5;
select count(*) from t;
=> 99

--- REORG TABLE t [WHERE …] APPLY (PURGE)
create table t (id int, date date) using delta partitioned by (date);
insert into t values (1, date'2024-01-01'), (2, date'2024-01-01');
delete from t where id = 1;
reorg table t apply (purge);
reorg table t where date >= '2022-01-01' apply (purge);
select count(*) from t;
=> 1

--- VACUUM t, '/path', format.`path` [RETAIN n HOURS] [DRY RUN]
create table t (id int) using delta location '{folder}/t';
insert into t values (1);
insert overwrite t values (2);
vacuum t;
vacuum '{folder}/t';
vacuum `delta`.`{folder}/t` retain 200 hours;
vacuum t dry run;
select * from t;
=> 2

--- VACUUM t LITE
create table t (id int) using delta;
insert into t values (1);
insert overwrite t values (2);
vacuum t lite;
select * from t;
=> 2

--- VACUUM t USING INVENTORY table | (query)
create table t (id int) using delta;
insert into t values (1);
create table files (path string, length bigint, isDir boolean, modificationTime bigint) using delta;
vacuum t using inventory files;
vacuum t using inventory (select * from files);
select * from t;
=> 1

--- DESCRIBE HISTORY t, '/path', format.`path` [LIMIT n]
create table t (id int) using delta location '{folder}/t';
insert into t values (1);
describe history t;
~> WRITE
describe history '{folder}/t' limit 1;
~> WRITE
describe history `delta`.`{folder}/t`;
~> WRITE

--- SHOW PARTITIONS t, format.`path` [PARTITION (column = value)]
create table t (id int, date date) using delta partitioned by (date) location '{folder}/t';
insert into t values (1, date'2024-01-01'), (2, date'2024-01-02');
show partitions t;
=> date=2024-01-01
=> date=2024-01-02
show partitions t partition (date = '2024-01-01');
=> date=2024-01-01
show partitions `delta`.`{folder}/t`;
=> date=2024-01-01
=> date=2024-01-02

--- DESCRIBE DETAIL t, '/path'
create table t (id int) using delta location '{folder}/t';
describe detail t;
~> {folder}/t
describe detail '{folder}/t';
~> {folder}/t

--- delta: GENERATE symlink_format_manifest FOR TABLE format.`path`
create table t (id int) using delta location '{folder}/t';
insert into t values (1);
generate symlink_format_manifest for table delta.`{folder}/t`;
select * from t;
=> 1

--- delta: CONVERT TO DELTA parquet.`path` [NO STATISTICS]
insert overwrite directory '{folder}/plain' using parquet select id, 'a' as v from range(3);
convert to delta parquet.`{folder}/plain`;
insert overwrite directory '{folder}/other' using parquet select id from range(2);
convert to delta parquet.`{folder}/other` no statistics;
select count(*) from delta.`{folder}/plain`;
=> 3
select count(*) from delta.`{folder}/other`;
=> 2

--- delta: CONVERT TO DELTA parquet.`path` [NO STATISTICS] PARTITIONED BY (columns)
insert overwrite directory '{folder}/p/part=1/part2=2' using parquet select id from range(3);
convert to delta parquet.`{folder}/p` partitioned by (part int, part2 int);
select part, part2, count(*) from delta.`{folder}/p` group by all;
=> 1 | 2 | 3

--- delta: CONVERT TO DELTA iceberg.`path` [NO STATISTICS]
create table i (id bigint) using iceberg location '{folder}/i';
insert into i select id from range(4);
convert to delta iceberg.`{folder}/i`;
select count(*) from delta.`{folder}/i`;
=> 4

--- RESTORE TABLE t TO VERSION AS OF version
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
restore table t to version as of {id -2 of t};
select * from t;
=> 1

--- RESTORE TABLE t TO TIMESTAMP AS OF time
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
restore table t to timestamp as of '{time -2 of t}';
select * from t;
=> 1

--- CREATE TABLE [OR REPLACE] [IF NOT EXISTS] t SHALLOW CLONE s [VERSION | TIMESTAMP AS OF …]
create table s (id int) using delta;
insert into s values (1);
insert into s values (2);
create table t shallow clone s;
create table if not exists t shallow clone s;
create table u shallow clone s version as of {id -2 of s};
create table w shallow clone s timestamp as of '{time -2 of s}';
select (select count(*) from t), (select count(*) from u), (select count(*) from w);
=> 2 | 1 | 1

--- delta: CREATE OR REPLACE TABLE t SHALLOW CLONE s TBLPROPERTIES … LOCATION …
create table s (id int) using delta;
insert into s values (1);
create or replace table t shallow clone s tblproperties (delta.logRetentionDuration = '3650 days', delta.deletedFileRetentionDuration = '3650 days') location '{folder}/archive';
create or replace table t shallow clone s tblproperties (delta.logRetentionDuration = '3650 days', delta.deletedFileRetentionDuration = '3650 days') location '{folder}/archive';
select * from t;
=> 1

--- delta: CREATE OR REPLACE TABLE t SHALLOW CLONE parquet.`path`, iceberg.`path`
insert overwrite directory '{folder}/plain' using parquet select id from range(3);
create or replace table t shallow clone parquet.`{folder}/plain`;
select count(*) from t;
=> 3
create table i (id bigint) using iceberg location '{folder}/i';
insert into i select id from range(4);
create or replace table t2 shallow clone iceberg.`{folder}/i`;
select count(*) from t2;
=> 4

--- OPTIMIZE t, '/path', format.`path` [WHERE …]
create table t (id int, date date) using delta partitioned by (date) location '{folder}/t';
insert into t values (1, date'2024-01-01');
insert into t values (2, date'2024-01-01');
optimize t where date >= '2017-01-01';
optimize '{folder}/t';
optimize `delta`.`{folder}/t`;
select count(*) from t.files;
=> 1

--- rejected: OPTIMIZE t [WHERE …] ZORDER BY (columns)
create table t (id int) using delta;
optimize t zorder by (id);
!> UnsupportedStatement: Leave ZORDER BY out, or write the table sorted: INSERT … ORDER BY

--- rejected: CREATE TABLE t … CLUSTER BY (columns), ALTER TABLE t CLUSTER BY
create table t (id int) using delta cluster by (id);
!> UnsupportedStatement: Leave it out, or use PARTITIONED BY

--- delta: ALTER TABLE t DROP FEATURE name [TRUNCATE HISTORY]
create table t (id int) using delta tblproperties ('delta.enableDeletionVectors' = 'true');
insert into t select id from range(100);
delete from t where id = 5;
alter table t drop feature deletionVectors;
select count(*) from t;
=> 99

--- delta: ALTER TABLE t DROP FEATURE 'typeWidening'
create table t (id int) using delta tblproperties ('delta.enableTypeWidening' = 'true');
insert into t values (1);
alter table t alter column id type bigint;
alter table t set tblproperties ('delta.enableTypeWidening' = 'false');
alter table t drop feature 'typeWidening';
select * from t;
=> 1
