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

--- only insert star adds the column, rows that match stay
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

--- new struct fields come at the end of their struct
create table t (k int, x struct<a: int, c: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'c', 10)), (2, named_struct('a', 2, 'c', 20));
merge with schema evolution into t using (select 1 as k, named_struct('a', 10, 'b', 100, 'c', 1000) as x) s on t.k = s.k when matched then update set *;
select * from t order by k;
=> 1 | Row(a=10, c=1000, b=100)
=> 2 | Row(a=2, c=20, b=None)

--- arrays of structs evolve, elements lack nothing
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

--- an assignment adds just the source column of that name
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (0, 0), (1, 10);
merge with schema evolution into t using (values (1, 1, 'a', 'unused')) s (k, v, extra, unused) on t.k = s.k when matched then update set extra = s.extra;
select * from t order by k;
=> 0 | 0 | NULL
=> 1 | 10 | a
