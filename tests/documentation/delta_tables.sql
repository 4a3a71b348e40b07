# Delta Lake: batch reads and writes, constraints, columns
# https://docs.delta.io/delta-batch/

--- CREATE TABLE IF NOT EXISTS t
create table if not exists t (id int, birthDate timestamp, salary int) using delta;
create table if not exists t (other int) using delta;
describe t;
=> id | int | NULL
=> birthDate | timestamp | NULL
=> salary | int | NULL

--- CREATE OR REPLACE TABLE format.`path` (columns)
create or replace table `delta`.`{folder}/people` (id int, name string) using delta;
insert into `delta`.`{folder}/people` values (1, 'a');
select * from `delta`.`{folder}/people`;
=> 1 | a

--- CREATE TABLE t LOCATION … of an existing table
create table first (id int) using delta location '{folder}/people';
insert into first values (1);
create table second using delta location '{folder}/people';
select * from second;
=> 1

--- delta: CREATE TABLE t (column type GENERATED ALWAYS AS (expression))
create table t (id int, at timestamp, day date generated always as (cast(at as date))) using delta partitioned by (day);
insert into t (id, at) values (1, timestamp'2024-01-02 03:04:05');
select day from t where at > timestamp'2024-01-02 00:00:00';
=> 2024-01-02

--- delta: rejected: CREATE TABLE t (column bigint GENERATED ALWAYS AS IDENTITY)
create table t (id bigint generated always as identity, v int) using delta;
!> UnsupportedStatement: Generate keys in the query with row_number() or uuid()

--- CREATE TABLE t (column type DEFAULT value)
create table t (id int, v string default 'x') using delta {defaults};
insert into t (id) values (1);
insert into t values (2, default);
select * from t order by id;
=> 1 | x
=> 2 | x

--- ALTER TABLE t ALTER COLUMN column SET DEFAULT value, DROP DEFAULT
create table t (id int, v string) using delta {defaults};
alter table t alter column v set default 'y';
insert into t (id) values (1);
alter table t alter column v drop default;
insert into t (id) values (2);
select * from t order by id;
=> 1 | y
=> 2 | NULL

--- SET spark.databricks.delta.properties.defaults.appendOnly = true
set spark.databricks.delta.properties.defaults.appendOnly = true;
create table t (id int) using delta;
reset spark.databricks.delta.properties.defaults.appendOnly;
select count(*) from t;
=> 0

--- SELECT … FROM format.`path`
create table t (id int) using delta location '{folder}/t';
insert into t values (1);
select * from `delta`.`{folder}/t`;
=> 1

--- SELECT … TIMESTAMP AS OF expression
create table t (id int) using delta;
insert into t values (1);
select * from t timestamp as of current_timestamp() + interval 1 hour;
=> 1

--- delta: SELECT … FROM t@v1
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t@v1;
=> 1

--- INSERT OVERWRITE TABLE t SELECT
create table t (id int) using delta;
insert into t values (1);
insert overwrite table t select 2;
select * from t;
=> 2

--- INSERT INTO TABLE t REPLACE WHERE condition SELECT
create table t (id int, day int) using delta;
insert into t values (1, 1), (2, 2);
insert into table t replace where day >= 2 select 3, 2;
select * from t order by id;
=> 1 | 1
=> 3 | 2
insert into table t replace where day >= 2 select 3, 1;
!> ConstraintViolated: day

--- SET spark.databricks.delta.write.txnAppId, txnVersion
create table t (id int) using delta;
set spark.databricks.delta.write.txnAppId = app;
set spark.databricks.delta.write.txnVersion = 1;
insert into t values (1);
insert into t values (1);
reset spark.databricks.delta.write.txnAppId;
reset spark.databricks.delta.write.txnVersion;
select count(*) from t;
=> 1

--- SET spark.databricks.delta.commitInfo.userMetadata = text
create table t (id int) using delta;
set spark.databricks.delta.commitInfo.userMetadata = fix;
insert overwrite t select 1;
reset spark.databricks.delta.commitInfo.userMetadata;
select * from t;
=> 1

--- ALTER TABLE t ADD COLUMNS (column.field type COMMENT … FIRST | AFTER …)
create table t (id int, s struct<a: int>) using delta;
alter table t add columns (s.b int comment 'text' first);
insert into t values (1, named_struct('b', 2, 'a', 3));
select s.b from t;
=> 2

--- ALTER TABLE t CHANGE COLUMN column column type COMMENT …
create table t (id int, v string) using delta;
alter table t change column v v string comment 'text' first;
describe t;
=> v | string | text
=> id | int | NULL

--- ALTER TABLE t REPLACE COLUMNS (columns)
create table t (colA string, colB struct<field1: string, nested: string, field2: string>, colC string) using delta;
alter table t replace columns (colC string, colB struct<field2: string, nested: string, field1: string>, colA string);
select count(*) from t;
=> 0

--- ALTER TABLE t DROP COLUMNS (columns)
create table t (a int, b int, c int) using delta {column mapping};
insert into t values (1, 2, 3);
alter table t drop columns (a, b);
select * from t;
=> 3

--- INSERT WITH SCHEMA EVOLUTION INTO t SELECT
create table t (id int) using delta;
insert with schema evolution into t select 1 as id, 2 as extra;
select * from t;
=> 1 | 2

--- SET spark.databricks.delta.schema.autoMerge.enabled = true
create table t (id int) using delta;
set spark.databricks.delta.schema.autoMerge.enabled = true;
insert into t select 1 as id, 2 as extra;
reset spark.databricks.delta.schema.autoMerge.enabled;
select * from t;
=> 1 | 2

--- SHOW TBLPROPERTIES t
create table t (a int) using delta;
alter table t set tblproperties ('department' = 'accounting');
show tblproperties t ('department');
=> department | accounting

--- delta: ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')
create table t (a int) using delta;
insert into t values (1);
alter table t set tblproperties ('delta.appendOnly' = 'true');
delete from t;
!> TableError: appendOnly

--- delta: ALTER TABLE t ADD CONSTRAINT name CHECK (condition), DROP CONSTRAINT name
create table t (id int, birthDate timestamp) using delta;
alter table t add constraint dateWithinRange check (birthDate > '1900-01-01');
insert into t values (1, timestamp'1800-01-01 00:00:00');
!> ConstraintViolated: CHECK (birthDate
alter table t drop constraint dateWithinRange;
insert into t values (1, timestamp'1800-01-01 00:00:00');
select count(*) from t;
=> 1

--- delta: ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')
create table t (a int) using delta;
insert into t values (1);
alter table t set tblproperties ('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5', 'delta.columnMapping.mode' = 'name');
alter table t rename column a to b;
select b from t;
=> 1

--- delta: ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'enabled')
create table t (a int) using delta;
alter table t set tblproperties ('delta.feature.allowColumnDefaults' = 'enabled');
alter table t alter column a set default 5;
insert into t values (default);
select * from t;
=> 5

--- delta: table_changes('t', start, end)
create table t (id int) using delta tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1);
update t set id = 2;
select id, _change_type, _commit_version from table_changes('t', 1, 2) order by _commit_version, id;
=> 1 | insert | 1
=> 1 | update_preimage | 2
=> 2 | update_postimage | 2

--- delta: table_changes_by_path('path', start)
create table t (id int) using delta tblproperties ('delta.enableChangeDataFeed' = 'true') location '{folder}/t';
insert into t values (1);
select id, _change_type from table_changes_by_path('{folder}/t', 1);
=> 1 | insert

--- delta: SELECT _metadata.row_id, _metadata.row_commit_version
create table t (id int) using delta tblproperties ('delta.enableRowTracking' = 'true');
insert into t values (5);
select _metadata.row_id, _metadata.row_commit_version, * from t;
=> 0 | 1 | 5

--- SELECT _metadata.file_path, file_name, file_size, row_index
create table t (id int) using delta;
insert into t values (5);
select _metadata.file_path like '%parquet', _metadata.file_name like '%parquet', _metadata.file_size > 100, _metadata.row_index, * from t;
=> true | true | true | 0 | 5

--- delta: rejected: ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')
create table t (id int) using delta;
insert into t values (5);
alter table t set tblproperties ('delta.enableRowTracking' = 'true');
!> UnsupportedTableFeature: Set delta.enableRowTracking when a table is created, or replace the table with CREATE OR REPLACE TABLE

--- delta: rejected: CREATE TABLE t … TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'iceberg')
create table t (c1 int) using delta tblproperties ('delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg');
!> ConfigurationError: Create an Iceberg table instead

--- delta: rejected: CREATE TABLE t … TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')
create table t (c1 int) using delta tblproperties ('delta.feature.catalogManaged' = 'supported');
!> UnsupportedTableFeature: Remove the table property delta.feature.catalogManaged

--- delta: ALTER TABLE t SET TBLPROPERTIES ('delta.minReaderVersion' = …)
create table t (c1 int) using delta;
alter table t set tblproperties ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '3');
select count(*) from t;
=> 0
