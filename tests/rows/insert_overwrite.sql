--- delta: an overwritten table has only the new rows, and the old ones are in its history
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
delete from t where id = 1;
insert overwrite table t select 3, 'c' union all select 4, 'd';
=> 2 | 2
select * from t order by id;
=> 3 | c
=> 4 | d
select * from t version as of 2;
=> 2 | b

--- overwriting with no rows empties the table
create table t (id int) using delta;
insert into t values (1);
insert overwrite t select 1 where false;
=> 0 | 0
select * from t;
=> -

--- insert overwrite accepts a column list and by name
create table t (id int, v string) using delta;
insert into t values (1, 'a');
insert overwrite t (v) values ('b');
select * from t;
=> NULL | b
insert overwrite t by name select 'c' as V, 2 as ID;
select * from t;
=> 2 | c

--- a table can be overwritten from itself
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
delete from t where id = 2;
insert overwrite t select id * 10, upper(v) from t where id > 0;
=> 2 | 2
select * from t order by id;
=> 10 | A
=> 30 | C
insert overwrite t select * from t where id > 100;
select * from t;
=> -

--- without a value for a partition the whole partitioned table is overwritten
create table t (id int, p string) using delta partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
insert overwrite t values (3, 'a');
select * from t;
=> 3 | a
insert into t values (4, 'b');
insert overwrite t partition (p) values (5, 'a');
select * from t;
=> 5 | a

--- a value for one of two partition columns overwrites all partitions with that value
create table t (id int, p string, d date) using delta partitioned by (p, d);
insert into t values (1, 'a', date '2024-01-01'), (2, 'a', date '2024-01-02'), (3, 'b', date '2024-01-01'), (4, null, null);
insert overwrite t partition (p = 'a', d) values (9, date '2024-01-05');
select * from t order by id;
=> 3 | b | 2024-01-01
=> 4 | NULL | NULL
=> 9 | a | 2024-01-05
insert overwrite t partition (d = '2024-01-01') values (10, 'c');
select * from t order by id;
=> 4 | NULL | NULL
=> 9 | a | 2024-01-05
=> 10 | c | 2024-01-01

--- a static partition without new rows is emptied
create table t (id int, p string) using delta partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
insert overwrite t partition (p = 'a') select 1 where false;
select * from t;
=> 2 | b

--- a static partition can be overwritten from the table itself
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'a');
insert overwrite t partition (p = 'a') select id + 10 from t;
select * from t order by id;
=> 2 | b
=> 11 | a
=> 12 | a
=> 13 | a

--- a static partition's value is cast to its column, whatever its type
create table t (id int, d date, n int, b boolean, dec decimal(5,2)) using delta partitioned by (d, n, b, dec);
insert into t values (1, date '2024-01-01', 5, true, 1.5), (2, date '2024-01-01', 6, true, 1.5);
insert overwrite t partition (d = '2024-01-01', n = '5', b = 'true', dec = '1.50') values (3);
select id, d, n from t order by id;
=> 2 | 2024-01-01 | 6
=> 3 | 2024-01-01 | 5
insert overwrite t partition (d = '2024-01-41', n = 5, b = true, dec = 1.5) values (3);
!> TypeMismatch: 2024-01-41
insert into t partition (d = date '2024-02-01', n = 1 + 1, b = false, dec = 0) values (4);
select d, n, b, dec from t where id = 4;
=> 2024-02-01 | 2 | false | 0.00

--- delta: a static partition can be null, and an empty string means null
create table t (id int, p string) using delta partitioned by (p);
insert into t values (1, null), (2, 'b');
insert overwrite t partition (p = null) values (3);
select * from t order by id;
=> 2 | b
=> 3 | NULL
insert overwrite t partition (p = '') values (4);
select * from t order by id;
=> 2 | b
=> 4 | NULL

--- a timestamp of a static partition is in the session's time zone
create table t (id int, ts timestamp) using delta partitioned by (ts);
set spark.sql.session.timeZone = America/New_York;
insert into t values (1, timestamp '2024-01-01 10:00:00.123456'), (2, timestamp '2024-07-01 10:00:00');
insert overwrite t partition (ts = '2024-01-01 10:00:00.123456') values (3);
select id, cast(ts as string) from t order by id;
=> 2 | 2024-07-01 10:00:00
=> 3 | 2024-01-01 10:00:00.123456
set spark.sql.session.timeZone = UTC;
select id, cast(ts as string) from t order by id;
=> 2 | 2024-07-01 14:00:00
=> 3 | 2024-01-01 15:00:00.123456

--- partition names match in any case, and other columns are rejected
create table t (id int, p string) using delta partitioned by (p);
insert into t partition (P = 'a') values (1);
insert into t partition (P = 'a') (ID) values (2);
select * from t order by id;
=> 1 | a
=> 2 | a
insert into t partition (id = 1) values ('a');
!> PlanError: is not partitioned by `id`
insert overwrite t partition (q = 1) values (1);
!> UnknownColumn: `q`
insert into t partition (p = 'a', p = 'b') values (1);
!> PlanError: twice
insert into t partition (p = 'a') (id, p) values (1, 'b');
!> PlanError: `p` occurs twice
insert into t partition (p = 'a') by name select 1 as id, 'b' as p;
!> PlanError: `p` occurs twice
insert into t partition (p = 'a') values (1, 'b');
!> PlanError: 1 are required (id)
create table u (id int) using delta;
insert overwrite u partition (id = 1) select 1;
!> PlanError: not partitioned

--- a partition column in the middle of the table keeps its position
create table t (p string, id int) using delta partitioned by (p);
insert into t values ('a', 1);
insert into t partition (p = 'b') values (2);
insert into t partition (p) values ('c', 3);
select * from t order by id;
=> a | 1
=> b | 2
=> c | 3

--- in dynamic mode only partitions that get rows are overwritten
create table t (id int, p string, d int) using delta partitioned by (p, d) tblproperties ({mode});
insert into t values (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, null, null);
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t values (5, 'a', 1), (6, null, null), (7, 'c', 9);
=> 3 | 3
insert overwrite t partition (p = 'b', d) values (8, 2);
insert overwrite t partition (p = 'a', d = 2) select 1 where false;
insert overwrite t select * from t where false;
set spark.sql.sources.partitionOverwriteMode = static;
select * from t order by id;
=> 2 | a | 2
=> 3 | b | 1
=> 5 | a | 1
=> 6 | NULL | NULL
=> 7 | c | 9
=> 8 | b | 2

--- a statement's mode overrides the session's
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert overwrite t with ('partitionOverwriteMode' = 'dynamic') by name select 'a' as p, 3 as id;
=> 1 | 1
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t with ('overwrite-mode' = 'static') partition (p) values (4, 'b');
set spark.sql.sources.partitionOverwriteMode = static;
select * from t;
=> 4 | b

--- in dynamic mode a table without partitions is overwritten completely
create table t (id int) using delta;
insert into t values (1), (2);
set spark.sql.sources.partitionOverwriteMode = DYNAMIC;
insert overwrite t values (3);
set spark.sql.sources.partitionOverwriteMode = static;
select * from t;
=> 3

--- in dynamic mode partitions of NaN, zero and timestamps are matched
create table t (id int, f double, ts timestamp) using delta partitioned by (f, ts);
insert into t values (1, double('NaN'), timestamp '1969-12-31 23:59:59.999999'), (2, -0.0d, null), (3, 1.5d, null);
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t values (11, double('NaN'), timestamp '1969-12-31 23:59:59.999999'), (12, 0.0d, null);
set spark.sql.sources.partitionOverwriteMode = static;
select id, f from t order by id;
=> 3 | 1.5
=> 11 | nan
=> 12 | 0.0

--- in dynamic mode a partition can be overwritten from itself
create table t (id int, p string) using delta partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t select id + 10, p from t where p = 'a';
set spark.sql.sources.partitionOverwriteMode = static;
select * from t order by id;
=> 2 | b
=> 11 | a

--- if not exists writes a partition once
create table t (id int, p string) using delta partitioned by (p);
insert overwrite t partition (p = 'a') if not exists select 1;
=> 1 | 1
insert overwrite t partition (p = 'a') if not exists select 2;
=> 0 | 0
insert overwrite t partition (p = 'b') if not exists select 3;
select * from t order by id;
=> 1 | a
=> 3 | b
insert overwrite t partition (p) if not exists select 4, 'c';
!> Unparsable: IF NOT EXISTS needs
insert overwrite t if not exists select 4, 'c';
!> Unparsable: IF NOT EXISTS needs

--- overwriting does not change the schema
create table t (id int, v string) using delta;
insert into t values (1, 'a');
insert overwrite t select 1 as id, 'a' as v, 2 as extra;
!> PlanError: 2 are required
insert overwrite t values (array('x'), 'a');
!> TypeMismatch: `id`
insert overwrite t values (10000000000, 'a');
!> ValueOutOfRange: `id`
select * from t;
=> 1 | a

--- overwriting a folder is a statement of Spark
create table t (id int) using delta;
insert overwrite local directory;
!> RowmergeError:
insert overwrite table directory select 1;
!> TableNotFound: directory

--- truncate counts the deleted rows, and an empty table stays unchanged
create table t (id int) using delta tblproperties ({mode});
insert into t select id from range(10);
delete from t where id < 4;
truncate table t;
=> 6
truncate table t;
=> 0
select count(*) from t;
=> 0

--- truncate of a partition empties only that partition
create table t (id int, p string, d date) using delta partitioned by (p, d);
insert into t values (1, 'a', date '2024-01-01'), (2, 'a', date '2024-01-02'), (3, 'b', date '2024-01-01'), (4, null, null);
truncate table t partition (p = 'a', d = '2024-01-01');
=> 1
truncate table t partition (d = '2024-01-01');
=> 1
truncate table t partition (p = 'nothing');
=> 0
truncate table t partition (p = null);
=> 1
select * from t;
=> 2 | a | 2024-01-02
truncate table t partition (id = 2);
!> PlanError: is not partitioned by `id`
truncate table t partition (p);
!> Unparsable: needs a value for `p`
truncate t;
!> RowmergeError:

--- truncate of a view is rejected by name
create table t (id int) using delta;
create view v as select * from t;
create temporary view w as select 1 as id;
truncate table v;
!> TableError: default.v is a view
truncate table w;
!> TableError: w is a temporary view
