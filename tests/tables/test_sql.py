"""SQL of a model, read: names and texts as the rows have them, and as a `Query`."""

from __future__ import annotations

import pytest
from lent_tools import loans

from localrag.tables.query import Condition, Query, run
from localrag.tables.sql import query_of, sql_in


@pytest.mark.parametrize(
    ("reply", "sql"),
    [
        ("SELECT lent_to FROM loans", 'SELECT "Lent_to" FROM data'),
        (
            "```sql\nSELECT No FROM `loans-2026` WHERE Tool = 'DRILL';\n```",
            """SELECT "No" FROM data WHERE "Tool" = 'drill'""",
        ),
        (
            "SELECT No FROM t WHERE Back = '' AND Tool <> ''",
            'SELECT "No" FROM data WHERE "Back" IS NULL AND NOT "Tool" IS NULL',
        ),
        (
            'SELECT No FROM t WHERE Tool = "drill"',
            """SELECT "No" FROM data WHERE "Tool" = 'drill'""",
        ),
        (
            "SELECT Tool, COUNT(*) AS n FROM t GROUP BY Tool ORDER BY n DESC",
            'SELECT "Tool", COUNT(*) AS n FROM data GROUP BY "Tool" ORDER BY n DESC',
        ),
        (
            "SELECT No FROM costs-2026 WHERE Tool = 'drill'",
            """SELECT "No" FROM data WHERE "Tool" = 'drill'""",
        ),
        (
            "SELECT No FROM t WHERE \"Lent to\" = 'a letter from Ann'",
            """SELECT "No" FROM data WHERE "data"."Lent to" = 'a letter from Ann'""",
        ),
        ("I cannot say.", ""),
        ("SELECT FROM WHERE (", ""),
        (f"SELECT {'(' * 900}1{')' * 900}", ""),
    ],
)
def test_names_and_texts_become_those_of_the_rows(reply: str, sql: str) -> None:
    assert sql_in(reply, loans()) == sql


def test_a_name_in_quotation_marks_that_is_not_there_is_an_error() -> None:
    data = loans()
    assert run(data, sql_in('SELECT No FROM t WHERE "Price" = 1', data)).error


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("SELECT Tool FROM data", Query("list", "Tool", "Tool")),
        ("SELECT DISTINCT Tool FROM data ORDER BY Tool", Query("list", "Tool", "Tool")),
        ("SELECT * FROM data", Query("list", "No", "No")),
        ("SELECT Lent_to, Out FROM data", Query("list", "Lent_to", "Lent_to")),
        ("SELECT COUNT(*) FROM data", Query("count", "No", "No")),
        ("SELECT COUNT(DISTINCT Tool) FROM data", Query("count different", "Tool", "Tool")),
        (
            "SELECT COUNT(Back) FROM data",
            Query("count", "No", "No", (Condition("Back", "not empty"),)),
        ),
        ("SELECT *, MAX(Out) FROM data", Query("largest", "No", "Out")),
        (
            "SELECT No FROM data WHERE Out = (SELECT MAX(Out) FROM data WHERE Tool = 'drill')",
            Query("largest", "No", "Out", (Condition("Tool", "=", "drill"),)),
        ),
        ("SELECT SUM(Deposit_GBP) AS s FROM data", Query("sum", "Deposit_GBP", "Deposit_GBP")),
        ("SELECT AVG(Deposit_GBP) FROM data", Query("average", "Deposit_GBP", "Deposit_GBP")),
        ("SELECT MAX(Out) FROM data", Query("largest", "Out", "Out")),
        ("SELECT No, MAX(Out) FROM data", Query("largest", "No", "Out")),
        ("SELECT MIN(Out) AS first, No FROM data", Query("smallest", "No", "Out")),
        (
            "SELECT No FROM data ORDER BY Deposit_GBP LIMIT 1",
            Query("smallest", "No", "Deposit_GBP"),
        ),
        (
            "SELECT No FROM data WHERE Out = (SELECT MAX(Out) FROM data)",
            Query("largest", "No", "Out"),
        ),
        (
            "SELECT No FROM data WHERE Back IS NULL AND Out = (SELECT MIN(Out) FROM data)",
            Query("smallest", "No", "Out", (Condition("Back", "empty"),)),
        ),
        (
            "SELECT Tool FROM data GROUP BY Tool ORDER BY COUNT(*) DESC LIMIT 1",
            Query("most frequent", "Tool", "Tool"),
        ),
        (
            "SELECT Tool, COUNT(*) AS loans FROM data GROUP BY Tool ORDER BY loans DESC LIMIT 1",
            Query("most frequent", "Tool", "Tool"),
        ),
        (
            "SELECT Tool FROM data GROUP BY Tool ORDER BY COUNT(1) DESC LIMIT 1",
            Query("most frequent", "Tool", "Tool"),
        ),
        (
            "SELECT No, Deposit_GBP AS Out FROM data ORDER BY Out DESC LIMIT 1",
            Query("largest", "No", "Deposit_GBP"),
        ),
        (
            "SELECT No, Deposit_GBP AS Out FROM data ORDER BY data.Out DESC LIMIT 1",
            Query("largest", "No", "Out"),
        ),
        (
            "SELECT Tool FROM data GROUP BY Tool ORDER BY SUM(Deposit_GBP) DESC LIMIT 1",
            Query("largest total", "Tool", "Deposit_GBP"),
        ),
        (
            "SELECT Tool, SUM(Deposit_GBP) AS total FROM data GROUP BY Tool "
            "ORDER BY total DESC LIMIT 1",
            Query("largest total", "Tool", "Deposit_GBP"),
        ),
        (
            "SELECT No FROM data WHERE Back IS NULL AND (Tool = 'saw' OR Tool = 'drill')",
            Query(
                "list",
                "No",
                "No",
                (
                    Condition("Back", "empty"),
                    Condition("Tool", "=", "saw"),
                    Condition("Tool", "=", "drill"),
                ),
            ),
        ),
        (
            "SELECT No FROM data WHERE Out BETWEEN '2026-01-01' AND '2026-01-31' AND Back > Out",
            Query(
                "list",
                "No",
                "No",
                (
                    Condition("Out", ">=", "2026-01-01"),
                    Condition("Out", "<=", "2026-01-31"),
                    Condition("Back", ">", "Out", is_column=True),
                ),
            ),
        ),
        (
            "SELECT No FROM data WHERE Tool LIKE '%ill' AND Out LIKE '2026-01%' "
            "AND Deposit_GBP > -5 AND Back IS NOT NULL AND Tool IN ('saw', 'drill')",
            Query(
                "list",
                "No",
                "No",
                (
                    Condition("Tool", "contains", "ill"),
                    Condition("Out", "begins with", "2026-01"),
                    Condition("Deposit_GBP", ">", -5.0),
                    Condition("Back", "not empty"),
                    Condition("Tool", "=", "saw"),
                    Condition("Tool", "=", "drill"),
                ),
            ),
        ),
    ],
)
def test_a_query_is_read(sql: str, query: Query) -> None:
    assert query_of(sql, loans()) == query


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT Price FROM data",
        "SELECT Tool FROM data LIMIT 3",
        "SELECT Tool FROM data ORDER BY Out LIMIT 3",
        "SELECT Tool FROM data GROUP BY Tool HAVING COUNT(*) > 1",
        "SELECT Tool FROM data WHERE Out = (SELECT MAX(Back) FROM data)",
        "SELECT Tool FROM data WHERE Tool = 'saw' OR Back IS NULL",
        "SELECT Tool FROM data WHERE Tool LIKE 's_w'",
        "SELECT Tool FROM data WHERE Tool IN (SELECT Tool FROM data)",
        "SELECT Tool FROM data UNION SELECT No FROM data",
        "SELECT UPPER(Tool) FROM data",
        "SELECT Tool FROM data GROUP BY Tool ORDER BY COUNT(DISTINCT Lent_to) DESC LIMIT 1",
        "SELECT No, Deposit_GBP * 2 AS Out FROM data ORDER BY Out LIMIT 1",
        "SELECT TOTAL(Deposit_GBP) FROM data",
        "SELECT Tool, TOTAL(Deposit_GBP) FROM data",
        "SELECT COUNT(*) FROM (SELECT DISTINCT Tool FROM data)",
        "SELECT COUNT(DISTINCT Tool, Out) FROM data",
        "SELECT COUNT(Price) FROM data",
        "SELECT MAX(Out, Back) FROM data",
        "SELECT Tool, MAX(Out), MIN(Back) FROM data",
        "SELECT Tool FROM data ORDER BY Out LIMIT -1",
        "SELECT Tool FROM data ORDER BY Out FETCH FIRST 1 ROW ONLY",
        "SELECT Tool FROM data WHERE Out IS NOT 'x'",
        "SELECT Tool FROM data WHERE Deposit_GBP < 1e999",
        "SELECT FROM data",
        "SELECT Tool FROM data WHERE Out = Back OR Out = Tool",
        "SELECT No FROM data WHERE Back IS NULL AND Out = "
        "(SELECT MAX(Out) FROM data WHERE Tool = 'saw')",
    ],
)
def test_what_is_no_query_of_ours_is_none(sql: str) -> None:
    assert query_of(sql, loans()) is None
