--- an omitted generated column is computed in every form of insert
create table t (id int, ts timestamp, day date generated always as (cast(TS as date)), twice int generated always as (id * 2)) using delta partitioned by (day) tblproperties ({mode});
insert into t (id, ts) values (1, timestamp '2024-01-01 10:00:00');
insert into t by name select timestamp '2024-01-02 10:00:00' as ts, 2 as id;
insert into t values (3, timestamp '2024-01-03 10:00:00', date '2024-01-03', 6);
insert into t values (4, timestamp '2024-01-04 10:00:00', default, default), (5, null, default, default);
insert into t (id, twice) values (6, 12);
select id, day, twice from t order by id;
=> 1 | 2024-01-01 | 2
=> 2 | 2024-01-02 | 4
=> 3 | 2024-01-03 | 6
=> 4 | 2024-01-04 | 8
=> 5 | NULL | 10
=> 6 | NULL | 12
insert into t values (7, timestamp '2024-01-03 10:00:00', date '2024-01-04', 14);
!> ConstraintViolated: GENERATED ALWAYS AS (cast(TS as date)) of column `day`. Violating row: 
insert into t (id, twice) values (7, null);
!> ConstraintViolated: GENERATED ALWAYS AS (id * 2) of column `twice`. Violating row: id = 7, twice = NULL
insert into t values (7, null, null, default), (8, null, null, 16);
!> PlanError: only some rows contain DEFAULT
insert into t (id, ts) replace where day = date '2024-01-02' values (22, timestamp '2024-01-02 11:00:00');
insert into t (id, ts) replace where day = date '2024-01-02' values (23, timestamp '2024-01-03 11:00:00');
!> ConstraintViolated: REPLACE WHERE day = date '2024-01-02'
insert overwrite t (id) values (9);
select * from t;
=> 9 | NULL | NULL | 18

--- update computes generated columns again, or checks their assigned values
create table t (id int, v int, s struct<a: int, b: int>, sum int generated always as (v + s.a), note string generated always as (concat('n', v))) using delta tblproperties ({mode});
insert into t (id, v, s) values (1, 10, named_struct('a', 1, 'b', 2)), (2, 20, named_struct('a', 2, 'b', 3));
update t set v = 30 where id = 1;
=> 1
update t set s.a = 9 where id = 2;
=> 1
select id, sum, note from t order by id;
=> 1 | 31 | n30
=> 2 | 29 | n20
update t set v = 1, sum = 2, note = default where id = 1;
=> 1
update t set sum = 5 where id = 1;
!> ConstraintViolated: GENERATED ALWAYS AS (v + s.a) of column `sum`
update t set s = null, sum = null where id = 1;
=> 1
select id, sum, note from t order by id;
=> 1 | NULL | n1
=> 2 | 29 | n20

--- merge computes and checks clause by clause
create table t (id int, v int, dbl int generated always as (v * 2)) using delta tblproperties ({mode});
insert into t (id, v) values (1, 1), (2, 2), (3, 3);
merge into t using (values (1, 10), (4, 40)) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
merge into t using (values (2, 20), (5, 50), (6, 60)) s (id, v) on t.id = s.id when matched then update set v = s.v when not matched and s.id = 5 then insert (id, v, dbl) values (s.id, s.v, 100) when not matched then insert (id, v) values (s.id, s.v) when not matched by source and t.id = 3 then update set v = -3;
=> 4 | 2 | 0 | 2
select * from t order by id;
=> 1 | 10 | 20
=> 2 | 20 | 40
=> 3 | -3 | -6
=> 4 | 40 | 80
=> 5 | 50 | 100
=> 6 | 60 | 120
merge into t using (values (1, 10, 21)) s (id, v, dbl) on t.id = s.id when matched then update set *;
!> ConstraintViolated: GENERATED ALWAYS AS (v * 2) of column `dbl`. Violating row: v = 10, dbl = 21, id = 1
merge into t using (values (7, 10, 21)) s (id, v, dbl) on t.id = s.id when not matched then insert *;
!> ConstraintViolated: column `dbl`
merge into t using (values (7, 10, 20)) s (id, v, dbl) on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
merge into t using (values (8)) s (id) on t.id = s.id when not matched then insert (id) values (s.id);
=> 1 | 0 | 0 | 1
select * from t where id > 6 order by id;
=> 7 | 10 | 20
=> 8 | NULL | NULL

--- generated columns can have constraints, defaults and NOT NULL
create table t (id int default 3, twice int not null generated always as (id * 2) check (twice < 100)) using delta;
insert into t (id) values (default);
insert into t (id) values (null);
!> ConstraintViolated: NOT NULL of column `twice`
insert into t (id) values (50);
!> ConstraintViolated: CHECK (twice < 100). Violating row: twice = 100, id = 50
select * from t;
=> 3 | 6

--- invalid generated columns are rejected by name
create table t (id int, a int generated always as (id + 1), b int generated always as (a + 1)) using delta;
!> PlanError: reads the generated column `a`
create table t (id int, a int generated always as (a + 1)) using delta;
!> PlanError: reads itself
create table t (id int, a double generated always as (rand())) using delta;
!> UnsupportedStatement: rand()
create table t (id int, a timestamp generated always as (current_timestamp())) using delta;
!> UnsupportedStatement: reads the current time
create table t (id int, a int generated always as (nope + 1)) using delta;
!> UnknownColumn: `nope`
create table t (id int, a bigint generated always as (id + 1)) using delta;
!> TypeMismatch: cast(id + 1 as bigint)
create table t (id int, a bigint generated always as (count(id))) using delta;
!> UnsupportedStatement: count(id)
create table t (id int, a int generated always as (id) default 1) using delta;
!> PlanError: both GENERATED and has a DEFAULT
show tables;
=> -

--- an append-only table accepts only new rows
create table t (id int, v string) using delta tblproperties ('delta.appendOnly' = 'true', {mode});
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (2, 'b')) s (id, v) on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
merge into t using (values (1, 'x')) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
!> AppendOnly: MERGE on default.t
merge into t using (values (9, 'x')) s (id, v) on t.id = s.id when not matched by source then delete;
!> AppendOnly: append-only
update t set v = 'x' where id = 99;
!> AppendOnly: UPDATE
delete from t where id = 99;
!> AppendOnly: DELETE
truncate table t;
!> AppendOnly: TRUNCATE
insert overwrite t values (3, 'c');
!> AppendOnly: INSERT OVERWRITE
insert into t replace where id = 1 values (1, 'c');
!> AppendOnly
insert into t replace using (id) values (1, 'c');
!> AppendOnly: REPLACE USING
select * from t order by id;
=> 1 | a
=> 2 | b
alter table t set tblproperties ('delta.appendOnly' = 'false');
delete from t where id = 1;
=> 1
