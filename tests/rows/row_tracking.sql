--- a table without row tracking requirements accepts every statement
create table t (id int, v string) tblproperties ('delta.feature.rowTracking' = 'supported', {mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
update t set v = 'z' where id = 1;
delete from t where id = 2;
merge into t using (values (3, 'm'), (4, 'n')) s (id, v) on t.id = s.id when matched then update set * when not matched then insert *;
select * from t order by id;
=> 1 | z
=> 3 | m
=> 4 | n

--- with permanent row ids, only inserts and deletes are accepted
create table t (id int, v string) tblproperties ('delta.enableRowTracking' = 'true');
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
delete from t where id = 2;
=> 1
merge into t using (values (3), (4)) s (id) on t.id = s.id when matched then delete when not matched then insert (id) values (s.id);
select * from t order by id;
=> 1 | a
=> 4 | NULL
update t set v = 'z' where id = 1;
!> RowsMustStay: update rows of default.t
merge into t using (values (1, 'm')) s (id, v) on t.id = s.id when matched then update set v = s.v;
!> UnsupportedTableFeature: 'rowTracking'
optimize t;
!> RowsMustStay: rewrite files of default.t
insert overwrite t values (5, 'e');
select * from t;
=> 5 | e

--- with permanent row ids and without deletion vectors, only whole files can be deleted
create table t (id int, p int) partitioned by (p) tblproperties ('delta.enableRowTracking' = 'true', 'rowmerge.write.mode' = 'copy-on-write');
insert into t values (1, 1), (2, 1), (3, 2);
delete from t where id = 1;
!> RowsMustStay: rewrite files of default.t
delete from t where p = 1;
delete from t where id = 3;
=> 1
select count(*) from t;
=> 0
