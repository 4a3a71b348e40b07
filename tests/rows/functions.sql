--- a SQL function accepts positional and named arguments, and has defaults
create function price(base double, times int default 2) returns double return base * times;
select price(10), price(10, 3), price(times => 4, base => 10), price(price(1)) + 1;
=> 20.0 | 30.0 | 40.0 | 5.0
select price(1, 2, 3);
!> PlanError: takes at most 2 arguments
select price();
!> PlanError: needs the argument base, which has no default
select price(1, base => 2);
!> PlanError: takes the argument base only once
select price(1, cost => 2);
!> PlanError: has no parameter cost

--- arguments and values are cast to the types of the signature
create function half(n int) returns decimal(4, 1) return n / 2;
select half('7'), half(null), typeof(half(7));
=> 3.5 | NULL | decimal(4,1)

--- views use the current definition of a function
create table t (id int) using delta;
insert into t values (1), (2);
create function worth(id int) returns int return id * 10;
create view v as select id, worth(id) as w from t;
select * from v order by id;
=> 1 | 10
=> 2 | 20
create function worth(id int) returns int return id * 100;
!> AlreadyExists
create function if not exists worth(id int) returns int return 0;
create or replace function worth(id int) returns int return id * 100;
select * from v order by id;
=> 1 | 100
=> 2 | 200
drop function worth;
select * from v;
!> FunctionNotFound
drop function worth;
!> FunctionNotFound
drop function if exists worth;

--- functions can be called wherever expressions can
create table t (id int, v int) using delta;
insert into t values (1, 10), (2, 20), (3, 30);
create function near(a int, b int) returns boolean return abs(a - b) <= 1;
create function twice(n int) returns int return n * 2;
select id from t where near(id, 1) order by twice(-id);
=> 2
=> 1
select twice(id % 2), sum(twice(v)) from t group by twice(id % 2) having twice(count(*)) > 2;
=> 2 | 80
update t set v = twice(v) where near(id, 3);
select v from t order by id;
=> 10
=> 40
=> 60
merge into t using (select 1 as id, twice(3) as v union all select 9, 9) as s on twice(t.id) = twice(s.id)
when matched and near(s.id, t.id) then update set v = twice(s.v) when not matched then insert (id, v) values (s.id, twice(s.v));
delete from t where twice(id) = 4;
select * from t order by id;
=> 1 | 12
=> 3 | 60
=> 9 | 18
select transform(array(1, 2), x -> twice(x));
=> [2, 4]

--- an argument is evaluated once, however often the body uses it
create function double_of(n double) returns double return n + n;
select double_of(x) = 2 * x from (select rand(7) as x);
=> true
select double_of(floor(rand(7) * 1000000)) % 2;
=> 0.0

--- a name in an argument is not captured by a name in the body
create table t (id int, x int) using delta;
insert into t values (1, 5);
create function added(xs array<int>, n int) returns array<int> return transform(xs, x -> x + n);
select added(array(1, 2), x) from t;
=> [6, 7]

--- a body may read tables, at their newest versions
create table t (id int) using delta;
insert into t values (1), (2);
create function known(n int) returns boolean return exists (select 1 from t where t.id = n);
select n, known(n) from values (2), (3) as s (n) order by n;
=> 2 | true
=> 3 | false
insert into t values (3);
select known(3);
=> true

--- functions can call other functions, but not themselves
create function one(n int) returns int return n + 1;
create function two(n int) returns int return one(one(n));
select two(0);
=> 2
create function again(n int) returns int return again(n - 1);
!> PlanError: calls itself
create or replace function one(n int) returns int return two(n);
!> PlanError: calls itself

--- the body must have the type of the signature
create function f(n int) returns int return n + m;
!> UnknownColumn: `m`
create function f(n int) returns int return sum(n);
!> PlanError: Use CREATE AGGREGATE FUNCTION
create function f(n int) returns array<int> return n;
!> TypeMismatch
create function f(n whole) returns int return n;
!> Unparsable
create function f(n int) returns int language python handler 'g' as 'def f(n): return n';
!> PlanError: does not define its handler g
create function f(n int) returns int language python handler 'f' as 'def f(): return 1';
!> PlanError: does not accept 1 arguments
create function f(n int) returns int language python handler 'f' as 'def f(n: return n';
!> PlanError: SyntaxError, line 1
show user functions;
=> -

--- Spark's functions take precedence for unqualified names
create function upper(s string) returns string return 'ours';
select upper('a'), default.upper('a'), rowmerge.default.upper('a');
=> A | ours | ours

--- delta: rules of a table cannot call functions of the warehouse
create function positive(n int) returns boolean return n > 0;
create table t (n int, check (default.positive(n))) using delta;
!> FunctionNotFound: accept only functions of Spark

--- parameters can be named as keywords
create function framed(`end` int, date date) returns string return case when `end` > 1 then cast('2026-01-01' as date) else date end;
select framed(1, date '2020-01-01'), framed(2, date '2020-01-01');
=> 2020-01-01 | 2026-01-01

--- an aggregate in SQL
create table t (id int, v int) using delta;
insert into t values (1, 1), (1, 2), (2, 5);
create aggregate function squared(value int) returns int return power(sum(value), 2);
select id, squared(v), squared(v + 1) from t group by id order by id;
=> 1 | 9 | 25
=> 2 | 25 | 36
select squared(distinct v) from t;
!> UnsupportedStatement: does not support DISTINCT
select squared(v) over () from t;
!> UnsupportedStatement: does not support OVER
update t set v = squared(v);
!> UnsupportedStatement

--- functions in Python
create function reversed_text(s string) returns string language python handler 'turn' as $$
def turn(s):
    # it's NULL as it comes
    return s and s[::-1]
$$;
select reversed_text('abc'), reversed_text(null), reversed_text(7);
=> cba | NULL | 7
create table t (s string) using delta;
insert into t select reversed_text('xyz');
update t set s = reversed_text(s) || '!' where reversed_text(s) = 'xyz';
select * from t;
=> xyz!
create or replace function reversed_text(s string) returns string language python handler = 'turn' as $$
def turn(s):
    return s.no_such_method()
$$;
insert into t select reversed_text('xyz');
!> SparkFailed: The function default.reversed_text, in line 3 of its body, raised AttributeError

--- a function is described
create function f(n int default 1 comment 'how many') returns int deterministic comment 'more' return n + 1;
describe function extended f;
=> Function: default.f
=> Type: SCALAR
=> Input: n int DEFAULT 1 'how many'
=> Returns: int
=> Comment: more
=> Deterministic: true
=> Language: SQL
=> Body: n + 1
show user functions like 'f*';
=> default.f
select routine_name, data_type, routine_body, routine_definition from information_schema.routines where routine_schema = 'default';
=> f | int | SQL | n + 1
show functions in default like 'g*';
=> -
show functions in nowhere;
!> SchemaNotFound
create function nowhere.f(n int) returns int return n;
!> SchemaNotFound

--- an aggregate in Python
create aggregate function joined(s string, between string default '-') returns string language python handler 'Joined' as $$
class Joined:
    def __init__(self):
        self.texts = []

    def accumulate(self, text, between):
        self.texts.append(text)
        self.between = between

    def finish(self):
        return self.between.join(sorted(self.texts))
$$;
select k, joined(s), joined(s, '+') from values (1, 'b'), (1, 'a'), (2, 'c') as t (k, s) group by k order by k;
=> 1 | a-b | a+b
=> 2 | c | c
create aggregate function f(n int) returns int language python handler 'f' as 'def f(n): return n';
!> PlanError: accumulate

--- a Python function receives a group as an array
create function spread(numbers array<int>) returns int language python handler 'spread' as $$
def spread(numbers):
    return max(numbers) - min(numbers)
$$;
select k, spread(collect_list(n)), sum(n) from values (1, 4), (1, 9), (2, 7) as t (k, n) group by k order by k;
=> 1 | 5 | 13
=> 2 | 0 | 7
