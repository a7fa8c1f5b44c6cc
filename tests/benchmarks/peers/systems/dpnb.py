"""dpnb, in a session of zero-concentrated differential privacy."""

import dpnb


def version() -> str:
    return f"dpnb {dpnb.__version__}, (ε, δ) session"


def budget(case):
    return dpnb.Budget(epsilon=case["epsilon"] * (1 + case["later"]), delta=case["delta"])


def start(case, budget=budget):
    low, high = case["bounds"]
    schema = dpnb.Schema(
        {"grp": dpnb.Category(case["groups"]), "age": dpnb.Integer(low, high)},
        complete=["grp", "age"],
    )
    unit = {}
    if case["unit"]:
        most = case["max_rows"]
        unit["unit"] = dpnb.Unit(case["unit"], max_rows=most, max_groups=most)
    table = dpnb.Table("t", case["path"], schema, **unit)
    session = dpnb.Session(table, budget=budget(case))

    def ask(most):
        where = "" if most is None else f" WHERE age <= {most}"
        sql = f"SELECT grp, COUNT(*) AS n, AVG(age) AS mean FROM t{where} GROUP BY grp"
        answer = session.query(sql, epsilon=case["epsilon"])
        frame = answer.to_frame()
        return frame[["grp", "n", "mean"]].values.tolist()

    return ask
