--- columns are renamed, dropped, moved and added without rewriting files
create table t (id int, a int, b string) using iceberg tblproperties ({mode});
insert into t values (1, 10, 'x'), (2, 20, 'y');
alter table t rename column a to c;
alter table t drop column b;
alter table t add column a int after id;
insert into t values (3, 30, 300);
select * from t order by id;
=> 1 | NULL | 10
=> 2 | NULL | 20
=> 3 | 30 | 300
alter table t alter column c first;
select * from t order by id;
=> 10 | 1 | NULL
=> 20 | 2 | NULL
=> 300 | 3 | 30

--- a filter on a column with the name of an older one returns the right rows
create table t (id int, a int, b int) using iceberg tblproperties ({mode});
insert into t values (1, 10, 5), (2, 20, 6);
alter table t rename column a to old;
alter table t rename column b to a;
insert into t values (3, 30, 7);
select id from t where a is null;
=> -
select id from t where a = 6;
=> 2
select id from t where a between 5 and 7 and old > 15 order by id;
=> 2
=> 3
update t set a = a + 1 where a = 7;
=> 1
delete from t where a = 20;
=> 0
merge into t using (values (6, 60), (9, 90)) s (a, old) on t.a = s.a when matched then update set old = s.old when not matched then insert (a, old) values (s.a, s.old);
=> 2 | 1 | 0 | 1
select id, old, a from t order by a;
=> 1 | 10 | 5
=> 2 | 60 | 6
=> 3 | 30 | 8
=> NULL | 90 | 9

--- a new column with the name of a dropped one has none of its values
create table t (id int, a int) using iceberg tblproperties ({mode});
insert into t values (1, 10);
alter table t drop column a;
alter table t add column a int;
select id from t where a is null;
=> 1
select count(*) from t where a = 10;
=> 0
update t set a = 1 where a is null;
=> 1
select * from t;
=> 1 | 1

--- fields of structs are renamed, dropped and added, in arrays and maps too
create table t (id int, s struct<a: int, b: int>, l array<struct<x: int, y: int>>, m map<string, struct<z: int>>) using iceberg tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', 2), array(named_struct('x', 3, 'y', 4)), map('k', named_struct('z', 5)));
alter table t rename column s.a to c;
alter table t add column s.a int;
alter table t drop column l.element.x;
alter table t add column l.element.x int;
alter table t add column m.value.w int;
select s.c, s.b, s.a, l[0].y, l[0].x, m['k'].z, m['k'].w from t;
=> 1 | 2 | NULL | 4 | NULL | 5 | NULL
select count(*) from t where s.a is null and s.c = 1;
=> 1
update t set s.a = 9 where s.a is null;
=> 1
select s.c, s.b, s.a from t;
=> 1 | 2 | 9

--- types are widened as the format allows, and old rows keep their values
create table t (id int, f float, d decimal(5, 2), l array<int>, s struct<n: int>) using iceberg tblproperties ({mode});
insert into t values (1, 1.5, 1.25, array(1), named_struct('n', 1));
alter table t alter column id type bigint;
alter table t alter column f type double;
alter table t alter column d type decimal(10, 2);
alter table t alter column l.element type bigint;
alter table t alter column s.n type bigint;
insert into t values (9999999999, 2.5, 12345678.25, array(9999999999), named_struct('n', 9999999999));
update t set f = f + 1 where id = 1;
=> 1
select id, f, d, l[0], s.n from t where id < 9999999999 or l[0] > 5 order by id;
=> 1 | 2.5 | 1.25 | 1 | 1
=> 9999999999 | 2.5 | 12345678.25 | 9999999999 | 9999999999
alter table t alter column id type int;
!> TypeMismatch: int to bigint
alter table t alter column d type decimal(12, 3);
!> TypeMismatch: decimals of the same scale

--- an empty string and NULL are two partitions
create table t (id int, p string) using iceberg partitioned by (p) tblproperties ({mode});
insert into t values (1, ''), (2, null), (3, 'a');
select id from t where p is null;
=> 2
select id from t where p = '';
=> 1
update t set id = 10 where p = '';
=> 1
delete from t where p is null;
=> 1
select * from t order by id;
=> 3 | a
=> 10 |
insert overwrite t partition (p = '') values (11);
select id from t order by id;
=> 3
=> 11

--- features that format version 2 lacks are rejected by name
create table t (id int default 1) using iceberg;
!> UnsupportedTableFeature: column default id
create table t (id int, g int generated always as (id + 1)) using iceberg;
!> UnsupportedTableFeature: generated column g
create table t (id int, constraint positive check (id > 0)) using iceberg;
!> UnsupportedTableFeature: CHECK constraint positive
create table t (id int) using iceberg tblproperties ('format-version' = '1');
!> UnsupportedTableFeature: format-version 1
create table t (id int) using iceberg tblproperties ('format-version' = '4');
!> ConfigurationError: format-version
create table t (id int) using iceberg tblproperties ('delta.appendOnly' = 'true');
!> ConfigurationError: applies only to Delta tables
create table t (id int) using iceberg tblproperties ('write.merge.mode' = 'sometimes');
!> ConfigurationError: write.merge.mode
create table t (id int) using iceberg tblproperties ('write.delete.isolation-level' = 'strict');
!> ConfigurationError: serializable or snapshot
create table t (id int) using iceberg tblproperties ('rowmerge.write.mod' = 'auto');
!> ConfigurationError: rowmerge.write.mode
create table t (id int) using iceberg;
select * from table_changes('t', 1);
!> ChangesNotRecorded: have no change feed

--- an added column has its initial default in existing rows and its write default in new rows
create table t (id int, k int default 5) using iceberg tblproperties ('format-version' = '3', {mode});
insert into t (id) values (1), (2);
alter table t add columns (d date default date'2020-02-03', s string default 'it\'s', x decimal(10, 2) default 1.5, f float default 0.1, b boolean default true, ts timestamp default timestamp'2020-02-03 04:05:06.5Z');
insert into t (id, s) values (3, null);
alter table t alter column k set default 6;
alter table t alter column x set default 2;
alter table t alter column s drop default;
insert into t (id, d) values (4, default);
select id, k, d, s, x, b, ts from t order by id;
=> 1 | 5 | 2020-02-03 | it's | 1.50 | true | 2020-02-03 04:05:06.500000
=> 2 | 5 | 2020-02-03 | it's | 1.50 | true | 2020-02-03 04:05:06.500000
=> 3 | 5 | 2020-02-03 | NULL | 1.50 | true | 2020-02-03 04:05:06.500000
=> 4 | 6 | 2020-02-03 | NULL | 2.00 | true | 2020-02-03 04:05:06.500000
select id from t where d = date'2020-02-03' and x = 1.5 and s is not null and f between 0.09 and 0.11 order by id;
=> 1
=> 2
select id from t where s is null order by id;
=> 3
=> 4
alter table t rename column s to d2;
alter table t alter column k type bigint;
merge into t using (values (1, 2.5), (9, 9.5)) s (id, x) on t.id = s.id and t.d = date'2020-02-03' when matched then update set x = s.x when not matched then insert (id, x) values (s.id, s.x);
=> 2 | 1 | 0 | 1
delete from t where id = 2 and d2 = 'it\'s';
=> 1
call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'));
alter table t add column z int default 7;
update t set z = z + 1 where id = 9;
=> 1
select id, k, d, d2, x, z from t order by id;
=> 1 | 5 | 2020-02-03 | it's | 2.50 | 7
=> 3 | 5 | 2020-02-03 | NULL | 1.50 | 7
=> 4 | 6 | 2020-02-03 | NULL | 2.00 | 7
=> 9 | 6 | 2020-02-03 | NULL | 9.50 | 8
merge with schema evolution into t using (values (10, 'new')) s (id, more) on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
select id, d, x, z, more from t where id in (1, 10) order by id;
=> 1 | 2020-02-03 | 2.50 | 7 | NULL
=> 10 | 2020-02-03 | 2.00 | 7 | new
alter table t add column no date default current_date();
!> UnsupportedTableFeature: the default current_date() of the column no
alter table t add column no binary default X'00';
!> UnsupportedTableFeature: or leave out the default
create table u (id int, s struct<a: int>) using iceberg tblproperties ('format-version' = '3');
alter table u add column s.b int default 1;
!> UnsupportedTableFeature: column default b

--- tables of format version 3 accept every statement
create table t (id int, p string, v int) using iceberg partitioned by (p) tblproperties ('format-version' = '3', {mode});
insert into t values (1, 'a', 10), (2, 'a', 20), (3, 'b', 30), (4, 'b', 40), (5, null, 50);
delete from t where id = 1;
=> 1
delete from t where id = 2 and p = 'a';
=> 1
update t set v = v + 1 where id in (3, 5);
=> 2
merge into t using (values (3, 'b', 300), (6, 'c', 600)) s (id, p, v) on t.id = s.id when matched then update set * when not matched then insert * when not matched by source and t.id = 4 then delete;
=> 3 | 1 | 1 | 1
call system.rewrite_position_delete_files('t');
optimize t;
insert overwrite t partition (p = 'c') values (7, 700);
alter table t add column w int;
update t set w = v where id = 7;
=> 1
select id, p, v, w from t order by id;
=> 3 | b | 300 | NULL
=> 5 | NULL | 51 | NULL
=> 7 | c | 700 | 700
truncate table t;
insert into t values (8, 'd', 8, 8);
create or replace table t using iceberg as select id, w from t;
alter table t set tblproperties ('format-version' = '2');
!> ConfigurationError: has format version 3, which cannot become 2
select * from t;
=> 8 | 8

--- a table is upgraded to format version 3, and its delete files become deletion vectors
create table t (id int) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select cast(id as int) from range(1, 7);
delete from t where id in (1, 6);
=> 2
alter table t set tblproperties ('format-version' = '3');
select count(*) from t;
=> 4
delete from t where id = 2;
=> 1
call system.rewrite_position_delete_files('t');
update t set id = id * 10 where id < 4;
=> 1
select id from t order by id;
=> 4
=> 5
=> 30

--- small integers become int, and char and varchar become string, as in Iceberg on Spark
create table t (a tinyint, b smallint, c char(3), v varchar(2)) using iceberg;
insert into t values (200, 40000, 'a', 'abcdef');
select a, b, concat(c, '|'), v from t;
=> 200 | 40000 | a| | abcdef

--- each operation has its write mode, and copy-on-write is the default
create table t (id int, n int) using iceberg tblproperties ('write.update.mode' = 'merge-on-read');
insert into t select id, 0 from range(10) distribute by 1;
update t set n = 1 where id = 1;
delete from t where id = 2;
select count(*), sum(n) from t;
=> 9 | 1

--- delta: a table of another format is not replaced in place
create table t using delta as select 1 as id;
create or replace table t using iceberg as select 2 as id;
!> PlanError: Drop the table first
drop table t;
create or replace table t using iceberg as select 2 as id;
select * from t;
=> 2

--- merges move rows between partitions of transforms
create table t (id bigint, ts timestamp, s string) using iceberg partitioned by (bucket(3, id), days(ts), truncate(1, s)) tblproperties ({mode});
insert into t select id, timestampadd(day, id, timestamp '1969-12-30 12:00:00'), concat(chr(97 + id), id) from range(5);
merge into t using (values (1, timestamp '2024-02-29 01:00:00', 'zz'), (9, null, null)) s (id, ts, s) on t.id = s.id
when matched then update set ts = s.ts, s = s.s when not matched then insert *;
=> 2 | 1 | 0 | 1
select id, cast(ts as string), s from t order by id;
=> 0 | 1969-12-30 12:00:00 | a0
=> 1 | 2024-02-29 01:00:00 | zz
=> 2 | 1970-01-01 12:00:00 | c2
=> 3 | 1970-01-02 12:00:00 | d3
=> 4 | 1970-01-03 12:00:00 | e4
=> 9 | NULL | NULL
delete from t where ts < timestamp '1970-01-01 00:00:00' or s = 'zz';
=> 2
update t set id = id + 100 where id = 9;
=> 1
select id from t order by id;
=> 2
=> 3
=> 4
=> 109

--- rows of files of an older partition spec are merged
create table t (id int, d date, n int) using iceberg tblproperties ({mode});
insert into t values (1, date '2024-01-01', 0), (2, date '2024-02-01', 0);
alter table t add partition field months(d);
insert into t values (3, date '2024-01-05', 0), (4, null, 0);
alter table t replace partition field months(d) with days(d);
insert into t values (5, date '2024-01-05', 0);
merge into t using (values (1), (3), (5), (6)) s (id) on t.id = s.id when matched then update set n = 1, d = date '2024-03-01' when not matched then insert (id, n) values (s.id, 2);
=> 4 | 3 | 0 | 1
delete from t where d = date '2024-02-01';
=> 1
select id, d, n from t order by id;
=> 1 | 2024-03-01 | 1
=> 3 | 2024-03-01 | 1
=> 4 | NULL | 0
=> 5 | 2024-03-01 | 1
=> 6 | NULL | 2
insert overwrite t partition (d = date '2024-03-01') values (7, 7);
!> PlanError: written before its partitioning changed
insert overwrite t with ('partitionOverwriteMode' = 'dynamic') values (7, date '2024-03-01', 7), (8, null, 8);
=> 2 | 2
select id, d, n from t order by id;
=> 7 | 2024-03-01 | 7
=> 8 | NULL | 8

--- a partition field keeps its given name
create table t (id int, p string) using iceberg partitioned by (bucket(2, id)) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
alter table t add partition field p as shard;
alter table t add partition field truncate(1, p) as initial;
alter table t add partition field p;
!> PlanError: is already partitioned by p, as shard
insert into t values (3, 'a'), (4, 'c');
update t set p = 'd' where p = 'c';
=> 1
alter table t rename column p to q;
insert into t values (5, 'a');
alter table t add column shard int;
!> PlanError: default.t has or had a partition field shard of the column q
alter table t rename column id to initial;
!> PlanError: Choose another name
alter table t add column n int;
alter table t drop partition field initial;
alter table t drop partition field nothing;
!> PlanError: Its partition fields are: id_bucket (bucket(2, id)), shard (q)
insert into t values (6, 'e', 1);
alter table t drop partition field shard;
insert into t values (7, 'e', 2);
select id, q from t order by id;
=> 1 | a
=> 2 | b
=> 3 | a
=> 4 | d
=> 5 | a
=> 6 | e
=> 7 | e

--- conditions on NOT NULL fields of structs exclude files
create table t (id int, s struct<x: int not null, y: string>) using iceberg tblproperties ({mode});
insert into t values (1, named_struct('x', 1, 'y', 'a'));
insert into t values (2, named_struct('x', 2, 'y', null));
select id from t where s.x = 1;
=> 1
update t set id = 5 where s.x = 2;
=> 1
select id from t where s.x > 0 order by id;
=> 1
=> 5
