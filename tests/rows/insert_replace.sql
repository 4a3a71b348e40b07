--- replace where replaces rows inside a file and keeps its other rows
create table t (id int, v string) using delta tblproperties ({mode});
insert into t select id, 'old' from range(10);
insert into t replace where id between 3 and 5 values (3, 'new'), (4, 'new'), (4, 'twice');
=> 3 | 3
select id, v from t where id between 2 and 6 order by id, v;
=> 2 | old
=> 3 | new
=> 4 | new
=> 4 | twice
=> 6 | old
select count(*) from t;
=> 10

--- replace where without new rows deletes
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'b');
insert into t replace where v = 'b' select 1, 'b' where false;
=> 0 | 0
select * from t;
=> 1 | a

--- replace where without old rows inserts
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
insert into t replace where v = 'b' values (2, 'b');
select * from t order by id;
=> 1 | a
=> 2 | b

--- replace where rejects a row for which its condition is false or null, and changes nothing
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
insert into t replace where v = 'a' values (2, 'a'), (3, 'b');
!> ConstraintViolated: REPLACE WHERE
insert into t replace where v = 'a' values (2, null);
!> ConstraintViolated: REPLACE WHERE
select * from t;
=> 1 | a

--- replace where keeps old rows for which its condition is null
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, null), (3, 'b');
insert into t replace where v <> 'b' values (4, 'c');
select * from t order by id;
=> 2 | NULL
=> 3 | b
=> 4 | c

--- replace where replaces whole partitions
create table t (id int, d date) using delta partitioned by (d) tblproperties ({mode});
insert into t values (1, date '2024-01-01'), (2, date '2024-01-02'), (3, date '2024-01-03');
insert into t replace where d >= '2024-01-02' values (9, date '2024-01-02');
select * from t order by id;
=> 1 | 2024-01-01
=> 9 | 2024-01-02

--- replace where can read the table itself
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2), (3, 3);
insert into t replace where id >= 2 select id, v * 10 from t where id >= 2;
select * from t order by id;
=> 1 | 1
=> 2 | 20
=> 3 | 30

--- replace where accepts by name and a condition in parentheses
create table t (id int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into t by name replace where (v in ('a', 'b') and id <> 2) select 'b' as v, 1 as id;
select * from t order by id;
=> 1 | b
=> 2 | b

--- replace where requires insert into
create table t (id int) using delta;
insert overwrite t replace where id = 1 select 1;
!> Unparsable: REPLACE WHERE is allowed only with INSERT INTO
insert into t replace where id = 1;
!> Unparsable: Expected

--- replace using deletes rows that equal a new row, and null equals no value
create table t (k int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (null, 'c');
insert into t replace using (k) values (1, 'x'), (1, 'y'), (null, 'z'), (7, 'w');
=> 4 | 4
select * from t order by k, v;
=> NULL | c
=> NULL | z
=> 1 | x
=> 1 | y
=> 2 | b
=> 7 | w

--- replace using compares the stored values
create table t (k int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into t replace using (k) values (1.4, 'x'), (2L, 'y');
select * from t order by k;
=> 1 | x
=> 2 | y

--- replace using without new rows changes nothing
create table t (k int, v string) using delta;
insert into t values (1, 'a');
insert into t replace using (k) select 1, 'x' where false;
=> 0 | 0
select * from t;
=> 1 | a

--- replace using accepts some of the columns, also by name
create table t (k int, v string, p int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a', 1), (2, 'a', 1), (3, 'b', 1), (4, 'b', 2);
insert into t by name replace using (v, P) select 2 as p, 'b' as v;
select * from t order by k;
=> NULL | b | 2
=> 1 | a | 1
=> 2 | a | 1
=> 3 | b | 1
insert into t by name replace using (k) select 'b' as v;
!> UnknownColumn: `k`
insert into t replace using (nothing) values (1, 'a', 1);
!> UnknownColumn: `nothing`

--- replace using can read the table itself
create table t (k int, v int) using delta tblproperties ({mode});
insert into t values (1, 1), (2, 2);
insert into t replace using (k) select k, v + 1 from t union all select k + 1, 0 from t;
select * from t order by k, v;
=> 1 | 2
=> 2 | 0
=> 2 | 3
=> 3 | 0

--- replace on deletes the rows that its condition joins to a new row
create table t (id int, v string, n int) using delta tblproperties ({mode});
insert into t values (1, 'a', 1), (2, 'b', 2), (null, 'c', 3), (4, 'd', 4);
insert into t as o replace on o.id <=> n.id (select null as id, 'new' as v, 0 as n union all select 1, 'one', 0) as n;
=> 2 | 2
select * from t order by id, v;
=> NULL | new | 0
=> 1 | one | 0
=> 2 | b | 2
=> 4 | d | 4

--- the condition of replace on can use all names of the query
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
insert into t replace on t.id between s.low and s.low + 1 (select 1 as low, 'x' as name) s;
select * from t order by id;
=> 1 | x
=> 3 | c

--- replace on without aliases accepts names that only one side has
create table t (id int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into t replace on id = k select 2 as k, 'x' as w;
select * from t order by id;
=> 1 | a
=> 2 | x
insert into t replace on id = id select 2 as id, 'x' as v;
!> AmbiguousColumn: `id`
insert into t replace on nothing = 1 select 2 as id, 'x' as v;
!> UnknownColumn: `nothing`

--- replace on true replaces all rows if there are new rows
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
insert into t replace on true select 3 where false;
select count(*) from t;
=> 2
insert into t replace on true values (3), (4);
select * from t order by id;
=> 3
=> 4
insert into t replace on false values (5);
select count(*) from t;
=> 3

--- the condition of replace on can use only the table
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'b');
insert into t replace on t.p = 'b' (select 4, 'b') s;
select * from t order by id;
=> 1 | a
=> 4 | b

--- replace on accepts by name, and several new rows for one old row
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t as o by name replace on o.id = n.id (select 'x' as v, 1 as id union all select 'y', 1) n;
select * from t order by id, v;
=> 1 | x
=> 1 | y
=> 2 | b

--- the condition of replace on can read other tables
create table t (id int, v string) using delta;
create table u (id int) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into u values (2);
insert into t replace on t.id = s.id and t.id in (select id from u) (select 1 as id, 'x' as v union all select 2, 'y') s;
select * from t order by id, v;
=> 1 | a
=> 1 | x
=> 2 | y

--- an ambiguous replace on is rejected
create table t (id int) using delta;
insert into t replace on rand() > 0.5 values (1);
!> UnsupportedStatement: rand()
insert into t as x replace on x.id = 1 (select 1 as id) x;
!> PlanError: both have the alias `x`
insert overwrite t replace on true values (1);
!> Unparsable: REPLACE ON is allowed only with INSERT INTO
insert into t replace with (id) values (1);
!> Unparsable: WHERE, USING or ON
--- replace where checks the stored values
create table t (id int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into t replace where id = 1 values (1.2, 'c');
select * from t order by id;
=> 1 | c
=> 2 | b
insert into t replace where id > 1.5 values (1.7, 'c');
!> ConstraintViolated: REPLACE WHERE

