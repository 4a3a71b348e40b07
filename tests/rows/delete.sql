--- whole partitions are removed by their files, and their rows are counted
create table t (id int, p string, v int) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a', 0), (2, 'a', 0), (3, 'b', 0), (4, null, 0), (5, 'c', 0);
delete from t where p in ('a', 'x');
=> 2
delete from t where p is null or p = 'c';
=> 2
delete from t where upper(p) = 'B';
=> 1
select count(*) from t;
=> 0

--- a partition predicate with a row predicate
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'a'), (3, 'b'), (2, 'b');
delete from t where p = 'a' and id = 2;
=> 1
delete from t where p = 'b' or id = 7;
=> 2
select * from t;
=> 1 | a

--- partition predicates of other types and with functions
create table t (id int, d date, n int) using delta partitioned by (d, n) tblproperties ({mode});
insert into t values (1, date '2024-01-01', 1), (2, date '2024-01-02', 2), (3, date '2024-02-01', 3), (4, null, null), (5, date '2024-03-05', 5);
delete from t where d = '2024-01-02';
=> 1
delete from t where year(d) = 2024 and month(d) = 2;
=> 1
delete from t where d between date '2024-01-01' and timestamp '2024-01-01 12:00:00' and n < 1.5;
=> 1
delete from t where n is null;
=> 1
select id from t;
=> 5

--- not in and not equal leave the null partition
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, null);
delete from t where p not in ('a');
=> 1
delete from t where p <> 'b';
=> 1
delete from t where not (p <=> 'zzz') and p is null;
=> 1
select count(*) from t;
=> 0

--- a deleted partition counts its live rows
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t select id, if(id < 10, 'a', 'b') from range(20);
delete from t where id in (1, 2, 11);
=> 3
delete from t where p = 'a';
=> 8
delete from t;
=> 9

--- conditions that are null delete nothing
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, null), (2, 5);
delete from t where v = null;
=> 0
delete from t where null;
=> 0
delete from t where not (v > 100) and v <> 5;
=> 0
delete from t where v > 1 or null;
=> 1
delete from t where v <=> null;
=> 1
select count(*) from t;
=> 0

--- conditions that are the same for every row
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2), (null);
delete from t where false;
=> 0
delete from t where 1 = 0 and id = 1;
=> 0
delete from t where 1 = 1 and id = 1;
=> 1
delete from t where true;
=> 2

--- in lists, nulls in them, and types that differ
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (null, 'd');
delete from t where id in (1, null);
=> 1
delete from t where id not in (2, null);
=> 0
delete from t where id in ('2', 7L);
=> 1
delete from t where (id, v) in ((3, 'c'), (4, 'd'));
=> 1
select * from t;
=> NULL | d

--- between, like, ranges over several files
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'apple'), (2, 'avocado');
insert into t values (3, 'banana'), (4, 'cherry');
insert into t values (5, null);
delete from t where id between 2 and 3;
=> 2
delete from t where v like 'c%y';
=> 1
delete from t where v not like 'z%';
=> 1
select * from t;
=> 5 | NULL

--- subqueries: in, not in, exists, not exists, scalar, all reading other tables
create table t (id int, v string) using delta tblproperties ({mode});
create table o (id int) using delta;
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (null, 'e');
insert into o values (1), (2), (3);
delete from t where id in (select id from o where id < 2);
=> 1
delete from t where exists (select * from o where o.id = t.id and o.id = 2);
=> 1
delete from t where id = (select max(id) from o);
=> 1
delete from t where id not in (select id from o);
=> 1
delete from t where not exists (select 1 from o where o.id = t.id);
=> 1
select count(*) from t;
=> 0

--- not in with a null in the subquery deletes nothing, exists does
create table t (id int) using delta tblproperties ({mode});
create table o (id int) using delta;
insert into t values (1), (2);
insert into o values (1), (null);
delete from t where id not in (select id from o);
=> 0
delete from t where not exists (select 1 from o where o.id = t.id);
=> 1
delete from t where id in (select id from o where id is null);
=> 0
select * from t;
=> 1

--- a subquery with partition predicates does not delete whole partitions
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
create table o (id int, p string) using delta;
insert into t values (1, 'a'), (2, 'a'), (3, 'b');
insert into o values (1, 'a');
delete from t where p = 'a' and id in (select id from o);
=> 1
delete from t where p in (select p from o);
=> 1
select * from t;
=> 3 | b

--- a subquery can read the target table
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 5), (2, 5), (3, 7);
delete from t where id in (select max(id) from t group by v having count(*) > 1);
=> 1
delete from t as x where exists (select 1 from t y where y.v > x.v);
=> 1
select * from t;
=> 3 | 7

--- delta: a subquery of an older version
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
insert into t values (3);
delete from t where id in (select id from t version as of 1);
=> 2
select * from t;
=> 3

--- a with list before delete
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 5), (2, 6), (3, 7);
with big as (select id from t where v > 5), only_two (n) as (select 2) delete from t where id in (select id from big) and id in (select n from only_two);
=> 1
select id from t order by id;
=> 1
=> 3

--- aliases and qualified names
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
delete from t as x where x.id = 1;
=> 1
delete from t x where x.v = 'b' and id = 2;
=> 1
delete from default.t where default.t.id = 3;
=> 1
delete from spark_catalog.default.t where spark_catalog.default.t.id = 4;
=> 1
delete from t as x where t.id = 1;
!> UnknownColumn: t.id

--- conditions on fields, elements and functions
create table t (id int, s struct<a: int, b: string>, xs array<int>, m map<string, int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('a', 1, 'b', 'x'), array(1, 2), map('k', 1)), (2, null, null, null), (3, named_struct('a', 3, 'b', null), array(3), map());
delete from t where s.a = 1 and xs[1] = 2 and m['k'] = 1;
=> 1
delete from t where s is null and size(coalesce(xs, array())) = 0;
=> 1
delete from t where exists(xs, x -> x = 3);
=> 1
select count(*) from t;
=> 0

--- an unknown column is reported with similar names, also for an empty table
create table t (id int, amount int) using delta;
delete from t where amuont = 1;
!> UnknownColumn: amount
delete from t where s.id = 1;
!> UnknownColumn: s.id

--- expressions that are not conditions are rejected
create table t (id int) using delta;
insert into t values (1);
delete from t where id;
!> TypeMismatch: 
delete from t where max(id) = 1;
!> UnsupportedStatement: max()
delete from t where row_number() over (order by id) = 1;
!> UnsupportedStatement: row_number()
delete from t where explode(array(1));
!> UnsupportedStatement: explode()
select * from t;
=> 1

--- delete from views and foreign tables is rejected
create table t (id int) using delta;
create view v as select * from t;
create temporary view tv as select * from t;
delete from tt;
!> TableNotFound: Did you mean `default.t`
delete from v;
!> TableError: view
delete from tv where id = 1;
!> TableError: view
delete from nowhere.t;
!> SchemaNotFound: nowhere
delete from t using v where v.id = t.id;
!> UnsupportedStatement: MERGE INTO

--- nan, infinity and minus zero
create table t (x double) using delta tblproperties ({mode});
insert into t values (double('NaN')), (1), (double('-Infinity')), (-0.0D);
delete from t where x = 0;
=> 1
delete from t where x > 1;
=> 1
delete from t where x < -1e308;
=> 1
select * from t;
=> 1.0

--- all rows of a file one after the other, then the other rows
create table t (id bigint) using delta tblproperties ({mode});
insert into t select id from range(6);
delete from t where id = 0;
=> 1
delete from t where id in (1, 2);
=> 2
delete from t where id < 6 and id <> 4;
=> 2
delete from t where id = 4;
=> 1
delete from t where id = 4;
=> 0
insert into t values (4);
delete from t;
=> 1

--- quotes, backslashes and comments in conditions
create table t (v string) using delta tblproperties ({mode});
insert into t values ('it\'s'), ('a\\b'), ('-- no'), ('x');
delete from t where v = 'it\'s';
=> 1
delete from t where v = 'a\\b' -- and v = 'x'
;
=> 1
delete from t where v = '-- no' /* or true */;
=> 1
select * from t;
=> x
insert into t values ('it''s');
delete from t where v = 'it''s';
=> 1
select * from t;
=> x
