"""Views through the catalog."""

import os

from harness import case, raises


@case
def view_life(env):
    ns = env.namespace("views")
    t = env.table(f"{ns}.t")
    v = f"{ns}.v"
    env.sql(f"CREATE VIEW {v} (number COMMENT 'of the city', town) COMMENT 'all' TBLPROPERTIES ('owner.team'='a') AS SELECT id, city FROM {t}")
    assert env.sql(f"SELECT number, town FROM {v} WHERE number < 2") == [(1, "Drachten")]
    assert [row[1] for row in env.sql(f"SHOW VIEWS IN {ns}")] == ["v"]
    assert env.sql(f"SHOW TBLPROPERTIES {v} ('owner.team')") == [("owner.team", "a")]
    raises("already exists", env.sql, f"CREATE VIEW {v} AS SELECT 1 AS one")
    env.sql(f"CREATE VIEW IF NOT EXISTS {v} AS SELECT 1 AS one")

    env.sql(f"CREATE OR REPLACE VIEW {v} AS SELECT count(*) AS n FROM {t}")
    assert env.sql(f"SELECT n FROM {v}") == [(3,)]
    env.sql(f"ALTER VIEW {v} SET TBLPROPERTIES ('x'='y')")
    metadata = env.load(ns, "v", "views")["metadata"]
    assert len(metadata["versions"]) == 2 and metadata["properties"]["x"] == "y", metadata
    env.sql(f"ALTER VIEW {v} RENAME TO {ns}.w")
    assert env.sql(f"SELECT n FROM {ns}.w") == [(3,)]
    where = env.location(ns, "w", "views")
    env.sql(f"DROP VIEW {ns}.w")
    assert env.sql(f"SHOW VIEWS IN {ns}") == []
    raises("TABLE_OR_VIEW_NOT_FOUND", env.sql, f"SELECT * FROM {ns}.w")
    env.sql(f"DROP VIEW IF EXISTS {ns}.w")
    assert os.path.isdir(where), "a drop keeps files"


@case
def views_and_tables_share_names(env):
    ns = env.namespace("views_names")
    env.table(f"{ns}.t")
    env.sql(f"CREATE VIEW {ns}.v AS SELECT 1 AS one")
    raises("already exists", env.sql, f"CREATE VIEW {ns}.t AS SELECT 1 AS one")
    raises("already exists", env.sql, f"CREATE TABLE {ns}.v (id BIGINT) USING iceberg")
    raises("already exists", env.sql, f"ALTER TABLE {ns}.t RENAME TO {ns}.v")
    assert env.ids(f"{ns}.t") == [1, 2, 3] and env.sql(f"SELECT * FROM {ns}.v") == [(1,)]
