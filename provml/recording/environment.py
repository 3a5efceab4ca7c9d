"""The environment of a run: machine, process, software and code version, read quickly and without secrets.

Every probe is independent: a value that cannot be read is left out, and nothing here raises. No environment variable is
recorded except the job ids of known schedulers and those of `repetition.VARIABLES`. Secrets in a command line or an
address are replaced by `***`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from provml.journal import events
from provml.journal.process import user_name
from provml.journal.redaction import address, command_line
from provml.recording import repetition

PACKAGES = (
    "accelerate", "catboost", "chainer", "cudf", "cuml", "cupy", "dask", "datasets", "deepspeed", "diffusers", "duckdb",
    "evaluate", "fastai", "flax", "gymnasium", "h5py", "horovod", "jax", "jaxlib", "keras", "lightgbm", "lightning",
    "mxnet", "nltk", "numpy", "onnx", "onnxruntime", "optax", "optuna", "pandas", "peft", "polars", "provml", "pyarrow",
    "pyspark", "ray", "scipy", "spacy", "statsmodels", "tensorflow", "timm", "tokenizers", "torch", "torchaudio",
    "torchvision", "transformers", "triton", "trl", "vllm", "xarray", "xgboost", "zarr",
)  # fmt: skip
"""Packages that influence the result of a training, whose module has the name of the distribution."""

RENAMED = {
    "cv2": "opencv-python", "faiss": "faiss-cpu", "PIL": "pillow", "pytorch_lightning": "pytorch-lightning",
    "sentence_transformers": "sentence-transformers", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "stable_baselines3": "stable-baselines3", "torch_geometric": "torch-geometric",
}  # fmt: skip
"""Further modules, with the name of their distribution."""

SCHEDULERS = (
    ("Flux", "{FLUX_JOB_ID}"),
    ("Slurm", "{SLURM_ARRAY_JOB_ID}_{SLURM_ARRAY_TASK_ID}"), ("Slurm", "{SLURM_JOB_ID}_{SLURM_ARRAY_TASK_ID}"),
    ("Slurm", "{SLURM_JOB_ID}"), ("Cobalt", "{COBALT_JOBID}"), ("PBS", "{PBS_JOBID}"),
    ("LSF", "{LSB_JOBID}[{LSB_JOBINDEX}]"), ("LSF", "{LSB_JOBID}"), ("OAR", "{OAR_JOB_ID}"),
    ("SGE", "{SGE_ROOT:.0}{JOB_ID}.{SGE_TASK_ID}"), ("SGE", "{SGE_ROOT:.0}{JOB_ID}"),
    ("AWS Batch", "{AWS_BATCH_JOB_ID}"), ("Kubernetes", "{KUBERNETES_SERVICE_HOST:.0}{HOSTNAME}"),
)  # fmt: skip
"""Batch systems and the format of a job id from their variables; `:.0` requires a variable but prints nothing."""


class System(NamedTuple):
    """Where the probes read, and how long they wait for git."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    os_release: Path = Path("/etc/os-release")
    git_seconds: float = 2.0


SYSTEM = System()


def capture(*, git_status: bool = True, system: System = SYSTEM) -> events.Environment:
    """Return the environment of this process. Without `git_status` no other process is started."""
    process = process_info(git_status=git_status, system=system)
    return events.Environment(machine=machine(system), process=process, software=software())


def machine(system: System = SYSTEM) -> dict[str, Any]:
    """Return the machine, as far as this process may use it, by the field names of `vocab.provlake.Machine`."""
    return _run_probes(
        hostname=lambda: os.uname().nodename,
        processor=partial(_processor, system),
        core_count=partial(_core_count, system),
        memory_bytes=partial(_memory_bytes, system),
        accelerator=partial(_accelerators, system),
    )


def process_info(*, git_status: bool = True, system: System = SYSTEM) -> dict[str, Any]:
    """Return the process, by the field names of `vocab.provlake.ExecutionEnvironment`."""
    info = _run_probes(
        operating_system=partial(_operating_system, system),
        python_version=lambda: sys.version.split()[0],
        command_line=lambda: command_line(sys.orig_argv or sys.argv),
        working_directory=lambda: str(Path.cwd()),
        user_name=user_name,
        environment_variable=lambda: repetition.variables(os.environ),
    )
    host = _run_probes(HOSTNAME=lambda: os.uname().nodename)
    return info | repetition.script() | code(git_status=git_status, system=system) | job(os.environ | host)


def software() -> dict[str, str]:
    """Return the versions of loaded packages of `PACKAGES` and `RENAMED`. Nothing is imported."""
    modules = [name for name in (*PACKAGES, *RENAMED) if name in sys.modules]
    return _run_probes(**{(name := RENAMED.get(module, module)): partial(_version, module, name) for module in modules})


def job(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the scheduler that started the process and the id of its job; nothing if there is no known one."""
    valid = {name: value for name, value in variables.items() if re.fullmatch(r"[\w.:@/\[\]+-]{1,200}", value)}
    if valid.get("SGE_TASK_ID") == "undefined":
        del valid["SGE_TASK_ID"]
    for scheduler, template in SCHEDULERS:
        if all(name in valid for name in re.findall(r"{(\w+)", template)):
            return {"scheduler": scheduler, "job_id": template.format_map(valid).removesuffix("[0]")}
    return {}


def _run_probes(**probes: Callable[[], object]) -> dict[str, Any]:
    """Return the results of the probes; one that fails or returns nothing is left out."""
    results: dict[str, Any] = {}
    for name, probe in probes.items():
        try:
            value = probe()
            if isinstance(value, str):
                value = _clean(value)
            elif isinstance(value, list):
                value = [_clean(item) for item in value]
        except Exception:
            continue
        if value not in (None, "", []):
            results[name] = value
    return results


def _clean(text: str) -> str:
    """Return text that UTF-8 can encode: Python decodes names in other encodings to lone surrogates."""
    return text.strip().encode("utf-8", "backslashreplace").decode()


def _read(path: Path, max_bytes: int = 1 << 16) -> str:
    """Return the beginning of a file; an empty string if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""


# ---- the machine


def _processor(system: System) -> str:
    match = re.search(
        r"^(?:model name|cpu model|cpu|Processor)\s*:[ \t]*(\S.*)$", _read(system.proc / "cpuinfo", 4096), re.M
    )
    return match[1] if match else os.uname().machine


def _core_count(system: System) -> int | None:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for group in _groups("cpu", system):
        limit = _read(group / "cpu.max").split()
        limit = limit or [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
        if count and len(limit) == 2 and limit[0].isdecimal() and limit[1].isdecimal() and int(limit[1]):
            count = max(1, min(count, -(-int(limit[0]) // int(limit[1]))))
    return count


def _memory_bytes(system: System) -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups("memory", system):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(group / name)
            if limit.isdecimal() and int(limit):
                memory = min(memory, int(limit))
    return memory


def _groups(controller: str, system: System) -> Iterator[Path]:
    """Yield the control groups that limit this process, version 1 or 2, from its own up to the root."""
    root = system.sys / "fs" / "cgroup"
    for line in _read(system.proc / "self" / "cgroup").splitlines():
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


def _accelerators(system: System) -> list[str]:
    """Return the names of NVIDIA and AMD GPUs by their drivers, and of other GPUs by their PCI vendor."""
    names: list[str] = []
    vendors = set()
    for file in sorted((system.proc / "driver" / "nvidia" / "gpus").glob("*/information")):
        if match := re.search(r"^Model:\s*(\S.*)$", _read(file), re.M):
            names.append(match[1])
            vendors.add("0x10de")
    drm = system.sys / "class" / "drm"
    for node in sorted((system.sys / "class" / "kfd" / "kfd" / "topology" / "nodes").glob("*")):
        properties = dict(line.split(None, 1) for line in _read(node / "properties").splitlines() if " " in line)
        if properties.get("simd_count", "0") != "0":
            product = _read(drm / f"renderD{properties.get('drm_render_minor', '')}" / "device" / "product_name")
            names.append(product or _read(node / "name") or "AMD GPU")
            vendors.add("0x1002")
    vendor_names = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
    for card in sorted(drm.glob("card*")):
        vendor = _read(card / "device" / "vendor")
        if card.name[4:].isdecimal() and vendor in vendor_names and vendor not in vendors:
            product = _read(card / "device" / "product_name")
            names.append(product or f"{vendor_names[vendor]} GPU {_read(card / 'device' / 'device')}".strip())
    return names


# ---- the process


def _operating_system(system: System) -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read(system.os_release), re.M)
    uname = os.uname()
    kernel = f"{uname.sysname} {uname.release} {uname.machine}"
    return f"{match[1]}, {kernel}" if match else kernel


def _version(module: str, name: str) -> str:
    """Return `__version__` of a loaded module, or the version of the distribution in the same directory.

    `importlib.metadata` takes 27 ms to import, and would return the version of an installed package if a script's own
    `datasets.py` is loaded.
    """
    loaded = sys.modules.get(module)
    if loaded is None:
        return ""
    version = vars(loaded).get("__version__")
    if isinstance(version, str):
        return version
    directory = Path(loaded.__path__[0] if hasattr(loaded, "__path__") else loaded.__file__ or "").parent
    pattern = re.compile(re.sub(r"[-_.]+", "[-_.]", name) + r"-([^-]+)\.dist-info", re.I)
    return next((match[1] for entry in directory.iterdir() if (match := pattern.fullmatch(entry.name))), "")


# ---- the code


def code(start: Path | None = None, *, git_status: bool = True, system: System = SYSTEM) -> dict[str, Any]:
    """Return commit, repository and whether files were changed, of the script's checkout or the working directory's."""
    top = find_checkout([start] if start else _code_directories())
    if top is None:
        return {}
    git_dir, common_dir = _git_directories(top)
    info = _run_probes(git_commit=lambda: _commit(git_dir, common_dir), git_repository=lambda: _repository(common_dir))
    if "git_commit" in info:
        info |= _run_probes(git_directory=lambda: str(top))
    return info | _run_probes(git_dirty=lambda: _dirty(top, system.git_seconds)) if git_status else info


def find_checkout(starts: Iterable[Path] | None = None) -> Path | None:
    """Return the top folder of the checkout that has one of the folders: by default, those of the running code."""
    try:
        candidates = (folder for start in starts or _code_directories() for folder in (start, *start.parents))
        return next(folder for folder in candidates if (folder / ".git").exists())
    except Exception:  # also StopIteration: not in a checkout
        return None


def _git_directories(top: Path) -> tuple[Path, Path]:
    """Return the folder of git for a checkout, and that of its repository, which worktrees share."""
    git_dir = top / ".git"
    if git_dir.is_file():  # a worktree or a submodule
        git_dir = top / _read(git_dir).removeprefix("gitdir:").strip()
    return git_dir, git_dir / (_read(git_dir / "commondir") or ".")


def _code_directories() -> Iterator[Path]:
    """Yield the directory of the script, unless it is an installed command, and the working directory."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script:
        directory = Path(script).resolve().parent
        if "site-packages" not in directory.parts and directory != Path(sys.prefix, "bin"):
            yield directory
    yield Path.cwd()


def _commit(git_dir: Path, common_dir: Path) -> str | None:
    text = _read(git_dir / "HEAD")
    for _ in range(5):  # a reference may name another
        if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text):
            return text
        name = text.removeprefix("ref:").strip()
        if not name.startswith("refs/"):
            return None
        text = _read(git_dir / name) or _read(common_dir / name)
        if not text:
            packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _read(common_dir / "packed-refs", 1 << 26), re.M)
            text = packed[1] if packed else ""
    return None


def _repository(common_dir: Path) -> str | None:
    section = ""
    for line in _read(common_dir / "config").splitlines():
        if line.lstrip().startswith("["):
            section = line.strip()
        elif section == '[remote "origin"]' and (match := re.match(r"\s*url\s*=\s*(\S.*)", line)):
            return address(match[1].strip().strip('"'))
    return None


def _dirty(top: Path, timeout: float) -> bool | None:
    import signal
    import subprocess

    null = subprocess.DEVNULL
    with subprocess.Popen(
        ["git", "-c", "core.fsmonitor=false", "status", "--porcelain", "-uno"],
        cwd=top, env=repetition.git_environment(), stdin=null, stdout=subprocess.PIPE, stderr=null,
        start_new_session=True,
    ) as git:  # fmt: skip
        try:
            output, _ = git.communicate(timeout=timeout)
        except BaseException:  # timeout or Ctrl-C: end its children too, which keep the pipe open
            os.killpg(git.pid, signal.SIGKILL)
            raise
    return bool(output.strip()) if git.returncode == 0 else None
