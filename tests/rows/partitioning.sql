--- rows of a table with partition transforms are changed
create table t (id bigint, s struct<a: string>, ts timestamp) using iceberg partitioned by (bucket(4, id), truncate(1, s.a), days(ts)) tblproperties ({mode});
insert into t values (1, named_struct('a', 'xy'), timestamp '1969-12-31 23:00:00'), (2, null, null), (null, named_struct('a', ''), timestamp '2024-02-29 12:00:00');
merge into t using (values (1, 'n'), (3, 'n')) v (id, a) on t.id = v.id when matched then update set s = named_struct('a', v.a) when not matched then insert (id) values (v.id);
=> 2 | 1 | 0 | 1
delete from t where ts > timestamp '2020-01-01';
=> 1
select id, s.a, ts from t order by id;
=> 1 | n | 1969-12-31 23:00:00
=> 2 | NULL | NULL
=> 3 | NULL | NULL

--- identity partition fields are described as columns
create table t (id int comment 'key', s struct<a: int comment 'in'>) using iceberg partitioned by (id, s.a);
describe t;
=> id | int | key
=> s | struct<a:int> | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> id | int | key
=> s.a | int | in

--- an empty string and NULL are two partitions of an iceberg table
create table t (id int, p string) using iceberg partitioned by (p);
insert into t values (1, ''), (2, null), (3, 'x');
truncate table t partition (p = '');
select * from t order by id;
=> 2 | NULL
=> 3 | x
insert overwrite t partition (p = null) values (4);
select * from t order by id;
=> 3 | x
=> 4 | NULL

--- partition fields are added and dropped, and rows of all files are changed
create table t (id int, day date) using iceberg tblproperties ({mode});
insert into t select cast(id as int), date_add(date '2024-01-30', cast(id as int)) from range(4);
alter table t add partition field months(day);
insert into t select cast(id as int), date_add(date '2024-01-30', cast(id as int)) from range(4, 8);
alter table t replace partition field day_month with bucket(2, id) as shard;
update t set id = id * 10 where id % 2 = 1;
=> 4
delete from t where day = date '2024-01-30';
=> 1
select count(*), sum(id), min(day) from t;
=> 7 | 172 | 2024-01-31
alter table t drop partition field shard;
describe t;
=> id | int | NULL
=> day | date | NULL
alter table t drop partition field shard;
!> PlanError: default.t has no partition field shard. It is not partitioned.

--- invalid arguments of transforms are rejected
create table t (id double, b boolean) using iceberg partitioned by (bucket(4, id));
!> PlanError: bucket does not support the type double
create table t (id double, b boolean) using iceberg partitioned by (days(b));
!> PlanError: day does not support the type boolean
create table t (ts timestamp) using iceberg partitioned by (years(ts), hours(ts));
!> PlanError: years(ts) and hours(ts): one of them already divides the rows
create table t (id int) using iceberg partitioned by (bucket(4, nope));
!> UnknownColumn: nope

--- a partition or sort column cannot be dropped
create table t (id int, v int, w int) using iceberg partitioned by (bucket(2, id));
alter table t write ordered by v;
alter table t drop column id;
!> PlanError: First remove it
alter table t drop column v;
!> PlanError: First remove it
alter table t write unordered;
alter table t drop column v;
insert into t values (1, 2);
select * from t;
=> 1 | 2

--- a codec that some readers lack is rejected
create table t (id int) using iceberg tblproperties ('write.parquet.compression-codec' = 'brotli');
!> ConfigurationError: Set it to one of zstd, snappy, gzip, lz4 and uncompressed
create table t (id int) using iceberg tblproperties ('write.parquet.compression-codec' = 'snappy');
insert into t values (1);
select * from t;
=> 1
