--- an insert writes one change row for each row
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, null);
select id, v, _change_type, _commit_version from table_changes('t', 1) order by id;
=> 1 | a | insert | 1
=> 2 | b | insert | 1
=> 3 | NULL | insert | 2

--- an update writes the row's pre-image and post-image
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
update t set v = upper(v), id = id + 10 where id < 3;
select * except (_commit_timestamp) from table_changes('t', 2) order by id, _change_type;
=> 1 | a | update_preimage | 2
=> 2 | b | update_preimage | 2
=> 11 | A | update_postimage | 2
=> 12 | B | update_postimage | 2

--- an update to equal values writes change rows, as in Delta on Spark
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
update t set v = 'a' where id = 1;
select id, v, _change_type from table_changes('t', 2, 2) order by _change_type;
=> 1 | a | update_postimage
=> 1 | a | update_preimage

--- an update that matches no row writes no version
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1);
update t set id = 2 where id = 7;
select max(_commit_version), count(*) from table_changes('t', 0);
=> 1 | 1

--- a delete of some rows of a file
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
delete from t where id = 2;
delete from t where id = 3;
select id, v, _change_type, _commit_version from table_changes('t', 2) order by id;
=> 2 | b | delete | 2
=> 3 | c | delete | 3
select * from t;
=> 1 | a

--- a delete of all rows writes no change rows for rows that are already deleted
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1), (2), (3);
delete from t where id = 2;
delete from t;
select id, _change_type, _commit_version from table_changes('t', 2) order by id;
=> 1 | delete | 3
=> 2 | delete | 2
=> 3 | delete | 3

--- a delete of a partition, and of rows in another one
create table t (id int, p string) partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'a'), (3, 'b'), (4, null), (5, null);
delete from t where p = 'a';
delete from t where p is null or id = 3;
select id, p, _change_type, _commit_version from table_changes('t', 2) order by id;
=> 1 | a | delete | 2
=> 2 | a | delete | 2
=> 3 | b | delete | 3
=> 4 | NULL | delete | 3
=> 5 | NULL | delete | 3

--- an update that moves a row to another partition
create table t (id int, p string, v int) partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a', 1), (2, 'a', 2), (3, 'b', 3);
update t set p = 'c/d e' where id = 1;
update t set p = null where id = 3;
select id, p, v, _change_type, _commit_version from table_changes('t', 2) order by id, _change_type;
=> 1 | c/d e | 1 | update_postimage | 2
=> 1 | a | 1 | update_preimage | 2
=> 3 | NULL | 3 | update_postimage | 3
=> 3 | b | 3 | update_preimage | 3

--- a merge with every kind of clause
create table t (id int, v string, n int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5);
merge into t using (values (1, 'A'), (2, null), (6, 'F'), (7, null)) s (id, v) on t.id = s.id
when matched and s.v is null then delete
when matched then update set v = s.v
when not matched and s.v is not null then insert (id, v) values (s.id, s.v)
when not matched by source and t.id = 3 then delete
when not matched by source and t.id = 4 then update set n = t.n * 10;
select id, v, n, _change_type from table_changes('t', 2) order by id, _change_type;
=> 1 | A | 1 | update_postimage
=> 1 | a | 1 | update_preimage
=> 2 | b | 2 | delete
=> 3 | c | 3 | delete
=> 4 | d | 40 | update_postimage
=> 4 | d | 4 | update_preimage
=> 6 | F | NULL | insert

--- a merge that only inserts
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a');
merge into t using (values (1, 'x'), (2, 'y')) s (id, v) on t.id = s.id when not matched then insert *;
select id, v, _change_type from table_changes('t', 2);
=> 2 | y | insert

--- a merge whose matched clause applies to no row writes only inserts
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a');
merge into t using (values (3, 'x'), (2, 'y')) s (id, v) on t.id = s.id
when matched then update set * when not matched then insert *;
select id, v, _change_type from table_changes('t', 2) order by id;
=> 2 | y | insert
=> 3 | x | insert

--- a row that a merge deletes twice is one change row
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
merge into t using (values (1), (1), (3), (3)) s (id) on t.id = s.id
when matched then delete when not matched then insert (id) values (s.id);
select id, v, _change_type from table_changes('t', 2) order by id;
=> 1 | a | delete
=> 3 | NULL | insert
=> 3 | NULL | insert

--- each duplicate row in the table has a change row
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (1, 'a'), (2, 'b');
delete from t where id = 1;
select id, v, _change_type from table_changes('t', 2);
=> 1 | a | delete
=> 1 | a | delete

--- insert overwrite deletes every row and inserts the new ones
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1), (2), (3);
delete from t where id = 1;
insert overwrite t values (2), (9);
select id, _change_type from table_changes('t', 3) order by _change_type, id;
=> 2 | delete
=> 3 | delete
=> 2 | insert
=> 9 | insert

--- insert overwrite of dynamic partitions
create table t (id int, p string) partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t partition (p) values (3, 'b'), (4, 'c');
reset spark.sql.sources.partitionOverwriteMode;
select id, p, _change_type from table_changes('t', 2) order by id;
=> 2 | b | delete
=> 3 | b | insert
=> 4 | c | insert

--- replace where on a column of the data
create table t (id int, d int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 1), (2, 2), (3, 2);
insert into t replace where d = 2 values (2, 2), (4, 2);
select id, d, _change_type from table_changes('t', 2) order by _change_type, id;
=> 2 | 2 | delete
=> 3 | 2 | delete
=> 2 | 2 | insert
=> 4 | 2 | insert

--- replace where on a partition column
create table t (id int, p int) partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 1), (2, 2);
insert into t replace where p = 2 values (3, 2);
select id, p, _change_type from table_changes('t', 2) order by id;
=> 2 | 2 | delete
=> 3 | 2 | insert

--- replace using
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (1, 'b'), (2, 'c');
insert into t replace using (id) values (1, 'x'), (3, 'y');
select id, v, _change_type from table_changes('t', 2) order by _change_type, id, v;
=> 1 | a | delete
=> 1 | b | delete
=> 1 | x | insert
=> 3 | y | insert

--- truncate deletes every row
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1), (2);
truncate table t;
select id, _change_type from table_changes('t', 2) order by id;
=> 1 | delete
=> 2 | delete

--- create or replace deletes the old rows and inserts the new ones
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1);
create or replace table t tblproperties ('delta.enableChangeDataFeed' = 'true', {mode}) as select 2 as id;
select id, _change_type, _commit_version from table_changes('t', 1) order by _commit_version, id;
=> 1 | insert | 1
=> 1 | delete | 2
=> 2 | insert | 2

--- create or replace without the change data feed ends it
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1);
create or replace table t as select 2 as id;
select id from table_changes('t', 1, 1);
=> 1
select id from table_changes('t', 1);
!> ChangesNotRecorded: version 2
select id from table_changes('t', 2);
!> ChangesNotRecorded: delta.enableChangeDataFeed

--- the feed begins with the version that switches it on
create table t (id int) tblproperties ({mode});
insert into t values (1), (2);
alter table t set tblproperties ('delta.enableChangeDataFeed' = 'true');
delete from t where id = 1;
select id, _change_type, _commit_version from table_changes('t', 2);
=> 1 | delete | 3
select id from table_changes('t', 1);
!> ChangesNotRecorded: version 1
alter table t set tblproperties ('delta.enableChangeDataFeed' = 'false');
select id from table_changes('t', 2);
!> ChangesNotRecorded: version 4
select id from table_changes('t', 2, 3);
=> 1

--- both ends of the range are included
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1);
insert into t values (2);
insert into t values (3);
select id from table_changes('t', 2, 3) order by id;
=> 2
=> 3
select id from table_changes('t', 2, 2);
=> 2
select count(*) from table_changes('t', 0, 0);
=> 0
select id from table_changes('t', 3, 99);
=> 3

--- an invalid range is an error
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1);
select * from table_changes('t', 2);
!> VersionNotFound: after the newest version, 1
select * from table_changes('t', 1, 0);
!> PlanError: not before the start
select * from table_changes('t', -1);
!> PlanError: which is not a version
select * from table_changes('t', null);
!> TypeMismatch: neither a version nor a time
select * from table_changes('t', 1.5);
!> TypeMismatch: neither a version nor a time
select * from table_changes('t', 'last week');
!> TypeMismatch: last week
select * from table_changes('t', '2999-01-01');
!> VersionNotFound: after the newest version
select * from table_changes('t', 0, '1999-01-01');
!> VersionNotFound: before its first version
select * from table_changes('t', '2999-01-01', '1999-01-01');
!> VersionNotFound: after the newest version

--- invalid arguments are an error
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
create view w as select 1 as id;
select * from table_changes('t');
!> PlanError: two or three arguments
select * from table_changes('t', 0, 1, 2);
!> PlanError: two or three arguments
select * from table_changes();
!> PlanError: two or three arguments
select * from table_changes(t, 0);
!> PlanError: as a string
select * from table_changes(1 + 1, 0);
!> TypeMismatch: not the name of a table
select * from table_changes('nothing', 0);
!> TableNotFound: nothing
select * from table_changes('w', 0);
!> PlanError: is a view
select * from table_changes('t as x', 0);
!> Unparsable: Expected
select * from table_changes('t', id);
!> UnknownColumn: id

--- timestamps select the first version at or after the start and the last at or before the end
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1);
insert into t values (2);
select id from table_changes('t', '2001-01-01') order by id;
=> 1
=> 2
select id from table_changes('t', timestamp '2001-01-01 00:00:00', current_timestamp() + interval 1 day) order by id;
=> 1
=> 2
select id from table_changes('t', date '2001-01-01', 1);
=> 1
select count(*) from table_changes('t', current_timestamp() - interval 1 hour, current_date() + 2);
=> 2

--- change rows have the table's columns and three more
create table t (id int, v decimal(5, 2)) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1, 1.25);
create table copied as select * from table_changes('t', 0);
describe copied;
=> id | int | NULL
=> v | decimal(5,2) | NULL
=> _change_type | string | NULL
=> _commit_version | bigint | NULL
=> _commit_timestamp | timestamp | NULL
select _commit_timestamp > timestamp '2001-01-01' from copied;
=> true

--- change rows in joins, subqueries, unions and under aliases
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
update t set v = 'c' where id = 1;
select c.id, t.v, c.v from TABLE_CHANGES('t', 2) as c join t on t.id = c.id where c._change_type = 'update_preimage';
=> 1 | c | a
select id from t where id not in (select id from table_changes('default.t', 2));
=> 2
with c as (select * from table_changes('`default`.`t`', 1L, 1)) select count(*) from c union all select count(*) from table_changes('t', 2) d;
=> 2
=> 2
select table_changes.id from table_changes('t', 2) where _change_type = 'update_postimage';
=> 1
select count(*) from t, table_changes('t', 1) c, lateral (select c.id + 1 as n) where t.id = c.id;
=> 4

--- the source of a merge can be the changes of another table
create table src (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
create table dst (id int, v string) tblproperties ({mode});
insert into src values (1, 'a'), (2, 'b'), (3, 'c');
insert into dst select id, v from table_changes('src', 1, 1);
update src set v = 'B' where id = 2;
delete from src where id = 3;
merge into dst using table_changes('src', 2) c on dst.id = c.id and c._change_type <> 'update_preimage'
when matched and c._change_type = 'delete' then delete
when matched then update set v = c.v;
select * from dst order by id;
=> 1 | a
=> 2 | B

--- a merge from a table's own changes undoes its last version
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
update t set v = 'z' where id = 1;
merge into t using (select * from table_changes('t', 2, 2) where _change_type = 'update_preimage') c on t.id = c.id
when matched then update set v = c.v;
select * from t order by id;
=> 1 | a
=> 2 | b
select id, v, _change_type from table_changes('t', 3) order by _change_type;
=> 1 | a | update_postimage
=> 1 | z | update_preimage

--- a view over changes is read anew each time
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
create view news as select id, _commit_version as version from table_changes('t', 1);
!> VersionNotFound: after the newest version
insert into t values (1);
create view news as select id, _commit_version as version from table_changes('t', 1);
create temporary view fresh as select id from table_changes('t', 1);
insert into t values (2);
select * from news order by id;
=> 1 | 1
=> 2 | 2
select count(*) from fresh;
=> 2

--- an added column is null in older change rows
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1), (2);
delete from t where id = 2;
alter table t add columns (v string);
insert into t values (3, 'c');
select id, v, _change_type from table_changes('t', 1) order by _commit_version, id;
=> 1 | NULL | insert
=> 2 | NULL | insert
=> 2 | NULL | delete
=> 3 | c | insert
select id, v from table_changes('t', 2, 2);
=> 2 | NULL

--- a column of another type ends the range
create table t (id int, v int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1, 1);
create or replace table t tblproperties ('delta.enableChangeDataFeed' = 'true') as select 1 as id, 'x' as v;
select * from table_changes('t', 1);
!> IncompatibleSchemaChange: its column v has the type int, and later string
select * from table_changes('t', 2);
!> IncompatibleSchemaChange: in version 1
insert into t values (2, 'y');
select id, v from table_changes('t', 3);
=> 2 | y

--- a change of the partition columns ends the range
create table t (id int, p int) tblproperties ('delta.enableChangeDataFeed' = 'true');
insert into t values (1, 1);
create or replace table t partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true') as select 1 as id, 2 as p;
insert into t values (2, 2);
select * from table_changes('t', 1);
!> IncompatibleSchemaChange: the table had different partition columns
select id, p, _change_type from table_changes('t', 3);
=> 2 | 2 | insert

--- changes of every type of column
create table t (k int, b boolean, d date, ts timestamp, ntz timestamp_ntz, x binary, a array<int>, s struct<f: int, g: string>, m map<string, int>)
tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t select 1, true, date '2024-01-02', timestamp '2024-01-02 03:04:05.678901', timestamp_ntz '2024-01-02 03:04:05', x'00ff', array(1, null), named_struct('f', 1, 'g', 'x'), map('k', 1);
update t set s.f = 2, a = null, m = map('q', null) where k = 1;
select b, d, ts, ntz, hex(x), a, s.f, s.g, to_json(m), _change_type from table_changes('t', 2) order by _change_type;
=> true | 2024-01-02 | 2024-01-02 03:04:05.678901 | 2024-01-02 03:04:05 | 00FF | NULL | 2 | x | {"q":null} | update_postimage
=> true | 2024-01-02 | 2024-01-02 03:04:05.678901 | 2024-01-02 03:04:05 | 00FF | [1, None] | 1 | x | {"k":1} | update_preimage

--- partition values of every type are read unchanged
create table t (id int, d date, ts timestamp, n decimal(4, 1), s string) partitioned by (d, ts, n, s)
tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, date '2024-01-02', timestamp '2024-01-02 03:04:05.5', 1.5, 'ä=ü'), (2, null, null, null, null);
update t set id = id + 10 where true;
select id, d, ts, n, s, _change_type from table_changes('t', 2) order by id;
=> 1 | 2024-01-02 | 2024-01-02 03:04:05.500000 | 1.5 | ä=ü | update_preimage
=> 2 | NULL | NULL | NULL | NULL | update_preimage
=> 11 | 2024-01-02 | 2024-01-02 03:04:05.500000 | 1.5 | ä=ü | update_postimage
=> 12 | NULL | NULL | NULL | NULL | update_postimage

--- a value that differs each time is the same in the table and in its change row
create table t (id int, u string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
update t set u = uuid() where id = 1;
select count(*) from table_changes('t', 2) c join t on t.id = c.id and t.u = c.u where _change_type = 'update_postimage';
=> 1

--- reserved change data column names are rejected while the feed is on
create table t (id int, _change_type string) tblproperties ('delta.enableChangeDataFeed' = 'true');
!> PlanError: _change_type
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true');
alter table t add columns (_COMMIT_version bigint);
!> PlanError: _COMMIT_version
create table u (id int, _commit_timestamp timestamp);
alter table u set tblproperties ('delta.enableChangeDataFeed' = 'true');
!> PlanError: _commit_timestamp
create or replace table t tblproperties ('delta.enableChangeDataFeed' = 'true') as select * from table_changes('t', 0);
!> PlanError: _change_type
select count(*) from table_changes('t', 0);
=> 0

--- a column named like a change row's is data while the feed is off
create table t (id int, _change_type string) tblproperties ({mode});
insert into t values (1, 'mine');
update t set id = 2 where id = 1;
select * from t;
=> 2 | mine

--- table_changes without parentheses is an identifier
create table table_changes (id int);
insert into table_changes values (1);
select table_changes.id from table_changes;
=> 1
with table_changes as (select 2 as id) select id from table_changes;
=> 2

--- writer version 4 keeps the feed as the feature does
create table t (id int) tblproperties ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '4', 'delta.enableChangeDataFeed' = 'true', 'rowmerge.write.mode' = 'copy-on-write');
insert into t values (1), (2);
delete from t where id = 1;
select id, _change_type from table_changes('t', 2);
=> 1 | delete
select min_reader_version, min_writer_version from (select 1 as min_reader_version, 4 as min_writer_version);
=> 1 | 4

--- history counts the files of change rows
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1), (2), (3);
update t set id = 9 where id = 1;
merge into t using (values (9)) s (id) on t.id = s.id when matched then delete;
select count(*) from table_changes('t', 2);
=> 3
--- changes of a table with column mapping
create table t (id int, `a b` string, p string) partitioned by (p)
tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'x', 'm'), (2, 'y', 'n'), (3, 'z', 'n');
update t set `a b` = 'q', p = 'o' where id = 2;
delete from t where id = 3;
select id, `a b`, p, _change_type, _commit_version from table_changes('t', 2) order by id, _change_type;
=> 2 | q | o | update_postimage | 2
=> 2 | y | n | update_preimage | 2
=> 3 | z | n | delete | 3

--- a merge that adds a column writes its change rows with it
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1, 'a'), (2, 'b');
merge with schema evolution into t using (values (1, 'x', 7), (3, 'y', 8)) s (id, v, n) on t.id = s.id
when matched then update set * when not matched then insert *;
select id, v, n, _change_type, _commit_version from table_changes('t', 1) order by _commit_version, id, _change_type;
=> 1 | a | NULL | insert | 1
=> 2 | b | NULL | insert | 1
=> 1 | x | 7 | update_postimage | 2
=> 1 | a | NULL | update_preimage | 2
=> 3 | y | 8 | insert | 2

--- restore brings back the rows that the deletion vectors of the version do not mark
create table t (id int, v string) tblproperties ('delta.enableChangeDataFeed' = 'true', 'rowmerge.write.mode' = 'merge-on-read');
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
delete from t where id = 1;
insert into t values (4, 'd');
restore table t to version as of 1;
select id, v, _change_type from table_changes('t', 4) order by id;
=> 1 | a | insert
=> 4 | d | delete

--- rewritten files without row changes write no change rows
create table t (id int) tblproperties ('delta.enableChangeDataFeed' = 'true', {mode});
insert into t values (1);
insert into t values (2);
optimize t;
select count(*) from table_changes('t', 3);
=> 0
select id, _commit_version from table_changes('t', 1) order by id;
=> 1 | 1
=> 2 | 2

--- a renamed column ends the range
create table t (id int, v string) tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true');
insert into t values (1, 'a');
alter table t rename column v to w;
insert into t values (2, 'b');
select * from table_changes('t', 1);
!> IncompatibleSchemaChange: a column v, which was dropped or renamed
select id, v, _change_type from table_changes('t', 1, 1);
=> 1 | a | insert
select id, w, _change_type from table_changes('t', 2);
=> 2 | b | insert
