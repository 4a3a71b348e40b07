# Iceberg: writes
# https://iceberg.apache.org/docs/latest/spark-writes/

--- INSERT INTO t VALUES
create table t (id int, data string) using delta;
insert into t values (1, 'a'), (2, 'b');
select * from t order by id;
=> 1 | a
=> 2 | b

--- INSERT INTO t SELECT
create table t (id bigint) using delta;
insert into t select id from range(3);
select count(*) from t;
=> 3

--- MERGE INTO t USING … WHEN MATCHED AND … THEN DELETE, UPDATE; WHEN NOT MATCHED AND … THEN INSERT
create table t (id int, count int) using delta;
insert into t values (1, null), (2, 5), (3, 9);
merge into t using (values (1, 'increment'), (2, 'increment'), (3, 'delete'), (4, 'new')) s (id, op) on t.id = s.id
when matched and s.op = 'delete' then delete
when matched and t.count is null and s.op = 'increment' then update set t.count = 0
when matched and s.op = 'increment' then update set t.count = t.count + 1
when not matched and s.op = 'new' then insert (id, count) values (s.id, 1);
select * from t order by id;
=> 1 | 0
=> 2 | 6
=> 4 | 1

--- MERGE INTO t … WHEN NOT MATCHED THEN INSERT *
create table t (id int, data string) using delta;
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (2, 'y')) s (id, data) on t.id = s.id when matched then update set t.data = s.data when not matched then insert *;
select * from t order by id;
=> 1 | x
=> 2 | y

--- MERGE INTO t … WHEN NOT MATCHED BY SOURCE THEN UPDATE
create table t (id int, status string) using delta;
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1)) s (id) on t.id = s.id when not matched by source then update set status = 'invalid';
select * from t order by id;
=> 1 | a
=> 2 | invalid

--- INSERT OVERWRITE t SELECT
create table t (id int, level string) using delta partitioned by (level);
insert into t values (1, 'INFO'), (2, 'WARN');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t select 3, 'INFO';
set spark.sql.sources.partitionOverwriteMode = static;
select * from t order by id;
=> 2 | WARN
=> 3 | INFO

--- INSERT OVERWRITE t PARTITION (column = value) SELECT
create table t (id int, level string) using delta partitioned by (level);
insert into t values (1, 'INFO'), (2, 'WARN');
insert overwrite t partition (level = 'INFO') select 3;
select * from t order by id;
=> 2 | WARN
=> 3 | INFO

--- DELETE FROM t WHERE range, subquery, EXISTS
create table t (id int, ts timestamp) using delta;
insert into t values (1, timestamp'2020-05-02 00:00:00'), (2, timestamp'2021-01-01 00:00:00'), (3, timestamp'2022-01-01 00:00:00'), (4, null);
delete from t where ts >= '2020-05-01 00:00:00' and ts < '2020-06-01 00:00:00';
delete from t where id < (select min(id) from values (3) g (id));
delete from t as t1 where exists (select oid from values (4) r (oid) where t1.id = oid);
select id from t;
=> 3

--- UPDATE t SET … WHERE range, subquery, EXISTS
create table t (id int, c1 string) using delta;
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
update t set c1 = 'update_c1' where id >= 3;
update t set c1 = 'low' where id < (select min(id) from values (2) g (id));
update t as t1 set c1 = 'returned' where exists (select oid from values (2) r (oid) where t1.id = oid);
select * from t order by id;
=> 1 | low
=> 2 | returned
=> 3 | update_c1

--- iceberg: INSERT, MERGE, UPDATE, DELETE of t.branch_name
create table t (id int, val string) using iceberg;
insert into t values (0, 'z');
alter table t create branch audit;
insert into t.branch_audit values (1, 'a'), (2, 'b');
merge into t.branch_audit a using (values (1, 'm')) s (id, val) on a.id = s.id when matched then update set val = s.val;
update t.branch_audit as t1 set val = 'c' where id = 0;
delete from t.branch_audit where id = 2;
select * from t.branch_audit order by id;
=> 0 | c
=> 1 | m
select * from t;
=> 0 | z

--- iceberg: SET spark.wap.branch = name
create table t (id int) using iceberg tblproperties ('write.wap.enabled' = 'true');
insert into t values (1);
set spark.wap.branch = audit;
insert into t values (3);
reset spark.wap.branch;
select * from t;
=> 1
select count(*) from t.branch_audit;
=> 2

--- iceberg: ALTER TABLE t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')
create table t (id int) using iceberg;
alter table t set tblproperties ('write.spark.accept-any-schema' = 'true');
insert with schema evolution into t by name select 1 as id, 'x' as extra;
select * from t;
=> 1 | x
