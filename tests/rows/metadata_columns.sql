--- no star has a metadata column
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
select *, _metadata.row_index from t order by id;
=> 1 | a | 0
=> 2 | b | 1
select t.*, t._metadata.row_index from t where _metadata.file_size > 0 order by _metadata.row_index desc;
=> 2 | b | 1
=> 1 | a | 0
select count(*), count(distinct *), max(to_json(struct(*))) from t where _metadata.row_index = 1;
=> 1 | 1 | {"id":2,"v":"b"}
select * except (v) from t x where x._metadata.row_index = 1;
=> 2
select * from t a join t b on a._metadata.file_path = b._metadata.file_path and a.id < b.id;
=> 1 | a | 2 | b
select * from t a join t b using (id) where b._metadata.row_index = 0;
=> 1 | a | a
select * from t where _metadata.row_index = 0 union all select * from t where id = 2 order by id;
=> 1 | a
=> 2 | b
select * from t except select * from t where _metadata.row_index = 0;
=> 2 | b
create table copy using delta as select * from t where _metadata.row_index = 0;
select * from copy;
=> 1 | a
insert into copy select * from t where _metadata.row_index = 1;
=> 1 | 1
select * from copy order by id;
=> 1 | a
=> 2 | b

--- metadata columns in subqueries, WITH lists, views and older versions
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2), (3);
with c as (select *, _metadata.row_index as n from t) select * from c where n = 1;
=> 2 | 1
select * from (select *, _metadata.row_index n from t) where n < 1;
=> 1 | 0
select id from t where exists (select 1 from t u where u.id - 1 = t._metadata.row_index and u.id = 3);
=> 3
select id from t where id in (select id from t where _metadata.row_index = 2);
=> 3
select id, (select count(*) from t u where u._metadata.file_name = t._metadata.file_name) from t order by id;
=> 1 | 3
=> 2 | 3
=> 3 | 3
create view v as select *, _metadata.row_index as n from t;
select * from v order by n desc limit 1;
=> 3 | 2
select _metadata.row_index from v;
!> UnknownColumn: `_metadata
create temporary view w as select * from t where _metadata.row_index > 0;
select count(*) from w;
=> 2
with c as (select * from t) select _metadata from c;
!> UnknownColumn: `_metadata`
select _metadata.row_index from t as x (a);
!> UnknownColumn: `_metadata

--- cached rows of a view have the metadata columns that it selects
create table t (id int) using delta tblproperties ({mode});
insert into t values (1), (2);
create view v as select id, _metadata.row_index as n from t;
cache table v;
select * from v where n = 1;
=> 2 | 1
cache table t;
select id, _metadata.row_index from t where _metadata.row_index = 0;
=> 1 | 0
delete from t where id = 1;
select count(*) from v;
=> 1
clear cache;

--- delta: an anti-join by file path finds the rows that a later version lacks
create table t (id int, p int) using delta partitioned by (p) tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into t select /*+ coalesce(1) */ cast(id as int), 1 from range(30);
insert into t select /*+ coalesce(1) */ cast(id as int), 2 from range(30);
delete from t where id = 1;
insert into t select /*+ coalesce(1) */ cast(id as int), 3 from range(30);
delete from t where id = 2;
select old.id, old.p from t version as of 3 old left anti join t on t._metadata.file_path = old._metadata.file_path and t._metadata.row_index = old._metadata.row_index order by p;
=> 2 | 1
=> 2 | 2

--- a column of another relation takes precedence over a metadata column
create table t (id int) using delta tblproperties ({mode});
create table u (id int, _metadata string) using delta tblproperties ({mode});
insert into t values (1);
insert into u values (1, 'mine');
select _metadata from u;
=> mine
select * from u where _metadata = 'mine';
=> 1 | mine
delete from u where _metadata = 'other';
=> 0
select t.id, _metadata from t join u on t.id = u.id;
=> 1 | mine
select id, n from t lateral view explode(array(7)) e as n where t._metadata.row_index = 0;
=> 1 | 7
select _metadata from t lateral view explode(array(8)) e as _metadata;
=> 8
select id _metadata from t;
=> 1
select _metadata from (select id as _metadata from t);
=> 1

--- statements change the rows that metadata columns select
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
insert into t values (3, 'c'), (4, 'd');
update t set v = concat(v, _metadata.row_index) where t._metadata.row_index = 1 and id > 2;
=> 1
delete from t x where x._metadata.row_index = 0 and x._metadata.file_name = (select max(_metadata.file_name) from t where id = 1);
=> 1
select * from t order by id;
=> 2 | b
=> 3 | c
=> 4 | d1
merge into t using (select _metadata.file_path f, _metadata.row_index n, id k from t where id in (2, 3)) s on t._metadata.file_path = s.f and t._metadata.row_index = s.n when matched and t._metadata.file_size > 0 then update set v = 'merged' when not matched then insert (id, v) values (s.k, 'new') when not matched by source and t._metadata.row_index >= 0 then delete;
=> 3 | 2 | 1 | 0
select * from t order by id;
=> 2 | merged
=> 3 | merged
update t set _metadata.file_path = 'x';
!> UnknownColumn: `_metadata`
select _metadata.nothing from t;
!> UnknownColumn: nothing

--- what uses all columns of a table cannot use its metadata columns
create table t (id int) using delta tblproperties ({mode});
select * from t natural join (select id from t) u where t._metadata.row_index = 0;
!> UnsupportedStatement: NATURAL
from t |> where _metadata.row_index = 0;
!> UnsupportedStatement: |>
select * from t pivot (count(_metadata.file_path) for id in (1));
!> UnsupportedStatement: PIVOT

--- the metadata columns of Iceberg on Iceberg tables
create table t (id int, p string) using iceberg partitioned by (p) tblproperties ({mode});
insert into t values (1, 'a'), (2, 'a'), (3, null);
alter table t add partition field bucket(4, id) as shard;
insert into t values (4, 'a');
select id, _pos, _spec_id, _partition.p, _partition.shard is null, _deleted from t order by id;
=> 1 | 0 | 0 | a | true | false
=> 2 | 1 | 0 | a | true | false
=> 3 | 0 | 0 | NULL | true | false
=> 4 | 0 | 1 | a | false | false
select * from t where _partition.p is null;
=> 3 | NULL
select id, _POS from t x where `_file` = (select min(_file) from t where id = 2) and x._pos > 0;
=> 2 | 1
select _pos from t a, t b;
!> AmbiguousColumn: _pos
delete from t where _deleted;
!> PlanError: live rows
update t set id = id + 10 where _spec_id = 0 and _partition.p = 'a' and _pos = 1;
=> 1
merge into t using (select 4 as id) s on t.id = s.id and t._spec_id = 1 when matched then update set id = t.id + t._spec_id;
=> 1 | 1 | 0 | 0
select id from t order by id;
=> 1
=> 3
=> 5
=> 12
select _row_id from t;
!> UnknownColumn: `_row_id`

--- the ids of rows in Iceberg tables of format version 3
create table t (id int) using iceberg tblproperties ({mode}, 'format-version' = '3');
insert into t values (1), (2);
insert into t values (3);
update t set id = 20 where _row_id = 1;
=> 1
select id, _row_id, _last_updated_sequence_number, _metadata.row_id, _metadata.row_commit_version from t order by id;
=> 1 | 0 | 1 | 0 | 1
=> 3 | 2 | 2 | 2 | 2
=> 20 | 1 | 3 | 1 | 3
select id from t where _last_updated_sequence_number > 2;
=> 20
