"""The environment of a run: machine, process, code and software, without secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from provml.journal import events
from provml.journal.redaction import address, command_line, is_secret, mask, redact, redact_text, redact_url
from provml.recording import environment
from provml.recording.environment import System, capture, code, job, machine, software
from provml.vocab import provlake

# ---- git


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        cwd=where, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = tmp_path / "flowers"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("print(1)\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    return top


def test_a_clean_checkout_has_a_commit(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")
    assert code(checkout) == {"git_commit": commit, "git_directory": str(checkout), "git_dirty": False}


def test_a_changed_file_makes_a_checkout_dirty_and_a_new_file_does_not(checkout: Path):
    (checkout / "weights.pt").write_text("")
    assert code(checkout)["git_dirty"] is False
    (checkout / "train.py").write_text("print(2)\n")
    assert code(checkout)["git_dirty"] is True


def test_the_checkout_is_found_from_a_directory_inside_it(checkout: Path):
    inside = checkout / "a" / "b"
    inside.mkdir(parents=True)
    assert code(inside) == code(checkout)


def test_a_detached_head_has_a_commit(checkout: Path):
    first = git(checkout, "rev-parse", "HEAD")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    git(checkout, "checkout", "-q", "--detach", first)
    assert code(checkout)["git_commit"] == first


def test_packed_references_are_read(checkout: Path):
    git(checkout, "branch", "other/main")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git" / "refs" / "heads" / "main").exists()
    assert code(checkout)["git_commit"] == git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize("packed", [False, True])
def test_a_worktree_has_its_own_commit_and_the_common_repository(checkout: Path, packed: bool):
    git(checkout, "remote", "add", "origin", "https://example.org/flowers.git")
    tree = checkout.parent / "tree"
    git(checkout, "worktree", "add", "-q", "-b", "trial", str(tree))
    git(tree, "commit", "-q", "--allow-empty", "-m", "trial")
    if packed:
        git(checkout, "pack-refs", "--all")
    info = code(tree)
    assert info["git_commit"] == git(tree, "rev-parse", "HEAD") != git(checkout, "rev-parse", "HEAD")
    assert info["git_repository"] == "https://example.org/flowers.git"
    assert info["git_dirty"] is False


def test_a_new_repository_has_no_commit(tmp_path: Path):
    git(tmp_path, "init", "-q")
    assert "git_commit" not in code(tmp_path)


def test_without_a_checkout_no_code_is_recorded(tmp_path: Path):
    assert code(tmp_path) == {}


def test_a_damaged_git_directory_is_ignored(tmp_path: Path):
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert code(tmp_path) == {}


@pytest.mark.parametrize(
    ("remote", "shown"),
    [
        ("https://example.org/a.git", "https://example.org/a.git"),
        ("https://example.org:8443/a@b.git", "https://example.org:8443/a@b.git"),
        ("https://bob:hunter2@example.org/a.git", "https://example.org/a.git"),
        ("https://bob:hun@ter2@example.org/a.git", "https://example.org/a.git"),
        ("https://bob:hun/ter2@example.org:8443/a.git", "https://example.org:8443/a.git"),
        ("https://hunter2@example.org/a.git", "https://example.org/a.git"),
        ("https://oauth2:hunter2@example.org/a.git", "https://example.org/a.git"),
        ("https://example.org/a.git?private_token=hunter2", "https://example.org/a.git"),
        ("ssh://bob:hunter2@example.org/a.git", "ssh://example.org/a.git"),
        ("ssh://git@example.org:22/a.git", "ssh://git@example.org:22/a.git"),
        ("git@keybase.org:team/a@b.git", "git@keybase.org:team/a@b.git"),
        ("bob:hun/ter2@example.org:team/a.git", "example.org:team/a.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
    ],
)
def test_the_address_of_the_repository_has_no_password(checkout: Path, remote: str, shown: str):
    git(checkout, "remote", "add", "upstream", "https://example.org/other.git")
    git(checkout, "remote", "add", "origin", remote)
    assert code(checkout, git_status=False)["git_repository"] == shown == address(remote)


def test_without_status_no_process_is_started(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.chdir(checkout)
    info = capture(git_status=False).process
    assert "git_commit" in info
    assert "git_dirty" not in info


def test_without_git_only_the_dirty_flag_is_missing(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = code(checkout)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code(checkout) == {name: value for name, value in whole.items() if name != "git_dirty"}


def test_a_git_that_hangs_is_killed_with_its_children(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    start = time.monotonic()
    for seconds in (0.5, 5.0, 30.0):  # on a busy machine, the shell is killed before it starts a child
        assert "git_dirty" not in code(checkout, system=System(git_seconds=seconds))
        if (tmp_path / "child").exists():
            break
    assert time.monotonic() - start < 120
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    deadline = time.monotonic() + 60
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child of git still runs"
        time.sleep(0.01)


def test_git_variables_of_a_hook_are_ignored(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert code(checkout)["git_dirty"] is False


def test_git_status_does_not_write_the_index(checkout: Path):
    index = checkout / ".git" / "index"
    os.utime(checkout / "train.py", (1, 1))  # git would now refresh its index
    before = index.read_bytes()
    assert code(checkout)["git_dirty"] is False
    assert index.read_bytes() == before


def test_the_code_is_that_of_the_script_in_any_working_directory(checkout: Path, tmp_path: Path):
    (checkout / "train.py").write_text(
        "from provml.journal import events\nfrom provml.recording import environment\n"
        "print(events.encode(environment.capture(git_status=False)).decode())\n"
    )  # fmt: skip
    directory = tmp_path / "directory"
    directory.mkdir()
    result = started([str(checkout / "train.py"), "--lr", "0.1"], cwd=directory)["around"]
    assert result["git_commit"] == git(checkout, "rev-parse", "HEAD")
    assert result["working_directory"] == str(directory)
    assert result["command_line"] == f"{sys.executable} {checkout}/train.py --lr 0.1"


# ---- secrets


def started(arguments: list[str], *, cwd: Path | None = None, **variables: str) -> dict:
    """What a fresh interpreter prints as its environment."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(environment.__file__).parents[1]), **variables},
    )  # fmt: skip
    return json.loads(done.stdout)


PRINT = (
    "from provml.journal import events\nfrom provml.recording import environment\n"
    "print(events.encode(environment.capture(git_status=False)).decode())\n"
)
HUNTER = "hunter2-S3cr3t/+"


def test_the_event_has_no_secret_of_the_environment(checkout: Path):
    (checkout / "train.py").write_text(PRINT)
    git(checkout, "remote", "add", "origin", f"https://bob:{HUNTER}@example.org/a.git")
    names = ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HARMLESS", "MLFLOW_TRACKING_AUTH"]
    environment = started(
        ["train.py", "--api-key", HUNTER, f"--token={HUNTER}", f"postgres://bob:{HUNTER}@db/x", "--lr", "0.1"],
        cwd=checkout, **dict.fromkeys(names, HUNTER),
    )  # fmt: skip
    line = json.dumps(environment)
    assert HUNTER not in line
    assert "hunter2" not in line
    assert not [name for name in names if name in line]
    assert environment["around"]["command_line"].endswith(
        "train.py --api-key *** --token=*** postgres://***@db/x --lr 0.1"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "redacted"),
    [
        ("--api-key X --lr 0.1", "--api-key *** --lr 0.1"),
        ("--tokens X X --lr 0.1", "--tokens *** *** --lr 0.1"),
        ("-password X -v", "-password *** -v"),
        ("--secret -X --lr 0.1", "--secret *** --lr 0.1"),
        ("--auth --lr 0.1", "--auth --lr 0.1"),
        ("--hfToken=X a.h5", "--hfToken=*** a.h5"),
        ("AWS_ACCESS_KEY_ID=X a.h5", "AWS_ACCESS_KEY_ID=*** a.h5"),
        ("+logger.credentials=X lr=0.1", "'+logger.credentials=***' lr=0.1"),
        ("DB_PASSWD:X", "DB_PASSWD:***"),
        ("https://bob:X@example.org/a?b=1", "https://***@example.org/a?b=1"),
        ("https://hunter2@example.org/a", "https://***@example.org/a"),
        ("--db=mysql+py://bob:p/X@X@db:33/x", "--db=mysql+py://***@db:33/x"),
        ("--proxy bob:X@proxy:3128", "--proxy ***@proxy:3128"),
        ("-u bob:X --user=bob:X a.h5", "-u bob:*** --user=bob:*** a.h5"),
        ("--otp X --sas X -v", "--otp *** --sas *** -v"),
        ("--hook https://hooks.slack.com/services/T0/X", "--hook https://hooks.slack.com/services/***"),
        ("https://b/a?x=1&X-Amz-Signature=X", "'https://b/a?x=1&X-Amz-Signature=***'"),
        ("AccountName=a;AccountKey=X==;Suffix=b", "'AccountName=a;AccountKey=***;Suffix=b'"),
        ("https://b/a?odbc=UID%3Dbob;PWD%3DX", "'https://b/a?odbc=UID%3Dbob;PWD%3D***'"),
    ],
)
def test_secrets_in_a_command_line_are_redacted(arguments: str, redacted: str):
    filled = [each.replace("X", HUNTER) if "X-" not in each else each[:-1] + HUNTER for each in arguments.split()]
    result = command_line(["train.py", *filled])
    assert "hunter" not in result
    assert result.replace("'", "") == f"train.py {redacted}".replace("'", "")


@pytest.mark.parametrize(
    "secret",
    ["hf_" + "a" * 30, "ghp_" + "b" * 36, "sk-proj-" + "c" * 40, "AKIA" + "D" * 16, "eyJhbGciOi.eyJzdWIi.c2ln",
     "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "Authorization: Basic Ym9iOmh1",
     "bearer abcdef", '{"lr": 1, "api_key": "a b c", "x": 2}', "python x.py --token abc def", '["--token", "abc"]'],
)  # fmt: skip
def test_well_known_keys_are_redacted_without_an_option_name(secret: str):
    result = command_line(["train.py", secret, "a.h5"])
    assert "***" in result
    assert result.endswith(" a.h5")
    for part in ("aaa", "bbb", "ccc", "DDD", "c2ln", "MIIE", "Ym9i", "abc", "a b c"):
        assert part not in result


def test_values_of_secret_variables_are_redacted_everywhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("PWD", "/home/bob/flowers")
    assert command_line(["/home/bob/flowers/t.py", "x0123456789abcdef"]) == "/home/bob/flowers/t.py x***"
    assert address("https://example.org/0123456789abcdef/a") == "https://example.org/***/a"


@pytest.mark.parametrize(
    "arguments",
    ["--tokenizer gpt2", "--max_tokens 512", "--max-new-tokens=5", "model.num_tokens=7", "--pad_token_id 0",
     "--keypoints 17", "keywords=a", "--num_key_value_heads 8", "--author bob", "--passes 3", "--pattern x",
     "--user bob", "-u train.py", "--login host:8080", "data/keys/train.csv",
     "https://example.org:8080/a", "s3://bucket/key", "-c config.yaml", "image:1@sha256:ab"],
)  # fmt: skip
def test_hyperparameters_with_similar_names_are_not_redacted(arguments: str):
    assert command_line(["python", "train.py", *arguments.split()]) == f"python train.py {arguments}"


@pytest.mark.parametrize(
    "arguments", ["max_admin_tokens=X", "--authorization X", "--tokenizer_auth_token X", "hf_key=X"]
)
def test_an_allowed_word_does_not_hide_a_secret_one(arguments: str):
    assert command_line([*arguments.replace("X", HUNTER).split()]) == arguments.replace("X", "***")


@pytest.mark.parametrize(
    ("arguments", "redacted"),
    [
        (["-c", "login('x')", "-c", "a.yaml"], "-c *** -c a.yaml"),
        (["-Ic", "login('x')"], "-Ic ***"),
        (["-W", "ignore", "-clogin('x')", "b"], "-W ignore *** b"),
        (["-m", "train", "-c", "a.yaml"], "-m train -c a.yaml"),
    ],
)
def test_the_program_text_of_python_c_is_redacted(arguments: list[str], redacted: str):
    assert command_line(["python", *arguments]) == f"python {redacted}"


def test_a_command_line_is_quoted_for_the_shell():
    assert command_line(["train.py", "--name", "it's a b", ""]) == "train.py --name 'it'\"'\"'s a b' ''"


def test_a_long_command_line_is_cut_quickly():
    start = time.process_time()
    result = command_line(["train.py", "a" * 1_000_000, *[f"data/{number}.npz" for number in range(20_000)]])
    assert time.process_time() - start < 1
    assert len(result) < 30_000
    assert result.endswith("… and 19002 more")


def test_arguments_in_another_encoding_are_escaped(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(PRINT)
    result = started([str(script), os.fsdecode(b"fl\xffeurs.h5")])
    assert r"fl\udcffeurs.h5" in result["around"]["command_line"]


# ---- schedulers


@pytest.mark.parametrize(
    ("variables", "scheduler", "number"),
    [
        ({"SLURM_JOB_ID": "48213"}, "Slurm", "48213"),
        ({"SLURM_JOB_ID": "48215", "SLURM_ARRAY_JOB_ID": "48213", "SLURM_ARRAY_TASK_ID": "0"}, "Slurm", "48213_0"),
        ({"SLURM_JOB_ID": "48215", "SLURM_ARRAY_TASK_ID": "2"}, "Slurm", "48215_2"),
        ({"SLURM_JOB_ID": "1", "FLUX_JOB_ID": "f2CQ"}, "Flux", "f2CQ"),
        ({"PBS_JOBID": "12[3].server"}, "PBS", "12[3].server"),
        ({"LSB_JOBID": "7", "LSB_JOBINDEX": "0"}, "LSF", "7"),
        ({"LSB_JOBID": "7", "LSB_JOBINDEX": "3"}, "LSF", "7[3]"),
        ({"SGE_ROOT": "/opt/sge", "JOB_ID": "9", "SGE_TASK_ID": "undefined"}, "SGE", "9"),
        ({"SGE_ROOT": "/opt/sge", "JOB_ID": "9", "SGE_TASK_ID": "4"}, "SGE", "9.4"),
        ({"OAR_JOB_ID": "5"}, "OAR", "5"),
        ({"COBALT_JOBID": "6"}, "Cobalt", "6"),
        ({"AWS_BATCH_JOB_ID": "a-b:1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "AWS Batch", "a-b:1"),
    ],
)
def test_the_job_id_comes_from_variables_of_the_scheduler(variables: dict[str, str], scheduler: str, number: str):
    assert job(variables) == {"scheduler": scheduler, "job_id": number}


@pytest.mark.parametrize(
    "variables", [{}, {"JOB_ID": "9"}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "two words"}, {"HOSTNAME": "a"}]
)
def test_without_a_scheduler_there_is_no_job(variables: dict[str, str]):
    assert job(variables) == {}


def test_a_pod_is_identified_by_its_host(monkeypatch: pytest.MonkeyPatch):
    for name in list(os.environ):
        if name.startswith(("SLURM", "PBS", "LSB", "FLUX", "OAR", "COBALT", "AWS_BATCH", "SGE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOSTNAME", "another-name")
    process = environment.process_info(git_status=False)
    assert (process["scheduler"], process["job_id"]) == ("Kubernetes", os.uname().nodename)


# ---- the machine


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """A machine without /proc, /sys and /etc, for a test to write its own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 22}.__getitem__)
    return System(tmp_path / "proc", tmp_path / "sys", tmp_path / "os-release")


def test_machine_and_process_match_the_fields_of_the_vocabulary():
    info = capture()
    result = provlake.Machine("urn:m", **info.machine)
    assert result.hostname == os.uname().nodename
    assert result.core_count is not None
    assert 1 <= result.core_count <= len(os.sched_getaffinity(0))
    assert result.memory_bytes is not None
    assert result.memory_bytes > 1 << 20
    surroundings = provlake.ExecutionEnvironment("urn:e", **info.process)
    assert surroundings.python_version == sys.version.split()[0]
    assert surroundings.working_directory == str(Path.cwd())
    assert surroundings.operating_system is not None
    assert os.uname().release in surroundings.operating_system
    assert events.decode(events.encode(info)) == info


def test_without_proc_and_sys_the_rest_is_recorded(system: System):
    kernel = os.uname()
    assert machine(system) == {
        "hostname": kernel.nodename, "processor": kernel.machine, "core_count": 8, "memory_bytes": 1 << 34,
    }  # fmt: skip
    process = environment.process_info(git_status=False, system=system)
    assert process["operating_system"] == f"{kernel.sysname} {kernel.release} {kernel.machine}"


def test_nothing_raises_if_every_system_call_fails(system: System, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError("no")

    for name in ("uname", "sched_getaffinity", "sysconf", "geteuid", "getcwd"):
        monkeypatch.setattr(os, name, fail)
    info = capture(system=system)
    assert info.machine == {}
    assert info.process["python_version"] == sys.version.split()[0]
    assert not {"working_directory", "user_name", "operating_system", "git_commit"} & set(info.process)


def test_the_processor_has_the_name_of_the_kernel(system: System):
    write_files(
        system.proc.parent,
        {"proc/cpuinfo": "processor\t: 0\nvendor_id\t: A\nmodel name\t: AMD EPYC 7763\nflags\t: x\n"},
    )
    assert machine(system)["processor"] == "AMD EPYC 7763"


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "250000 100000",
          "sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": "1000000"}, 3, 1_000_000),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000",
          "sys/fs/cgroup/memory.max": "2000000"}, 8, 2_000_000),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "10000 100000"}, 1, 1 << 34),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/job\n4:memory:/docker/not-visible-inside\n",
          "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000",
          "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
          "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000"}, 4, 3_000_000),
        ({"proc/self/cgroup": "4:memory:/\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 8, 1 << 34),
        ({"proc/self/cgroup": "nonsense"}, None, None),
    ],
)  # fmt: skip
def test_cores_and_memory_respect_control_groups(
    system: System, files: dict[str, str], cores: int | None, memory: int | None
):
    write_files(system.proc.parent, files)
    info = machine(system)
    assert (info.get("core_count"), info.get("memory_bytes")) == (cores, memory)


def test_accelerators_are_named_by_their_drivers_and_listed_once(system: System):
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write_files(system.proc.parent, {
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ: 1\n",
        "proc/driver/nvidia/gpus/0000:02:00.0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\n",
        f"{nodes}/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
        f"{nodes}/1/properties": "cpu_cores_count 0\nsimd_count 440\ndrm_render_minor 128\n",
        f"{nodes}/2/properties": "simd_count 440\ndrm_render_minor 129\n",
        f"{nodes}/2/name": "aldebaran\n",
        "sys/class/drm/renderD128/device/product_name": "AMD Instinct MI250X\n",
        "sys/class/drm/card0/device/vendor": "0x1a03\n",
        "sys/class/drm/card1/device/vendor": "0x1002\n",
        "sys/class/drm/card2/device/vendor": "0x8086\n",
        "sys/class/drm/card2/device/device": "0x0bd5\n",
        "sys/class/drm/card2-DP-1/device/vendor": "0x8086\n",
        "sys/class/drm/card3/device/vendor": "0x10de\n",
    })  # fmt: skip
    assert machine(system)["accelerator"] == [
        "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI250X", "aldebaran", "Intel GPU 0x0bd5",
    ]  # fmt: skip


# ---- software


def test_only_loaded_software_is_recorded(monkeypatch: pytest.MonkeyPatch):
    import numpy as np

    import provml

    assert software()["numpy"] == np.__version__
    assert software()["provml"] == provml.__version__
    monkeypatch.delitem(sys.modules, "numpy")
    assert "numpy" not in software()
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in software()


def test_software_has_the_name_of_its_distribution(monkeypatch: pytest.MonkeyPatch):
    loaded = types.ModuleType("sklearn")
    loaded.__version__ = "1.6.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sklearn", loaded)
    assert software()["scikit-learn"] == "1.6.0"


def test_a_module_without_a_version_has_that_of_its_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_files(tmp_path, {"site/torch_geometric/__init__.py": "", "own/datasets.py": ""})
    (tmp_path / "site" / "torch_geometric-2.6.1.dist-info").mkdir()
    (tmp_path / "site" / "datasets-3.0.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "own")
    for name in ("torch_geometric", "datasets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, name, __import__(name))
    assert software()["torch-geometric"] == "2.6.1"
    assert "datasets" not in software(), "the module of the script is not the installed package of that name"


def test_an_unusual_module_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert not {"jax", "torch"} & set(software())


# ---- cost


def test_capturing_the_environment_is_fast():
    def once() -> float:
        start = time.process_time()
        capture(git_status=False)
        return time.process_time() - start

    assert min(once() for _ in range(5)) < 0.015


def test_capturing_the_environment_imports_nothing_heavy():
    program = (
        "import sys, json\n"
        "from provml.recording import environment\n"
        "before = set(sys.modules)\n"
        "environment.capture(git_status=False)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )  # fmt: skip
    assert set(started(["-c", program])) <= {"pwd"}


@pytest.mark.parametrize("name", ["api_key", "hf_token", "password", "db.PASSWD", "client_secret"])
def test_names_of_secrets_are_recognized(name: str):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["token_pattern", "max_tokens", "tokenizer", "key_dim", "num_key_value_heads", "author"]
)
def test_names_of_hyperparameters_are_not_secrets(name: str):
    assert not is_secret(name)


def test_secrets_are_removed_at_any_depth():
    values = {
        "lr": 0.1,
        "api_key": HUNTER,
        "log": {"to": "x", "token": HUNTER},
        "sinks": [{"password": HUNTER, "n": 1}],
    }
    assert redact(values) == {"lr": 0.1, "log": {"to": "x"}, "sinks": [{"n": 1}]}


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("api_key", "X", "***"),
        ("password", 1234, "***"),
        ("credentials", ("bob", "X"), "***"),
        ("auth", {"user": "X"}, {"user": "***"}),
        ("headers", {"Authorization": "Basic X", "a": "b"}, {"Authorization": "***", "a": "b"}),
        ("sources", ["https://bob:X@h/a?token=X&b=1"], ["https://***@h/a?token=***&b=1"]),
        ("comment", "login --token X", "login --token ***"),
        ("arguments", ["--api-key", "X", "--lr", "0.1"], ["--api-key", "***", "--lr", "0.1"]),
        ("pair", ("password", "X"), ("password", "***")),
        ("set", {"token=X"}, {"token=***"}),
    ],
)
def test_secrets_in_parameters_are_masked(name: str, value: object, masked: object):
    assert mask(name, value) == masked


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_tokens", 3), ("max_tokens", 4), ("token_dim", 8), ("tokens", 5), ("key", 3), ("use_auth", True),
     ("special_tokens", ["<s>"]), ("tokenizer", "gpt2"), ("token_type_ids", "a"),
     ("betas", (0.9, 0.99)), ("token", None), ("target_modules", ["key", "query"]), ("sizes", {1, 2})],
)  # fmt: skip
def test_parameters_with_similar_names_are_not_masked(name: str, value: object):
    assert mask(name, value) == value


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("No https://h/a?token=X&b=1 (404)\nnext", "No https://h/a?token=***&b=1 (404)\nnext"),
        ("password: X Y\r\nnext", "password: ***\r\nnext"),
        ("KeyError: 'a'", "KeyError: 'a'"),
        ('Missing key(s) in state_dict: "a"', 'Missing key(s) in state_dict: "a"'),
        ("a: b = c", "a: b = c"),
        ("Incorrect API key provided: X.", "Incorrect API key provided: ***"),
        ("curl -u bob:X https://h/", "curl -u bob:*** https://h/"),
        ("-----BEGIN RSA PRIVATE KEY-----\nX\n", "***"),
    ],
)
def test_secrets_in_a_text_are_redacted_to_the_end_of_the_line(text: str, redacted: str):
    assert redact_text(text) == redacted


@pytest.mark.parametrize("path", ["data/key=3/token=4.csv", "C:/a", "s3://bucket/key", "a.csv", "https://h:80/a?b=1"])
def test_paths_and_urls_without_secrets_are_exact(path: str):
    assert redact_url(path) == path
