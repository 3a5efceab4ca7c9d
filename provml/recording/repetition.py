"""What is needed to repeat a run, besides its environment: script, uncommitted changes, packages and variables.

Git is asked by a thread of the run, since it may take long. Nothing here raises.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from provml.journal.redaction import mask, redact_text

PATCH_NAME = "uncommitted.patch"
PATCH_TYPE = "text/x-patch"
PACKAGES_NAME = "installed-packages.txt"
MAX_PATCH_BYTES = 1 << 20
"""Size of the largest patch that is stored. Of a larger one, only the digest is recorded."""
MAX_NEW_FILES = 100
"""Number of files without a version in git that a patch has at most."""
MAX_SCRIPT_BYTES = 16 << 20
MAX_VALUE_CHARS = 2000

VARIABLES = (
    "ACCELERATE_MIXED_PRECISION", "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64", "JAX_PLATFORMS",
    "KERAS_BACKEND", "MKL_CBWR", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "PROVML_AUTOLOG", "PYTHONHASHSEED", "PYTHONPATH", "PYTORCH_CUDA_ALLOC_CONF",
    "TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS", "TOKENIZERS_PARALLELISM",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TZ", "XLA_FLAGS",
)  # fmt: skip
"""Environment variables that influence the result of a training and hold no secret. No other is recorded."""
MORE_VARIABLES = "PROVML_VARIABLES"
"""Environment variable with the names of further ones to record, separated by commas."""

HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Set if a hook of git started the process: they would name another repository."""
GIT_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.quotepath=true")
DIFF = (
    "diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-relative",
    "--submodule=short", "--diff-algorithm=myers", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
"""A diff that does not depend on the settings of a user, so that equal changes have equal digests."""


SWITCH = "PROVML_CAPTURE_CODE"
"""Environment variable; 0 means that neither a patch nor a list of packages is stored."""


class Changes(NamedTuple):
    """How a checkout differs from its commit: the SHA-256 of the diff, and the diff, empty if it is too long."""

    sha256: str
    patch: bytes


def is_switched_off() -> bool:
    """Return whether PROVML_CAPTURE_CODE=0 is set."""
    return os.environ.get(SWITCH, "").lower() in ("0", "false", "no")


def git_environment() -> dict[str, str]:
    """Return the environment variables for git: without those of a hook, and without locks."""
    variables = {name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES}
    return variables | {"GIT_OPTIONAL_LOCKS": "0"}


def script() -> dict[str, str]:
    """Return the path and the SHA-256 of the script of this process; nothing if it has none, such as a notebook."""
    name = getattr(sys.modules.get("__main__"), "__file__", None)
    if not name:
        return {}
    try:
        path = Path(name).resolve()
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            return {}
        return {"script_path": str(path), "script_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    except (OSError, ValueError):
        return {}


def variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that are recorded, as `NAME=value`, with secrets redacted."""
    extra = [name.strip() for name in environment.get(MORE_VARIABLES, "").split(",")]
    names = sorted({*VARIABLES, *filter(None, extra)} & environment.keys())
    return [f"{name}={mask(name, environment[name][:MAX_VALUE_CHARS])}" for name in names]


def packages(folders: Sequence[str] | None = None) -> str:
    """Return the installed packages as lines `name==version`, by the names of their metadata folders.

    `importlib.metadata` would read a file for each of them.
    """
    versions: dict[str, str] = {}
    for folder in sys.path if folders is None else folders:
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.name for entry in entries]
        except OSError:
            continue
        for name in names:
            if match := re.fullmatch(r"([A-Za-z0-9][\w.]*)-([^-\s]+?)(?:-[\w.]+)?\.(?:dist|egg)-info", name):
                versions.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def redact_patch(patch: bytes) -> bytes:
    """Return a patch with secrets redacted; the same bytes if there are none."""
    text = patch.decode("utf-8", "surrogateescape")
    return redact_text(text).encode("utf-8", "surrogateescape")


def uncommitted_changes(top: Path, seconds: float, files: Sequence[str] | None = None) -> Changes | None:
    """Return how a checkout differs from its commit; None if it does not, or if git does not answer in time.

    `files` are those that count although git has no version of them: by default, the script and loaded modules.
    """
    new = _without_version(top, _loaded_files(top) if files is None else files, seconds)
    collector = _Collector()
    commands = [[*DIFF, "HEAD"], *([*DIFF, "--no-index", "--", os.devnull, name] for name in new)]
    for command in commands:
        if not _run_git(top, command, collector, seconds):
            return None
    return Changes(collector.digest.hexdigest(), collector.content) if collector.size else None


class _Collector:
    """Takes the output of git: the digest of all of it, and the content as long as it is not too long."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.size = 0
        self.content = b""

    def read(self, stream: IO[bytes]) -> None:
        while chunk := stream.read(1 << 16):
            self.digest.update(chunk)
            self.size += len(chunk)
            self.content = self.content + chunk if self.size <= MAX_PATCH_BYTES else b""


def _run_git(top: Path, arguments: Sequence[str], collector: _Collector, seconds: float) -> bool:
    """Run git and collect its output; return whether it ended in time and without an error."""
    import signal
    import subprocess  # not at the top: it takes 5 ms

    null = subprocess.DEVNULL
    try:
        git = subprocess.Popen(
            ["git", *GIT_SETTINGS, *arguments], cwd=top, env=git_environment(), stdin=null, stdout=subprocess.PIPE,
            stderr=null, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    timer = threading.Timer(seconds, lambda: os.killpg(git.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    try:
        with git:
            collector.read(git.stdout)  # type: ignore[arg-type]  # it is a pipe
    finally:
        timer.cancel()
    return git.returncode in (0, 1)  # 1: `--no-index` found a difference


def _loaded_files(top: Path) -> list[str]:
    """Return the files of the script and of loaded modules in a checkout, relative to it, without installed ones."""
    names = set()
    for file in _module_files():
        path = Path(file)
        if "site-packages" not in path.parts and path.suffix == ".py":
            try:
                names.add(path.resolve().relative_to(top.resolve()).as_posix())
            except (OSError, ValueError):
                continue
    return sorted(names)


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            yield file


def _without_version(top: Path, files: Sequence[str], seconds: float) -> list[str]:
    """Return the files that git has no version of."""
    if not files:
        return []
    collector = _Collector()
    _run_git(top, ["ls-files", "--others", "-z", "--", *files[:5000]], collector, seconds)
    names = [os.fsdecode(name) for name in collector.content.split(b"\0") if name]
    return sorted(names)[:MAX_NEW_FILES]
