--- delta: every type is written, merged and read back
create table t (id int, b boolean, y tinyint, s smallint, l bigint, f float, d double, dec decimal(38,18), str string, bin binary, day date, ts timestamp, ntz timestamp_ntz, vc varchar(5), c char(3)) using delta tblproperties ({mode});
set spark.sql.session.timeZone = UTC;
insert into t values
(1, true, 127, -32768, 9223372036854775807, cast('NaN' as float), cast('-Infinity' as double), cast('-12345678901234567890.123456789012345678' as decimal(38,18)), 'é\'\\', x'00ff', date '0001-01-01', timestamp '1969-12-31 23:59:59.999999', timestamp_ntz '9999-12-31 23:59:59.999999', 'abcde', 'x'),
(2, null, null, null, null, null, null, null, '', null, null, null, null, null, null);
merge into t using (select * from t where id = 1 union all select 3, false, 1, 1, 1, -0.0f, 1.5d, 0.5, 'z', x'', date '9999-12-31', timestamp '0001-01-01 00:00:00', timestamp_ntz '0001-01-01 00:00:00', 'a', 'abc') s on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select id, b, y, s, l, f, d, dec, str, hex(bin), cast(day as string), cast(ts as string), cast(ntz as string), vc, concat(c, '|') from t order by id;
=> 1 | true | 127 | -32768 | 9223372036854775807 | nan | -inf | -12345678901234567890.123456789012345678 | é'\ | 00FF | 0001-01-01 | 1969-12-31 23:59:59.999999 | 9999-12-31 23:59:59.999999 | abcde | x  |
=> 2 | NULL | NULL | NULL | NULL | NULL | NULL | NULL |  | NULL | NULL | NULL | NULL | NULL | NULL
=> 3 | false | 1 | 1 | 1 | -0.0 | 1.5 | 0.500000000000000000 | z |  | 9999-12-31 | 0001-01-01 00:00:00 | 0001-01-01 00:00:00 | a | abc|
select count(*) from t where f > 5;
=> 1
delete from t where f > 5;
=> 1
select id from t where ts < timestamp '0001-01-02 00:00:00';
=> 3

--- nested values are written, merged and read back
create table t (id int, a array<int>, m map<string, array<struct<x: int, y: string>>>, s struct<p: struct<q: double>, r: array<string>>) using delta tblproperties ({mode});
insert into t values (1, array(1, null), map('k', array(named_struct('x', 1, 'y', 'one'))), named_struct('p', named_struct('q', 1.5d), 'r', array('a')));
merge into t using (select 1 as id, array(9) as a, map('z', array(named_struct('x', 2, 'y', cast(null as string)))) as m, named_struct('p', named_struct('q', 2.5d), 'r', cast(null as array<string>)) as s union all select 2, null, null, null) u on t.id = u.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select id, a[0], m['z'][0].x, s.p.q, size(s.r) from t order by id;
=> 1 | 9 | 2 | 2.5 | NULL
=> 2 | NULL | NULL | NULL | NULL

--- delta: partition values of every type are read unchanged
create table t (id int, s string, d date, i int, b boolean, dec decimal(5,2), f double, ts timestamp) using delta partitioned by (s, d, i, b, dec, f, ts) tblproperties ({mode});
insert into t values (1, 'a/b=c%2F d', date '2024-01-01', -1, true, 1.50, 1.5, timestamp '2024-01-01 10:00:00.123456'), (2, '', null, null, null, null, null, null), (3, 'é', date '1969-01-01', 7, false, -0.01, -2.25, timestamp '1969-01-01 00:00:00');
update t set id = id + 10 where s = 'a/b=c%2F d' or s is null;
=> 2
select id, s, d, i, b, dec, f, cast(ts as string) from t order by id;
=> 3 | é | 1969-01-01 | 7 | false | -0.01 | -2.25 | 1969-01-01 00:00:00
=> 11 | a/b=c%2F d | 2024-01-01 | -1 | true | 1.50 | 1.5 | 2024-01-01 10:00:00.123456
=> 12 | NULL | NULL | NULL | NULL | NULL | NULL | NULL
delete from t where d = date '1969-01-01';
=> 1
select count(*) from t where ts = timestamp '2024-01-01 10:00:00.123456';
=> 1

--- string partitions are selected by unusual values
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'x y'), (2, 'x%y'), (3, 'ü/ß'), (4, '#?*'), (5, '__HIVE_DEFAULT_PARTITION_'), (6, ' lead');
merge into t using (select id, p from t) s on t.p = s.p and t.id = s.id when matched and s.id % 2 = 0 then update set id = s.id * 10 when matched then delete;
=> 6 | 3 | 3 | 0
select * from t order by id;
=> 20 | x%y
=> 40 | #?*
=> 60 |  lead

--- delta: a string that is too long for varchar is rejected
create table t (id int, v varchar(3)) using delta;
insert into t values (1, 'abcd');
!> ValueOutOfRange: `v`
insert into t values (1, 'abc   ');
select concat(v, '|') from t;
=> abc|

--- types that no table supports are rejected by name
create table t using delta as select interval 1 day as i;
!> TypeMismatch: interval day
create table t using delta as select null as n;
!> TypeMismatch: void
create table t (id int, v variant) using delta;
!> TypeMismatch: variant
