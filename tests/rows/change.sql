--- update changes the rows of its condition
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, null);
update t set v = upper(v), id = id + 10 where id > 1;
=> 2
select * from t order by id;
=> 1 | a
=> 12 | B
=> 13 | NULL

--- update without a condition changes all rows
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
update t as x set x.v = 'z';
=> 2
select * from t order by id;
=> 1 | z
=> 2 | z

--- the condition of an update can have a subquery
create table t (id int, v string) using delta tblproperties ({mode});
create table other (id int) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into other values (2);
update t set v = 'z' where id in (select id from other);
=> 1
delete from t where exists (select 1 from other o where o.id = t.id);
=> 1
select * from t;
=> 1 | a

--- delete without a condition deletes all rows
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
delete from t;
=> 2
select count(*) from t;
=> 0

--- delete of a whole partition reads no data files
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'a'), (3, 'b'), (4, null);
delete from t where p = 'a';
=> 2
delete from t where p is null;
=> 1
select * from t;
=> 3 | b

--- deleting rows that do not exist changes nothing
create table t (id int) using delta tblproperties ({mode});
insert into t values (1);
delete from t where id = 7;
=> 0
select max(version) from (select 1 as version);
=> 1

--- a deleted row stays deleted after further deletes and updates
create table t (id int, v int) using delta tblproperties ({mode});
insert into t select id, 0 from range(100);
delete from t where id % 10 = 0;
=> 10
update t set v = 1 where id % 10 = 1;
=> 10
delete from t where id < 50;
=> 45
select count(*), sum(v) from t;
=> 45 | 5

--- insert assigns by position, casts values, and counts rows
create table t (id bigint, v string, d date) using delta;
insert into t values (1, 'a', date '2024-01-01');
=> 1 | 1
insert into t (v, id) values ('b', 2);
insert into t by name select 'c' as v, 3 as id;
select id, v, d from t order by id;
=> 1 | a | 2024-01-01
=> 2 | b | NULL
=> 3 | c | NULL

--- an insert with too few columns names the required columns
create table t (id int, v string) using delta;
insert into t values (1);
!> PlanError: 2 are required

--- insert overwrite replaces the table
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
insert overwrite t values (3);
select * from t;
=> 3

--- insert overwrite of a static partition replaces that partition
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert overwrite table t partition (p = 'a') values (9);
select * from t order by id;
=> 2 | b
=> 9 | a

--- insert overwrite of dynamic partitions replaces those that get rows
create table t (id int, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite table t partition (p) values (8, 'b'), (9, 'd');
set spark.sql.sources.partitionOverwriteMode = static;
select * from t order by id;
=> 1 | a
=> 3 | c
=> 8 | b
=> 9 | d

--- replace using deletes the rows with the keys of the new rows and inserts all new rows
create table t (k1 int, k2 string, v int) using delta tblproperties ({mode});
insert into t values (1, 'a', 1), (1, 'b', 2), (2, null, 3), (3, 'c', 4);
insert into t replace using (k1, k2) values (1, 'a', 10), (1, 'a', 11), (2, null, 30);
select * from t order by k1, k2, v;
=> 1 | a | 10
=> 1 | a | 11
=> 1 | b | 2
=> 2 | NULL | 3
=> 2 | NULL | 30
=> 3 | c | 4

--- replace where deletes the rows of the condition and requires the new rows to satisfy it
create table t (id int, day date) using delta tblproperties ({mode});
insert into t values (1, date '2024-01-01'), (2, date '2024-01-02');
insert into t replace where day = date '2024-01-02' values (3, date '2024-01-02'), (4, date '2024-01-02');
select * from t order by id;
=> 1 | 2024-01-01
=> 3 | 2024-01-02
=> 4 | 2024-01-02
insert into t replace where day = date '2024-01-02' values (5, date '2024-01-03');
!> ConstraintViolated: REPLACE WHERE

--- delta: truncate empties the table and keeps its history
create table t (id int) using delta;
insert into t values (1);
truncate table t;
select * from t;
=> -
select * from t version as of 1;
=> 1

--- a not null column rejects nulls
create table t (id int not null, v string) using delta;
insert into t values (null, 'a');
!> ConstraintViolated: NOT NULL of column `id`
select count(*) from t;
=> 0
