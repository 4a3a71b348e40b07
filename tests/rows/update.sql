--- delta: no row, no new version
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
update t set v = 'z' where id = 7;
=> 0
update t set v = 'z' where null;
=> 0
update t set v = 'z' where 1 != 1;
=> 0
select * from t version as of 1;
=> 1 | a
select * from t version as of 2;
!> VersionNotFound: 2

--- an update of an empty table changes no row
create table t (id int, v string) using delta tblproperties ({mode});
update t set v = 'z';
=> 0

--- values read the old row in any order of assignments
create table t (id int, a int, b int) using delta tblproperties ({mode});
insert into t values (1, 10, 20);
update t set b = a, a = b, id = a + b where a < b;
=> 1
select * from t;
=> 30 | 20 | 10

--- null is not true in a condition
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, null), (2, 5), (3, 7);
update t set v = 0 where v > 5;
=> 1
update t set v = -1 where not (v = 5);
=> 1
update t set v = 1 where v is null;
=> 1
select * from t order by id;
=> 1 | 1
=> 2 | 5
=> 3 | -1

--- alias forms, and names with and without qualifiers
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
update t set t.v = concat(t.v, default.t.v) where t.id = 1;
=> 1
update t as x set x.v = v || '1' where x.id = id;
=> 1
update t x set v = x.v || '2';
=> 1
update default.t set default.t.v = t.v || '3' where default.t.id = 1;
=> 1
select v from t;
=> aa123

--- an alias hides the table's name
create table t (id int, v string) using delta;
insert into t values (1, 'a');
update t as x set v = 'b' where t.id = 1;
!> UnknownColumn: t.id
update t as x set t.v = 'b';
!> UnknownColumn: `t`

--- unknown columns are reported with similar names
create table t (id int, amount int) using delta;
insert into t values (1, 1);
update t set amuont = 1;
!> UnknownColumn: Did you mean `amount`
update t set amount = amuont + 1;
!> UnknownColumn: amuont
update t set amount = 1 where idd = 1;
!> UnknownColumn: idd

--- rows move between partitions, into null and back
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, null);
update t set p = 'c' where p is null;
=> 1
update t set p = null where p = 'a';
=> 1
update t set p = upper(p) where id = 2;
=> 1
select * from t order by id;
=> 1 | NULL
=> 2 | B
=> 3 | c

--- a partition predicate with a row predicate
create table t (id int, p int, v int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 1, 0), (2, 1, 0), (3, 2, 0);
update t set v = v + id where p = 1 and id > 1 or p = 2;
=> 2
update t set v = 100, p = p + 1 where p + 1 = 3;
=> 1
select * from t order by id;
=> 1 | 1 | 0
=> 2 | 1 | 2
=> 3 | 3 | 100

--- fields of structs, deep ones, several at once
create table t (id int, s struct<a: int, b: struct<c: string, d: array<int>>>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1)))), (2, null);
update t set s.b.c = concat(s.b.c, '!'), t.s.a = s.a + 1 where s.b.c = 'x';
=> 1
update t set s.b.d = array(id) where id = 2;
=> 1
select id, s.a, s.b.c, s.b.d from t order by id;
=> 1 | 2 | x! | [1]
=> 2 | NULL | NULL | [2]

--- a whole struct is assigned by name, and a missing field is rejected
create table t (id int, s struct<a: int, b: string>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', 'x'));
update t set s = named_struct('b', 'y', 'a', 2);
=> 1
select s.a, s.b from t;
=> 2 | y

--- a duplicate column, or a column with its field, is rejected
create table t (id int, s struct<a: int>) using delta;
update t set id = 1, id = 2;
!> PlanError: twice
update t set s.a = 1, s.A = 2;
!> PlanError: twice
update t set s = null, s.a = 2;
!> PlanError: together with one of its fields

--- delta: values that cannot be stored fail the update and change nothing
create table t (id int, b tinyint, n int not null, v varchar(2)) using delta tblproperties ({mode});
insert into t values (1, 1, 1, 'a'), (2, 2, 2, 'b');
update t set b = id * 100;
!> ValueOutOfRange: 200
update t set b = 'x';
!> ValueOutOfRange: x
update t set b = true;
!> TypeMismatch: `b` of default.t
update t set n = null where id = 2;
!> ConstraintViolated: `n`
update t set v = 'abc' where id = 2;
!> ValueOutOfRange: `v`
update t set n = 5, b = -128, v = 'c ' where id = 2;
=> 1
select id, b, n, concat(v, '|') from t order by id;
=> 1 | 1 | 1 | a|
=> 2 | -128 | 5 | c |

--- a division by zero or a failing cast fails the update and changes nothing
create table t (id int, n int, v string) using delta tblproperties ({mode});
insert into t values (1, 0, 'a'), (2, 1, '5');
update t set id = 10 / n;
!> RowmergeError: 
update t set n = cast(v as int);
!> RowmergeError: 
select id, n from t order by id;
=> 1 | 0
=> 2 | 1

--- subqueries in the condition: in, not in, exists, not exists, scalar
create table t (id int, v string) using delta tblproperties ({mode});
create table o (id int, n int) using delta;
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (null, 'd');
insert into o values (1, 10), (2, 20);
update t set v = v || '1' where id in (select id from o);
=> 2
update t set v = v || '2' where id not in (select id from o);
=> 1
update t set v = v || '3' where exists (select 1 from o where o.id = t.id and o.n > 10);
=> 1
update t set v = v || '4' where not exists (select 1 from o where o.id = t.id);
=> 2
update t set v = v || '5' where id = (select min(id) from o);
=> 1
update t set v = v || '6' where id < (select max(o.n) - 15 from o where o.id = t.id);
=> 1
select * from t order by v;
=> 1 | a15
=> 2 | b136
=> 3 | c24
=> NULL | d4

--- not in with a null in the subquery is never true
create table t (id int, v int) using delta tblproperties ({mode});
create table o (id int) using delta;
insert into t values (1, 0), (2, 0), (null, 0);
update t set v = 1 where id not in (select id from o);
=> 3
insert into o values (1), (null);
update t set v = 2 where id not in (select id from o);
=> 0
update t set v = 3 where v = 9 or id not in (select id from o);
=> 0
update t set v = 4 where id in (select id from o) or id is null;
=> 2

--- subqueries in values
create table t (id int, n int) using delta tblproperties ({mode});
create table o (id int, n int) using delta;
insert into t values (1, 0), (2, 0), (3, 0);
insert into o values (1, 10), (2, 20);
update t set n = (select max(n) from o);
=> 3
update t set n = (select sum(o.n) from o where o.id = t.id) where id < 3;
=> 2
update t set n = n + (select count(*) from t) where id = 1;
=> 1
select * from t order by id;
=> 1 | 13
=> 2 | 20
=> 3 | 20

--- a subquery can read the old version of the target table
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 10), (2, 20), (3, 30);
update t set n = n + 1 where n = (select max(n) from t);
=> 1
update t set n = 0 where id in (select max(id) from t) or n < (select avg(n) from t);
=> 3
select * from t order by id;
=> 1 | 0
=> 2 | 0
=> 3 | 0

--- a scalar subquery with two rows fails the update
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 10), (2, 20);
update t set n = (select id from t);
!> RowmergeError: 
select * from t order by id;
=> 1 | 10
=> 2 | 20

--- a with list before update
create table t (id int, n int) using delta tblproperties ({mode});
insert into t values (1, 10), (2, 20);
with big as (select id from t where n > 15), one as (select 1 as n)
update t set n = (select n from one) where id in (select id from big);
=> 1
select * from t order by id;
=> 1 | 10
=> 2 | 1

--- nondeterministic values are evaluated for each row
create table t (id int, u string, r double) using delta tblproperties ({mode});
insert into t values (1, null, null), (2, null, null);
update t set u = uuid(), r = rand();
=> 2
select count(distinct u), count(distinct r) from t;
=> 2 | 2

--- aggregates and window functions are rejected by name
create table t (id int, n int) using delta;
insert into t values (1, 1);
update t set n = max(n);
!> UnsupportedStatement: max()
update t set n = 1 where count(*) > 0;
!> UnsupportedStatement: count()
update t set n = row_number() over (order by id);
!> UnsupportedStatement: row_number()
update t set n = explode(array(1, 2));
!> UnsupportedStatement: explode()

--- update of views and foreign tables is rejected
create table t (id int) using delta;
create view v as select * from t;
create temporary view tv as select * from t;
update tt set id = 1;
!> TableNotFound: Did you mean `default.t`
update v set id = 1;
!> TableError: view
update tv set id = 1;
!> TableError: view
update t set id = 1 from v where v.id = t.id;
!> UnsupportedStatement: MERGE INTO
update t version as of 0 set id = 1;
!> StatementError: 

--- default is null without a default
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
update t set v = DEFAULT where id = 1;
=> 1
select * from t;
=> 1 | NULL

--- several updates apply to the same rows
create table t (id int, v int) using delta tblproperties ({mode});
insert into t select id, 0 from range(10);
update t set v = v + 1 where id < 5;
=> 5
update t set v = v + 1 where id between 3 and 6;
=> 4
update t set v = v + 1 where v = 1;
=> 5
select v, count(*) from t group by v order by v;
=> 0 | 3
=> 2 | 7

--- case, in, like and between in conditions
create table t (k string, v int) using delta tblproperties ({mode});
insert into t values ('apple', 1), ('banana', 2), ('cherry', 3), (null, 4);
update t set v = case when k like 'a%' then 10 when k in ('banana', 'x') then 20 else 30 end where k like '%a%' or v between 3 and 4;
=> 4
select * from t order by v, k nulls first;
=> apple | 10
=> banana | 20
=> NULL | 30
=> cherry | 30
