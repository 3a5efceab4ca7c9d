"""Where a training runs: the machine, the process and its software, taken cheaply and without secrets.

Every probe stands alone: what cannot be read is absent, and nothing here raises. No environment variable is recorded
but the job ids of known schedulers; what may be secret in a command line or an address is written `***`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from provml import event
from provml.secret import address, command_line

PROC = Path("/proc")
SYS = Path("/sys")
OS_RELEASE = Path("/etc/os-release")
GIT_SECONDS = 2.0

PACKAGES = (
    "accelerate", "catboost", "chainer", "cudf", "cuml", "cupy", "dask", "datasets", "deepspeed", "diffusers", "duckdb",
    "evaluate", "fastai", "flax", "gymnasium", "h5py", "horovod", "jax", "jaxlib", "keras", "lightgbm", "lightning",
    "mxnet", "nltk", "numpy", "onnx", "onnxruntime", "optax", "optuna", "pandas", "peft", "polars", "provml", "pyarrow",
    "pyspark", "ray", "scipy", "spacy", "statsmodels", "tensorflow", "timm", "tokenizers", "torch", "torchaudio",
    "torchvision", "transformers", "triton", "trl", "vllm", "xarray", "xgboost", "zarr",
)  # fmt: skip
"""What matters to what a training gives, where the module has the name of its distribution."""

RENAMED = {
    "cv2": "opencv-python", "faiss": "faiss-cpu", "PIL": "pillow", "pytorch_lightning": "pytorch-lightning",
    "sentence_transformers": "sentence-transformers", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "stable_baselines3": "stable-baselines3", "torch_geometric": "torch-geometric",
}  # fmt: skip
"""Modules that matter as well, with the name of their distribution."""

SCHEDULERS = (
    ("Flux", "{FLUX_JOB_ID}"),
    ("Slurm", "{SLURM_ARRAY_JOB_ID}_{SLURM_ARRAY_TASK_ID}"), ("Slurm", "{SLURM_JOB_ID}_{SLURM_ARRAY_TASK_ID}"),
    ("Slurm", "{SLURM_JOB_ID}"), ("Cobalt", "{COBALT_JOBID}"), ("PBS", "{PBS_JOBID}"),
    ("LSF", "{LSB_JOBID}[{LSB_JOBINDEX}]"), ("LSF", "{LSB_JOBID}"), ("OAR", "{OAR_JOB_ID}"),
    ("SGE", "{SGE_ROOT:.0}{JOB_ID}.{SGE_TASK_ID}"), ("SGE", "{SGE_ROOT:.0}{JOB_ID}"),
    ("AWS Batch", "{AWS_BATCH_JOB_ID}"), ("Kubernetes", "{KUBERNETES_SERVICE_HOST:.0}{HOSTNAME}"),
)  # fmt: skip
"""Batch systems and how the id of a job is made of their variables; `:.0` asks for one without showing it."""


def capture(*, git_status: bool = True) -> event.Environment:
    """What surrounds this process now; without `git_status` no other process is started."""
    return event.Environment(machine=machine(), around=around(git_status=git_status), software=software())


def machine() -> dict[str, Any]:
    """The computer, by the field names of `vocab.provlake.Machine`, as far as this process may use it."""
    return _known(
        hostname=lambda: os.uname().nodename,
        processor=_processor,
        core_count=_core_count,
        memory_bytes=_memory_bytes,
        accelerator=_accelerators,
    )


def around(*, git_status: bool = True) -> dict[str, Any]:
    """The process, by the field names of `vocab.provlake.ExecutionEnvironment`."""
    told = _known(
        operating_system=_operating_system,
        python_version=lambda: sys.version.split()[0],
        command_line=lambda: command_line(sys.orig_argv or sys.argv),
        working_directory=lambda: str(Path.cwd()),
        user_name=_user_name,
    )
    host = _known(HOSTNAME=lambda: os.uname().nodename)
    return told | code(git_status=git_status) | job(os.environ | host)


def software() -> dict[str, str]:
    """The versions of the packages that matter, of those that are loaded; none is loaded for it."""
    modules = [name for name in (*PACKAGES, *RENAMED) if name in sys.modules]
    return _known(**{(name := RENAMED.get(module, module)): partial(_version, module, name) for module in modules})


def job(variables: Mapping[str, str]) -> dict[str, str]:
    """The scheduler and the id of its job, where one of the known ones started the process."""
    known = {name: value for name, value in variables.items() if re.fullmatch(r"[\w.:@/\[\]+-]{1,200}", value)}
    if known.get("SGE_TASK_ID") == "undefined":
        del known["SGE_TASK_ID"]
    for scheduler, form in SCHEDULERS:
        if all(name in known for name in re.findall(r"{(\w+)", form)):
            return {"scheduler": scheduler, "job_id": form.format_map(known).removesuffix("[0]")}
    return {}


def _known(**probes: Callable[[], object]) -> dict[str, Any]:
    """What the probes tell; one that fails or finds nothing is left out."""
    told: dict[str, Any] = {}
    for name, probe in probes.items():
        try:
            value = probe()
            if isinstance(value, str):
                value = _clean(value)
            elif isinstance(value, list):
                value = [_clean(each) for each in value]
        except Exception:
            continue
        if value not in (None, "", []):
            told[name] = value
    return told


def _clean(text: str) -> str:
    """Text that UTF-8 can hold: file names and arguments of other encodings come as lone surrogates."""
    return text.strip().encode("utf-8", "backslashreplace").decode()


def _text(path: Path, most: int = 1 << 16) -> str:
    """The beginning of a small file, or nothing."""
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace").strip()
    except OSError:
        return ""


# ---- the machine


def _processor() -> str:
    found = re.search(r"^(?:model name|cpu model|cpu|Processor)\s*:[ \t]*(\S.*)$", _text(PROC / "cpuinfo", 4096), re.M)
    return found[1] if found else os.uname().machine


def _core_count() -> int | None:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for group in _groups("cpu"):
        limit = _text(group / "cpu.max").split()
        limit = limit or [_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")]
        if count and len(limit) == 2 and limit[0].isdecimal() and limit[1].isdecimal() and int(limit[1]):
            count = max(1, min(count, -(-int(limit[0]) // int(limit[1]))))
    return count


def _memory_bytes() -> int:
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _text(group / name)
            if limit.isdecimal() and int(limit):
                least = min(least, int(limit))
    return least


def _groups(controller: str) -> Iterator[Path]:
    """The control groups that limit this process, of either version, from its own up to the root."""
    root = SYS / "fs" / "cgroup"
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers == "":
            bases = [root, root / "unified"]
        elif controller in controllers.split(","):
            bases = [root / controllers, root / controller]
        else:
            continue
        for base in bases:
            if base.is_dir():
                group = base / own.lstrip("/")
                yield from [group, *(parent for parent in group.parents if parent.is_relative_to(base))]
                break


def _accelerators() -> list[str]:
    names: list[str] = []
    seen = set()
    for told in sorted((PROC / "driver" / "nvidia" / "gpus").glob("*/information")):
        if found := re.search(r"^Model:\s*(\S.*)$", _text(told), re.M):
            names.append(found[1])
            seen.add("0x10de")
    drm = SYS / "class" / "drm"
    for node in sorted((SYS / "class" / "kfd" / "kfd" / "topology" / "nodes").glob("*")):
        properties = dict(line.split(None, 1) for line in _text(node / "properties").splitlines() if " " in line)
        if properties.get("simd_count", "0") != "0":
            product = _text(drm / f"renderD{properties.get('drm_render_minor', '')}" / "device" / "product_name")
            names.append(product or _text(node / "name") or "AMD GPU")
            seen.add("0x1002")
    makers = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
    for card in sorted(drm.glob("card*")):
        maker = _text(card / "device" / "vendor")
        if card.name[4:].isdecimal() and maker in makers and maker not in seen:
            product = _text(card / "device" / "product_name")
            names.append(product or f"{makers[maker]} GPU {_text(card / 'device' / 'device')}".strip())
    return names


# ---- the process


def _operating_system() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _text(OS_RELEASE), re.M)
    kernel = os.uname()
    own = f"{kernel.sysname} {kernel.release} {kernel.machine}"
    return f"{found[1]}, {own}" if found else own


def _user_name() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _version(module: str, name: str) -> str:
    """The version a loaded module gives itself, or that of the distribution that lies beside it.

    `importlib.metadata` would say the same after 27 ms of imports, and name the installed one where a script's own
    `datasets.py` is loaded.
    """
    loaded = sys.modules.get(module)
    if loaded is None:
        return ""
    said = vars(loaded).get("__version__")
    if isinstance(said, str):
        return said
    beside = Path(loaded.__path__[0] if hasattr(loaded, "__path__") else loaded.__file__ or "").parent
    pattern = re.compile(re.sub(r"[-_.]+", "[-_.]", name) + r"-([^-]+)\.dist-info", re.I)
    return next((found[1] for entry in beside.iterdir() if (found := pattern.fullmatch(entry.name))), "")


# ---- the code


def code(start: Path | None = None, *, git_status: bool = True) -> dict[str, Any]:
    """The commit, the repository and whether files were changed, of the script's checkout or else the directory's."""
    try:
        places = (above for place in ([start] if start else _places()) for above in (place, *place.parents))
        top = next(place for place in places if (place / ".git").exists())
        own = top / ".git"
        if own.is_file():  # a worktree or a submodule
            own = top / _text(own).removeprefix("gitdir:").strip()
        shared = own / (_text(own / "commondir") or ".")
    except Exception:  # StopIteration too: there is none
        return {}
    told = _known(git_commit=lambda: _commit(own, shared), git_repository=lambda: _repository(shared))
    return told | _known(git_dirty=lambda: _dirty(top)) if git_status else told


def _places() -> Iterator[Path]:
    """Where the code may lie: the script's directory, if it is no installed command, and the working directory."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script:
        home = Path(script).resolve().parent
        if "site-packages" not in home.parts and home != Path(sys.prefix, "bin"):
            yield home
    yield Path.cwd()


def _commit(own: Path, shared: Path) -> str | None:
    said = _text(own / "HEAD")
    for _ in range(5):  # a reference may name another
        if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", said):
            return said
        name = said.removeprefix("ref:").strip()
        if not name.startswith("refs/"):
            return None
        said = _text(own / name) or _text(shared / name)
        if not said:
            packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _text(shared / "packed-refs", 1 << 26), re.M)
            said = packed[1] if packed else ""
    return None


def _repository(shared: Path) -> str | None:
    section = ""
    for line in _text(shared / "config").splitlines():
        if line.lstrip().startswith("["):
            section = line.strip()
        elif section == '[remote "origin"]' and (found := re.match(r"\s*url\s*=\s*(\S.*)", line)):
            return address(found[1].strip().strip('"'))
    return None


def _dirty(top: Path) -> bool | None:
    import signal
    import subprocess

    quiet = subprocess.DEVNULL
    other = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE")  # of whom started us: a hook, say
    surroundings = {name: value for name, value in os.environ.items() if name not in other}
    with subprocess.Popen(
        ["git", "-c", "core.fsmonitor=false", "status", "--porcelain", "-uno"],
        cwd=top, env=surroundings | {"GIT_OPTIONAL_LOCKS": "0"}, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet,
        start_new_session=True,
    ) as git:  # fmt: skip
        try:
            said, _ = git.communicate(timeout=GIT_SECONDS)
        except BaseException:  # too slow, or the user had enough: with its children, which hold the pipe
            os.killpg(git.pid, signal.SIGKILL)
            raise
    return bool(said.strip()) if git.returncode == 0 else None
