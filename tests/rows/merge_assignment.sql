--- values of one update read the old row
create table t (id int, a int, b int) using delta tblproperties ({mode});
insert into t values (1, 10, 20), (2, 1, 2);
merge into t using (values (1), (2)) s (id) on t.id = s.id when matched then update set a = t.b, b = t.a, id = t.a + t.b;
=> 2 | 2 | 0 | 0
select * from t order by id;
=> 3 | 2 | 1
=> 30 | 20 | 10

--- columns that are not assigned keep their values
create table t (id int, a int, b string, c array<int>) using delta tblproperties ({mode});
insert into t values (1, 10, 'x', array(1, 2));
merge into t using (values (1, 5)) s (id, a) on t.id = s.id when matched then update set a = s.a + t.a;
select * from t;
=> 1 | 15 | x | [1, 2]

--- lists in any order, qualified or not
create table t (a int, b int, c int) using delta tblproperties ({mode});
insert into t values (1, 2, 3);
merge into t as x using (values (1, 7), (9, 8)) s (k, n) on x.a = s.k
when matched then update set c = n, x.b = k
when not matched then insert (c, a, b) values (n + 1, k, null);
=> 2 | 1 | 0 | 1
select * from t order by a;
=> 1 | 1 | 7
=> 9 | NULL | 9

--- a list with too few or too many values is rejected
create table t (a int, b int) using delta;
merge into t using (values (1)) s (k) on t.a = s.k when not matched then insert (a, b) values (s.k);
!> Unparsable: 2 column(s) and 1 value(s)
merge into t using (values (1)) s (k) on t.a = s.k when not matched then insert (a) values (s.k, 2);
!> Unparsable: 1 column(s) and 2 value(s)

--- a duplicate column is rejected in any case and with any qualifier
create table t (a int, b int) using delta;
merge into t using (values (1)) s (k) on t.a = s.k when not matched then insert (a, A) values (1, 2);
!> PlanError: twice
merge into t using (values (1)) s (k) on t.a = s.k when not matched then insert (a, t.a) values (1, 2);
!> PlanError: twice
merge into t using (values (1)) s (k) on t.a = s.k when matched then update set a = 1, B = 2, b = 3;
!> PlanError: twice
merge into t using (values (1)) s (k) on t.a = s.k when not matched by source then update set a = 1, t.a = 1;
!> PlanError: twice

--- a column together with its field is rejected in either order
create table t (id int, s struct<a: int, b: struct<c: int, d: int>>) using delta;
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set s.a = 1, s = named_struct('a', 1, 'b', null);
!> PlanError: together with one of its fields
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set s = null, s.b.c = 1;
!> PlanError: together with one of its fields
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set s.b = null, s.b.d = 1;
!> PlanError: together with one of its fields
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set s.b.d = 2, s.b.D = 1;
!> PlanError: twice

--- several fields of one struct are assigned, the others stay
create table t (id int, s struct<a: int, b: struct<c: string, d: int>, e: string>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2), 'e', 'E'));
merge into t using (values (1, 'new')) u (k, c) on t.id = u.k when matched then update set s.b.c = u.c, t.s.a = s.b.d * 10, S.E = lower(t.s.e);
select s.a, s.b.c, s.b.d, s.e from t;
=> 20 | new | 2 | e

--- assigning a field of a null struct sets its other fields to null
create table t (id int, s struct<a: int, b: struct<c: string, d: int>>) using delta tblproperties ({mode});
insert into t values (1, null), (2, named_struct('a', 1, 'b', null));
merge into t using (values (1), (2)) u (k) on t.id = u.k when matched then update set s.b.c = 'x';
select id, s is null, s.a, s.b.c, s.b.d from t order by id;
=> 1 | false | NULL | x | NULL
=> 2 | false | 1 | x | NULL

--- a whole struct is assigned by name
create table t (id int, s struct<a: int, b: string>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', 'x'));
merge into t using (select 1 as id, named_struct('b', 'y', 'a', 2) as s) u on t.id = u.id when matched then update set s = u.s;
select s.a, s.b from t;
=> 2 | y
merge into t using (select id, named_struct('b', 'z', 'a', id) as s from values (1), (2) v (id)) u on t.id = u.id
when matched then update set * when not matched then insert *;
select id, s.a, s.b from t order by id;
=> 1 | 1 | z
=> 2 | 2 | z

--- an unknown field is reported with the fields of the struct
create table t (id int, s struct<alpha: int>) using delta;
insert into t values (1, named_struct('alpha', 1));
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set s.alhpa = 1;
!> UnknownColumn: Did you mean `alpha`
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set id.x = 1;
!> PlanError: not a struct
merge into t using (values (1)) u (k) on t.id = u.k when not matched then insert (s.alpha) values (1);
!> PlanError: named_struct

--- elements of arrays and maps cannot be assigned one by one
create table t (id int, xs array<struct<a: int>>, m map<string, int>) using delta;
insert into t values (1, array(named_struct('a', 1)), map('k', 1));
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set xs.a = 1;
!> PlanError: Assign the whole column
merge into t using (values (1)) u (k) on t.id = u.k when matched then update set m.k = 1;
!> PlanError: Assign the whole column

--- whole arrays and maps are assigned, from both sides
create table t (id int, xs array<int>, m map<string, int>) using delta tblproperties ({mode});
insert into t values (1, array(1, 2), map('a', 1)), (2, null, null);
merge into t using (select 1 as id, array(3) as ys, map('b', 2) as n union all select 2, array(), map()) s on t.id = s.id
when matched then update set xs = concat(t.xs, s.ys), m = map_concat(t.m, s.n);
select id, xs, m['a'], m['b'] from t order by id;
=> 1 | [1, 2, 3] | 1 | 2
=> 2 | NULL | NULL | NULL

--- lambda variables, fields and functions keep their names in values
create table t (id int, xs array<int>, s struct<id: int, x: int>) using delta tblproperties ({mode});
insert into t values (1, array(1, 2, 3), named_struct('id', 5, 'x', 6));
merge into t using (values (1, 10)) u (k, x) on t.id = u.k
when matched then update set xs = transform(t.xs, x -> x + u.x), s.x = t.s.id + aggregate(t.xs, 0, (acc, id) -> acc + id);
select xs, s.id, s.x from t;
=> [11, 12, 13] | 5 | 11

--- default in an insert list and in set is null without a default
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
merge into t using (values (1), (2)) s (id) on t.id = s.id
when matched then update set v = default when not matched then insert (id, v) values (s.id, default);
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | NULL
=> 2 | NULL

--- null literals get the column's type
create table t (id int, d date, s struct<a: int>, xs array<string>) using delta tblproperties ({mode});
insert into t values (1, date '2024-01-01', named_struct('a', 1), array('x'));
merge into t using (values (1), (2)) s (id) on t.id = s.id
when matched then update set d = null, s = null, xs = null when not matched then insert (id, d, s) values (s.id, null, null);
select * from t order by id;
=> 1 | NULL | NULL | NULL
=> 2 | NULL | NULL | NULL

--- delta: an overflow fails the merge with table and column, and changes nothing
create table t (id int, b tinyint) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
merge into t using (values (1, 5), (2, 300)) s (id, n) on t.id = s.id when matched then update set b = s.n;
!> ValueOutOfRange: 300
merge into t using (values (2, 300)) s (id, n) on t.id = s.id when matched then update set b = s.n;
!> ValueOutOfRange: `b` of default.t
select * from t order by id;
=> 1 | 1
=> 2 | 2

--- a value out of range is ignored in a clause that does not apply
create table t (id int, b tinyint) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
merge into t using (values (1, 5), (2, 300), (3, 400)) s (id, n) on t.id = s.id
when matched and s.n < 100 then update set b = s.n
when not matched and s.n < 100 then insert (id, b) values (s.id, s.n);
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | 5
=> 2 | 2

--- types that are not assignable are rejected before anything runs
create table t (id int, n int, d date, b boolean, s struct<a: int>) using delta;
merge into t using (values (1, true)) s (id, v) on t.id = s.id when matched then update set n = s.v;
!> TypeMismatch: `n` of default.t
merge into t using (values (1, 7)) s (id, v) on t.id = s.id when not matched then insert (id, d) values (s.id, s.v);
!> TypeMismatch: `d` of default.t
merge into t using (values (1, 7)) s (id, v) on t.id = s.id when matched then update set b = s.v;
!> TypeMismatch: `b` of default.t
merge into t using (values (1, 7)) u (id, v) on t.id = u.id when matched then update set s = u.v;
!> TypeMismatch: `s` of default.t
merge into t using (values (1, timestamp '2024-01-01 00:00:00')) s (id, v) on t.id = s.id when not matched by source then update set n = current_date();
!> TypeMismatch: `n` of default.t

--- strings are cast to the column's type, and invalid strings fail
create table t (id int, n bigint, d date, ts timestamp, b boolean, x decimal(5, 2), s struct<a: double>, l array<int>) using delta tblproperties ({mode});
insert into t values ('1', ' 7 ', '2024-02-03', '2024-02-03 04:05:06', 'true', '1.239', named_struct('a', '1e3'), array('5', null));
merge into t using (values ('1', '8', 'no'), ('2', null, 'T')) s (id, n, b) on t.id = s.id when matched then update set n = s.n, b = s.b when not matched then insert (id, n, b) values (s.id, s.n, s.b);
select id, n, d, cast(ts as string), b, x, s.a, l[0], l[1] from t order by id;
=> 1 | 8 | 2024-02-03 | 2024-02-03 04:05:06 | false | 1.24 | 1000.0 | 5 | NULL
=> 2 | NULL | NULL | NULL | true | NULL | NULL | NULL | NULL
update t set d = '2024-02-30' where id = 1;
!> ValueOutOfRange: 2024-02-30
update t set n = '7.5';
!> ValueOutOfRange: 7.5
update t set l = array('5', '5000000000');
!> ValueOutOfRange: 5000000000
merge into t using (values (3, 'maybe')) s (id, b) on t.id = s.id when not matched then insert (id, b) values (s.id, s.b);
!> ValueOutOfRange: maybe
select count(*), sum(n) from t;
=> 2 | 8

--- decimals are rounded to the column's scale, and decimals out of range fail
create table t (id int, d decimal(5, 2)) using delta tblproperties ({mode});
insert into t values (1, 1.10);
merge into t using (values (1, 2.345), (2, 9.999)) s (id, d) on t.id = s.id when matched then update set * when not matched then insert *;
select * from t order by id;
=> 1 | 2.35
=> 2 | 10.00
merge into t using (values (1, 12345.6)) s (id, d) on t.id = s.id when matched then update set d = s.d;
!> ValueOutOfRange: 12345.6

--- a double is stored in an integer as in an insert, and fails if out of range
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 1);
merge into t using (values (1, 2.9D)) s (id, x) on t.id = s.id when matched then update set n = s.x;
select n from t;
=> 2
merge into t using (values (1, 1e12D)) s (id, x) on t.id = s.id when matched then update set n = s.x;
!> ValueOutOfRange: `n`

--- anything can be stored as a string
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1, date '2024-01-02', 1.50)) s (id, d, n) on t.id = s.id
when matched then update set v = s.d when not matched by source then update set v = t.id;
select * from t order by id;
=> 1 | 2024-01-02
=> 2 | 2

--- delta: varchar and char lengths are enforced in merge
create table t (id int, v varchar(3), c char(4)) using delta tblproperties ({mode});
insert into t values (1, 'abc', 'xy');
merge into t using (values (1, 'de   ')) s (id, v) on t.id = s.id when matched then update set v = s.v;
select concat(v, '|'), concat(c, '|') from t;
=> de | | xy  |
merge into t using (values (1, 'long')) s (id, v) on t.id = s.id when matched then update set v = s.v;
!> ValueOutOfRange: `v` of default.t
merge into t using (values (2, 'longer')) s (id, v) on t.id = s.id when not matched then insert (id, c) values (s.id, s.v);
!> ValueOutOfRange: `c` of default.t

--- a not null column rejects null from update, insert and omission
create table t (id int, n int not null, v string) using delta tblproperties ({mode});
insert into t values (1, 1, 'a');
merge into t using (values (1, cast(null as int))) s (id, n) on t.id = s.id when matched then update set n = s.n;
!> ConstraintViolated: `n`
merge into t using (values (2, 'x')) s (id, v) on t.id = s.id when not matched then insert (id, v) values (s.id, s.v);
!> ConstraintViolated: `n`
merge into t using (values (2, 'x')) s (id, v) on t.id = s.id when not matched by source then update set n = null;
!> ConstraintViolated: `n`
select * from t;
=> 1 | 1 | a

--- values can be nondeterministic and differ per row
create table t (id int, u string, ts timestamp) using delta tblproperties ({mode});
insert into t values (1, null, null), (2, null, null);
merge into t using (values (1), (2), (3), (4)) s (id) on t.id = s.id
when matched then update set u = uuid(), ts = current_timestamp()
when not matched then insert (id, u, ts) values (s.id, uuid(), current_timestamp());
=> 4 | 2 | 0 | 2
select count(distinct u), count(distinct ts) >= 1, count(ts) from t;
=> 4 | true | 4

--- a nondeterministic value that is cast is evaluated once
create table t (id int, n tinyint) using delta tblproperties ({mode});
insert into t select id, 0 from range(200);
merge into t using (select id from range(200)) s on t.id = s.id when matched then update set n = if(rand() < 0.5, null, 5L);
=> 200 | 200 | 0 | 0
select count(*) from t where n is null or n = 5;
=> 200

--- a value can use the assigned column and the source column of the same name
create table t (id int, total bigint, n int) using delta tblproperties ({mode});
insert into t values (1, 10, 1);
merge into t using (values (1, 5)) s (id, total) on t.id = s.id
when matched then update set total = t.total + s.total, n = t.n + 1;
select * from t;
=> 1 | 15 | 2

--- names that both sides have are ambiguous in values and conditions
create table t (id int, v int) using delta;
insert into t values (1, 1);
merge into t using (values (1, 5)) s (id, v) on t.id = s.id when matched then update set v = v + 1;
!> AmbiguousColumn: v
merge into t using (values (1, 5)) s (id, v) on id = s.id when matched then delete;
!> AmbiguousColumn: id

--- set and insert lists contain only target columns
create table t (id int, v int) using delta;
merge into t using (values (1, 5)) s (id, w) on t.id = s.id when matched then update set s.w = 1;
!> UnknownColumn: `s`
merge into t using (values (1, 5)) s (id, w) on t.id = s.id when not matched then insert (w) values (1);
!> UnknownColumn: `w`

--- interval arithmetic, casts and type constructors in values
create table t (id int, d date, ts timestamp) using delta tblproperties ({mode});
insert into t values (1, date '2024-01-31', timestamp '2024-01-31 10:00:00');
merge into t using (values (1, 'a')) s (id, v) on t.id = s.id
when matched then update set d = t.d + interval 1 month, ts = t.ts + interval '1 02' day to hour;
select d, ts from t;
=> 2024-02-29 | 2024-02-01 12:00:00
