-- The golden Iceberg tables: `-- table: name` begins one, the statements below it make it with Iceberg on Spark.
-- {t} stands for the table, {mor} for the properties that make all three write modes merge-on-read.
-- `-- java: name` calls a function of make.py: what Spark's SQL cannot say.

-- table: mor_file
create table {t} (id bigint, v string, n int) using iceberg tblproperties ({mor}, 'write.delete.granularity' = 'file');
insert into {t} select /*+ repartition(2) */ id, concat('v', id), cast(id as int) from range(1, 9);
insert into {t} values (9, 'v9', 9), (10, null, null);
update {t} set v = 'updated' where id in (2, 9);
delete from {t} where id = 3;
delete from {t} where id = 4;
merge into {t} t using (select * from values (1, 'merged'), (5, 'gone'), (11, 'new') s (id, v)) s on t.id = s.id
  when matched and s.v = 'gone' then delete when matched then update set v = s.v when not matched then insert (id, v) values (s.id, s.v);

-- table: mor_partition
create table {t} (id bigint, p string, v string) using iceberg partitioned by (p) tblproperties ({mor}, 'write.delete.granularity' = 'partition');
insert into {t} select id, if(id % 2 = 0, 'even', 'odd'), concat('v', id) from range(1, 7);
insert into {t} select id, if(id % 2 = 0, 'even', 'odd'), concat('v', id) from range(7, 13);
insert into {t} values (13, null, 'v13'), (14, null, 'v14');
delete from {t} where id in (1, 2, 7, 8, 13);
update {t} set v = 'updated' where id in (3, 9, 10);
merge into {t} t using (select * from values (4, 'even', 'moved'), (20, 'new', 'v20') s (id, p, v)) s on t.id = s.id
  when matched then update set p = 'odd', v = s.v when not matched then insert *;

-- table: cow
create table {t} (id bigint, v string) using iceberg tblproperties ('format-version' = '2');
insert into {t} select /*+ repartition(2) */ id, concat('v', id) from range(1, 9);
update {t} set v = 'updated' where id = 2;
delete from {t} where id = 3;
merge into {t} t using (select * from values (1, 'merged'), (11, 'new') s (id, v)) s on t.id = s.id when matched then update set * when not matched then insert *;

-- table: transforms
create table {t} (id bigint, category string, name string, d date, m date, ts timestamp, h timestamp_ntz, v int) using iceberg
  partitioned by (category, bucket(4, id), truncate(2, name), years(d), months(m), days(ts), hours(h)) tblproperties ({mor});
insert into {t} values
  (1, 'a', 'anna', date'2024-02-29', date'2024-02-29', timestamp'2024-02-29 23:59:59.999999Z', timestamp_ntz'2024-02-29 23:59:59', 1),
  (2, 'a', 'anton', date'1969-12-31', date'1969-12-31', timestamp'1969-12-31 23:59:59.999999Z', timestamp_ntz'1969-12-31 23:59:59', 2),
  (3, null, null, null, null, null, null, 3), (null, 'b', 'b', date'1970-01-01', date'1970-01-01', timestamp'1970-01-01 00:00:00Z', timestamp_ntz'1970-01-01 00:00:00', 4),
  (4, 'b', '', date'0001-01-01', date'9999-12-31', timestamp'1900-01-01 00:00:00Z', timestamp_ntz'2262-01-01 05:30:00', 5);
update {t} set v = 30 where v = 3;
delete from {t} where id = 1;

-- table: bucket_types
create table {t} (id int, l bigint, dec decimal(9, 2), big decimal(38, 10), d date, ts timestamp, ntz timestamp_ntz, s string, b binary) using iceberg
  partitioned by (bucket(8, id), bucket(8, l), bucket(8, dec), bucket(8, big), bucket(8, d), bucket(8, ts), bucket(8, ntz), bucket(8, s), bucket(8, b))
  tblproperties ({mor});
insert into {t} values
  (34, 34, 14.20, -12345678901234567890.0123456789, date'2017-11-16', timestamp'2017-11-16 22:31:08Z', timestamp_ntz'2017-11-16 22:31:08', 'iceberg', x'00010203'),
  (-1, -1, -0.01, 0, date'1969-12-31', timestamp'1969-12-31 23:59:59.999999Z', timestamp_ntz'1969-12-31 23:59:59', '', x''),
  (null, null, null, null, null, null, null, null, null), (1, 9223372036854775807, 9999999.99, 1, date'9999-12-31', timestamp'2262-01-01 00:00:00Z', timestamp_ntz'0001-01-01 00:00:00', 'ä€😀', x'FF');
delete from {t} where id = -1;

-- table: truncate_types
create table {t} (id int, l bigint, dec decimal(9, 2), s string, b binary) using iceberg
  partitioned by (truncate(10, id), truncate(10, l), truncate(50, dec), truncate(3, s), truncate(2, b)) tblproperties ({mor});
insert into {t} values (1, 1, 10.65, 'iceberg', x'00010203'), (-1, -1, -0.05, 'ä€😀x', x'FF'), (15, 15, 0.49, '', x''), (null, null, null, null, null);
delete from {t} where id = 15;

-- table: identity_types
create table {t} (id int, bool boolean, l bigint, f float, dbl double, dec decimal(9, 2), d date, ts timestamp, ntz timestamp_ntz, s string, b binary) using iceberg
  partitioned by (bool, l, f, dbl, dec, d, ts, ntz, s, b) tblproperties ({mor});
insert into {t} values
  (1, true, 1, 1.5, float('nan'), 1.10, date'2024-01-01', timestamp'2024-01-01 01:02:03.000004Z', timestamp_ntz'2024-01-01 01:02:03.000004', 'a/b c=d%ä', x'00FF'),
  (2, false, -1, -0.0, double('-infinity'), -1.10, date'1969-12-31', timestamp'1969-12-31 23:59:59Z', timestamp_ntz'1969-12-31 23:59:59', '', x''),
  (3, null, null, null, null, null, null, null, null, null, null);
update {t} set id = id * 10 where id in (1, 3);

-- table: odd_paths
create table {t} (id int, p string) using iceberg partitioned by (p) tblproperties ({mor});
insert into {t} values (1, 'a/b'), (2, 'a b'), (3, 'ä'), (4, '100%'), (5, 'x=y'), (6, ''), (7, '?#[]*'), (8, '%2F'), (9, 'null'), (10, null), (11, 'a+b:c');
delete from {t} where id in (1, 3, 8);

-- table: odd_names
create table {t} (`a.b` int, `a b` string, `ä-1` struct<`x.y`: int, `1st`: string>, `2` map<string, struct<`k.k`: int>>) using iceberg
  partitioned by (truncate(1, `a b`)) tblproperties ({mor});
insert into {t} values (1, 'one', named_struct('x.y', 1, '1st', 'first'), map('k', named_struct('k.k', 1))), (2, 'two', null, null), (3, null, null, map());
delete from {t} where `a.b` = 2;

-- table: nested_partition
create table {t} (id int, s struct<x: string, at: timestamp, n: struct<y: int>>) using iceberg partitioned by (s.x, days(s.at), bucket(2, s.n.y)) tblproperties ({mor});
insert into {t} values
  (1, named_struct('x', 'a', 'at', timestamp'2024-01-01 10:00:00Z', 'n', named_struct('y', 1))), (2, named_struct('x', 'b', 'at', timestamp'2024-01-02 10:00:00Z', 'n', named_struct('y', 2))),
  (3, null), (4, named_struct('x', 'a', 'at', timestamp'2024-01-01 11:00:00Z', 'n', null));
delete from {t} where id = 4;

-- table: partition_evolution
create table {t} (id bigint, ts timestamp, v string) using iceberg tblproperties ({mor});
insert into {t} values (1, timestamp'2024-01-01 00:00:00Z', 'a'), (2, timestamp'2024-01-02 00:00:00Z', 'b'), (3, null, 'c');
delete from {t} where id = 1;
alter table {t} add partition field bucket(2, id);
insert into {t} values (4, timestamp'2024-02-01 00:00:00Z', 'd'), (5, timestamp'2024-02-02 00:00:00Z', 'e');
delete from {t} where id in (2, 4);
alter table {t} drop partition field bucket(2, id);
alter table {t} add partition field days(ts);
insert into {t} values (6, timestamp'2024-03-01 00:00:00Z', 'f'), (7, timestamp'2024-03-02 00:00:00Z', 'g'), (8, null, 'h');
alter table {t} replace partition field days(ts) with months(ts) as month;
insert into {t} values (9, timestamp'2024-03-01 00:00:00Z', 'i'), (10, timestamp'2024-03-02 00:00:00Z', 'j');
update {t} set v = upper(v) where id in (5, 6, 8, 9);

-- table: schema_evolution
create table {t} (id int, dropped string, kept string, f float, dec decimal(5, 2), s struct<a: int, b: string>, l array<struct<x: int, y: string>>, m map<string, struct<p: int, q: string>>)
  using iceberg tblproperties ({mor});
insert into {t} values (1, 'old', 'k1', 1.5, 1.25, named_struct('a', 1, 'b', 'b1'), array(named_struct('x', 1, 'y', 'y1'), null), map('k', named_struct('p', 1, 'q', 'q1'))),
  (2, 'old', null, null, null, null, null, null);
alter table {t} drop column dropped;
alter table {t} add column dropped string after id;
insert into {t} (id, dropped, kept) values (3, 'new', 'k3');
alter table {t} rename column kept to renamed;
alter table {t} alter column renamed first;
alter table {t} alter column id type bigint;
alter table {t} alter column f type double;
alter table {t} alter column dec type decimal(12, 2);
alter table {t} add column s.c double;
alter table {t} rename column s.a to aa;
alter table {t} alter column s.c first;
alter table {t} add column l.element.z int;
alter table {t} drop column l.element.x;
alter table {t} drop column m.value.q;
alter table {t} add column m.value.q bigint;
alter table {t} alter column s.aa type bigint;
insert into {t} (id, dropped, renamed, f, dec, s, l, m) values (4000000000, 'newer', 'r', 1e300, 1234567890.12, named_struct('c', 1.5, 'aa', 5000000000, 'b', 'b'), array(named_struct('y', 'y', 'z', 7)), map('k', named_struct('p', 1, 'q', 5000000000)));
update {t} set renamed = 'updated' where id = 2;

-- table: v1_upgraded
create table {t} (id int, p string, v string) using iceberg partitioned by (p) tblproperties ('format-version' = '1');
insert into {t} values (1, 'a', 'v1'), (2, 'b', 'v2'), (3, null, 'v3');
alter table {t} drop partition field p;
insert into {t} values (4, 'a', 'v4'), (5, 'b', 'v5');
delete from {t} where id = 4;
alter table {t} add partition field truncate(1, v);
insert into {t} values (6, 'c', 'v6');
alter table {t} set tblproperties ({mor});
delete from {t} where id in (2, 5);
insert into {t} values (7, 'd', 'v7');

-- table: v1
create table {t} (id int, v string) using iceberg tblproperties ('format-version' = '1');
insert into {t} values (1, 'a'), (2, 'b');
insert into {t} values (3, 'c');
delete from {t} where id = 2;

-- table: all_types
create table {t} (id int, bool boolean, i int, l bigint, f float, dbl double, d9 decimal(9, 2), d18 decimal(18, 2), d38 decimal(38, 10), d date, ts timestamp, ntz timestamp_ntz, s string, b binary)
  using iceberg tblproperties ({mor});
alter table {t} add columns (a array<int>, m map<string, double>, st struct<x: int, y: array<string>>);
insert into {t} values
  (1, true, -2147483648, -9223372036854775808, float('nan'), double('nan'), -9999999.99, -9999999999999999.99, -1234567890123456789012345678.0123456789, date'0001-01-01', timestamp'0001-01-01 00:00:00Z', timestamp_ntz'0001-01-01 00:00:00', '', x'', array(), map(), named_struct('x', null, 'y', array())),
  (2, false, 2147483647, 9223372036854775807, float('infinity'), double('-infinity'), 9999999.99, 9999999999999999.99, 1234567890123456789012345678.0123456789, date'9999-12-31', timestamp'9999-12-31 23:59:59.999999Z', timestamp_ntz'9999-12-31 23:59:59.999999', 'ä€😀', x'00FF', array(1, null), map('a', 1.5, 'b', null), named_struct('x', 1, 'y', array('a', null))),
  (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
  (4, true, 0, 0, -0.0, -0.0, 0, 0, 0, date'1969-12-31', timestamp'1969-12-31 23:59:59.999999Z', timestamp_ntz'1969-12-31 23:59:59.999999', repeat('x', 40), x'0102030405060708090A0B0C0D0E0F101112131415', array(array(1)[0]), map('', 0.0), named_struct('x', null, 'y', null));
delete from {t} where id = 2;
update {t} set s = 'updated' where id = 4;

-- table: uuid_and_fixed
create table {t} (id int) using iceberg tblproperties ({mor});
-- java: uuid_and_fixed
insert into {t} values (1, 'f79c3e09-677c-4bbd-a479-3f349cb785e7', x'00000000'), (2, '00000000-0000-0000-0000-000000000000', x'FFFFFFFF'), (3, null, null);
delete from {t} where id = 2;

-- table: v3
create table {t} (id bigint, p string, v string) using iceberg partitioned by (p) tblproperties ({mor}, 'format-version' = '3');
insert into {t} select id, if(id % 2 = 0, 'even', 'odd'), concat('v', id) from range(1, 9);
delete from {t} where id in (1, 2);
delete from {t} where id = 3;
insert into {t} select id, 'even', concat('v', id) from range(10, 13);
merge into {t} t using (select * from values (4, 'merged'), (11, 'merged'), (20, 'new') s (id, v)) s on t.id = s.id when matched then update set v = s.v when not matched then insert (id, p, v) values (s.id, 'odd', s.v);

-- table: v3_upgraded
create table {t} (id bigint, v string) using iceberg tblproperties ({mor});
insert into {t} select id, concat('v', id) from range(1, 6);
delete from {t} where id = 1;
alter table {t} set tblproperties ('format-version' = '3');
delete from {t} where id = 2;
insert into {t} values (6, 'v6'), (7, 'v7');
update {t} set v = 'updated' where id in (3, 6);

-- table: v3_cow
create table {t} (id bigint, v string) using iceberg tblproperties ('format-version' = '3');
insert into {t} select id, concat('v', id) from range(1, 6);
update {t} set v = 'updated' where id = 2;
delete from {t} where id = 3;

-- table: v3_defaults
create table {t} (id bigint) using iceberg tblproperties ({mor}, 'format-version' = '3');
insert into {t} values (1), (2);
-- java: defaults
insert into {t} values (3, 30, 'given', date'2020-01-01', 1.5), (4, null, null, null, null);
delete from {t} where id = 2;

-- table: name_mapped
create table {t} (id bigint, v string, s struct<a: int, b: string>, l array<struct<x: int>>) using iceberg tblproperties ({mor});
insert into {t} values (1, 'with ids', named_struct('a', 1, 'b', 'b1'), array(named_struct('x', 1)));
-- java: plain_files
alter table {t} rename column v to renamed;
alter table {t} rename column s.a to aa;
alter table {t} add column more int;
insert into {t} values (5, 'after', named_struct('aa', 5, 'b', 'b5'), null, 50);
delete from {t} where id = 3;

-- table: name_mapped_partitioned
create table {t} (id bigint, v string, p string, d date) using iceberg partitioned by (p, d) tblproperties ({mor});
-- java: plain_partitioned_files
insert into {t} values (5, 'v5', 'a', date'2024-01-01');
delete from {t} where id = 2;

-- table: sorted
create table {t} (id bigint, v string, n int) using iceberg tblproperties ({mor});
alter table {t} write ordered by v desc nulls last, bucket(4, id);
insert into {t} values (1, 'b', 1), (2, 'c', 2), (3, null, 3), (4, 'a', 4);
alter table {t} write distributed by partition locally ordered by n;
insert into {t} values (6, 'd', 9), (5, 'e', 8);

-- table: branches
create table {t} (id bigint, v string) using iceberg tblproperties ({mor});
insert into {t} values (1, 'a'), (2, 'b');
alter table {t} create tag first retain 365 days;
alter table {t} create branch audit retain 30 days with snapshot retention 3 snapshots 2 days;
insert into {t}.branch_audit values (3, 'on the branch');
delete from {t}.branch_audit where id = 1;
insert into {t} values (4, 'on main');
update {t} set v = 'updated' where id = 2;

-- table: gzip_metadata
create table {t} (id bigint, v string) using iceberg tblproperties ({mor}, 'write.metadata.compression-codec' = 'gzip');
insert into {t} values (1, 'a'), (2, 'b');
delete from {t} where id = 1;

-- table: object_store
create table {t} (id bigint, p string) using iceberg partitioned by (p) tblproperties ({mor}, 'write.object-storage.enabled' = 'true');
insert into {t} values (1, 'a'), (2, 'b'), (3, 'a');
delete from {t} where id = 1;

-- table: maintained
create table {t} (id bigint, p string, v string) using iceberg partitioned by (p) tblproperties ({mor});
insert into {t} select id, if(id % 2 = 0, 'even', 'odd'), concat('v', id) from range(1, 9);
insert into {t} select id, if(id % 2 = 0, 'even', 'odd'), concat('v', id) from range(9, 17);
delete from {t} where id in (1, 2, 10);
call w.system.rewrite_manifests('db.maintained');
call w.system.rewrite_position_delete_files(table => 'db.maintained', options => map('rewrite-all', 'true'));
update {t} set v = 'updated' where id in (3, 12);
call w.system.rewrite_data_files(table => 'db.maintained', where => 'p = "even"', options => map('rewrite-all', 'true'));
call w.system.expire_snapshots(table => 'db.maintained', older_than => timestamp'2100-01-01 00:00:00', retain_last => 2);
insert into {t} values (20, 'even', 'v20');
delete from {t} where id = 11;

-- table: empty
create table {t} (id bigint, v string) using iceberg;

-- table: truncated
create table {t} (id bigint, v string) using iceberg tblproperties ({mor});
insert into {t} values (1, 'a'), (2, 'b');
delete from {t} where id = 1;
truncate table {t};

-- table: equality_global
create table {t} (id bigint, k string, v string) using iceberg tblproperties ({mor});
insert into {t} values (1, 'a', 'old'), (2, 'b', 'old'), (3, null, 'old'), (4, 'c', 'old');
-- java: equality_global

-- table: equality_partitioned
create table {t} (id bigint, p string, v string) using iceberg partitioned by (p) tblproperties ({mor});
insert into {t} values (1, 'a', 'v1'), (1, 'b', 'v1'), (2, 'a', 'v2'), (2, null, 'v2'), (3, 'b', 'v3');
-- java: equality_partitioned

-- table: equality_evolved
create table {t} (id int, k string, v string) using iceberg partitioned by (truncate(1, k)) tblproperties ({mor});
insert into {t} values (1, 'a1', 'v1'), (2, 'a2', 'v2'), (3, 'b3', 'v3'), (4, null, 'v4');
-- java: equality_evolved
