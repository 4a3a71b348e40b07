--- identical source rows still match twice
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (2, 'x'), (2, 'x')) s (id, v) on t.id = s.id when matched then update set v = s.v when not matched then insert *;
!> MultipleSourceRowsMatch: id = 2
select * from t order by id;
=> 1 | a
=> 2 | b

--- keys of several columns are reported together, also with null
create table t (a int, b string, v int) using delta tblproperties ({mode});
insert into t values (1, 'x', 0), (2, null, 0), (3, 'z', 0);
merge into t using (values (1, 'x'), (1, 'x'), (2, null), (2, null), (3, 'z')) s (a, b) on t.a = s.a and t.b <=> s.b when matched then update set v = 1;
!> MultipleSourceRowsMatch: a = 1, b = x; a = 2, b = NULL

--- duplicates are allowed if a clause applies to only one of them
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1, 'skip'), (1, 'take'), (2, 'skip'), (2, 'skip')) s (id, v) on t.id = s.id
when matched and s.v = 'take' then update set v = s.v;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | take
=> 2 | b

--- two clauses that apply to one target row by two source rows are an error
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
merge into t using (values (1, 'u'), (1, 'd')) s (id, v) on t.id = s.id
when matched and s.v = 'u' then update set v = 'x' when matched and s.v = 'd' then delete;
!> MultipleSourceRowsMatch: id = 1
merge into t using (values (1, 'u'), (1, 'd')) s (id, v) on t.id = s.id when matched and s.v = 'u' then update set v = 'x' when matched then delete;
!> MultipleSourceRowsMatch: id = 1

--- a conditional delete by two rows is an error, an unconditional one is not
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1), (1)) s (id) on t.id = s.id when matched and t.v = 'a' then delete;
!> MultipleSourceRowsMatch: id = 1
merge into t using (values (1), (1), (3), (3)) s (id) on t.id = s.id when matched then delete when not matched then insert (id) values (s.id);
=> 3 | 0 | 1 | 2
select * from t order by id;
=> 2 | b
=> 3 | NULL
=> 3 | NULL

--- all duplicates that match no row are inserted
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (2, 'y'), (2, 'y'), (null, 'n'), (null, 'n')) s (id, v) on t.id = s.id
when matched then update set * when not matched then insert *;
=> 5 | 1 | 0 | 4
select * from t order by id, v;
=> NULL | n
=> NULL | n
=> 1 | x
=> 2 | y
=> 2 | y

--- a merge with only inserts can match several times
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (1, 'y'), (2, 'z')) s (id, v) on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1

--- one source row can change many target rows
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 0), (1, 0), (2, 0);
merge into t using (values (1, 5)) s (id, v) on t.id = s.id when matched then update set v = t.v + s.v;
=> 2 | 2 | 0 | 0
select * from t order by id;
=> 1 | 5
=> 1 | 5
=> 2 | 0

--- overlapping ranges and or match twice
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (5, 0), (50, 0);
merge into t using (values (1, 10), (4, 6), (40, 60)) s (low, high) on t.id between s.low and s.high when matched then update set v = s.low;
!> MultipleSourceRowsMatch: 5
merge into t using (values (5, 5), (50, 5)) s (a, b) on t.id = s.a or t.id = s.b when matched then update set v = s.a;
!> MultipleSourceRowsMatch: 5

--- on true with two source rows is an error if there is a target row
create table t (id int) using delta tblproperties ({mode});
merge into t using (values (1), (2)) s (id) on true when matched then update set id = s.id;
=> 0 | 0 | 0 | 0
insert into t values (7);
merge into t using (values (1), (2)) s (id) on true when matched then update set id = s.id;
!> MultipleSourceRowsMatch: id = 7

--- a duplicate that a partition or a condition on the target excludes is allowed
create table t (id int, p string, v int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a', 0), (1, 'b', 0);
merge into t using (values (1, 5, 'a'), (1, 6, 'b')) s (id, v, p) on t.id = s.id and t.p = s.p when matched then update set v = s.v;
=> 2 | 2 | 0 | 0
select * from t order by p;
=> 1 | a | 5
=> 1 | b | 6

--- at most five keys are reported, and all are counted
create table t (id bigint, v int) using delta tblproperties ({mode});
insert into t select id, 0 from range(20);
merge into t using (select id % 20 as id from range(40)) s on t.id = s.id when matched then update set v = 1;
!> MultipleSourceRowsMatch: 20 target row(s)

--- by source clauses with harmless duplicates
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1), (1)) s (id) on t.id = s.id when matched then delete when not matched by source then update set v = 'left';
=> 2 | 1 | 1 | 0
select * from t;
=> 2 | left

--- the rules of Delta and Iceberg count matches that change nothing
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
set spark.rowmerge.merge.cardinality = delta;
merge into t using (values (1, 10), (1, -1)) s (id, n) on t.id = s.id when matched and s.n > 0 then update set n = s.n;
!> MultipleSourceRowsMatch: 1 target row(s) are matched by more than one source row. Keys: id = 1
merge into t using (values (1, -10), (1, -1)) s (id, n) on t.id = s.id when matched and t.n > s.n + 50 then update set n = t.n + s.n;
!> MultipleSourceRowsMatch: id = 1
merge into t using (values (1, -10), (1, -1)) s (id, n) on t.id = s.id when matched and s.n > 0 then update set * when not matched then insert *;
!> MultipleSourceRowsMatch: id = 1
set spark.rowmerge.merge.cardinality = iceberg;
merge into t using (values (1, 10), (1, -1)) s (id, n) on t.id = s.id when matched and s.n > 0 then update set n = s.n;
!> MultipleSourceRowsMatch: id = 1
merge into t using (values (1, 1), (1, 1), (2, 1)) s (id, n) on t.id = s.id and t.n = s.n when matched and t.n > 9 then delete
when not matched by source then update set n = 0;
!> MultipleSourceRowsMatch: id = 1, n = 1
set spark.rowmerge.merge.cardinality = conditions;
merge into t using (values (1, 10), (1, -1)) s (id, n) on t.id = s.id when matched and s.n > 0 then update set n = s.n;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | 10
=> 2 | 2

--- every rule accepts an unconditional delete, single matches and duplicates without a match
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2), (4, 4);
set spark.rowmerge.merge.cardinality = delta;
merge into t using (values (1, 10), (1, -1), (3, 3), (3, 3)) s (id, n) on t.id = s.id when matched then delete when not matched then insert *;
=> 3 | 0 | 1 | 2
merge into t using (values (2, 5), (4, -5), (5, 5), (5, 5)) s (id, n) on t.id = s.id
when matched and s.n > 0 then update set n = s.n when not matched then insert *;
=> 3 | 1 | 0 | 2
set spark.rowmerge.merge.cardinality = iceberg;
merge into t using (values (2, 10), (2, -1), (6, 6)) s (id, n) on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
set spark.rowmerge.merge.cardinality = conditions;
select * from t order by id, n;
=> 2 | 5
=> 3 | 3
=> 3 | 3
=> 4 | 4
=> 5 | 5
=> 5 | 5
=> 6 | 6

--- the rule of delta also counts matches of a merge that changes only rows without a match
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
set spark.rowmerge.merge.cardinality = delta;
merge into t using (values (1, 10), (1, -1)) s (id, n) on t.id = s.id when not matched by source then delete;
!> MultipleSourceRowsMatch: id = 1
set spark.rowmerge.merge.cardinality = iceberg;
merge into t using (values (1, 10), (1, -1)) s (id, n) on t.id = s.id when not matched by source then delete;
=> 1 | 0 | 1 | 0
set spark.rowmerge.merge.cardinality = conditions;
select * from t;
=> 1 | 1

--- an unknown rule of cardinality is rejected by name
create table t (id int) using delta;
set spark.rowmerge.merge.cardinality = strict;
merge into t using (values (1)) s (id) on t.id = s.id when not matched then insert *;
!> ConfigurationError: spark.rowmerge.merge.cardinality = strict is not a rule of MERGE. Set one of: conditions, delta, iceberg.
set spark.rowmerge.merge.cardinality = conditions;
