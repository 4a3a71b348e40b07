# Databricks: statements of tables that open-source Delta Lake lacks
# https://docs.databricks.com/aws/en/sql/language-manual/

--- COPY INTO t FROM 'path' FILEFORMAT = format [FILES | PATTERN] [FORMAT_OPTIONS] [COPY_OPTIONS]
insert overwrite directory '{folder}/in' using csv options (header 'true') select id, 'a' as v from range(3);
create table t (id bigint, v string) using delta;
copy into t from '{folder}/in' fileformat = csv format_options ('header' = 'true', 'inferSchema' = 'true');
copy into t from '{folder}/in' fileformat = csv format_options ('header' = 'true', 'inferSchema' = 'true');
select count(*) from t;
=> 3
copy into t from (select id + 10 as id, v from '{folder}/in') fileformat = csv format_options ('header' = 'true', 'inferSchema' = 'true') copy_options ('force' = 'true');
select count(*) from t;
=> 6

--- CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [DEEP] CLONE s [VERSION AS OF …]
create table s (id int) using delta;
insert into s values (1);
insert into s values (2);
create table t deep clone s;
create table u clone s version as of {id -2 of s};
drop table s;
select (select count(*) from t), (select count(*) from u);
=> 2 | 1

--- CREATE TABLE [IF NOT EXISTS] t LIKE s
create table s (id int not null comment 'key', p int) using delta partitioned by (p);
create table t like s;
create table if not exists t like s;
insert into t values (1, 2);
select * from t;
=> 1 | 2
insert into t values (null, 2);
!> ConstraintViolated: id

--- delta: ALTER TABLE t SET LOCATION 'path'
create table t (id int) using delta location '{folder}/one';
create table u (id int) using delta location '{folder}/two';
insert into u values (2);
alter table t set location '{folder}/two';
select * from t;
=> 2

--- iceberg: rejected: ALTER TABLE t SET LOCATION 'path' in a warehouse folder
create table t (id int) using iceberg;
alter table t set location '{folder}/two';
!> PlanError: in a warehouse folder, its folder is its catalog

--- ALTER TABLE t DROP [IF EXISTS] PARTITION (column = value)
create table t (id int, day int) using delta partitioned by (day);
insert into t values (1, 1), (2, 2), (3, 3);
alter table t drop partition (day = 1), partition (day = 2);
alter table t drop if exists partition (day = 9);
select * from t;
=> 3 | 3

--- FSCK REPAIR TABLE t [DRY RUN]
create table t (id int) using delta;
insert into t values (1);
fsck repair table t dry run;
=> -
fsck repair table t;
=> -
select * from t;
=> 1

--- SHOW CREATE TABLE t
create table t (id int not null comment 'it''s') using delta;
show create table t;
~> NOT NULL COMMENT 'it\'s'

--- DESCRIBE TABLE EXTENDED | FORMATTED t
create table t (id int) using delta;
describe table extended t;
~> id | int
~> Provider
describe formatted t;
~> # Detailed Table Information

--- DESCRIBE t PARTITION (column = value)
create table t (id int, p int) using delta partitioned by (p);
insert into t values (1, 2);
describe extended t partition (p = 2);
~> 1 rows

--- SHOW COLUMNS IN t, SHOW TABLES, SHOW SCHEMAS, SHOW TABLE EXTENDED
create table t (id int, v string) using delta;
show columns in t;
=> id
=> v
show tables;
=> default | t | false

--- ANALYZE TABLE t COMPUTE STATISTICS [NOSCAN | FOR COLUMNS … | FOR ALL COLUMNS]
create table t (id int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
analyze table t compute statistics;
analyze table t compute statistics noscan;
analyze table t compute statistics for columns id;
analyze table t compute statistics for all columns;
select count(*) from t;
=> 2

--- delta: ANALYZE TABLE t COMPUTE DELTA STATISTICS
create table t (id int) using delta;
insert into t values (1);
analyze table t compute delta statistics;
select count(*) from t;
=> 1

--- REFRESH TABLE t, CACHE TABLE t, UNCACHE TABLE t
create table t (id int) using delta;
insert into t values (1);
cache table t;
insert into t values (2);
select count(*) from t;
=> 2
refresh table t;
uncache table t;
uncache table if exists t;
select count(*) from t;
=> 2

--- COMMENT ON TABLE t IS …, COMMENT ON COLUMN
create table t (id int) using delta;
comment on table t is 'text';
comment on column t.id is 'key';
describe t;
=> id | int | key

--- INSERT INTO t BY NAME, (columns), REPLACE USING, REPLACE ON
create table t (id int, v string) using delta;
insert into t by name select 'a' as v, 1 as id;
insert into t (v, id) values ('b', 2);
insert into t replace using (id) values (2, 'c');
select * from t order by id;
=> 1 | a
=> 2 | c

--- TRUNCATE TABLE t [PARTITION (column = value)]
create table t (id int, p int) using delta partitioned by (p);
insert into t values (1, 1), (2, 2);
truncate table t partition (p = 1);
select * from t;
=> 2 | 2
truncate table t;
select count(*) from t;
=> 0

--- CREATE FUNCTION f(parameters) RETURNS type RETURN expression
create function twice(x int) returns int return x * 2;
select twice(4);
=> 8

--- CREATE SCHEMA, DROP SCHEMA CASCADE, USE, DESCRIBE SCHEMA
create schema s;
use s;
use default;
drop schema s cascade;
create table t (id int) using delta;
select count(*) from t;
=> 0

--- rejected: CREATE TABLE t (column type PRIMARY KEY)
create table t (id int not null primary key) using delta;
!> UnsupportedStatement: Leave it out; NOT NULL and CHECK are enforced, and a MERGE keeps its keys unique

--- rejected: CREATE TABLE t (column variant)
create table t (v variant) using delta;
!> TypeMismatch: Cast it to a type that tables can store
