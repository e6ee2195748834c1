"""Tuning by search over TVM MetaSchedule's schedule spaces, and the collector of records to learn a cost model from.

`tasks`, `pseudo_devices`, `record_store`, `measurer`, `collector` need numpy at most. `expressions` and `spaces` need
tvm; they run in forked children of `zygote`, a process of an interpreter that has tvm and never imports torch.
"""
