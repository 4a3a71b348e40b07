--- a new column of the source is added by update star and insert star
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (0, 0), (1, 10), (3, 30);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b')) s (k, v, extra) on t.k = s.k when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by k;
=> 0 | 0 | NULL
=> 1 | 1 | a
=> 2 | 2 | b
=> 3 | 30 | NULL
describe t;
=> k | int | NULL
=> v | int | NULL
=> extra | string | NULL

--- only insert star adds the column, matched rows stay
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 10);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b')) s (k, v, extra) on t.k = s.k when not matched then insert *;
select * from t order by k;
=> 1 | 10 | NULL
=> 2 | 2 | b

--- only update star adds the column, rows that do not match are not inserted
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 10), (3, 30);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b')) s (k, v, extra) on t.k = s.k when matched then update set *;
select * from t order by k;
=> 1 | 1 | a
=> 3 | 30 | NULL

--- a column that the source lacks keeps its value on update and is null on insert
create table t (k int, old_value string) using delta tblproperties ({mode});
insert into t values (1, 'kept'), (3, 'also');
merge with schema evolution into t using (values (1, 'x'), (2, 'y')) s (k, new_value) on t.k = s.k when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | kept | x
=> 2 | NULL | y
=> 3 | also | NULL

--- struct fields that the source lacks stay on update star and are null on insert star
create table t (k int, x struct<a: int, b: int, c: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', 10, 'c', 100)), (2, named_struct('a', 2, 'b', 20, 'c', 200));
merge with schema evolution into t using (select k, named_struct('c', 0, 'a', v) as x from values (1, 7), (3, 8) as s (k, v)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select k, x.a, x.b, x.c from t order by k;
=> 1 | 7 | 10 | 0
=> 2 | 2 | 20 | 200
=> 3 | 8 | NULL | 0

--- new struct fields are added at the end of their struct
create table t (k int, x struct<a: int, c: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'c', 10)), (2, named_struct('a', 2, 'c', 20));
merge with schema evolution into t using (select 1 as k, named_struct('a', 10, 'b', 100, 'c', 1000) as x) s on t.k = s.k when matched then update set *;
select * from t order by k;
=> 1 | Row(a=10, c=1000, b=100)
=> 2 | Row(a=2, c=20, b=None)

--- arrays of structs evolve, and elements get all fields
create table t (k int, x array<struct<a: string, b: string>>) using delta tblproperties ({mode});
insert into t values (1, array(named_struct('a', '1', 'b', 'x'))), (2, array(named_struct('a', '2', 'b', 'y')));
merge with schema evolution into t using (select k, array(named_struct('c', 'C', 'a', k, 'd', 'D'), null) as x from values (1), (3) as s (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | [Row(a='1', b=None, c='C', d='D'), None]
=> 2 | [Row(a='2', b='y', c=None, d=None)]
=> 3 | [Row(a='3', b=None, c='C', d='D'), None]

--- maps of structs evolve in their values
create table t (k int, x map<string, struct<a: int>>) using delta tblproperties ({mode});
insert into t values (1, map('i', named_struct('a', 1))), (2, map('j', named_struct('a', 2)));
merge with schema evolution into t using (select k, map('n', named_struct('b', 'B', 'a', k)) as x from values (1), (3) as s (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | {'n': Row(a=1, b='B')}
=> 2 | {'j': Row(a=2, b=None)}
=> 3 | {'n': Row(a=3, b='B')}
insert overwrite t select * from t;

--- an assignment adds only the source column of that name
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (0, 0), (1, 10);
merge with schema evolution into t using (values (1, 1, 'a', 'unused')) s (k, v, extra, unused) on t.k = s.k when matched then update set extra = s.extra;
select * from t order by k;
=> 0 | 0 | NULL
=> 1 | 10 | a

--- the value of a new column can be any expression
create table t (k int, v int) using delta;
insert into t values (1, 10);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b')) s (k, v, extra) on t.k = s.k
when matched then update set extra = upper(s.extra) || t.v when not matched then insert (k, extra) values (s.k, 'new');
select * from t order by k;
=> 1 | 10 | A10
=> 2 | NULL | new

--- a new column takes the type of the source's column of its name, whatever is assigned
create table t (k int) using delta;
insert into t values (1);
merge with schema evolution into t using (values (1, 7, 9L)) s (k, v, extra) on t.k = s.k when matched then update set extra = -1;
select * from t;
=> 1 | -1
describe t;
=> k | int | NULL
=> extra | bigint | NULL

--- an assignment to a column that neither table nor source has is an error
create table t (k int, v int) using delta;
merge with schema evolution into t using (values (1, 'a')) s (k, extra) on t.k = s.k when matched then update set nope = s.extra;
!> UnknownColumn: `nope`
merge with schema evolution into t using (values (1, 'a')) s (k, extra) on t.k = s.k when not matched then insert (nope) values (s.extra);
!> UnknownColumn: `nope`
merge with schema evolution into t using (values (1, 'a')) s (k, extra) on t.k = s.k when matched then update set v.x = 1;
!> PlanError: not a struct

--- insert lists add only their columns
create table t (k int, old_value int) using delta tblproperties ({mode});
insert into t values (1, 10);
merge with schema evolution into t using (values (2, 'x', 'unused')) s (k, new_value, unused) on t.k = s.k when not matched then insert (k, new_value) values (s.k, s.new_value);
select * from t order by k;
=> 1 | 10 | NULL
=> 2 | NULL | x

--- update and insert can add different columns
create table t (k int, v int) using delta;
insert into t values (1, 10), (3, 30);
merge with schema evolution into t using (values (1, 'e1', 'o1'), (2, 'e2', 'o2')) s (k, extra, other) on t.k = s.k
when matched then update set extra = s.extra when not matched then insert (k, other) values (s.k, s.other);
select * from t order by k;
=> 1 | 10 | e1 | NULL
=> 2 | NULL | NULL | o2
=> 3 | 30 | NULL | NULL

--- in a merge with a star clause, a clause with a list leaves the new column null
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (0, 0), (1, 10), (2, 20);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')) s (k, v, extra) on t.k = s.k
when matched and s.k < 2 then update set v = s.v when matched then update set *
when not matched and s.k = 3 then insert (k, v) values (s.k, -3) when not matched then insert *;
select * from t order by k;
=> 0 | 0 | NULL
=> 1 | 1 | NULL
=> 2 | 2 | b
=> 3 | -3 | NULL

--- clauses of every kind in one evolving merge
create table t (k int, target_val string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');
merge with schema evolution into t using (values (1, 't'), (2, 'u'), (3, 'v'), (6, 'x'), (7, 'y'), (8, 'z')) s (k, src_val) on t.k = s.k
when matched and s.k = 1 then update set target_val = src_val
when matched and s.k = 2 then update set *
when matched then delete
when not matched and s.k = 6 then insert (k) values (s.k)
when not matched and s.k = 7 then insert *
when not matched by source and t.k = 4 then delete
when not matched by source then update set target_val = target_val || '!';
=> 7 | 3 | 2 | 2
select * from t order by k;
=> 1 | t | NULL
=> 2 | b | u
=> 5 | e! | NULL
=> 6 | NULL | NULL
=> 7 | NULL | y

--- not matched by source cannot add a column
create table t (k int) using delta;
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when not matched by source then update set extra = 'none';
!> UnknownColumn: `extra`
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when not matched then insert * when not matched by source then update set extra = 'none';
!> UnknownColumn: `extra`

--- rows only in the target are changed by a merge with new columns
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (0, 0), (1, 10), (3, 30);
merge with schema evolution into t using (values (1, 1, 'a'), (2, 2, 'b')) s (k, v, extra) on t.k = s.k
when not matched then insert * when not matched by source and k > 0 then update set v = v + 1;
select * from t order by k;
=> 0 | 0 | NULL
=> 1 | 10 | NULL
=> 2 | 2 | b
=> 3 | 31 | NULL

--- a merge that only deletes changes no schema
create table t (k int) using delta;
insert into t values (1), (2);
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when matched and extra = 'x' then delete;
select * from t;
=> 2

--- a new column in a clause's condition is the source's
create table t (k int, v int) using delta;
insert into t values (1, 10), (2, 20);
merge with schema evolution into t using (values (1, 1, 'yes'), (2, 2, 'no')) s (k, v, extra) on t.k = s.k and extra is not null
when matched and extra = 'yes' then update set *;
select * from t order by k;
=> 1 | 1 | yes
=> 2 | 20 | NULL

--- the target has no new column yet in conditions
create table t (k int) using delta;
insert into t values (1);
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when matched and t.extra is null then update set *;
!> UnknownColumn: extra

--- names that differ only in case are one column with the table's spelling
create table t (Key int, Val string, S struct<Aa: int>) using delta tblproperties ({mode});
insert into t values (1, 'a', named_struct('Aa', 1)), (2, 'b', null);
merge with schema evolution into t using (select key, val, named_struct('AA', 5, 'Bb', 6) as s, 1 as EXTRA from values (1, 'x'), (3, 'z') as v (key, VAL)) u on t.key = u.key
when matched then update set * when not matched then insert *;
select * from t order by key;
=> 1 | x | Row(Aa=5, Bb=6) | 1
=> 2 | b | NULL | NULL
=> 3 | z | Row(Aa=5, Bb=6) | 1
describe t;
=> Key | int | NULL
=> Val | string | NULL
=> S | struct<Aa:int,Bb:int> | NULL
=> EXTRA | int | NULL

--- a second merge with the same source adds nothing
create table t (k int) using delta;
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when matched then update set * when not matched then insert *;
merge with schema evolution into t using (values (1, 'y')) s (k, EXTRA) on t.k = s.k when matched then update set * when not matched then insert *;
select * from t;
=> 1 | y
describe t;
=> k | int | NULL
=> extra | string | NULL

--- the schema changes even if no row changes
create table t (k int) using delta tblproperties ({mode});
insert into t values (1);
merge with schema evolution into t using (select 9 as k, 'x' as extra where false) s on t.k = s.k when matched then update set * when not matched then insert *;
=> 0 | 0 | 0 | 0
merge with schema evolution into t using (select 9 as k, 1 as more) s on t.k = s.k when matched then update set *;
=> 0 | 0 | 0 | 0
select * from t;
=> 1 | NULL | NULL

--- a merge into an empty table takes the source's columns
create table t (k int) using delta tblproperties ({mode});
merge with schema evolution into t using (select 1 as k, date '2024-01-02' as d, timestamp_ntz '2024-01-02 03:04:05' as n, cast(1.5 as decimal(4,2)) as m, binary('x') as b, array(1, 2) as a) s on t.k = s.k when not matched then insert *;
select k, d, n, m, cast(b as string), a from t;
=> 1 | 2024-01-02 | 2024-01-02 03:04:05 | 1.50 | x | [1, 2]

--- new columns are nullable even if the source is not
create table t (k int not null) using delta;
insert into t values (1), (2);
create table s (k int not null, v int not null) using delta;
insert into s values (1, 10), (3, 30);
merge with schema evolution into t using s on t.k = s.k when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | 10
=> 2 | NULL
=> 3 | 30
insert into t (k) values (4);
insert into t values (null, 1);
!> ConstraintViolated: NOT NULL

--- a NOT NULL column that the source lacks fails an insert
create table t (k int, must int not null) using delta;
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when not matched then insert *;
!> ConstraintViolated: `must`
describe t;
=> k | int | NULL
=> must | int | NULL

--- new columns are added after the partition columns
create table t (k int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge with schema evolution into t using (values (1, 'b', 1.5), (3, 'c', 2.5)) s (k, p, extra) on t.k = s.k when matched then update set * when not matched then insert *;
select k, p, extra from t order by k;
=> 1 | b | 1.5
=> 2 | b | NULL
=> 3 | c | 2.5
select k from t where p = 'b' and extra is null;
=> 2

--- a struct that is null stays null
create table t (k int, x struct<a: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1)), (2, null), (3, null);
merge with schema evolution into t using (select k, if(k = 1, null, named_struct('a', k, 'b', 'n')) as x from values (1), (2), (4) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | NULL
=> 2 | Row(a=2, b='n')
=> 3 | NULL
=> 4 | Row(a=4, b='n')

--- a null struct of the source keeps the fields that only the target has
create table t (k int, x struct<a: int, only: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'only', 10)), (2, null);
merge with schema evolution into t using (select k, cast(null as struct<a: int>) as x from values (1), (2) as v (k)) s on t.k = s.k when matched then update set *;
select * from t order by k;
=> 1 | Row(a=None, only=10)
=> 2 | NULL

--- an assigned struct does not keep the fields that it lacks
create table t (k int, x struct<a: int, b: int>) using delta;
insert into t values (1, named_struct('a', 1, 'b', 10));
merge with schema evolution into t using (select 1 as k, named_struct('c', 3, 'a', 7) as x) s on t.k = s.k when matched then update set x = s.x;
select * from t;
=> 1 | Row(a=7, b=None, c=3)

--- fields are kept and added at any depth
create table t (k int, x struct<y: struct<a: int, b: int>, z: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('y', named_struct('a', 1, 'b', 2), 'z', 3)), (2, named_struct('y', null, 'z', 4));
merge with schema evolution into t using (select k, named_struct('y', named_struct('c', 30, 'a', 10), 'w', 'new') as x from values (1), (2), (3) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | Row(y=Row(a=10, b=2, c=30), z=3, w='new')
=> 2 | Row(y=Row(a=10, b=None, c=30), z=4, w='new')
=> 3 | Row(y=Row(a=10, b=None, c=30), z=None, w='new')

--- only a new field is assigned
create table t (k int, x struct<a: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1)), (2, named_struct('a', 2)), (3, null);
merge with schema evolution into t using (select k, named_struct('a', 9, 'b', 'bb', 'c', 'cc') as x from values (1), (3) as v (k)) s on t.k = s.k when matched then update set x.b = s.x.b;
select * from t order by k;
=> 1 | Row(a=1, b='bb')
=> 2 | Row(a=2, b=None)
=> 3 | Row(a=None, b='bb')

--- an old field is assigned while a star adds others
create table t (k int, x struct<a: int, b: int>) using delta;
insert into t values (1, named_struct('a', 1, 'b', 2));
merge with schema evolution into t using (select k, named_struct('a', k * 10, 'c', k * 100) as x from values (1), (2) as v (k)) s on t.k = s.k
when matched then update set x.a = s.x.a when not matched then insert *;
select * from t order by k;
=> 1 | Row(a=10, b=2, c=None)
=> 2 | Row(a=20, b=None, c=200)

--- a struct that no clause assigns gets its new fields as null
create table t (k int, x struct<a: int>, l array<struct<a: int>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 10), array(named_struct('a', 11), null));
merge with schema evolution into t using (select k, named_struct('a', k, 'b', k) as x, array(named_struct('b', k)) as l from values (1), (2) as v (k)) s on t.k = s.k
when matched then update set k = 0 when not matched then insert *;
select * from t order by k;
=> 0 | Row(a=10, b=None) | [Row(a=11, b=None), None]
=> 2 | Row(a=2, b=2) | [Row(a=None, b=2)]

--- an insert list takes no field of a struct
create table t (k int, x struct<a: int>) using delta;
merge with schema evolution into t using (select 1 as k, named_struct('a', 1, 'b', 2) as x) s on t.k = s.k when not matched then insert (x.b) values (s.x.b);
!> PlanError: whole columns

--- structs in arrays in structs evolve, null elements stay null
create table t (k int, x struct<l: array<struct<a: struct<p: int>>>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('l', array(named_struct('a', named_struct('p', 1)))));
merge with schema evolution into t using (select k, named_struct('l', array(named_struct('b', 2, 'a', named_struct('q', 'Q', 'p', k)), null)) as x from values (1), (2) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | Row(l=[Row(a=Row(p=1, q='Q'), b=2), None])
=> 2 | Row(l=[Row(a=Row(p=2, q='Q'), b=2), None])

--- maps evolve in their keys
create table t (k int, x map<struct<a: int>, int>) using delta;
insert into t values (1, map(named_struct('a', 1), 1)), (2, map(named_struct('a', 2), 2));
merge with schema evolution into t using (select k, map(named_struct('b', 'B', 'a', k), 5) as x from values (1), (3) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select k, map_keys(x), map_values(x) from t order by k;
=> 1 | [Row(a=1, b='B')] | [5]
=> 2 | [Row(a=2, b=None)] | [2]
=> 3 | [Row(a=3, b='B')] | [5]
insert overwrite t select * from t;

--- arrays in maps in arrays evolve
create table t (k int, x array<map<string, array<struct<a: int>>>>) using delta;
merge with schema evolution into t using (select 1 as k, array(map('m', array(named_struct('b', 2, 'a', 1), null))) as x) s on t.k = s.k when not matched then insert *;
select x from t;
=> [{'m': [Row(a=1, b=2), None]}]

--- delta: values in nested places are stored as the table's types
create table t (k int, x array<struct<a: string, n: tinyint>>) using delta;
insert into t values (1, array(named_struct('a', '1', 'n', cast(1 as tinyint))));
merge with schema evolution into t using (select 1 as k, array(named_struct('n', 7, 'a', 5, 'c', 'C')) as x) s on t.k = s.k when matched then update set *;
select x from t;
=> [Row(a='5', n=7, c='C')]
merge with schema evolution into t using (select 1 as k, array(named_struct('n', 700, 'a', 5)) as x) s on t.k = s.k when matched then update set *;
!> ValueOutOfRange: 700

--- a value of an incompatible type is rejected by name
create table t (k int, v int, x struct<a: int>) using delta;
merge with schema evolution into t using (select 1 as k, binary('x') as v) s on t.k = s.k when not matched then insert *;
!> TypeMismatch: `v`
merge with schema evolution into t using (select 1 as k, 5 as x) s on t.k = s.k when matched then update set *;
!> TypeMismatch: `x`
merge with schema evolution into t using (select 1 as k, array(1) as x) s on t.k = s.k when not matched then insert *;
!> TypeMismatch: `x`
merge with schema evolution into t using (select 1 as k, named_struct('a', array(1)) as x) s on t.k = s.k when not matched then insert *;
!> TypeMismatch: `x`
describe t;
=> k | int | NULL
=> v | int | NULL
=> x | struct<a:int> | NULL

--- delta: numbers are stored as the old column's type
create table t (k int, v int, l bigint) using delta;
insert into t values (1, 10, 100);
merge with schema evolution into t using (values (1, 7L, 8, 'x')) s (k, v, l, extra) on t.k = s.k when matched then update set *;
select * from t;
=> 1 | 7 | 8 | x
merge with schema evolution into t using (values (1, 3000000000L)) s (k, v) on t.k = s.k when matched then update set *;
!> ValueOutOfRange: 3000000000
describe t;
=> k | int | NULL
=> v | int | NULL
=> l | bigint | NULL
=> extra | string | NULL

--- a new column of type void is rejected, and an existing column is set to NULL
create table t (k int, v int) using delta;
insert into t values (1, 1);
merge with schema evolution into t using (select 1 as k, null as extra) s on t.k = s.k when matched then update set *;
!> TypeMismatch: `extra`
merge with schema evolution into t using (select 1 as k, named_struct('x', null) as extra) s on t.k = s.k when matched then update set *;
!> TypeMismatch: `extra`
merge with schema evolution into t using (select 1 as k, null as v) s on t.k = s.k when matched then update set *;
select * from t;
=> 1 | NULL

--- a duplicate source column is rejected
create table t (k int) using delta;
merge with schema evolution into t using (select 1 as k, 2 as e, 3 as E) s on t.k = s.k when not matched then insert *;
!> PlanError: 2 times

--- delta: an invalid column name is rejected before any file is written
create table t (k int) using delta;
insert into t values (1);
merge with schema evolution into t using (select 1 as k, 2 as `a b`) s on t.k = s.k when matched then update set *;
!> PlanError: 'a b'
select * from t;
=> 1

--- the name of a new column can contain a dot or a quote
create table t (k int) using delta;
merge with schema evolution into t using (select 1 as k, 2 as `a.b`, 3 as `c'd`, named_struct('e.f', 4) as `g``h`) s on t.k = s.k when not matched then insert *;
select `a.b`, `c'd`, `g``h`.`e.f` from t;
=> 2 | 3 | 4

--- without evolution extra columns of the source do not matter to a star
create table t (k int, v int) using delta;
insert into t values (1, 10);
merge into t using (values (1, 1, 'a')) s (k, v, extra) on t.k = s.k when matched then update set * when not matched then insert *;
select * from t;
=> 1 | 1

--- without evolution a new column is an error that names the setting
create table t (k int, v int, x struct<a: int>) using delta;
merge into t using (values (1, 'a')) s (k, extra) on t.k = s.k when matched then update set extra = s.extra;
!> UnknownColumn: WITH SCHEMA EVOLUTION
merge into t using (values (1, 'a')) s (k, extra) on t.k = s.k when not matched then insert (k, extra) values (s.k, s.extra);
!> UnknownColumn: WITH SCHEMA EVOLUTION
merge into t using (values (1, 'a')) s (k, extra) on t.k = s.k when matched then update set *;
!> UnknownColumn: WITH SCHEMA EVOLUTION
merge into t using (select 1 as k, 1 as v, named_struct('a', 1, 'b', 2) as x) s on t.k = s.k when matched then update set *;
!> TypeMismatch: WITH SCHEMA EVOLUTION
insert into t select 1, 2, null, 4 as extra;
!> PlanError: WITH SCHEMA EVOLUTION
insert into t by name select 1 as k, 4 as extra;
!> UnknownColumn: WITH SCHEMA EVOLUTION
insert into t select 1, 2, named_struct('a', 1, 'b', 2);
!> TypeMismatch: WITH SCHEMA EVOLUTION

--- the session's setting enables evolution for every merge and insert
create table t (k int) using delta;
set spark.databricks.delta.schema.autoMerge.enabled = true;
merge into t using (values (1, 'a')) s (k, v) on t.k = s.k when matched then update set * when not matched then insert *;
insert into t by name select 2 as k, 'two' as w;
set spark.databricks.delta.schema.autoMerge.enabled = false;
insert into t by name select 3 as k, 'x' as nope;
!> UnknownColumn: `nope`
select * from t order by k;
=> 1 | a | NULL
=> 2 | NULL | two

--- the table's property enables evolution for every merge and insert
create table t (k int) using delta tblproperties ('rowmerge.write.schema-evolution' = 'true');
merge into t using (values (1, 'a')) s (k, v) on t.k = s.k when matched then update set * when not matched then insert *;
insert into t select 2, 'b', true as flag;
select * from t order by k;
=> 1 | a | NULL
=> 2 | b | true
alter table t set tblproperties ('rowmerge.write.schema-evolution' = 'maybe');
!> ConfigurationError: rowmerge.write.schema-evolution

--- update and delete do not evolve
create table t (k int) using delta tblproperties ('rowmerge.write.schema-evolution' = 'true');
update t set nope = 1;
!> UnknownColumn: `nope`

--- insert by name adds columns in any position, and missing columns are null
create table t (k int, v int) using delta;
insert into t values (1, 1);
insert with schema evolution into t by name select 'n' as extra, 2 as k;
insert with schema evolution into t by name select 3 as V, 'm' as EXTRA, 3 as k;
select * from t order by k;
=> 1 | 1 | NULL
=> 2 | NULL | n
=> 3 | 3 | m

--- insert by position adds columns after the last one
create table t (k int, v int) using delta;
insert with schema evolution into t select 1 as a, 2 as b, 3 as c, 'x' as d;
insert with schema evolution into t values (2, 3, 4, 'y');
select * from t order by k;
=> 1 | 2 | 3 | x
=> 2 | 3 | 4 | y
describe t;
=> k | int | NULL
=> v | int | NULL
=> c | int | NULL
=> d | string | NULL
insert with schema evolution into t select 1, 2;
!> PlanError: 2 column(s)
insert with schema evolution into t select 1, 2, 3, 'x', 5 as K;
!> PlanError: `K` is after

--- an insert list can only contain columns of the table
create table t (k int, x struct<a: int>) using delta;
insert with schema evolution into t (k, nope) select 1, 2;
!> UnknownColumn: `nope`
insert with schema evolution into t (x, k) select named_struct('b', 2), 1;
select * from t;
=> 1 | Row(a=None, b=2)

--- delta: insert evolves structs, arrays of structs and maps of structs
create table t (k int, x struct<a: int>, l array<struct<a: int>>, m map<string, struct<a: int>>) using delta;
insert with schema evolution into t values (1, named_struct('b', 'B'), array(named_struct('b', 'B'), null), map('m', named_struct('b', 'B')));
insert with schema evolution into t by name select 2 as k, null as x;
select * from t order by k;
=> 1 | Row(a=None, b='B') | [Row(a=None, b='B'), None] | {'m': Row(a=None, b='B')}
=> 2 | NULL | NULL | NULL

--- insert overwrite keeps old columns and adds new ones
create table t (k int, v int) using delta;
insert into t values (1, 1);
insert with schema evolution overwrite t by name select 2 as k, 'x' as extra;
select * from t;
=> 2 | NULL | x

--- insert overwrite of a partition adds columns and leaves the others
create table t (k int, p string) using delta partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
insert with schema evolution overwrite t partition (p = 'a') select 3, 'x' as extra;
select k, p, extra from t order by k;
=> 2 | b | NULL
=> 3 | a | x

--- replace where and replace using add columns
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2), (3, 3);
insert with schema evolution into t replace where k >= 3 select 4 as k, 4 as v, 'where' as extra;
insert with schema evolution into t by name replace using (k) select 2 as k, 'using' as more;
select * from t order by k;
=> 1 | 1 | NULL | NULL
=> 2 | NULL | NULL | using
=> 4 | 4 | where | NULL

--- an insert without rows still adds the columns
create table t (k int) using delta;
insert with schema evolution into t by name select 1 as k, 'x' as extra where false;
select count(extra) from t;
=> 0
insert with schema evolution into t by name select 1 as k, null as nope;
!> TypeMismatch: `nope`

--- a new column is null in older files for filters, deletes and merges
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2), (3, 3), (4, 4);
delete from t where k = 4;
insert with schema evolution into t values (5, 5);
insert with schema evolution into t select 6, 6, 'x' as extra, named_struct('a', 1) as s;
insert with schema evolution into t by name select 7 as k, named_struct('b', 2) as s;
select k from t where extra is null order by k;
=> 1
=> 2
=> 3
=> 5
=> 7
delete from t where extra is null and k = 1;
update t set v = -2 where k = 2 and s.b is null;
merge into t using (values (cast(null as string), 30)) u (extra, v) on t.extra <=> u.extra and t.k = 3 when matched then update set v = u.v;
select k, v, extra, s.a, s.b from t order by k;
=> 2 | -2 | NULL | NULL | NULL
=> 3 | 30 | NULL | NULL | NULL
=> 5 | 5 | NULL | NULL | NULL
=> 6 | 6 | x | 1 | NULL
=> 7 | NULL | NULL | NULL | 2

--- delta: files without a new field are rewritten
create table t (k int, x struct<a: int>, l array<struct<a: int>>, m map<string, struct<a: int>>) using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write');
insert into t values (1, named_struct('a', 1), array(named_struct('a', 1)), map('m', named_struct('a', 1))), (2, named_struct('a', 2), null, null), (3, null, null, null);
insert with schema evolution into t values (4, named_struct('b', 4), array(named_struct('b', 4)), map('m', named_struct('b', 4)));
delete from t where k = 2;
select * from t order by k;
=> 1 | Row(a=1, b=None) | [Row(a=1, b=None)] | {'m': Row(a=1, b=None)}
=> 3 | NULL | NULL | NULL
=> 4 | Row(a=None, b=4) | [Row(a=None, b=4)] | {'m': Row(a=None, b=4)}

--- delta: an older version does not have the new column
create table t (k int) using delta;
insert into t values (1);
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when matched then update set *;
select * from t version as of 1;
=> 1
select * from t;
=> 1 | x

--- the source can be the target
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
merge with schema evolution into t using (select k + 1 as k, v, v * 10 as tenfold from t) s on t.k = s.k when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | 1 | NULL
=> 2 | 1 | 10
=> 3 | 2 | 20

--- delta: a table with type widening gets the source's wider types, other tables keep theirs
create table t (k int, v int, x struct<n: smallint>, d decimal(5,2)) using delta tblproperties ({mode}, 'delta.enableTypeWidening' = 'true');
insert into t values (1, 1, named_struct('n', 1), 1.25), (2, 2, named_struct('n', 2), 2.25);
merge with schema evolution into t using (values (1, 3000000000L, 70000, 12345.678), (3, 3L, 3, 3.5)) s (k, v, n, d) on t.k = s.k
when matched then update set v = s.v, d = s.d when not matched then insert (k, v) values (s.k, s.v);
select k, v, x.n, d from t order by k;
=> 1 | 3000000000 | 1 | 12345.678
=> 2 | 2 | 2 | 2.250
=> 3 | 3 | NULL | NULL
insert with schema evolution into t by name select 4 as k, named_struct('n', 70000) as x;
describe t;
=> k | int | NULL
=> v | bigint | NULL
=> x | struct<n:int> | NULL
=> d | decimal(8,3) | NULL
insert into t values (5, 5, named_struct('n', 3000000000L), 1);
!> ValueOutOfRange: 3000000000

--- delta: a narrower type of the source changes no type
create table t (k bigint, v double) using delta tblproperties ('delta.enableTypeWidening' = 'true');
merge with schema evolution into t using (values (1, cast(1.5 as float), 'x')) s (k, v, e) on t.k = s.k when not matched then insert *;
describe t;
=> k | bigint | NULL
=> v | double | NULL
=> e | string | NULL

--- delta: new columns of a table with column mapping by name get new ids and physical names
create table t (k int, x struct<a: int>) using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'name');
insert into t values (1, named_struct('a', 1)), (2, null);
merge with schema evolution into t using (select k, named_struct('b c', 'B', 'a', 5) as x, array(named_struct('d', k)) as `e, f` from values (1), (3) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
insert with schema evolution into t select 4, null, null, 'g' as g;
select * from t order by k;
=> 1 | Row(a=5, b c='B') | [Row(d=1)] | NULL
=> 2 | NULL | NULL | NULL
=> 3 | Row(a=5, b c='B') | [Row(d=3)] | NULL
=> 4 | NULL | NULL | g

--- delta: new columns of a table with column mapping by id are read by their ids
create table t (k int, x struct<a: int>) using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t values (1, named_struct('a', 1)), (2, null);
merge with schema evolution into t using (select k, named_struct('b', 'B', 'a', 5) as x, k * 10 as e from values (1), (3) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert *;
select * from t order by k;
=> 1 | Row(a=5, b='B') | 10
=> 2 | NULL | NULL
=> 3 | Row(a=5, b='B') | 30

--- delta: the change data feed has new columns, null in older changes
create table t (k int, x struct<a: int>) using delta tblproperties ({mode}, 'delta.enableChangeDataFeed' = 'true');
insert into t values (1, named_struct('a', 1)), (2, named_struct('a', 2));
merge with schema evolution into t using (select k, named_struct('a', 9, 'b', 8) as x, 'e' as extra from values (1), (3) as v (k)) s on t.k = s.k
when matched then update set * when not matched then insert * when not matched by source then delete;
select * from t order by k;
=> 1 | Row(a=9, b=8) | e
=> 3 | Row(a=9, b=8) | e
select k, x.a, x.b, extra, _change_type from table_changes('t', 2) order by k, _change_type;
=> 1 | 9 | 8 | e | update_postimage
=> 1 | 1 | NULL | NULL | update_preimage
=> 2 | 2 | NULL | NULL | delete
=> 3 | 9 | 8 | e | insert

--- delta: missing columns get defaults, generated columns are computed, constraints are enforced
create table t (k int, v int default 7, g int generated always as (k * 2), constraint positive check (k > 0)) using delta tblproperties ({mode}, 'delta.feature.allowColumnDefaults' = 'supported');
insert into t (k, v) values (1, 1);
merge with schema evolution into t using (values (1, 'a'), (2, 'b')) s (k, extra) on t.k = s.k when matched then update set * when not matched then insert *;
insert with schema evolution into t by name select 3 as k, 'c' as more;
select * from t order by k;
=> 1 | 1 | 2 | a | NULL
=> 2 | 7 | 4 | b | NULL
=> 3 | 7 | 6 | NULL | c
merge with schema evolution into t using (values (-1, 1)) s (k, third) on t.k = s.k when not matched then insert *;
!> ConstraintViolated: positive
describe t;
=> k | int | NULL
=> v | int | NULL
=> g | int | NULL
=> extra | string | NULL
=> more | string | NULL

--- delta: a key and a partition column may become wider
create table t (k int, p smallint, v string) using delta partitioned by (p) tblproperties ({mode}, 'delta.enableTypeWidening' = 'true');
insert into t values (1, 1, 'a'), (2, 2, 'b');
merge with schema evolution into t using (values (1L, 70000, 'x'), (3000000000L, 2, 'y')) s (k, p, v) on t.k = s.k when matched then update set * when not matched then insert *;
select k, p, v from t order by k;
=> 1 | 70000 | x
=> 2 | 2 | b
=> 3000000000 | 2 | y
select v from t where p = 2 order by k;
=> b
=> y

--- the alias of the table can qualify a new column
create table t (k int) using delta;
insert into t values (1);
merge with schema evolution into t as target using (values (1, 'x', 'y')) s (k, a, b) on target.k = s.k when matched then update set target.a = a, b = s.b;
select * from t;
=> 1 | x | y

--- the alias of the source cannot qualify an assigned column
create table t (k int, v int) using delta;
merge with schema evolution into t using (values (1, 2)) s (k, v) on t.k = s.k when matched then update set s.v = s.v;
!> UnknownColumn: `s`

--- a new column that is assigned twice is rejected
create table t (k int) using delta;
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when matched then update set extra = s.extra, EXTRA = 'y';
!> PlanError: twice
merge with schema evolution into t using (values (1, 'x')) s (k, extra) on t.k = s.k when not matched then insert (k, extra, Extra) values (1, 'x', 'y');
!> PlanError: twice

--- empty arrays and maps of type void are stored in nested columns
create table t (k int, l array<struct<a: int>>, m map<string, struct<a: int>>) using delta;
merge with schema evolution into t using (select 1 as k, array() as l, cast(null as map<string, struct<a: int>>) as m) s on t.k = s.k when not matched then insert *;
select * from t;
=> 1 | [] | NULL

--- two source rows for one row fail an evolving merge, and the schema stays
create table t (k int, v int) using delta;
insert into t values (1, 1);
merge with schema evolution into t using (values (1, 'x'), (1, 'y')) s (k, extra) on t.k = s.k when matched then update set *;
!> MultipleSourceRowsMatch: k = 1
describe t;
=> k | int | NULL
=> v | int | NULL

--- with case-sensitive names, columns that differ only in case are rejected
create table t (k int, v int) using delta;
set spark.sql.caseSensitive = true;
merge with schema evolution into t using (values (1, 2)) s (k, V) on t.k = s.k when not matched then insert *;
!> PlanError: differ only in case
merge with schema evolution into t using (values (1, 2, 'x')) s (k, v, EXTRA) on t.k = s.k when not matched then insert (k, v, EXTRA) values (s.k, s.v, s.EXTRA);
set spark.sql.caseSensitive = false;
select extra from t;
=> x

--- an incompatible field in nested structs is reported by its path
create table t (k int, x struct<y: struct<a: int>>) using delta;
merge with schema evolution into t using (select 1 as k, named_struct('y', named_struct('n', null)) as x) s on t.k = s.k when not matched then insert *;
!> TypeMismatch: `x`.`y`.`n`

--- an evolving merge of a common table expression with deletes by the source
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2), (3, 3);
with new as (select k, op, k * 10 as ten from values (1, 'D'), (2, 'U'), (4, 'I') as v (k, op))
merge with schema evolution into t using new on t.k = new.k
when matched and new.op = 'D' then delete
when matched then update set v = -v, ten = new.ten
when not matched then insert (k, ten) values (new.k, new.ten)
when not matched by source then delete;
=> 4 | 1 | 2 | 1
select * from t order by k;
=> 2 | -2 | 20
=> 4 | NULL | 40

--- delta: a dropped column is null after it is added again
create table t (k int, e string) using delta tblproperties ('delta.columnMapping.mode' = 'name');
insert into t values (1, 'old'), (2, 'old');
alter table t drop column e;
merge with schema evolution into t using (values (1, 'new')) s (k, e) on t.k = s.k when matched then update set *;
select * from t order by k;
=> 1 | new
=> 2 | NULL

--- replace on adds columns
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
insert with schema evolution into t as a by name replace on a.k = b.k (select 2 as k, 'on' as extra) as b;
select * from t order by k;
=> 1 | 1 | NULL
=> 2 | NULL | on
