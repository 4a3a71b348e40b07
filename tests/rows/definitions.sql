--- create table as select takes the query's columns
create table t using delta partitioned by (p) comment 'hello' as select id, id % 2 as p from range(4);
select * from t where p = 1 order by id;
=> 1 | 1
=> 3 | 1
describe t;
=> id | bigint | NULL
=> p | bigint | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> p | bigint | NULL

--- a view can have columns of types that tables do not support
create view v as select 1 as id, null as nothing;
select * from v where nothing is null;
=> 1 | NULL
describe v;
=> id | int | NULL
=> nothing | void | NULL
create table t using delta as select * from v;
!> TypeMismatch: `nothing`

--- a new column whose default is NULL is one without a default
create table t (id int) using delta;
insert into t values (1);
alter table t add column v string default null;
select * from t;
=> 1 | NULL

--- columns listed before a query are filled by position, as an INSERT would fill them
create table t (id bigint not null comment 'key', v string) using delta as select 1 as other, 2.5 as name;
select * from t;
=> 1 | 2.5
describe t;
=> id | bigint | key
=> v | string | NULL
create or replace table t (id int) using delta as select 1, 2;
!> PlanError
create or replace table t (id int) using delta as select 'one';
!> ValueOutOfRange: The value one does not fit the column `id`
create or replace table t (id int) using delta as select array(1);
!> TypeMismatch
select * from t;
=> 1 | 2.5

--- delta: create or replace keeps the history
create table t (id int) using delta;
insert into t values (1);
create or replace table t using delta as select 'x' as v;
select * from t;
=> x
select * from t version as of 1;
=> 1

--- create table of an existing table is rejected, or ignored with if not exists
create table t (id int) using delta;
create table t (id int) using delta;
!> AlreadyExists: t already exists
create table if not exists t (other string) using delta;
describe t;
=> id | int | NULL

--- columns are added at the end, first, or after another
create table t (b int) using delta;
insert into t values (1);
alter table t add columns (d int comment 'four', c string after b, a int first);
select * from t;
=> NULL | 1 | NULL | NULL
insert into t values (1, 2, '3', 4);
select a, b, c, d from t order by b;
=> NULL | 1 | NULL | NULL
=> 1 | 2 | 3 | 4

--- properties are set, shown and unset
create table t (id int) using delta tblproperties ('owner' = 'me');
alter table t set tblproperties ('owner' = 'you', 'team' = 'x');
show tblproperties t ('owner');
=> owner | you
alter table t unset tblproperties ('team');
alter table t unset tblproperties ('team');
!> TableError: no property 'team'

--- views read the newest version and may read views
create schema a;
create table a.t (id int) using delta;
create view a.v as select id * 2 as twice from a.t;
create view a.w as select sum(twice) as total from a.v;
insert into a.t values (1), (2);
select * from a.w;
=> 6
insert into a.t values (3);
select * from a.w;
=> 12
show tables in a;
=> a | t | false
=> a | v | false
=> a | w | false
show views in a;
=> a | v | false
=> a | w | false

--- a temporary view follows its table and hides a table of its name
create table t (id int) using delta;
insert into t values (1);
create temporary view n as select count(*) as c from t;
select * from n;
=> 1
insert into t values (2);
select * from n;
=> 2
drop view n;
select * from n;
!> TableNotFound: n

--- a temporary view reads the schema in which it was created
create schema a;
create table t (id int) using delta;
insert into t values (1);
create table a.t (id int) using delta;
insert into a.t values (2);
create temporary view n as select id from t;
use a;
select n.id, t.id from n, t;
=> 1 | 2
drop view n;

--- schemas are created, listed and dropped
create schema s1;
create schema s1;
!> AlreadyExists: s1
create schema if not exists s1;
create table s1.t (id int) using delta;
show schemas;
=> default
=> s1
drop schema s1;
!> TableError: not empty
drop schema s1 cascade;
show schemas like 's*';
=> -

--- an unknown table is reported with similar names
create table orders (id int) using delta;
delete from ordesr;
!> TableNotFound: orders
drop table ordesr;
!> TableNotFound: orders
drop table if exists ordesr;
drop table orders;
select * from orders;
!> TableNotFound: orders

--- delta: a name can select a version or a timestamp
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t version as of 1;
=> 1
select count(*) from t timestamp as of '2999-01-01';
=> 2
select count(*) from t version as of 9;
!> VersionNotFound: 9
select (select count(*) from t version as of 2) - (select count(*) from t version as of 1);
=> 1

--- history describes the statements
create table t (id int) using delta tblproperties ({mode});
insert into t values (1);
merge into t using (values (1)) s (id) on t.id = s.id when matched then delete;
select 1;
=> 1

--- the error of unparsable SQL marks the position
selekt 1;
!> Unparsable: line 1, column 1
create table t (id int) using delta;
merge into t usign s on t.id = s.id when matched then delete;
!> Unparsable: line 1, column 14
select ) 1;
!> Unparsable: line 1

--- explain prints the plan and changes nothing
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 1);
explain merge into t using (values (1)) s (id) on t.id = s.id when matched and t.v > 0 then delete;
select * from t;
=> 1 | 1

--- comments are stored and changed
create table t (id int comment 'the key') using delta comment 'about';
comment on column t.id is 'changed';
describe t;
=> id | int | changed
create table several (id int, s struct<a: int>, v string comment 'kept') using delta;
alter table several alter column id comment 'one', s.a comment 'two';
describe several;
=> id | int | one
=> s | struct<a:int> | NULL
=> v | string | kept
alter table several alter column id comment 'x', missing comment 'y';
!> UnknownColumn: missing


--- create or replace view stores the new query, and a view is not a table
create table t (id int) using delta;
create view v as select id from t;
create or replace view v as select id as other from t;
insert into t values (4);
select other from v;
=> 4
delete from v;
!> TableError: is a view
create table v (id int) using delta;
!> AlreadyExists: is a view
drop table v;
!> TableError: DROP VIEW
drop view v;
select * from v;
!> TableNotFound: v

--- unqualified names follow use
create schema a;
create table a.t (id int) using delta;
insert into a.t values (1);
use a;
select * from t;
=> 1
use nowhere;
!> SchemaNotFound: nowhere

--- literal rows of a statement are written to one file
create table t (id int) using delta;
insert into t values (1), (2), (3), (4);
select count(*) from (select distinct file from (select input_file_name() as file from t));
=> 1

--- all columns of a table created from a query are nullable
create table t using delta as select 1 as id, named_struct('a', 1) as s, array(named_struct('a', 1)) as l;
insert into t values (2, named_struct('a', null), array(null)), (3, null, array(named_struct('a', null)));
select * from t order by id;
=> 1 | Row(a=1) | [Row(a=1)]
=> 2 | Row(a=None) | [None]
=> 3 | NULL | [Row(a=None)]

--- delta: partition transforms and write orders are rejected
create table t (id int, ts timestamp) using DELTA partitioned by (days(ts));
!> PlanError: PARTITIONED BY days(ts): a Delta table is partitioned by columns, not by transforms
create table t using DELTA partitioned by (s.a) as select named_struct('a', 1) as s;
!> PlanError: a Delta table cannot be partitioned by a field of a struct
create table t (id int, p int) using DELTA partitioned by (p);
alter table t add partition field bucket(4, id);
!> PlanError: PARTITIONED BY bucket(4, id): a Delta table is partitioned by columns, not by transforms
alter table t drop partition field p;
!> PlanError: partitioning of default.t cannot be changed in place
alter table t drop partition field id;
!> PlanError: no partition field id. Its partition fields are: p (p)
alter table t write ordered by id desc;
!> PlanError: WRITE ORDERED BY id DESC NULLS LAST: a Delta table cannot store a write order
alter table t write unordered;
!> PlanError: a Delta table cannot store a write order

--- delta: features that cannot be dropped are errors by name
create table t (id int) using delta tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', 'delta.constraints.positive' = 'id > 0');
alter table t add column `a b` int;
alter table t drop feature columnMapping;
!> PlanError: 'a b'
alter table t drop feature nothing;
!> PlanError: t does not have the feature nothing. Its features are appendOnly
alter table t drop feature 'delta.enableDeletionVectors';
!> PlanError: is a table property, not a table feature
alter table t drop feature appendOnly;
!> PlanError: The feature appendOnly cannot be dropped
alter table t drop feature checkConstraints;
!> PlanError: DROP CONSTRAINT positive
alter table t drop feature domainMetadata;
!> PlanError: rowTracking needs it
alter table t drop feature rowTracking truncate history;
!> PlanError: Leave TRUNCATE HISTORY out
alter table t drop feature deletionVectors now;
!> Unparsable
alter table t drop feature rowTracking;
alter table t drop feature deletionVectors;
alter table t drop feature checkpointProtection;
!> PlanError: Add TRUNCATE HISTORY
alter table t drop constraint positive;
alter table t drop feature checkConstraints;

--- iceberg: tables have no features
create table t (id int) using iceberg;
alter table t drop feature deletionVectors;
!> PlanError: an Iceberg table, which has a format version
