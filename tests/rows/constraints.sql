--- a check constraint rejects an inserted row, and the error has its name and the row
create table t (id int, v string) using delta;
alter table t add constraint Positive check (ID > 0);
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, 'c'), (-4, 'it\'s; "odd" `name`');
!> ConstraintViolated: positive CHECK (ID > 0). Violating row: id = -4, v = it's; "odd" `name`. Nothing was written
select * from t order by id;
=> 1 | a
=> 2 | b
select count(*) from t version as of 2;
=> 2
select * from t version as of 3;
!> VersionNotFound: 3

--- a check constraint rejects NULL, as in Delta
create table t (id int, constraint positive check (id > 0)) using delta;
insert into t values (null);
!> ConstraintViolated: id = NULL
insert into t values (1);
select * from t;
=> 1

--- an update that violates a check changes nothing
create table t (id int, low int, high int, constraint ordered check (low <= high)) using delta tblproperties ({mode});
insert into t values (1, 1, 5), (2, 2, 6);
update t set low = 9 where id = 2;
!> ConstraintViolated: default.t violate the constraint ordered CHECK (low <= high). Violating row: low = 9, high = 6, id = 2.
update t set low = high;
=> 2
select * from t order by id;
=> 1 | 5 | 5
=> 2 | 6 | 6

--- a merge is checked clause by clause
create table t (id int, v int, constraint small check (v < 100)) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
merge into t using (values (1, 10), (3, 300)) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
!> ConstraintViolated: v = 300, id = 3
merge into t using (values (1, 1000), (3, 3)) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
!> ConstraintViolated: v = 1000, id = 1
merge into t using (values (7, 7)) s (id, v) on t.id = s.id when not matched by source and t.id = 2 then update set v = 200;
!> ConstraintViolated: v = 200, id = 2
select * from t order by id;
=> 1 | 1
=> 2 | 2
merge into t using (values (1, 1000), (3, 300)) s (id, v) on t.id = s.id when matched then delete when not matched and s.v < 100 then insert *;
=> 1 | 0 | 1 | 0
merge into t using (values (2, 20), (3, 30)) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 2 | 20
=> 3 | 30

--- every form of insert is checked
create table t (id int, p string, constraint positive check (id > 0)) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert overwrite t values (-1, 'a');
!> ConstraintViolated: id = -1
insert overwrite t partition (p = 'a') values (-1);
!> ConstraintViolated: id = -1, p = a
insert into t replace where p = 'a' values (-1, 'a');
!> ConstraintViolated: positive
insert into t replace using (p) values (-1, 'a');
!> ConstraintViolated: positive
insert into t (p, id) values ('a', -1);
!> ConstraintViolated: positive
insert into t by name select 'a' as p, -1 as id;
!> ConstraintViolated: positive
select * from t order by id;
=> 1 | a
=> 2 | b
insert into t replace where p = 'a' values (3, 'a');
insert into t replace using (p) values (4, 'b');
select * from t order by id;
=> 3 | a
=> 4 | b

--- a constraint is added only if all rows satisfy it
create table t (id int, v string) using delta;
insert into t values (1, 'a'), (-2, 'b'), (null, 'c');
alter table t add constraint positive check (id > 0);
!> ConstraintViolated: 2 row(s) of default.t violate the constraint positive CHECK (id > 0).
insert into t values (-3, 'd');
delete from t where id is null or id < 0;
=> 3
alter table t add constraint positive check (id > 0);
alter table t add constraint POSITIVE check (id > 1);
!> AlreadyExists: `positive`
show tblproperties t ('delta.constraints.positive');
=> delta.constraints.positive | id > 0
insert into t values (-3, 'd');
!> ConstraintViolated: positive
alter table t drop constraint Positive;
insert into t values (-3, 'd');
alter table t drop constraint positive;
!> ConstraintNotFound: The table has no constraints
alter table t drop constraint if exists positive;
select count(*) from t;
=> 2

--- constraints see nested fields, functions, odd names and quotes
create table t (id int, `a-b` string, s struct<x: int, y: struct<z: array<int>>>) using delta tblproperties ({mode});
alter table t add constraint `odd name` check (length(`A-B`) < 4 and `a-b` != 'it''s');
alter table t add check (S.Y.Z[0] = s.x and size(s.y.z) between 1 and 2);
insert into t values (1, 'abc', named_struct('x', 5, 'y', named_struct('z', array(5, 6))));
insert into t values (2, 'abcd', named_struct('x', 5, 'y', named_struct('z', array(5))));
!> ConstraintViolated: odd name CHECK (length(`A-B`) < 4
update t set s.x = 6;
!> ConstraintViolated: s = {6, {[5, 6]}}
update t set s.y.z = array(5);
=> 1
select id, s.y.z from t;
=> 1 | [5]

--- constraints of a definition: on the table, on columns, with and without names
create table t (id int constraint positive check (id > 0) not null, v string check (v in ('a', 'b')), constraint both check (id < 5 or v = 'a')) using delta;
insert into t values (9, 'a'), (4, 'b');
insert into t values (0, 'a');
!> ConstraintViolated: positive CHECK (id > 0)
insert into t values (1, 'c');
!> ConstraintViolated: CHECK (v in ('a', 'b'))
insert into t values (9, 'b');
!> ConstraintViolated: both CHECK (id < 5 or v = 'a')
insert into t values (null, 'a');
!> ConstraintViolated: NOT NULL of column `id`. Violating row: id = NULL, v = a
select count(*) from t;
=> 2

--- invalid constraints are rejected by name
create table t (id int, v string) using delta;
alter table t add constraint c check (rand() > 0.5);
!> UnsupportedStatement: rand()
alter table t add constraint c check (nope > 0);
!> UnknownColumn: `nope`
alter table t add constraint c check (id in (select 1));
!> UnsupportedStatement: subquery
alter table t add constraint c check (max(id) > 0);
!> UnsupportedStatement: max(id)
alter table t add constraint c check (row_number() over (order by id) > 0);
!> UnsupportedStatement: one row
alter table t add constraint c check (id + 1);
!> TypeMismatch: int, not boolean
alter table t add constraint c check (id > );
!> Unparsable: 
alter table t add constraint c primary key (id);
!> UnsupportedStatement: PRIMARY KEY
alter table t set tblproperties ('delta.constraints.c' = 'id > 0');
!> ConfigurationError: ADD CONSTRAINT
create table u (id int, constraint c check (nope > 0)) using delta;
!> UnknownColumn: `nope`
create table u (id int, constraint c check (id > 0), constraint C check (id > 1)) using delta;
!> PlanError: defined twice
create table u (id int, unique (id)) using delta;
!> UnsupportedStatement: UNIQUE
show tables;
=> default | t | false
select count(*) from t version as of 1;
!> VersionNotFound: 1

--- a constraint in the properties of a new table applies to its first rows
create table t using delta tblproperties ('delta.constraints.Positive' = 'id > 0') as select -1 as id;
!> ConstraintViolated: CHECK (id > 0)
create table t using delta tblproperties ('delta.constraints.Positive' = 'id > 0') as select 1 as id;
insert into t values (-1);
!> ConstraintViolated: CHECK (id > 0)
select * from t;
=> 1

--- not null is enforced for columns and for fields of structs
create table t (id int, s struct<a: int not null, b: struct<c: string not null>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x')));
insert into t select 2, named_struct('a', cast(null as int), 'b', named_struct('c', 'x'));
!> ConstraintViolated: NOT NULL of column `s.a`. Violating row: s = {null, {x}}, id = 2
insert into t values (3, null);
!> ConstraintViolated: NOT NULL of column `s.a`
update t set s.b.c = null;
!> ConstraintViolated: NOT NULL of column `s.b.c`
merge into t using (select 1 as id, cast(null as string) as c) u on t.id = u.id when matched then update set s.b.c = u.c;
!> ConstraintViolated: NOT NULL of column `s.b.c`
update t set s.b.c = 'y';
=> 1
select * from t;
=> 1 | Row(a=1, b=Row(c='y'))

--- not null of columns in update and merge
create table t (id int not null, v string not null) using delta tblproperties ({mode});
insert into t values (1, 'a');
insert into t (id) values (2);
!> ConstraintViolated: NOT NULL of column `v`. Violating row: v = NULL, id = 2
update t set v = null where id = 1;
!> ConstraintViolated: NOT NULL of column `v`
update t set v = nullif(v, 'a');
!> ConstraintViolated: NOT NULL of column `v`
merge into t using (select 1 as id) s on t.id = s.id when matched then update set v = null;
!> ConstraintViolated: NOT NULL of column `v`
merge into t using (select 2 as id) s on t.id = s.id when not matched then insert (id) values (s.id);
!> ConstraintViolated: NOT NULL of column `v`
select * from t;
=> 1 | a

--- an empty string in a partition column is NULL, so NOT NULL rejects it
create table t (id int, p string not null) using delta partitioned by (p);
insert into t values (1, '');
!> ConstraintViolated: NOT NULL of column `p`. Violating row: p = NULL, id = 1
insert into t values (1, ' ');
select count(*) from t;
=> 1

--- not null can be dropped, and set if no row violates it
create table t (id int not null, s struct<a: int>) using delta;
alter table t alter column id drop not null;
insert into t values (null, named_struct('a', 1));
alter table t alter column id set not null;
!> ConstraintViolated: 1 row(s) of default.t violate the constraint NOT NULL of column `id`
update t set id = 1;
alter table t change column id set not null;
alter table t alter column s.a set not null;
insert into t values (2, null);
!> ConstraintViolated: NOT NULL of column `s.a`
insert into t values (null, null);
!> ConstraintViolated: NOT NULL of column `id`
select * from t;
=> 1 | Row(a=1)

--- not null inside arrays and maps is rejected, because no reader enforces it
create table t (id int, a array<struct<x: int not null>>) using delta;
!> PlanError: NOT NULL inside arrays and maps (field x of the column a
create table t (id int, m map<string, struct<x: int not null>>) using delta;
!> PlanError: forall()
create table t (id int, a array<struct<x: int>> check (forall(a, e -> e.x is not null))) using delta;
insert into t values (1, array(named_struct('x', 1)));
insert into t values (2, array(named_struct('x', 1), named_struct('x', cast(null as int))));
!> ConstraintViolated: CHECK (forall(a, e -> e.x is not null)). Violating row: a = [{1}, {null}], id = 2.
select count(*) from t;
=> 1

--- a table created from a query has no NOT NULL at any depth
create table t using delta as select 1 as id, named_struct('a', 1) as s, array(named_struct('b', 2)) as l;
insert into t select null, named_struct('a', cast(null as int)), array(named_struct('b', cast(null as int)), null);
select * from t where id is null;
=> NULL | Row(a=None) | [Row(b=None), None]

--- strings inside structs, arrays and maps have at most the declared length
create table t (id int, s struct<v: varchar(3), c: char(4)>, a array<varchar(2)>, m map<varchar(3), struct<c: char(2)>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('v', 'abc  ', 'c', 'x'), array('ab', 'c   ', null), map('k', named_struct('c', 'y'), 'xyz  ', null));
select concat(s.v, '|'), concat(s.c, '|'), concat_ws(',', transform(a, x -> concat(x, '|'))), concat(m['k'].c, '|'), m['xyz'] from t;
=> abc| | x   | | ab|,c | | y | | NULL
insert into t values (2, named_struct('v', 'abcd', 'c', 'x'), null, null);
!> ValueOutOfRange: 'abcd'
insert into t values (2, null, array('abc'), null);
!> ValueOutOfRange: too long for the column `a`
insert into t values (2, null, null, map('long', null));
!> ValueOutOfRange: 'long'
update t set s.v = 'abcd';
!> ValueOutOfRange: `s`
merge into t using (select 1 as id, map('k', named_struct('c', 'abc')) as m) u on t.id = u.id when matched then update set m = u.m;
!> ValueOutOfRange: 'abc'
update t set a = array('zz'), s = null, m = null;
=> 1
select * from t;
=> 1 | NULL | ['zz'] | NULL

--- rows of a query are checked against the constraints of CREATE TABLE AS, and a violation leaves no table
create table t (id int not null, v string, constraint positive check (id > 0)) using delta as select -1, 'a';
!> ConstraintViolated: positive CHECK (id > 0). Violating row: id = -1, v = a
create table t (id int not null, v string, constraint positive check (id > 0)) using delta as select 1, 'a';
create or replace table t (id int not null, v string) using delta as select cast(null as int), 'b';
!> ConstraintViolated: NOT NULL of column `id`
insert into t values (-2, 'b');
!> ConstraintViolated: positive CHECK (id > 0)
create or replace table t (id int not null, v string) using delta as select -2, 'b';
insert into t values (null, 'c');
!> ConstraintViolated: NOT NULL of column `id`
select * from t;
=> -2 | b
