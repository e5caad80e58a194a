"""Many models as one data set: which layers they have, how often, which are unique, and which patterns recur.

Comes in: sources of models, and whoever profiles one. Goes out: Parquet files with a row for each model and one for
each layer, and views of them in SQL.
"""
