--- an omitted column gets its default in every form of insert
create table t (id int, v string default 'none', n bigint default 1 + 1, d date default date '2024-01-02', p string) using delta;
insert into t (id) values (1);
insert into t (id, v) values (2, null);
insert into t by name select 3 as id, 'x' as p;
insert into t (p, id) select 'y', 4;
insert into t values (5, 'all', 5, date '2020-01-01', 'z');
insert into t values (6, 'few');
!> PlanError: 5 are required
select * from t order by id;
=> 1 | none | 2 | 2024-01-02 | NULL
=> 2 | NULL | 2 | 2024-01-02 | NULL
=> 3 | none | 2 | 2024-01-02 | x
=> 4 | none | 2 | 2024-01-02 | y
=> 5 | all | 5 | 2020-01-01 | z

--- DEFAULT is the column's default, or NULL without one
create table t (id int, v string default upper('a,b'), n bigint default 7, q string) using delta tblproperties ({mode});
insert into t values (1, DEFAULT, default, DEFAULT), (2, 'x', 2, 'y'), (default, 'default', 3000000000, concat('(', ')'));
insert into t (n, id) values (default, 4);
insert into t select 5, default, 6, default;
select * from t order by id;
=> NULL | default | 3000000000 | ()
=> 1 | A,B | 7 | NULL
=> 2 | x | 2 | y
=> 4 | A,B | 7 | NULL
=> 5 | A,B | 6 | NULL
update t set v = default, q = default where id = 2;
=> 1
merge into t using (values (1), (8), (9)) s (id) on t.id = s.id when matched then update set n = default, v = 'm' when not matched and s.id = 8 then insert (id, v) values (s.id, default) when not matched then insert (id) values (s.id);
=> 3 | 1 | 0 | 2
select * from t where id in (1, 2, 8, 9) order by id;
=> 1 | m | 7 | NULL
=> 2 | A,B | 2 | NULL
=> 8 | A,B | 7 | NULL
=> 9 | A,B | 7 | NULL

--- without a default, DEFAULT is NULL, which NOT NULL rejects
create table t (id int not null, v string) using delta;
insert into t values (default, 'a');
!> ConstraintViolated: NOT NULL of column `id`. Violating row: id = NULL, v = a
insert into t (v) values ('a');
!> ConstraintViolated: NOT NULL of column `id`
select count(*) from t;
=> 0

--- a default can be set, changed and dropped, and applies to later rows
create table t (id int, v string) using delta;
insert into t (id) values (1);
alter table t alter column V set default 'new';
insert into t (id) values (2);
alter table t alter column v set default lower('LATE');
insert into t (id) values (3);
alter table t alter column v drop default;
insert into t (id) values (4);
alter table t alter column v drop default;
select * from t order by id;
=> 1 | NULL
=> 2 | new
=> 3 | late
=> 4 | NULL
select max(id) from t version as of 6;
=> 3

--- a default with the current time is one timestamp for the whole statement
create table t (id int, a timestamp default current_timestamp(), b timestamp default now(), c date default current_date) using delta tblproperties ({mode});
insert into t (id) values (1), (2);
select count(distinct a), count(distinct b), bool_and(a = b), bool_and(a between timestamp '2024-01-01 00:00:00' and current_timestamp() + interval 1 minute), bool_and(c = cast(a as date)) from t;
=> 1 | 1 | true | true | true
merge into t using (values (1), (2), (3), (4)) s (id) on t.id = s.id when matched then update set a = default, b = default when not matched then insert (id) values (s.id);
=> 4 | 2 | 0 | 2
select count(distinct a), bool_and(a = b) from t;
=> 1 | true

--- defaults apply to replace and overwrite
create table t (id int, p string default 'a') using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t (id) replace where p = 'a' values (3);
select * from t order by id;
=> 2 | b
=> 3 | a
insert into t (id) replace using (p) values (4);
select * from t order by id;
=> 2 | b
=> 4 | a
insert overwrite t (id) values (5);
select * from t;
=> 5 | a

--- invalid defaults are rejected by name
create table t (id int, v int) using delta;
alter table t alter column v set default id + 1;
!> PlanError: reads the column `id`
alter table t alter column v set default (select 1);
!> UnsupportedStatement: subquery
alter table t alter column v set default rand();
!> UnsupportedStatement: rand()
alter table t alter column v set default max(1);
!> UnsupportedStatement: max(1)
alter table t alter column v set default 'text';
!> TypeMismatch: string
alter table t alter column v set default 3000000000;
!> ValueOutOfRange: 3000000000
alter table t alter column w set default 1;
!> UnknownColumn: `w`
alter table t add column w int default 1;
!> UnsupportedStatement: SET DEFAULT
create table u (id int default 'a') using delta;
!> TypeMismatch: string
create table u (id int, v int default id) using delta;
!> PlanError: reads the column `id`
create table u (id int, k bigint generated always as identity) using delta;
!> UnsupportedStatement: IDENTITY
show tables;
=> default | t | false
