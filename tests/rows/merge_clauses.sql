--- the order of the clauses decides, not the order of their kinds
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
merge into t using (values (1, 'x'), (4, 'y')) s (id, v) on t.id = s.id
when not matched by source and t.id = 2 then delete
when not matched then insert *
when matched and t.v = 'none' then delete
when not matched by source then update set v = 'left'
when matched then update set v = s.v;
=> 4 | 2 | 1 | 1
select * from t order by id;
=> 1 | x
=> 3 | left
=> 4 | y

--- a condition that is null is not true
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, null), (2, 5), (3, null);
merge into t using (values (1, 1), (2, 9), (4, null), (5, 7)) s (id, n) on t.id = s.id
when matched and t.v < s.n then update set v = s.n
when not matched and s.n > 0 then insert (id, v) values (s.id, s.n)
when not matched by source and t.v > 0 then delete;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | NULL
=> 2 | 9
=> 3 | NULL
=> 5 | 7

--- not matched by target is not matched
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (2, 'y'), (3, 'z')) s (id, v) on t.id = s.id
when not matched by target and s.v = 'z' then insert (id) values (s.id * 10)
when not matched by target then insert *;
=> 2 | 0 | 0 | 2
select * from t order by id;
=> 1 | a
=> 2 | y
=> 30 | NULL

--- a matched row for which no clause is true stays and is not inserted
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1, 'x'), (2, 'y')) s (id, v) on t.id = s.id
when matched and s.v = 'none' then delete
when not matched then insert *;
=> 0 | 0 | 0 | 0
select * from t order by id;
=> 1 | a
=> 2 | b

--- a source row to which no insert clause applies is not inserted
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (values (1, 'x'), (2, 'y'), (3, null)) s (id, v) on t.id = s.id
when not matched and s.v = 'x' then insert *
when not matched and s.v = 'y' then insert (id, v) values (s.id, 'second');
=> 2 | 0 | 0 | 2
select * from t order by id;
=> 1 | x
=> 2 | second

--- clauses that apply to no row write nothing
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1, 'x'), (3, 'y')) s (id, v) on t.id = s.id
when matched and false then delete
when not matched and 1 = 0 then insert *
when not matched by source and null then delete;
=> 0 | 0 | 0 | 0
select * from t order by id;
=> 1 | a
=> 2 | b

--- only delete when not matched by source
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (null, 'c');
merge into t using (values (1), (9)) s (id) on t.id = s.id when not matched by source then delete;
=> 2 | 0 | 2 | 0
select * from t;
=> 1 | a

--- update and delete when not matched by source, also with null keys
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (null, 'c'), (4, null);
merge into t using (values (1), (null)) s (id) on t.id = s.id
when not matched by source and t.v = 'b' then delete
when not matched by source then update set v = coalesce(t.v, 'was null') || '!';
=> 3 | 2 | 1 | 0
select * from t order by v;
=> 1 | a
=> NULL | c!
=> 4 | was null!

--- unqualified names in a by source clause refer to the target
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
merge into t using (values (1, 'x')) s (id, v) on t.id = s.id
when not matched by source and v = 'b' then update set v = upper(v), id = id + 10
when not matched by source and id = 3 then delete;
=> 2 | 1 | 1 | 0
select * from t order by id;
=> 1 | a
=> 12 | B

--- set star with a condition over both sides
create table t (id int, n int, v string) using delta tblproperties ({mode});
insert into t values (1, 1, 'a'), (2, 9, 'b');
merge into t using (values (1, 5, 'x'), (2, 5, 'y'), (3, 5, 'z')) s (id, n, v) on t.id = s.id
when matched and s.n > t.n then update set *
when not matched and s.n > 4 then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | 5 | x
=> 2 | 9 | b
=> 3 | 5 | z

--- star assigns by name: other order, other case, more columns
create table t (Id int, Name string, Day date) using delta tblproperties ({mode});
insert into t values (1, 'a', date '2024-01-01');
merge into t using (select date '2025-05-05' as dAY, 'extra' as extra, 'new' as NAME, id as ID from values (1), (2) s (id)) s
on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | new | 2025-05-05
=> 2 | new | 2025-05-05

--- a column that the source lacks fails update star
create table t (id int, v string, w string) using delta;
merge into t using (select 1 as id, 'x' as v) s on t.id = s.id when matched then update set *;
!> UnknownColumn: `w`

--- a duplicate source column fails star only if the table has it
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (select 1 as id, 'x' as v, 2 as extra, 3 as extra) s on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
merge into t using (select 1 as id, 'x' as v, 'y' as V) s on t.id = s.id when not matched then insert *;
!> PlanError: has the column `v` 2 times
merge into t using (select 1 as id, 'x' as v, 'y' as v) s on t.id = s.id when matched then update set v = 'z';
=> 1 | 1 | 0 | 0
merge into t using (select 1 as id, 'x' as v, 'y' as v) s on t.id = s.id when matched then update set v = s.v;
!> AmbiguousColumn: v
select * from t;
=> 1 | z

--- only the last matched clause can omit its condition
create table t (id int, v string) using delta;
merge into t using (values (1)) s (id) on t.id = s.id when matched then delete when matched then update set v = 'a';
!> Unparsable: Only the last WHEN MATCHED clause can omit the condition
merge into t using (values (1)) s (id) on t.id = s.id when matched then delete when matched and t.v = 'a' then update set v = 'a';
!> Unparsable: Only the last WHEN MATCHED clause can omit the condition

--- only the last not matched clause can omit its condition
create table t (id int) using delta;
merge into t using (values (1)) s (id) on t.id = s.id when not matched then insert * when not matched by target and s.id = 1 then insert *;
!> Unparsable: Only the last WHEN NOT MATCHED clause can omit the condition

--- only the last by source clause can omit its condition
create table t (id int) using delta;
merge into t using (values (1)) s (id) on t.id = s.id when not matched by source then delete when not matched by source then update set id = 1;
!> Unparsable: Only the last WHEN NOT MATCHED BY SOURCE clause can omit the condition

--- one unconditional clause of each kind is allowed in any order
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
merge into t using (values (2), (3)) s (id) on t.id = s.id
when not matched by source then update set id = t.id + 100
when not matched then insert *
when matched then update set id = t.id + 10;
=> 3 | 2 | 0 | 1
select * from t order by id;
=> 3
=> 12
=> 101

--- a by source clause cannot read the source
create table t (id int, v string) using delta;
insert into t values (1, 'a');
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched by source and s.w = 'x' then delete;
!> UnknownColumn: WHEN NOT MATCHED BY SOURCE
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched by source and w = 'x' then delete;
!> UnknownColumn: `w`
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched by source then update set v = s.w;
!> UnknownColumn: WHEN NOT MATCHED BY SOURCE

--- a not matched clause cannot read the target
create table t (id int, v string) using delta;
insert into t values (1, 'a');
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched and t.v = 'x' then insert (id) values (s.id);
!> UnknownColumn: WHEN NOT MATCHED
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched and v = 'x' then insert (id) values (s.id);
!> UnknownColumn: `v`
merge into t using (values (2, 'x')) s (id, w) on t.id = s.id when not matched then insert (id, v) values (s.id, t.v);
!> UnknownColumn: WHEN NOT MATCHED

--- unknown names are errors also for an empty table and an empty source
create table t (id int, v string) using delta;
merge into t using (select 1 as id where false) s on t.id = s.nope when matched then delete;
!> UnknownColumn: nope
merge into t using (select 1 as id where false) s on t.id = s.id when matched and t.nope = 1 then delete;
!> UnknownColumn: nope
merge into t using (select 1 as id where false) s on t.id = s.id when matched then update set v = s.nope;
!> UnknownColumn: nope
merge into t using (select 1 as id where false) s on t.id = s.id when not matched then insert (id) values (s.nope);
!> UnknownColumn: nope
merge into t using (select 1 as id where false) s on t.id = s.id when not matched then insert (id, nope) values (s.id, 1);
!> UnknownColumn: nope
merge into t using (select 1 as id where false) s on t.id = s.id when not matched by source then update set v = nope;
!> UnknownColumn: nope

--- an action that the kind of clause lacks is rejected
create table t (id int, v string) using delta;
merge into t using (values (1)) s (id) on t.id = s.id when not matched then update set v = 'a';
!> Unparsable: only INSERT
merge into t using (values (1)) s (id) on t.id = s.id when not matched then delete;
!> Unparsable: only INSERT
merge into t using (values (1)) s (id) on t.id = s.id when matched then insert *;
!> Unparsable: only in WHEN NOT MATCHED
merge into t using (values (1)) s (id) on t.id = s.id when not matched by source then insert *;
!> Unparsable: only in WHEN NOT MATCHED
merge into t using (values (1)) s (id) on t.id = s.id when not matched by source then update set *;
!> Unparsable: needs a source row
merge into t using (values (1)) s (id) on t.id = s.id when matched by source then delete;
!> Unparsable: WHEN MATCHED has no BY

--- a condition that is not boolean is rejected
create table t (id int, v string) using delta;
insert into t values (1, 'a');
merge into t using (values (1, 2)) s (id, n) on t.id = s.id when matched and s.n then delete;
!> TypeMismatch: 
merge into t using (values (1, 2)) s (id, n) on t.id when matched then delete;
!> TypeMismatch: 
merge into t using (values (1, 2)) s (id, n) on t.id = s.id when not matched by source and t.id + 1 then delete;
!> TypeMismatch: 
merge into t using (values (5, 2)) s (id, n) on t.id = s.id when not matched and s.n then insert (id) values (s.id);
!> TypeMismatch: 

--- an aggregate or a window function in a condition is rejected by name
create table t (id int, n int) using delta;
insert into t values (1, 1);
merge into t using (values (1)) s (id) on t.id = s.id and max(t.n) > 0 when matched then delete;
!> UnsupportedStatement: max()
merge into t using (values (1)) s (id) on t.id = s.id when matched and sum(t.n) > 0 then delete;
!> UnsupportedStatement: sum()
merge into t using (values (1)) s (id) on t.id = s.id when matched then update set n = count(*);
!> UnsupportedStatement: count()
merge into t using (values (1)) s (id) on t.id = s.id when matched and row_number() over (order by t.id) = 1 then delete;
!> UnsupportedStatement: row_number()
merge into t using (values (1)) s (id) on t.id = s.id when matched then update set n = explode(array(1, 2));
!> UnsupportedStatement: explode()
select * from t;
=> 1 | 1

--- sixty conditional clauses
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 0), (7, 0), (15, 0);
merge into t using (values (1), (7), (15), (20)) s (id) on t.id = s.id
when matched and s.id = 1 then update set n = 101
when matched and s.id = 2 then update set n = 102
when matched and s.id = 3 then update set n = 103
when matched and s.id = 4 then update set n = 104
when matched and s.id = 5 then update set n = 105
when matched and s.id = 6 then update set n = 106
when matched and s.id = 7 then update set n = 107
when matched and s.id = 8 then update set n = 108
when matched and s.id = 9 then update set n = 109
when matched and s.id = 10 then delete
when matched and s.id = 11 then update set n = 111
when matched and s.id = 12 then update set n = 112
when matched then delete
when not matched and s.id = 18 then insert (id, n) values (s.id, 18)
when not matched and s.id = 19 then insert (id, n) values (s.id, 19)
when not matched and s.id = 20 then insert (id, n) values (s.id, 20);
=> 4 | 2 | 1 | 1
select * from t order by id;
=> 1 | 101
=> 7 | 107
=> 20 | 20

--- keywords in any case and comments between them
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
MeRgE iNtO t -- the target
USING (VALUES (1, 'x'), (2, 'when matched then delete')) AS s (id, v) /* when matched then delete */
ON t.id = s.id
When Matched And s.v = 'x' Then Update Set v = s.v
WHEN NOT MATCHED BY TARGET THEN INSERT *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | x
=> 2 | when matched then delete

--- case expressions can be used in conditions and values
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1, 'x'), (2, 'y'), (3, 'z')) s (id, v) on t.id = s.id
when matched and case when s.v = 'x' then true else false end then update set v = case when t.v = 'a' then 'was a' else 'other' end
when matched then update set v = case s.v when 'y' then 'Y' end
when not matched and case s.id when 3 then true end then insert (id, v) values (s.id, case when s.id > 2 then 'big' end);
=> 3 | 2 | 0 | 1
select * from t order by id;
=> 1 | was a
=> 2 | Y
=> 3 | big
