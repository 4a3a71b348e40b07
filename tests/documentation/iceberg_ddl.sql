# Iceberg: DDL
# https://iceberg.apache.org/docs/latest/spark-ddl/

--- CREATE TABLE t (columns with NOT NULL and COMMENT)
create table t (id bigint not null comment 'unique id', data string) using delta;
insert into t values (1, 'a');
select * from t;
=> 1 | a
insert into t values (null, 'a');
!> ConstraintViolated: id

--- CREATE TABLE t … PARTITIONED BY (column)
create table t (id bigint, data string, category string) using delta partitioned by (category);
insert into t values (1, 'a', 'x'), (2, 'b', 'y');
select distinct category from t order by 1;
=> x
=> y

--- iceberg: CREATE TABLE t … PARTITIONED BY (bucket(n, column), truncate, years, months, days, hours, column)
create table t (id bigint, data string, category string, ts timestamp) using iceberg partitioned by (bucket(16, id), days(ts), truncate(2, data), category);
insert into t values (1, 'abc', 'x', timestamp'2024-01-02 03:04:05');
select id, data from t where ts >= timestamp'2024-01-02 00:00:00';
=> 1 | abc

--- CREATE TABLE t … COMMENT … LOCATION …
create table t (id bigint) using delta comment 'text' location '{folder}/elsewhere';
insert into t values (1);
select * from t;
=> 1

--- CREATE TABLE t … AS SELECT
create table t using delta as select id from range(3);
select sum(id) from t;
=> 3

--- CREATE TABLE t … PARTITIONED BY … TBLPROPERTIES … AS SELECT
create table t using delta partitioned by (part) tblproperties ('key' = 'value') as select id, id % 2 as part from range(4);
select part, count(*) from t group by part order by part;
=> 0 | 2
=> 1 | 2
show tblproperties t ('key');
=> key | value

--- REPLACE TABLE t … AS SELECT
create table t (a int) using delta;
replace table t using delta as select 1 as b;
select b from t;
=> 1

--- CREATE OR REPLACE TABLE t … AS SELECT
create or replace table t using delta as select 1 as a;
create or replace table t using delta as select 2 as b;
select b from t;
=> 2
select a from t version as of {id 0 of t};
=> 1

--- DROP TABLE t
create table t (a int) using delta;
drop table t;
select * from t;
!> TableNotFound: t

--- DROP TABLE t PURGE
create table t (a int) using delta;
drop table t purge;
select * from t;
!> TableNotFound: t

--- ALTER TABLE t RENAME TO new_name
create table t (a int) using delta;
insert into t values (1);
alter table t rename to new_name;
select * from new_name;
=> 1
select * from t;
!> TableNotFound: t

--- ALTER TABLE t SET TBLPROPERTIES, UNSET TBLPROPERTIES
create table t (a int) using delta;
alter table t set tblproperties ('owner' = 'ada');
show tblproperties t ('owner');
=> owner | ada
alter table t unset tblproperties ('owner');
alter table t unset tblproperties if exists ('owner');
select count(*) from t;
=> 0

--- ALTER TABLE t SET TBLPROPERTIES ('comment' = …)
create table t (a int) using delta;
alter table t set tblproperties ('comment' = 'A table comment.');
select count(*) from t;
=> 0

--- ALTER TABLE t ADD COLUMNS (column type COMMENT …)
create table t (a int) using delta;
insert into t values (1);
alter table t add columns (b string comment 'new');
select * from t;
=> 1 | NULL

--- ALTER TABLE t ADD COLUMN struct.field type
create table t (id int) using delta;
alter table t add column point struct<x: double, y: double>;
alter table t add column point.z double;
insert into t values (1, named_struct('x', 1d, 'y', 2d, 'z', 3d));
select point.z from t;
=> 3.0

--- ALTER TABLE t ADD COLUMN array.element.field type
create table t (points array<struct<x: double, y: double>>) using delta;
alter table t add column points.element.z double;
insert into t values (array(named_struct('x', 1d, 'y', 2d, 'z', 3d)));
select points[0].z from t;
=> 3.0

--- ALTER TABLE t ADD COLUMN map.value.field type
create table t (points map<string, struct<a: int>>) using delta;
alter table t add column points.value.b int;
insert into t values (map('k', named_struct('a', 1, 'b', 2)));
select points['k'].b from t;
=> 2

--- ALTER TABLE t ADD COLUMN column type AFTER column, FIRST
create table t (a int, b int) using delta;
alter table t add column c int after a;
alter table t add column d int first;
insert into t values (1, 2, 3, 4);
select d, a, c, b from t;
=> 1 | 2 | 3 | 4

--- ALTER TABLE t RENAME COLUMN column TO name, struct.field TO name
create table t (data int, location struct<lat: int>) using delta {column mapping};
insert into t values (1, named_struct('lat', 2));
alter table t rename column data to payload;
alter table t rename column location.lat to latitude;
select payload, location.latitude from t;
=> 1 | 2

--- ALTER TABLE t ALTER COLUMN column TYPE type
create table t (measurement int) using delta {type widening};
insert into t values (1);
alter table t alter column measurement type bigint;
insert into t values (5000000000);
select sum(measurement) from t;
=> 5000000001

--- ALTER TABLE t ALTER COLUMN column COMMENT …
create table t (measurement int) using delta;
alter table t alter column measurement comment 'unit is bytes per second';
describe t;
=> measurement | int | unit is bytes per second

--- ALTER TABLE t ALTER COLUMN column FIRST, AFTER column
create table t (a int, s struct<x: int, y: int>, b int) using delta;
alter table t alter column b first;
alter table t alter column s.y first;
insert into t values (1, 2, named_struct('y', 3, 'x', 4));
select b, a, s.y from t;
=> 1 | 2 | 3

--- ALTER TABLE t ALTER COLUMN column DROP NOT NULL
create table t (id int not null) using delta;
alter table t alter column id drop not null;
insert into t values (null);
select count(*) from t;
=> 1

--- ALTER TABLE t DROP COLUMN column, struct.field
create table t (id int, point struct<x: int, z: int>, c int) using delta {column mapping};
insert into t values (1, named_struct('x', 2, 'z', 3), 4);
alter table t drop column c;
alter table t drop column point.z;
select id, point.x from t;
=> 1 | 2

--- iceberg: ALTER TABLE t ADD PARTITION FIELD transform [AS name]
create table t (id bigint, data string, ts timestamp, category string) using iceberg;
alter table t add partition field category;
alter table t add partition field truncate(4, data);
alter table t add partition field year(ts);
alter table t add partition field bucket(16, id) as shard;
insert into t values (1, 'abcdef', timestamp'2024-01-02 03:04:05', 'x');
select id from t where category = 'x';
=> 1

--- iceberg: ALTER TABLE t DROP PARTITION FIELD transform
create table t (id bigint, ts timestamp, category string) using iceberg partitioned by (category, bucket(16, id), years(ts));
alter table t drop partition field category;
alter table t drop partition field bucket(16, id);
alter table t drop partition field year(ts);
insert into t values (1, timestamp'2024-01-02 03:04:05', 'x');
select count(*) from t.partitions;
=> 1

--- iceberg: ALTER TABLE t REPLACE PARTITION FIELD name WITH transform [AS name]
create table t (ts timestamp) using iceberg partitioned by (days(ts));
alter table t replace partition field ts_day with hours(ts);
alter table t replace partition field ts_hour with day(ts) as day_of_ts;
insert into t values (timestamp'2024-01-02 03:04:05');
select partition.day_of_ts from t.partitions;
=> 2024-01-02

--- iceberg: ALTER TABLE t WRITE ORDERED BY columns
create table t (category string, id int) using iceberg;
alter table t write ordered by category asc nulls last, id desc nulls first;
insert into t values ('b', 1), ('a', 1), ('a', 2);
select category, id from t;
=> a | 2
=> a | 1
=> b | 1

--- iceberg: ALTER TABLE t WRITE LOCALLY ORDERED BY columns, WRITE UNORDERED
create table t (category string, id int) using iceberg;
alter table t write locally ordered by category, id;
alter table t write unordered;
select count(*) from t;
=> 0

--- iceberg: ALTER TABLE t WRITE DISTRIBUTED BY PARTITION [LOCALLY ORDERED BY columns]
create table t (category string, id int) using iceberg partitioned by (category);
alter table t write distributed by partition;
alter table t write distributed by partition locally ordered by category, id;
insert into t select 'c', id from range(10);
select count(*) from t.files;
=> 1

--- iceberg: ALTER TABLE t SET IDENTIFIER FIELDS columns, DROP IDENTIFIER FIELDS columns
create table t (id bigint not null, data string not null) using iceberg;
alter table t set identifier fields id, data;
alter table t drop identifier fields data;
alter table t alter column id drop not null;
!> PlanError: id

--- iceberg: ALTER TABLE t CREATE [OR REPLACE] BRANCH [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN …] [WITH SNAPSHOT RETENTION …]
create table t (a int) using iceberg;
insert into t values (1);
alter table t create branch `audit-branch`;
alter table t create branch if not exists `audit-branch`;
alter table t create or replace branch `audit-branch`;
alter table t create branch b2 as of version {id 0 of t} retain 30 days with snapshot retention 3 snapshots 2 days;
alter table t replace branch b2 as of version {id 0 of t} retain 60 days;
select name, type, max_reference_age_in_ms from t.refs order by name;
=> audit-branch | BRANCH | NULL
=> b2 | BRANCH | 5184000000
=> main | BRANCH | NULL
alter table t drop branch b2;
select count(*) from t.refs;
=> 2

--- iceberg: ALTER TABLE t CREATE [OR REPLACE] TAG [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN …]
create table t (a int) using iceberg;
insert into t values (1);
alter table t create tag `historical-tag`;
alter table t create tag if not exists `historical-tag`;
alter table t create or replace tag `historical-tag`;
alter table t replace tag `historical-tag` as of version {id 0 of t} retain 365 days;
insert into t values (2);
select * from t version as of 'historical-tag';
=> 1
alter table t drop tag `historical-tag`;
select * from t version as of 'historical-tag';
!> VersionNotFound: historical-tag

--- CREATE VIEW [IF NOT EXISTS] v AS SELECT
create table t (a int) using delta;
create view v as select * from t;
create view if not exists v as select 1 as b;
insert into t values (1);
select * from v;
=> 1

--- CREATE VIEW v (columns with COMMENT) COMMENT … AS SELECT
create table t (id int, zip int) using delta;
create view v (ID comment 'Unique ID', ZIP comment 'Zipcode') comment 'View Comment' as select id, zip from t;
describe v;
=> ID | int | Unique ID
=> ZIP | int | Zipcode

--- CREATE VIEW v TBLPROPERTIES … AS SELECT, SHOW TBLPROPERTIES v
create table t (id int) using delta;
create view v tblproperties ('key1' = 'val1', 'key2' = 'val2') as select * from t;
show tblproperties v ('key1');
=> key1 | val1

--- DROP VIEW [IF EXISTS] v
create view v as select 1 as a;
drop view v;
drop view if exists v;
select * from v;
!> TableNotFound: v

--- CREATE OR REPLACE VIEW v
create view v as select 1 as a;
create or replace view v (b comment 'updated') tblproperties ('key1' = 'new') as select 2;
select b from v;
=> 2

--- ALTER VIEW v SET TBLPROPERTIES, UNSET TBLPROPERTIES
create view v as select 1 as a;
alter view v set tblproperties ('key1' = 'val1', 'key2' = 'val2');
alter view v unset tblproperties ('key2');
show tblproperties v ('key1');
=> key1 | val1

--- SHOW VIEWS [IN schema]
create view v as select 1 as a;
show views;
=> default | v | false
show views in default;
=> default | v | false

--- SHOW CREATE TABLE v, DESCRIBE [EXTENDED] v
create view v as select 1 as a;
describe v;
=> a | int | NULL
