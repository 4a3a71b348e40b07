--- rows with NaN are selected, whatever other values their file contains
create table t (id int, f float, d double, s struct<d: double>) using delta tblproperties ({mode});
insert into t select id, float(id), double(id), named_struct('d', double(id)) from range(5);
insert into t values (10, float('NaN'), double('NaN'), named_struct('d', double('NaN'))), (11, 1.0f, 1.0d, named_struct('d', 1.0d));
insert into t values (12, float('NaN'), double('NaN'), named_struct('d', double('NaN')));
select id from t where d > 5 order by id;
=> 10
=> 12
select id from t where s.d >= double('Infinity') order by id;
=> 10
=> 12
select id from t where f = float('NaN') order by id;
=> 10
=> 12
update t set id = -id where d > 100;
=> 2
delete from t where f = float('NaN') and id = -10;
=> 1
merge into t using (select double('NaN') as d) s on t.d = s.d when matched then delete;
=> 1 | 0 | 1 | 0
select count(*) from t;
=> 6

--- minus zero equals zero in both directions
create table t (id int, d double) using delta tblproperties ({mode});
insert into t values (1, -0.0d);
insert into t values (2, 0.0d);
select id from t where d = 0.0d order by id;
=> 1
=> 2
select id from t where d >= 0.0d order by id;
=> 1
=> 2
delete from t where d = 0.0d;
=> 2

--- strings that are longer than their statistics are selected
create table t (id int, v string) using delta;
insert into t values (1, concat(repeat('a', 32), 'zzz'));
insert into t values (2, concat(repeat('😀', 16), 'x'));
insert into t values (3, concat(repeat('a', 31), '😀b'));
insert into t values (4, '');
select id from t where v > repeat('a', 33) order by id;
=> 1
=> 2
=> 3
delete from t where v = concat(repeat('😀', 16), 'x');
=> 1
delete from t where v = concat(repeat('a', 32), 'zzz') or v = '';
=> 2
select id from t where v >= concat(repeat('a', 31), '😀b');
=> 3

--- timestamps with microseconds are selected despite statistics in milliseconds
create table t (id int, ts timestamp, ntz timestamp_ntz) using delta;
insert into t values (1, timestamp '1969-12-31 23:59:59.999999', timestamp_ntz '1969-12-31 23:59:59.999999');
insert into t values (2, timestamp '1582-10-10 12:00:00.123456', timestamp_ntz '0001-01-01 00:00:00.000001');
insert into t values (3, timestamp '9999-12-31 23:59:59.999999', timestamp_ntz '9999-12-31 23:59:59.999999');
select id from t where ts = timestamp '1969-12-31 23:59:59.999999';
=> 1
select id from t where ntz <= timestamp_ntz '0001-01-01 00:00:00.000001';
=> 2
delete from t where ts >= timestamp '9999-12-31 23:59:59.999999';
=> 1
delete from t where ts <= timestamp '1582-10-10 12:00:00.123456' and ntz = timestamp_ntz '0001-01-01 00:00:00.000001';
=> 1
select id from t;
=> 1

--- decimals of 38 digits and dates of all years are selected by their bounds
create table t (id int, a decimal(38,18), b decimal(38,0), d date) using delta;
insert into t values (1, cast('99999999999999999999.999999999999999999' as decimal(38,18)), cast('-99999999999999999999999999999999999999' as decimal(38,0)), date '0001-01-01');
insert into t values (2, cast('-0.000000000000000001' as decimal(38,18)), cast('99999999999999999999999999999999999999' as decimal(38,0)), date '9999-12-31');
select id from t where a = cast('99999999999999999999.999999999999999999' as decimal(38,18));
=> 1
delete from t where b < cast('-99999999999999999999999999999999999998' as decimal(38,0));
=> 1
delete from t where d = date '9999-12-31' and a < 0;
=> 1

--- a partition value can be any string, also longer than a file name can be
create table t (id int, p string) using delta partitioned by (p);
insert into t values (1, 'a\u0000b'), (2, repeat('ü', 300)), (3, 'a/b'), (4, repeat('x', 400));
select id from t where p = repeat('x', 400) or p = 'a\u0000b' order by id;
=> 1
=> 4
delete from t where p = repeat('ü', 300);
=> 1
select count(*) from t;
=> 3

--- empty and null nested values are distinguished
create table t (id int, a array<int>, m map<string, int>, s struct<x: int, y: string>) using delta tblproperties ({mode});
insert into t values (1, array(), map(), named_struct('x', null, 'y', null)), (2, null, null, null), (3, array(null), map('k', null), named_struct('x', 1, 'y', ''));
update t set id = id + 10 where s is not null;
=> 2
merge into t using (select 20 as id, array() as a, map() as m, null as s) u on t.id = u.id when not matched then insert *;
=> 1 | 0 | 0 | 1
select id, size(a), size(m), s is null, s.y from t order by id;
=> 2 | NULL | NULL | true | NULL
=> 11 | 0 | 0 | false | NULL
=> 13 | 1 | 1 | false | 
=> 20 | 0 | 0 | true | NULL

--- a string with a collation is rejected by name in every table column
create table t (id int, v string collate utf8_lcase) using delta;
!> TypeMismatch: `v` is a string with the collation UTF8_LCASE
create table t (id int, s struct<a: array<string collate unicode>>) using delta;
!> TypeMismatch: `s.a` is a string with the collation UNICODE
create table t using delta as select 'A' collate utf8_lcase as v;
!> TypeMismatch: `v`
create table t (v string) using delta;
alter table t add columns (w string collate utf8_lcase);
!> TypeMismatch: `w`
insert into t values ('A' collate utf8_lcase);
select * from t where v = 'a';
=> -
select * from t where v = 'a' collate utf8_lcase;
=> A
