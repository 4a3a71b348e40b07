--- show partitions lists the partitions with rows, in the form of Spark, also a part of them
create table t (id int, day date, region string) using delta partitioned by (day, region);
show partitions t;
=> -
insert into t values (1, date'2024-01-01', 'eu'), (2, date'2024-01-01', null), (3, date'2024-01-02', 'a/b=c'), (4, date'2023-01-02', 'eu');
delete from t where id = 4;
show partitions t;
=> day=2024-01-01/region=eu
=> day=2024-01-01/region=null
=> day=2024-01-02/region=a%2Fb%3Dc
show partitions t partition (DAY = '2024-01-01');
=> day=2024-01-01/region=eu
=> day=2024-01-01/region=null
show partitions t partition (region = null, day = date'2024-01-01');
=> day=2024-01-01/region=null
show partitions t partition (region = 'us');
=> -
show partitions t partition (id = 1);
!> UnknownColumn: no column `id` in PARTITION
show partitions t partition (day);
!> Unparsable: needs a value for `day`
show partitions t partition (day = '2024-01-01', DAY = '2024-01-01');
!> PlanError: occurs twice
create table u (id int) using delta;
show partitions u;
!> TableError: u is not partitioned
show partitions nope;
!> TableNotFound: nope
create view v as select * from t;
show partitions v;
!> TableError: is a view

--- the partitions of transforms have the names of Iceberg's fields
create table t (id int, ts timestamp_ntz, s struct<x: int>) using iceberg partitioned by (months(ts), bucket(2, id) as shard, s.x);
insert into t values (1, timestamp_ntz'2024-01-01 10:00:00', named_struct('x', 1)), (1, null, named_struct('x', null));
show partitions t;
=> ts_month=2024-01/shard=0/s.x=1
=> ts_month=null/shard=0/s.x=null
show partitions t partition (ts_month = '2024-01', shard = 0, `s.x` = 1);
=> ts_month=2024-01/shard=0/s.x=1
alter table t add partition field truncate(5, id) as five;
insert into t values (7, timestamp_ntz'2024-03-01 10:00:00', named_struct('x', 2));
show partitions t partition (ts_month = '2024-03');
=> ts_month=2024-03/shard=1/s.x=2/five=5

--- describe of a partition has its counts
create table t (id int comment 'key', p int) using delta partitioned by (p) tblproperties ({mode});
insert into t select id, id % 2 from range(0, 10, 1, 1);
delete from t where id in (1, 2, 3);
describe t partition (p = 3);
!> TableError: t has no partition PARTITION (`p` = 3)
describe t partition (q = 3);
!> UnknownColumn: q
show table extended like 't' partition (p = 3);
!> TableError: has no partition
create table u (id int, a int, b int) using delta partitioned by (a, b);
insert into u values (0, 1, 2);
describe u partition (a = 1);
!> PlanError: lacks a value for b
describe u partition (a);
!> Unparsable: needs a value

--- describe of a column has its exact statistics, as far as metadata contain them
create table t (id int not null comment 'the key', v string, s struct<x: int>) using delta;
insert into t values (1, 'a', null), (5, null, null);
describe t ID;
=> col_name | id
=> data_type | int
=> comment | the key
desc formatted t id;
=> col_name | id
=> data_type | int
=> comment | the key
=> min | 1
=> max | 5
=> num_nulls | 0
=> distinct_count | NULL
=> avg_col_len | NULL
=> max_col_len | NULL
=> histogram | NULL
describe table extended t v;
=> col_name | v
=> data_type | string
=> comment | NULL
=> min | NULL
=> max | NULL
=> num_nulls | 1
=> distinct_count | NULL
=> avg_col_len | NULL
=> max_col_len | NULL
=> histogram | NULL
describe t nope;
!> UnknownColumn: no column `nope` in default.t
describe t s.x;
!> UnsupportedStatement: does not describe a field inside a column
describe t id id;
!> Unparsable: the end of the statement after the column
describe t as json;
!> UnsupportedStatement: AS JSON needs EXTENDED
create temporary view n as select 1 as one;
describe n one;
=> col_name | one
=> data_type | int
=> comment | NULL

--- show columns, properties and tables follow the grammar of Spark
create schema a;
create table a.t (id int, v string) using delta tblproperties ('team' = 'x');
show columns in t in a;
=> id
=> v
show columns from a.t;
=> id
=> v
show columns in t in nope;
!> SchemaNotFound: nope
show tblproperties a.t ('team');
=> team | x
show tblproperties a.t ('owner');
=> owner | Table does not have property: owner
show table;
!> Unparsable: Expected EXTENDED
show table a.t;
!> Unparsable: Expected EXTENDED
show create table a.t as serde;
!> UnsupportedStatement: AS SERDE
show create table a.nope;
!> TableNotFound: nope

--- delta: fields have no names, and tables have no write order
create table u (id int, v int) using delta partitioned by (id as i);
!> PlanError: Delta fields have no names. Omit AS
create table u (id int) using delta write ordered by id;
!> PlanError: a Delta table cannot store a write order

--- create table accepts the names of partition fields and the write order of Iceberg tables
create table t (id int, ts timestamp) using iceberg partitioned by (days(ts) as day, bucket(4, id)) write ordered by id desc;
insert into t values (1, timestamp'2024-01-01 00:00:00');
show partitions t;
=> day=2024-01-01/id_bucket=0
create table u (id int) using iceberg write ordered by nope;
!> UnknownColumn: nope
create table u (id int) using iceberg write ordered by id write unordered;
!> Unparsable: WRITE occurs twice
show tables;
=> default | t | false

--- analyze checks the names, and stores statistics only where the format has a place for them
create schema a;
create table t (id int, p int) using delta partitioned by (p);
insert into t values (1, 1), (2, 2);
analyze table t compute statistics;
analyze table t compute statistics noscan;
analyze table t partition (p) compute statistics;
analyze table t partition (p = 1) compute statistics noscan;
analyze tables compute statistics;
analyze tables in a compute statistics noscan;
analyze table t partition (p = 3) compute statistics;
!> TableError: no such partition
analyze table t partition (id) compute statistics;
!> UnknownColumn: id
analyze table t compute statistics for columns id, nope;
!> UnknownColumn: nope
analyze table t partition (p = 1) compute statistics for all columns;
!> UnsupportedStatement: FOR COLUMNS applies to the whole table
analyze table nope compute statistics;
!> TableNotFound: nope
analyze tables in nope compute statistics;
!> SchemaNotFound: nope
analyze table t;
!> Unparsable: Expected COMPUTE
analyze t compute statistics;
!> Unparsable: Expected TABLE or TABLES
select * from t order by id;
=> 1 | 1
=> 2 | 2

--- the number of distinct values is stored in Iceberg tables, for one version
create table t (id int, v string, s struct<a: int>) using iceberg;
analyze table t compute statistics for all columns;
insert into t select id, concat('v', id % 3), null from range(0, 10, 1, 1);
analyze table t compute statistics for columns ID, v;
desc extended t v;
=> col_name | v
=> data_type | string
=> comment | NULL
=> min | NULL
=> max | NULL
=> num_nulls | 0
=> distinct_count | 3
=> avg_col_len | NULL
=> max_col_len | NULL
=> histogram | NULL
analyze table t compute statistics for columns s;
!> TypeMismatch: The column s has the type struct<a:int>
insert into t values (11, 'new', null);
desc extended t v;
=> col_name | v
=> data_type | string
=> comment | NULL
=> min | NULL
=> max | NULL
=> num_nulls | 0
=> distinct_count | NULL
=> avg_col_len | NULL
=> max_col_len | NULL
=> histogram | NULL

--- delta: new statistics of files change no row, and exclude files
create table t (id int, p int, f double, s struct<t: timestamp>) using delta partitioned by (p) tblproperties ('delta.dataSkippingNumIndexedCols' = '0', 'rowmerge.write.mode' = 'merge-on-read');
insert into t select id, id % 2, id / 2, named_struct('t', timestamp'2024-01-01 00:00:00') from range(0, 100, 1, 1);
insert into t values (1000, 0, double('NaN'), null);
delete from t where id >= 90 and id < 99;
alter table t set tblproperties ('delta.dataSkippingNumIndexedCols' = '32');
analyze table t compute delta statistics;
select count(*), sum(id), max(id) from t;
=> 92 | 5104 | 1000
select lower, upper, nulls from (select readable_metrics.id.lower_bound as lower, readable_metrics.id.upper_bound as upper, readable_metrics.id.null_value_count as nulls from t.data_files) order by lower;
=> 0 | 88 | 0
=> 1 | 99 | 0
=> 1000 | 1000 | 0
select id from t where f > 1000000;
=> 1000
select count(*) from t where id = 99 and s.t = timestamp'2024-01-01 00:00:00';
=> 1
select operation from t.snapshots order by snapshot_id desc limit 1;
=> COMPUTE STATS
delete from t where p = 1;
select sum(id) from t;
=> 2980

--- new statistics of files are for Delta tables
create table t (id int) using iceberg;
analyze table t compute delta statistics;
!> PlanError: t is not a Delta table

--- cached rows are those of one version, and a later version is never hidden by them
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
cache table t;
select * from t where id > 1;
=> 2 | b
update t set v = 'c' where id = 2;
select * from t order by id;
=> 1 | a
=> 2 | c
refresh table t;
select * from t order by id;
=> 1 | a
=> 2 | c
create view w as select v, count(*) as n from t group by v;
cache lazy table w options ('storageLevel' 'DISK_ONLY');
select * from w where v = 'c';
=> c | 1
insert into t values (3, 'c');
select * from w where v = 'c';
=> c | 2
cache table q as select id * 2 as twice from t;
select sum(twice) from q where twice > 2;
=> 10
insert into t values (4, 'd');
select sum(twice) from q where twice > 2;
=> 18
uncache table q;
uncache table t;
uncache table t;
uncache table if exists nope;
uncache table nope;
!> TableNotFound: nope
cache table nope;
!> TableNotFound: nope
cache table q as select 1;
!> AlreadyExists: q
cache table t options ('storageLevel' 'NOWHERE');
!> ConfigurationError: NOWHERE
cache table t options ('level' 'DISK_ONLY');
!> UnsupportedStatement: no option level
cache t;
!> Unparsable: Expected TABLE
refresh table nope;
!> TableNotFound: nope
drop view w;
drop table t;
create table t (id int) using delta;
select * from t;
=> -
clear cache;
