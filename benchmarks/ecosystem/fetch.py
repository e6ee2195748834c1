"""Download the pinned packages of the ecosystem digest, each without its dependencies; nothing is installed or run.

    python benchmarks/ecosystem/fetch.py [NAME …]

Archives come through pip, are checked against the hash in `packages.toml`, and are unpacked to
`$KERNELWRIGHT_CACHE/ecosystem/NAME-VERSION`. What is there already is kept. pip asks an archive without a wheel for its metadata,
which runs its `setup.py`: openai-whisper and tortoise-tts are such.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packages import FOLDER, Package, packages


def fetch(package: Package) -> None:
    """Put one package in its place.

    Raises:
        RuntimeError: pip gave no archive, or one with another hash; the message says what to do.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command += [*package.pip, "--dest", folder, f"{package.name}=={package.version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(folder).iterdir())
        if done.returncode != 0 or len(archives) != 1:
            raise RuntimeError(f"pip did not download {package.name}=={package.version}; it said:\n{done.stderr}")
        found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
        if found != package.sha256:
            raise RuntimeError(
                f"{archives[0].name} has the hash {found}, packages.toml says {package.sha256}: the index serves another archive"
            )
        FOLDER.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=FOLDER))
        try:
            _unpack(archives[0], fresh)
            (fresh / ".complete").write_text(found, encoding="utf-8")
            shutil.rmtree(package.folder, ignore_errors=True)
            fresh.rename(package.folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _unpack(archive: Path, folder: Path) -> None:
    """The files of a wheel or a source archive; of the latter without its top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        return
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    for path in top.iterdir():
        path.rename(folder / path.name)
    top.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="these packages only")
    options = parser.parse_args()
    failed = 0
    for package in packages():
        if package.here or package.is_there or (options.names and package.name not in options.names):
            continue
        try:
            fetch(package)
            print(f"{package.name} {package.version}")
        except RuntimeError as error:
            print(error, file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
