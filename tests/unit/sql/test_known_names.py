"""Queries whose names are all known, and queries with a name that may be a session variable or another name of Spark's session."""

from __future__ import annotations

import pytest

from rowmerge.sql import has_only_known_names

TABLE, OTHER_TABLE = "`__rowmerge_1`", "`__rowmerge_2`"
COLUMNS = frozenset({"k", "v", "d"})
FUNCTIONS = frozenset({"cast", "sum", "coalesce"})


@pytest.mark.parametrize(
    "query",
    [
        "select * from {t} as `t`",
        "select K, `v`, t.d from {t} t where k > 1 and d >= date'2024-01-31' or v in (1, null) limit 10",
        "with source as (select * from {t}), renamed as (select k as key, cast(v as bigint) as amount from source) select * from renamed",
        "select a.k, sum(b.v) as total from {t} as a left join {u} as b on a.k = b.k group by a.k having sum(b.v) > 1 order by total desc",
        "select case when k = 1 then 'one' else coalesce(v::string, 'x') end as name from {t} where d < date'2024-01-01' + interval 7 days",
        "select s.k from (select k from {t} union all select v from {u}) s",
        'select k /* "lim" */ from {t} as t',
    ],
)
def test_all_names_are_known(query):
    assert has_only_known_names(query.format(t=TABLE, u=OTHER_TABLE), COLUMNS, FUNCTIONS)


@pytest.mark.parametrize(
    "query",
    [
        "select * from {t} as t where k < lim",
        "select k, lim as a from {t} as t",
        "select `lim` from {t} as t",
        "select k from {t} as t where k < session.lim",
        "select k from {t} as t where k < conf.lim",
        "select k from {t} as t where k < limit",
        "select k from {t} as t where k < end",
        "select k from {t} as t where k < left",
        'select "lim" from {t} as t',
        "select ${{lim}} from {t} as t",
        "select k from {t} as t, users",
        "select users.id from users as users",
        "select k from {t} as t join users users on true",
        "select rand() from {t} as t",
        "select my_function(k) from {t} as t",
        "select `__rowmerge_3`(k) from {t} as t",
        "select identifier('lim') from {t} as t",
        "select extract(year from d) from {t} as t",
    ],
)
def test_an_uncertain_name_is_not_known(query):
    assert not has_only_known_names(query.format(t=TABLE), COLUMNS, FUNCTIONS)
