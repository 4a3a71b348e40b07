--- the first true clause wins
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
merge into t using (values (1, 'x'), (2, 'y'), (4, 'z')) s (id, v) on t.id = s.id
when matched and s.v = 'x' then delete
when matched and s.id < 3 then update set v = concat(t.v, s.v)
when matched then update set v = 'never'
when not matched and s.id = 4 then insert (v, id) values (upper(s.v), s.id)
when not matched then insert *;
=> 3 | 1 | 1 | 1
select * from t order by id;
=> 2 | by
=> 3 | c
=> 4 | Z

--- update star and insert star assign by name and ignore extra source columns
create table t (id int, v string, d date) using delta tblproperties ({mode});
insert into t values (1, 'a', date '2024-01-01');
create temporary view s as select 'new' as v, 9 as extra, date '2024-02-02' as d, id from values (1), (2) as s (id);
merge into t using s on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | new | 2024-02-02
=> 2 | new | 2024-02-02

--- a column that the source lacks fails insert star
create table t (id int, v string) using delta;
merge into t using (select 1 as id, 'x' as vv) s on t.id = s.id when not matched then insert *;
!> UnknownColumn: `v`

--- columns left out of an insert list are null
create table t (id int, v string, n int) using delta tblproperties ({mode});
merge into t using (select 1 as id, 'x' as v) s on t.id = s.id when not matched then insert (id) values (s.id);
select * from t;
=> 1 | NULL | NULL

--- two source rows for one target row fail the merge with the key
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (2, 'x'), (2, 'y')) s (id, v) on t.id = s.id when matched then update set v = s.v;
!> MultipleSourceRowsMatch: id = 2
select * from t order by id;
=> 1 | a
=> 2 | b

--- two source rows for one target row are allowed if a clause applies to only one
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (2, 'x'), (2, 'y')) s (id, v) on t.id = s.id when matched and s.v = 'y' then update set v = s.v;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | a
=> 2 | y

--- a single unconditional delete can match twice
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (2, 'x'), (2, 'y')) s (id, v) on t.id = s.id when matched then delete;
=> 1 | 0 | 1 | 0
select * from t order by id;
=> 1 | a

--- null keys match nothing with = and each other with <=>
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (null, 'a'), (1, 'b');
merge into t using (values (cast(null as int), 'x')) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
=> 1 | 0 | 0 | 1
merge into t using (values (1, 'y')) s (id, v) on t.id <=> s.id when matched then update set *;
=> 1 | 1 | 0 | 0
select * from t order by id, v;
=> NULL | a
=> NULL | x
=> 1 | y

--- a null key or value can be a struct whose fields are not nullable
create table t (k struct<a: int>, v array<struct<b: int>>) using delta tblproperties ({mode});
insert into t values (named_struct('a', 1), null), (null, array());
merge into t using (
    select named_struct('a', 1) as k, array(named_struct('b', 2)) as v union all select null, array(null)
  ) s on t.k <=> s.k when matched then update set v = s.v when not matched then insert *;
=> 2 | 2 | 0 | 0
select k.a, v[0].b, size(v) from t order by 1;
=> NULL | NULL | 1
=> 1 | 2 | 1

--- not matched by source updates and deletes
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
merge into t using (values (1, 'x'), (5, 'y')) s (id, v) on t.id = s.id
when matched then update set *
when not matched then insert *
when not matched by source and t.id = 4 then delete
when not matched by source and t.id = 2 then update set v = 'orphan';
=> 4 | 2 | 1 | 1
select * from t order by id;
=> 1 | x
=> 2 | orphan
=> 3 | c
=> 5 | y

--- an empty source changes nothing, or all rows with not matched by source
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
merge into t using (select id from t where false) s on t.id = s.id when matched then delete when not matched then insert *;
=> 0 | 0 | 0 | 0
merge into t using (select id from t where false) s on t.id = s.id when not matched by source then delete;
=> 2 | 0 | 2 | 0
select count(*) from t;
=> 0

--- on false inserts everything
create table t (id int) using delta tblproperties ({mode});
insert into t values (1);
merge into t using (values (1), (2)) s (id) on false when not matched then insert *;
=> 2 | 0 | 0 | 2
select id from t order by id;
=> 1
=> 1
=> 2

--- the source can read the target
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 10), (2, 20);
merge into t using (select id + 1 as id, n from t) s on t.id = s.id when matched then update set n = s.n when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | 10
=> 2 | 10
=> 3 | 20

--- a range condition matches by comparison
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (5, 'b'), (9, 'c');
merge into t using (values (4, 6, 'mid')) s (low, high, v) on t.id between s.low and s.high when matched then update set v = s.v;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | a
=> 5 | mid
=> 9 | c

--- rows move when a partition column is updated
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'a'), (3, 'b');
merge into t using (values (1, 'b')) s (id, p) on t.id = s.id when matched then update set p = s.p;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | b
=> 2 | a
=> 3 | b
select id from t where p = 'b' order by id;
=> 1
=> 3

--- a single field of a struct is assigned
create table t (id int, s struct<a: int, b: struct<c: string, d: int>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2)));
merge into t using (values (1, 'new')) u (id, c) on t.id = u.id when matched then update set t.s.b.c = u.c, s.a = t.s.a + 1;
select s.a, s.b.c, s.b.d from t;
=> 2 | new | 2

--- a column assigned twice is rejected
create table t (id int, v string) using delta;
merge into t using (values (1)) u (id) on t.id = u.id when matched then update set v = 'a', t.v = 'b';
!> PlanError: twice

--- a merge without an action is rejected
create table t (id int) using delta;
merge into t using (values (1)) s (id) on t.id = s.id;
!> Unparsable: WHEN

--- values are stored as the column's type
create table t (id bigint, d decimal(5,2), b tinyint) using delta tblproperties ({mode});
merge into t using (select cast(1 as int) as id, 1.239 as d, 7 as b) s on t.id = s.id when not matched then insert *;
select * from t;
=> 1 | 1.24 | 7

--- delta: a value out of range fails the merge
create table t (id int, b tinyint) using delta;
merge into t using (values (1, 300)) s (id, b) on t.id = s.id when not matched then insert *;
!> ValueOutOfRange: 300
select count(*) from t;
=> 0

--- a boolean is not assignable to a number
create table t (id int, n int) using delta;
merge into t using (values (1, true)) s (id, n) on t.id = s.id when not matched then insert *;
!> TypeMismatch: `n`

--- an unknown column is reported with similar names
create table t (id int, amount int) using delta;
merge into t using (values (1, 5)) s (id, amount) on t.id = s.id when matched then update set amuont = s.amount;
!> UnknownColumn: Did you mean `amount`
merge into t using (values (1, 5)) s (id, amount) on t.id = s.idd when matched then delete;
!> UnknownColumn: id

--- an ambiguous column is reported by name
create table t (id int, v int) using delta;
insert into t values (1, 1);
merge into t using (values (1, 5)) s (id, v) on t.id = s.id when matched and v > 1 then delete;
!> AmbiguousColumn: v

--- a nondeterministic condition is rejected by name
create table t (id int) using delta;
merge into t using (values (1)) s (id) on t.id = s.id and rand() < 0.5 when matched then delete;
!> UnsupportedStatement: rand

--- names with quotes, spaces and dots work
create table `a b.c` (`id``x` int, `v.w` string) using delta tblproperties ({mode});
insert into `a b.c` values (1, 'a'), (2, 'b');
merge into `a b.c` as `t t` using (select 1 as `id``x`, 'new' as `v.w`) as `s.s` on `t t`.`id``x` = `s.s`.`id``x` when matched then update set *;
=> 1 | 1 | 0 | 0
select `v.w` from `a b.c` order by `id``x`;
=> new
=> b

--- a source that is not deterministic is evaluated once
create table t (id int, r double) using delta tblproperties ({mode});
insert into t values (1, 0.0);
merge into t using (select id, rand() as r from values (1), (2) as s (id)) s on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1

--- the table can be referenced by its qualified name
create schema analytics;
create table analytics.orders (id int, v string) using delta tblproperties ({mode});
insert into analytics.orders values (1, 'a');
merge into analytics.orders using (values (1, 'b')) s (id, v) on analytics.orders.id = s.id when matched then update set orders.v = s.v;
select analytics.orders.v from analytics.orders;
=> b

--- unqualified names in insert values refer to the source
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (values (1, 'b')) s (id, v) on t.id = s.id when not matched and v = 'b' then insert (id, v) values (id, upper(v));
select * from t;
=> 1 | B

--- the source can be a common table expression
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
with new as (select 1 as id, 'b' as v) merge into t using new on t.id = new.id when matched then update set *;
=> 1 | 1 | 0 | 0

--- keys beyond the range of the column's type match no row with = and every row with <
create table t (id tinyint) using delta tblproperties ({mode});
insert into t values (1), (100);
merge into t using (values (1000L), (1L)) s (n) on t.id = s.n when matched then delete;
=> 1 | 0 | 1 | 0
merge into t using (values (1000L)) s (n) on t.id < s.n when matched then update set id = 5;
=> 1 | 1 | 0 | 0
select * from t;
=> 5
