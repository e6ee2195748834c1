"""What was measured and verified, kept in SQLite: keyed by program, mode, device and toolchain. No torch here.

Several editor windows share the file: WAL mode, short transactions, last writer wins (both measured the same thing).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.devices import Device, device_from_json
from kernelwright.tuner.evidence import Case, Counts, Gain, Verification

FORMAT = "1"
"""Raise it when a number or verdict of an older version must not be shown any more: the old records are dropped."""


def default_path() -> Path:
    """`$XDG_STATE_HOME/kernelwright/records.sqlite`, or the platform's usual place for a program's state."""
    if state := os.environ.get("XDG_STATE_HOME"):
        root = Path(state)
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        root = Path.home() / ".local" / "state"
    return root / "kernelwright" / "records.sqlite"


def key(workload: Workload) -> str:
    """The record key of a workload: its fingerprint and its scalar inputs' values, which the text form leaves out."""
    values = repr(scalar_values(workload))
    return hashlib.sha256(f"{workload.fingerprint()} {values}".encode()).hexdigest()[:32]


def scalar_values(workload: Workload) -> tuple[tuple[str, object], ...]:
    """The values of the inputs that carry one (role `scalar`), by name."""
    return tuple(
        (str(node.attribute("name")), dict(node.attributes)["value"])
        for node in workload.before.inputs
        if any(name == "value" for name, _ in node.attributes)
    )


class Records:
    """The store. Thread-safe; every call is one short transaction."""

    def __init__(self, path: Path | str | None = None) -> None:
        """Open `path` (default: the user's state folder; `":memory:"` keeps nothing).

        A file that is no database is set aside as `*.broken`; where the folder cannot be written, records live in
        memory for this process: numbers are worth nothing if their store stops the editor.
        """
        self._lock = threading.Lock()
        self._database = _open(Path(default_path() if path is None else path))

    def gain(self, workload: Workload, device_fingerprint: str, toolchain: str) -> Gain | None:
        data = self._get("gain", key(workload), device_fingerprint, toolchain)
        return None if data is None else gain_from_json(data)

    def store_gain(self, workload: Workload, device_fingerprint: str, toolchain: str, gain: Gain) -> None:
        self._put("gain", key(workload), device_fingerprint, toolchain, dataclasses.asdict(gain))

    def verification(self, workload: Workload, device_fingerprint: str, toolchain: str) -> Verification | None:
        """The verdict on both programs; it covers every mode, so the workload's mode does not count."""
        data = self._get("verification", key(workload.with_mode("eval")), device_fingerprint, toolchain)
        return None if data is None else verification_from_json(data)

    def store_verification(
        self, workload: Workload, device_fingerprint: str, toolchain: str, verification: Verification
    ) -> None:
        data = dataclasses.asdict(verification)
        self._put("verification", key(workload.with_mode("eval")), device_fingerprint, toolchain, data)

    def probe(self, device_fingerprint: str) -> Device | None:
        data = self._get("probe", "", device_fingerprint, "")
        try:
            return None if data is None else device_from_json(data)
        except ValueError:  # another version's probe: it is made anew
            return None

    def store_probe(self, device: Device) -> None:
        self._put("probe", "", device.fingerprint, "", device.to_json())

    def clear(self) -> None:
        """Forget everything, probes too."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM record")

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _get(self, kind: str, program: str, device: str, toolchain: str) -> dict[str, object] | None:
        query = "SELECT data FROM record WHERE kind = ? AND program = ? AND device = ? AND toolchain = ?"
        with self._lock:
            row = self._database.execute(query, (kind, program, device, toolchain)).fetchone()
        return None if row is None else json.loads(row[0])

    def _put(self, kind: str, program: str, device: str, toolchain: str, data: dict[str, object]) -> None:
        row = (kind, program, device, toolchain, json.dumps(data))
        with self._lock, self._database:
            self._database.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?)", row)


def _open(path: Path) -> sqlite3.Connection:
    if str(path) == ":memory:":
        return _connect(":memory:")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(str(path))
    except sqlite3.OperationalError:  # locked for long, or a folder that cannot be written
        return _connect(":memory:")
    except sqlite3.DatabaseError:  # not a database
        path.replace(path.with_name(path.name + ".broken"))
        return _connect(str(path))
    except OSError:
        return _connect(":memory:")


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
    with database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS format (version TEXT PRIMARY KEY)")
        database.execute(
            "CREATE TABLE IF NOT EXISTS record (kind TEXT, program TEXT, device TEXT, toolchain TEXT, data TEXT,"
            " PRIMARY KEY (kind, program, device, toolchain))"
        )
        if database.execute("SELECT version FROM format").fetchall() != [(FORMAT,)]:
            database.execute("DELETE FROM record")
            database.execute("DELETE FROM format")
            database.execute("INSERT INTO format VALUES (?)", (FORMAT,))
    return database


def gain_from_json(data: Mapping[str, object]) -> Gain:
    """The gain whose `dataclasses.asdict` is `data`."""
    fields = dict(data)
    for name in ("counts_before", "counts_after"):
        counts = fields.get(name)
        if isinstance(counts, Mapping):
            fields[name] = Counts(**counts)
    return Gain(**fields)  # type: ignore[arg-type]


def verification_from_json(data: Mapping[str, object]) -> Verification:
    """The verification whose `dataclasses.asdict` is `data`."""
    cases = data.get("cases")
    read = tuple(Case(**case) for case in cases) if isinstance(cases, list | tuple) else ()
    equal, reason = data.get("equal"), data.get("reason")
    return Verification(equal if isinstance(equal, bool) else None, read, None if reason is None else str(reason))
