"""The cost model of the tuner: which of a task's programs is fastest on a device, from records of others.

numpy alone predicts. Training needs torch or xgboost, which are imported where they are used; tvm is not needed.
"""
