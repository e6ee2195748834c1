"""Measuring under Linux's real-time scheduling: a burst of some 100 ms has its cores to itself, however busy the machine is.

A process under SCHED_FIFO is not preempted by ordinary ones, so others' work costs it their share of caches and memory
only. It needs root or CAP_SYS_NICE. The kernel keeps 5 % of each second for the others (sched_rt_runtime_us).
"""

from __future__ import annotations

import os
import sys

PRIORITY = 10
"""Of 1 to 99: above all ordinary processes, below what a kernel's own threads use."""


def problem() -> str | None:
    """Why real-time scheduling cannot be used here, and what to do; None where it can. Tries it and goes back."""
    if sys.platform != "linux":
        return "--realtime needs Linux's SCHED_FIFO: leave it out, collecting then waits for calm moments"
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        os.sched_setscheduler(0, policy, parameters)
    except OSError as error:
        return (
            f"--realtime is not permitted ({error.strerror}): run as root or with CAP_SYS_NICE (`setcap` on the "
            "interpreter, or `ulimit -r 10`), or leave it out, collecting then waits for calm moments"
        )
    return None


def hold_cores(threads: int | None = None) -> None:
    """Put this process, and what it starts, before all ordinary ones: on the last `threads` of its cores.

    None: on all, and before those that were given a number; the watch over a program must not wait for it to end.
    """
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores if threads is None else cores[-threads:])
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY + (threads is None)))


def be_ordinary() -> None:
    """Back to ordinary scheduling, at the lowest priority."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if hasattr(os, "nice"):
        os.nice(19)
