--- several keys, some of them null
create table t (a int, b string, v int) using delta tblproperties ({mode});
insert into t values (1, 'x', 0), (1, 'y', 0), (1, null, 0), (2, 'x', 0);
merge into t using (values (1, 'y', 5), (1, null, 6), (3, 'x', 7)) s (a, b, v) on t.a = s.a and t.b = s.b
when matched then update set v = s.v when not matched then insert *;
=> 3 | 1 | 0 | 2
select * from t order by a, b nulls first, v;
=> 1 | NULL | 0
=> 1 | NULL | 6
=> 1 | x | 0
=> 1 | y | 5
=> 2 | x | 0
=> 3 | x | 7

--- null-safe keys mixed with other keys
create table t (a int, b string, v int) using delta tblproperties ({mode});
insert into t values (1, null, 0), (null, null, 0), (2, 'x', 0);
merge into t using (values (1, null, 5), (null, null, 6)) s (a, b, v) on s.a = t.a and t.b <=> s.b
when matched then update set v = s.v when not matched by source then update set v = -1;
=> 3 | 3 | 0 | 0
select * from t order by v, a;
=> NULL | NULL | -1
=> 2 | x | -1
=> 1 | NULL | 5

--- is not distinct from
create table t (a int, v int) using delta tblproperties ({mode});
insert into t values (null, 0), (1, 0);
merge into t using (values (cast(null as int)), (2)) s (a) on t.a is not distinct from s.a when matched then update set v = 1 when not matched then insert (a, v) values (s.a, 2);
=> 2 | 1 | 0 | 1
select * from t order by v;
=> 1 | 0
=> NULL | 1
=> 2 | 2

--- is null on both sides with or
create table t (a int, v int) using delta tblproperties ({mode});
insert into t values (null, 0), (1, 0);
merge into t using (values (cast(null as int), 5), (1, 6)) s (a, v) on t.a = s.a or (t.a is null and s.a is null)
when matched then update set v = s.v;
select * from t order by v;
=> NULL | 5
=> 1 | 6

--- or between keys
create table t (a int, b int, v string) using delta tblproperties ({mode});
insert into t values (1, 10, 't1'), (2, 20, 't2'), (3, 30, 't3');
merge into t using (values (1, 99, 's1'), (98, 20, 's2'), (97, 96, 's3')) s (a, b, v) on t.a = s.a or t.b = s.b
when matched then update set v = s.v when not matched then insert *;
=> 3 | 2 | 0 | 1
select * from t order by a;
=> 1 | 10 | s1
=> 2 | 20 | s2
=> 3 | 30 | t3
=> 97 | 96 | s3

--- a range with overlapping bounds and an insert of what lies outside
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (5, 'b'), (9, 'c');
merge into t using (values (4, 'x'), (8, 'y'), (90, 'z')) s (low, v) on t.id >= s.low and t.id < s.low + 4
when matched then update set v = s.v when not matched then insert (id, v) values (s.low, s.v);
=> 3 | 2 | 0 | 1
select * from t order by id;
=> 1 | a
=> 5 | x
=> 9 | y
=> 90 | z

--- expressions on keys
create table t (id int, k string) using delta tblproperties ({mode});
insert into t values (1, 'Ab'), (2, 'CD'), (3, 'ef');
merge into t using (values (0), (2)) s (id) on t.id = s.id + 1 when matched then delete;
=> 2 | 0 | 2 | 0
merge into t using (values ('cd', 7)) s (k, n) on lower(t.k) = lower(s.k) when matched then update set id = s.n when not matched then insert (id, k) values (0, s.k);
=> 1 | 1 | 0 | 0
select * from t;
=> 7 | CD

--- an expression of the target's key equal to an expression of the source
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (2, 0), (3, 0);
merge into t using (values (2), (4)) s (id) on t.id * 2 = s.id when matched then update set v = 1 when not matched by source then update set v = 9;
select * from t order by id;
=> 1 | 1
=> 2 | 1
=> 3 | 9

--- constants: false, true, 1 = 1, null
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (2, 0);
merge into t using (values (5)) s (n) on true when matched then update set v = s.n;
=> 2 | 2 | 0 | 0
merge into t using (values (6)) s (n) on 1 = 1 when matched and t.id = 1 then update set v = s.n when not matched then insert (id) values (s.n);
=> 1 | 1 | 0 | 0
merge into t using (values (7)) s (n) on null when matched then delete when not matched then insert (id, v) values (s.n, s.n);
=> 1 | 0 | 0 | 1
merge into t using (values (8)) s (n) on false when matched then delete when not matched by source and t.id = 2 then update set v = 88;
=> 1 | 1 | 0 | 0
merge into t using (values (8), (9)) s (n) on 1 = 0 when not matched then insert (id, v) values (s.n, 0) when not matched by source then delete;
=> 5 | 0 | 3 | 2
select * from t order by id;
=> 8 | 0
=> 9 | 0

--- on true without a target row inserts every source row
create table t (id int) using delta tblproperties ({mode});
merge into t using (values (1), (1)) s (id) on true when not matched then insert *;
=> 2 | 0 | 0 | 2
merge into t using (values (1), (1)) s (id) on true when not matched then insert *;
=> 0 | 0 | 0 | 0

--- predicates on the target decide which rows match, not which are inserted
create table t (id int, p string, v int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a', 0), (2, 'b', 0), (3, 'a', 0);
merge into t using (values (1, 5), (2, 6), (4, 7)) s (id, v) on t.id = s.id and t.p = 'a'
when matched then update set v = s.v when not matched then insert (id, p, v) values (s.id, 'new', s.v);
=> 3 | 1 | 0 | 2
select * from t order by id, p;
=> 1 | a | 5
=> 2 | b | 0
=> 2 | new | 6
=> 3 | a | 0
=> 4 | new | 7

--- rows excluded by a predicate on the target count as not matched by source
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'a');
merge into t using (values (1), (2)) s (id) on t.id = s.id and t.p = 'a' when not matched by source then delete;
=> 2 | 0 | 2 | 0
select * from t;
=> 1 | a

--- only a predicate on the target: one source row changes all its rows
create table t (id int, p string, v int) using delta tblproperties ({mode});
insert into t values (1, 'a', 0), (2, 'b', 0), (3, 'a', 0);
merge into t using (values (7)) s (v) on t.p = 'a' when matched then update set v = s.v when not matched then insert (id) values (s.v);
=> 2 | 2 | 0 | 0
merge into t using (values (8), (9)) s (v) on t.p = 'none' when matched then update set v = s.v when not matched then insert (id, v) values (s.v, 1);
=> 2 | 0 | 0 | 2
select * from t order by id;
=> 1 | a | 7
=> 2 | b | 0
=> 3 | a | 7
=> 8 | NULL | 1
=> 9 | NULL | 1

--- source rows excluded by a predicate on the source are inserted
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (2, 0);
merge into t using (values (1, true), (2, false), (3, true)) s (id, ok) on t.id = s.id and s.ok
when matched then update set v = 1 when not matched then insert (id, v) values (s.id, 9);
=> 3 | 1 | 0 | 2
select * from t order by id, v;
=> 1 | 1
=> 2 | 0
=> 2 | 9
=> 3 | 9

--- int against string keys compare as Spark compares them
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (20, 'b');
merge into t using (values ('1', 'x'), ('020', 'y'), ('3', 'z')) s (id, v) on t.id = s.id
when matched then update set v = s.v when not matched then insert (id, v) values (cast(s.id as int), s.v);
=> 3 | 2 | 0 | 1
select * from t order by id;
=> 1 | x
=> 3 | z
=> 20 | y

--- string keys against int
create table t (id string, v string) using delta tblproperties ({mode});
insert into t values ('1', 'a'), ('01', 'b'), ('2', 'c');
merge into t using (values (1)) s (id) on t.id = s.id when matched then update set v = 'hit';
=> 2 | 2 | 0 | 0
select * from t order by id;
=> 01 | hit
=> 1 | hit
=> 2 | c

--- decimal against int and double against int
create table t (d decimal(10, 2), f double) using delta tblproperties ({mode});
insert into t values (1.00, 1.0), (1.50, 2.5), (2.00, 3.0);
merge into t using (values (1), (2)) s (n) on t.d = s.n when matched then update set f = -1;
=> 2 | 2 | 0 | 0
merge into t using (values (2.5)) s (n) on t.f = s.n when matched then update set d = 99;
=> 1 | 1 | 0 | 0
select * from t order by d;
=> 1.00 | -1.0
=> 2.00 | -1.0
=> 99.00 | 2.5

--- decimals of different scales
create table t (d decimal(5, 1), v int) using delta tblproperties ({mode});
insert into t values (1.5, 0), (2.5, 0);
merge into t using (values (1.500, 1), (2.51, 2)) s (d, v) on t.d = s.d when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
select * from t order by d;
=> 1.5 | 1
=> 2.5 | 0

--- date against timestamp, and string against date
create table t (d date, v int) using delta tblproperties ({mode});
insert into t values (date '2024-01-01', 0), (date '2024-01-02', 0);
merge into t using (values (timestamp '2024-01-01 00:00:00'), (timestamp '2024-01-02 00:00:01')) s (ts) on t.d = s.ts when matched then update set v = 1;
=> 1 | 1 | 0 | 0
merge into t using (values ('2024-01-02')) s (d) on t.d = s.d when matched then update set v = 2;
=> 1 | 1 | 0 | 0
select * from t order by d;
=> 2024-01-01 | 1
=> 2024-01-02 | 2

--- timestamps to the microsecond
create table t (ts timestamp, v int) using delta tblproperties ({mode});
insert into t values (timestamp '2024-01-01 00:00:00.123456', 0), (timestamp '2024-01-01 00:00:00.123999', 0);
merge into t using (values (timestamp '2024-01-01 00:00:00.123999'), (timestamp '2024-01-01 00:00:00.123')) s (ts) on t.ts = s.ts when matched then update set v = 1;
=> 1 | 1 | 0 | 0
delete from t where ts = timestamp '2024-01-01 00:00:00.123456';
=> 1
select v from t;
=> 1

--- instants are equal across time zones
create table t (ts timestamp, n timestamp_ntz, v int) using delta tblproperties ({mode});
insert into t values (timestamp '2024-06-01 12:00:00+00:00', timestamp_ntz '2024-06-01 12:00:00', 0);
merge into t using (values (timestamp '2024-06-01 14:00:00+02:00')) s (ts) on t.ts = s.ts when matched then update set v = 1;
=> 1 | 1 | 0 | 0
merge into t using (values (timestamp_ntz '2024-06-01 12:00:00')) s (n) on t.n = s.n when matched then update set v = 2;
=> 1 | 1 | 0 | 0

--- nan is nan, minus zero is zero
create table t (x double, y float, v int) using delta tblproperties ({mode});
insert into t values (double('NaN'), float('NaN'), 0), (-0.0D, float(0.0), 0), (1.5, 1.5, 0);
merge into t using (values (double('NaN'), 1), (0.0D, 2), (double('Infinity'), 3)) s (x, v) on t.x = s.x
when matched then update set v = s.v when not matched then insert (x, v) values (s.x, s.v);
=> 3 | 2 | 0 | 1
merge into t using (values (float('NaN'), 10), (float('-0.0'), 20)) s (y, v) on t.y = s.y when matched then update set v = s.v;
=> 2 | 2 | 0 | 0
select x, v from t order by v;
=> 1.5 | 0
=> inf | 3
=> nan | 10
=> -0.0 | 20

--- nan is greater than every number in a range
create table t (x double, v int) using delta tblproperties ({mode});
insert into t values (double('NaN'), 0);
insert into t values (1.5, 0);
merge into t using (values (100.0D)) s (x) on t.x > s.x when matched then update set v = 1;
=> 1 | 1 | 0 | 0
delete from t where x > 1e300;
=> 1
select * from t;
=> 1.5 | 0

--- keys that differ in trailing spaces or case are distinguished
create table t (k string, v int) using delta tblproperties ({mode});
insert into t values ('a', 0), ('a ', 0), ('A', 0), ('', 0), (null, 0);
merge into t using (values ('a ', 1), ('', 2)) s (k, v) on t.k = s.k when matched then update set v = s.v when not matched then insert *;
=> 2 | 2 | 0 | 0
select concat('<', k, '>'), v from t order by v, k nulls first;
=> NULL | 0
=> <A> | 0
=> <a> | 0
=> <a > | 1
=> <> | 2

--- long keys with a common prefix are distinguished
create table t (k string, v int) using delta tblproperties ({mode});
insert into t values (concat(repeat('x', 60), 'a'), 0);
insert into t values (concat(repeat('x', 60), 'b'), 0);
insert into t values (concat(repeat('\ufffd', 40), 'c'), 0), (concat(repeat('😀', 40), 'd'), 0);
merge into t using (select concat(repeat('x', 60), 'b') as k, 1 as v union all select concat(repeat('😀', 40), 'd'), 2 union all select concat(repeat('\ufffd', 40), 'c'), 3) s
on t.k = s.k when matched then update set v = s.v when not matched then insert *;
=> 3 | 3 | 0 | 0
select right(k, 1), v from t order by v;
=> a | 0
=> b | 1
=> d | 2
=> c | 3

--- binary keys
create table t (k binary, v int) using delta tblproperties ({mode});
insert into t values (x'00ff', 0), (x'', 0), (null, 0);
merge into t using (values (x'00ff', 1), (x'', 2), (x'00', 3)) s (k, v) on t.k = s.k when matched then update set v = s.v when not matched then insert *;
=> 3 | 2 | 0 | 1
select concat('x', hex(k)), v from t order by v;
=> NULL | 0
=> x00FF | 1
=> x | 2
=> x00 | 3

--- boolean keys
create table t (k boolean, v int) using delta tblproperties ({mode});
insert into t values (true, 0), (false, 0), (null, 0);
merge into t using (values (true, 1)) s (k, v) on t.k = s.k when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
merge into t using (values (5)) s (v) on not t.k when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
select * from t order by v;
=> NULL | 0
=> true | 1
=> false | 5

--- struct keys and fields of structs as keys
create table t (k struct<a: int, b: string>, v int) using delta tblproperties ({mode});
insert into t values (named_struct('a', 1, 'b', 'x'), 0), (named_struct('a', 1, 'b', null), 0), (null, 0);
merge into t using (select named_struct('a', 1, 'b', 'x') as k, 1 as v) s on t.k = s.k when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
merge into t using (values (1, null, 2)) s (a, b, v) on t.k.a = s.a and t.k.b <=> s.b when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
select k.b, v from t order by v, k.b nulls first;
=> NULL | 0
=> x | 1
=> NULL | 2

--- array keys
create table t (k array<int>, v int) using delta tblproperties ({mode});
insert into t values (array(1, 2), 0), (array(2, 1), 0), (null, 0);
merge into t using (select array(1, 2) as k) s on t.k = s.k when matched then update set v = 1;
=> 1 | 1 | 0 | 0

--- a bigint source against an int target and the other way round
create table t (i int, l bigint, v int) using delta tblproperties ({mode});
insert into t values (1, 1, 0), (2147483647, 3000000000, 0);
merge into t using (values (1L), (3000000000L), (2147483647L)) s (n) on t.i = s.n when matched then update set v = 1;
=> 2 | 2 | 0 | 0
merge into t using (values (1), (2)) s (n) on t.l = s.n when matched then update set v = 2;
=> 1 | 1 | 0 | 0
select * from t order by v;
=> 2147483647 | 3000000000 | 1
=> 1 | 1 | 2

--- like and in over target and source
create table t (k string, v int) using delta tblproperties ({mode});
insert into t values ('apple', 0), ('banana', 0), ('cherry', 0);
merge into t using (values ('b%', 1)) s (pattern, v) on t.k like s.pattern when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
merge into t using (values ('apple', 'cherry', 2)) s (a, b, v) on t.k in (s.a, s.b) when matched then update set v = s.v;
=> 2 | 2 | 0 | 0
select * from t order by k;
=> apple | 2
=> banana | 1
=> cherry | 2

--- not equal matches all others
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (2, 0), (null, 0);
merge into t using (values (1)) s (id) on t.id <> s.id when matched then update set v = 1;
=> 1 | 1 | 0 | 0
merge into t using (values (1)) s (id) on not (t.id <=> s.id) when matched then update set v = 2;
=> 2 | 2 | 0 | 0

--- keys in many files: only matching rows change, whatever the bounds
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (5, 0);
insert into t values (3, 0), (null, 0);
insert into t values (10, 0), (12, 0);
insert into t values (null, 0);
merge into t using (values (3), (11), (12), (null)) s (id) on t.id = s.id when matched then update set v = 1 when not matched then insert (id, v) values (s.id, 2);
=> 4 | 2 | 0 | 2
select * from t order by v, id;
=> NULL | 0
=> NULL | 0
=> 1 | 0
=> 5 | 0
=> 10 | 0
=> 3 | 1
=> 12 | 1
=> NULL | 2
=> 11 | 2

--- null-safe keys find nulls in files without values
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0);
insert into t values (null, 0);
merge into t using (values (cast(null as int))) s (id) on t.id <=> s.id when matched then delete;
=> 1 | 0 | 1 | 0
select * from t;
=> 1 | 0

--- partition columns as keys, also with null partitions
create table t (id int, p string, v int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a', 0), (2, 'b', 0), (3, null, 0);
merge into t using (values ('b', 1), (null, 2)) s (p, v) on t.p = s.p when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
merge into t using (values ('x', 1), (null, 2)) s (p, v) on t.p <=> s.p when matched then update set v = s.v when not matched then insert (id, p, v) values (4, s.p, s.v);
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | a | 0
=> 2 | b | 1
=> 3 | NULL | 2
=> 4 | x | 1

--- partition columns of other types as keys
create table t (id int, d date, b boolean, n decimal(5, 2)) using delta partitioned by (d, b, n) tblproperties ({mode});
insert into t values (1, date '2024-01-01', true, 1.50), (2, date '2024-01-02', false, 2.00);
merge into t using (values (date '2024-01-02', false, 2)) s (d, b, n) on t.d = s.d and t.b = s.b and t.n = s.n when matched then update set id = 20;
=> 1 | 1 | 0 | 0
merge into t using (values ('2024-01-01')) s (d) on t.d = s.d and t.n > 1 when matched then delete;
=> 1 | 0 | 1 | 0
select id from t;
=> 20

--- a nondeterministic function in a condition is rejected by its name
create table t (id int) using delta;
merge into t using (values (1)) s (id) on t.id = s.id and uuid() <> '' when matched then delete;
!> UnsupportedStatement: uuid
merge into t using (values (1)) s (id) on t.id = s.id when matched and rand() > 0.5 then delete;
!> UnsupportedStatement: rand
merge into t using (values (1)) s (id) on t.id = s.id when not matched and randn() > 0.5 then insert *;
!> UnsupportedStatement: randn
merge into t using (values (1)) s (id) on t.id = s.id when not matched by source and monotonically_increasing_id() > 5 then delete;
!> UnsupportedStatement: monotonically_increasing_id
update t set id = 1 where rand() > 0.5;
!> UnsupportedStatement: rand
delete from t where shuffle(array(1, 2))[0] = 1;
!> UnsupportedStatement: shuffle

--- the current time is one value for the whole statement
create table t (id int, ts timestamp) using delta tblproperties ({mode});
insert into t values (1, timestamp '2020-01-01 00:00:00');
merge into t using (values (1)) s (id) on t.id = s.id and t.ts < current_timestamp() when matched and t.ts < now() then update set ts = current_date();
=> 1 | 1 | 0 | 0
delete from t where ts <= current_timestamp() and ts >= current_date() - interval 1 day;
=> 1

--- a collation in the condition determines equality, also when files are pruned
create table t (id int, name string) using delta tblproperties ({mode});
insert into t values (1, 'ANNA');
merge into t using (values ('anna', 10), ('carl', 30)) as s (name, v) on t.name = s.name collate utf8_lcase
when matched then update set id = s.v when not matched then insert (id, name) values (s.v, s.name);
=> 2 | 1 | 0 | 1
select id, name from t order by id;
=> 10 | ANNA
=> 30 | carl
