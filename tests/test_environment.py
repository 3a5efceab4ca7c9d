"""The environment of a training: what is taken of machine, process, code and software, and that no secret is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from provml import environment, event
from provml.environment import capture, code, job, machine, software
from provml.secret import address, command_line, is_secret, without_secrets
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


def test_a_clean_checkout_gives_its_commit(checkout: Path):
    assert code(checkout) == {"git_commit": git(checkout, "rev-parse", "HEAD"), "git_dirty": False}


def test_a_changed_file_makes_it_dirty_and_a_new_one_does_not(checkout: Path):
    (checkout / "weights.pt").write_text("")
    assert code(checkout)["git_dirty"] is False
    (checkout / "train.py").write_text("print(2)\n")
    assert code(checkout)["git_dirty"] is True


def test_the_checkout_is_found_from_a_directory_inside_it(checkout: Path):
    inside = checkout / "a" / "b"
    inside.mkdir(parents=True)
    assert code(inside) == code(checkout)


def test_a_detached_head_gives_its_commit(checkout: Path):
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
    found = code(tree)
    assert found["git_commit"] == git(tree, "rev-parse", "HEAD") != git(checkout, "rev-parse", "HEAD")
    assert found["git_repository"] == "https://example.org/flowers.git"
    assert found["git_dirty"] is False


def test_a_repository_without_a_commit_has_none(tmp_path: Path):
    git(tmp_path, "init", "-q")
    assert "git_commit" not in code(tmp_path)


def test_no_checkout_no_code(tmp_path: Path):
    assert code(tmp_path) == {}


def test_a_torn_git_directory_is_just_absent(tmp_path: Path):
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
def test_the_repository_is_known_by_its_address_without_a_password(checkout: Path, remote: str, shown: str):
    git(checkout, "remote", "add", "upstream", "https://example.org/other.git")
    git(checkout, "remote", "add", "origin", remote)
    assert code(checkout, git_status=False)["git_repository"] == shown == address(remote)


def test_without_status_no_process_is_started(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.chdir(checkout)
    found = capture(git_status=False).around
    assert "git_commit" in found
    assert "git_dirty" not in found


def test_where_git_is_not_installed_only_dirty_is_unknown(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = code(checkout)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code(checkout) == {"git_commit": whole["git_commit"]}


def test_a_git_that_hangs_is_given_up_with_its_children(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/child\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "GIT_SECONDS", 0.5)
    start = time.monotonic()
    assert "git_dirty" not in code(checkout)
    assert time.monotonic() - start < 5
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    deadline = time.monotonic() + 5
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child of git still runs"
        time.sleep(0.01)


def test_status_is_that_of_the_checkout_even_where_a_hook_points_elsewhere(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert code(checkout)["git_dirty"] is False


def test_the_index_is_not_written(checkout: Path):
    index = checkout / ".git" / "index"
    os.utime(checkout / "train.py", (1, 1))  # git would now refresh its index
    before = index.read_bytes()
    assert code(checkout)["git_dirty"] is False
    assert index.read_bytes() == before


def test_the_code_is_that_of_the_script_wherever_it_was_started(checkout: Path, tmp_path: Path):
    (checkout / "train.py").write_text(
        "from provml import environment, event\n"
        "print(event.encode(environment.capture(git_status=False)).decode())\n"
    )  # fmt: skip
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = started([str(checkout / "train.py"), "--lr", "0.1"], cwd=elsewhere)["around"]
    assert told["git_commit"] == git(checkout, "rev-parse", "HEAD")
    assert told["working_directory"] == str(elsewhere)
    assert told["command_line"] == f"{sys.executable} {checkout}/train.py --lr 0.1"


# ---- secrets


def started(arguments: list[str], *, cwd: Path | None = None, **variables: str) -> dict:
    """What a fresh interpreter prints as its environment."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, check=True, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(environment.__file__).parents[1]), **variables},
    )  # fmt: skip
    return json.loads(done.stdout)


PRINT = "from provml import environment, event\nprint(event.encode(environment.capture(git_status=False)).decode())\n"
HUNTER = "hunter2-S3cr3t/+"


def test_no_secret_of_the_surroundings_is_anywhere_in_the_event(checkout: Path):
    (checkout / "train.py").write_text(PRINT)
    git(checkout, "remote", "add", "origin", f"https://bob:{HUNTER}@example.org/a.git")
    names = ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HARMLESS", "MLFLOW_TRACKING_AUTH"]
    said = started(
        ["train.py", "--api-key", HUNTER, f"--token={HUNTER}", f"postgres://bob:{HUNTER}@db/x", "--lr", "0.1"],
        cwd=checkout, **dict.fromkeys(names, HUNTER),
    )  # fmt: skip
    line = json.dumps(said)
    assert HUNTER not in line
    assert "hunter2" not in line
    assert not [name for name in names if name in line]
    assert said["around"]["command_line"].endswith(
        "train.py --api-key *** --token=*** postgres://***@db/x --lr 0.1"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "shown"),
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
        ("https://b/a?x=1&X-Amz-Signature=X", "'https://b/a?x=1&X-Amz-Signature=***'"),
        ("AccountName=a;AccountKey=X==;Suffix=b", "'AccountName=a;AccountKey=***'"),
        ("https://b/a?odbc=UID%3Dbob;PWD%3DX", "'https://b/a?odbc=UID%3Dbob;PWD%3D***'"),
    ],
)
def test_what_may_be_secret_in_a_command_line_is_hidden(given: str, shown: str):
    filled = [each.replace("X", HUNTER) if "X-" not in each else each[:-1] + HUNTER for each in given.split()]
    told = command_line(["train.py", *filled])
    assert "hunter" not in told
    assert told.replace("'", "") == f"train.py {shown}".replace("'", "")


@pytest.mark.parametrize(
    "secret",
    ["hf_" + "a" * 30, "ghp_" + "b" * 36, "sk-proj-" + "c" * 40, "AKIA" + "D" * 16, "eyJhbGciOi.eyJzdWIi.c2ln",
     "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "Authorization: Basic Ym9iOmh1",
     "bearer abcdef", '{"lr": 1, "api_key": "a b c", "x": 2}', "python x.py --token abc def", '["--token", "abc"]'],
)  # fmt: skip
def test_secrets_are_known_by_their_looks_where_no_option_names_them(secret: str):
    told = command_line(["train.py", secret, "a.h5"])
    assert "***" in told
    assert told.endswith(" a.h5")
    for part in ("aaa", "bbb", "ccc", "DDD", "c2ln", "MIIE", "Ym9i", "abc", "a b c"):
        assert part not in told


def test_a_value_that_the_environment_keeps_secret_is_hidden_wherever_it_stands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("PWD", "/home/bob/flowers")
    assert command_line(["/home/bob/flowers/t.py", "x0123456789abcdef"]) == "/home/bob/flowers/t.py x***"
    assert address("https://example.org/0123456789abcdef/a") == "https://example.org/***/a"


@pytest.mark.parametrize(
    "given",
    ["--tokenizer gpt2", "--max_tokens 512", "--max-new-tokens=5", "model.num_tokens=7", "--pad_token_id 0",
     "--keypoints 17", "keywords=a", "--num_key_value_heads 8", "--author bob", "--passes 3", "--pattern x",
     "data/keys/train.csv", "https://example.org:8080/a", "s3://bucket/key", "-c config.yaml", "image:1@sha256:ab"],
)  # fmt: skip
def test_hyperparameters_that_only_sound_secret_are_kept(given: str):
    assert command_line(["python", "train.py", *given.split()]) == f"python train.py {given}"


@pytest.mark.parametrize("given", ["max_admin_tokens=X", "--authorization X", "--tokenizer_auth_token X", "hf_key=X"])
def test_a_harmless_word_does_not_cover_a_telling_one(given: str):
    assert command_line([*given.replace("X", HUNTER).split()]) == given.replace("X", "***")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["-c", "login('x')", "-c", "a.yaml"], "-c *** -c a.yaml"),
        (["-Ic", "login('x')"], "-Ic ***"),
        (["-W", "ignore", "-clogin('x')", "b"], "-W ignore *** b"),
        (["-m", "train", "-c", "a.yaml"], "-m train -c a.yaml"),
    ],
)
def test_the_text_of_a_program_given_to_python_is_hidden(given: list[str], shown: str):
    assert command_line(["python", *given]) == f"python {shown}"


def test_a_command_line_can_be_typed_again():
    assert command_line(["train.py", "--name", "it's a b", ""]) == "train.py --name 'it'\"'\"'s a b' ''"


def test_a_very_long_command_line_is_cut_and_quick():
    start = time.process_time()
    told = command_line(["train.py", "a" * 1_000_000, *[f"data/{number}.npz" for number in range(20_000)]])
    assert time.process_time() - start < 1
    assert len(told) < 30_000
    assert told.endswith("… and 19002 more")


def test_arguments_in_another_encoding_can_be_written(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(PRINT)
    told = started([str(script), os.fsdecode(b"fl\xffeurs.h5")])
    assert r"fl\udcffeurs.h5" in told["around"]["command_line"]


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
def test_the_job_is_known_by_what_its_scheduler_sets(variables: dict[str, str], scheduler: str, number: str):
    assert job(variables) == {"scheduler": scheduler, "job_id": number}


@pytest.mark.parametrize(
    "variables", [{}, {"JOB_ID": "9"}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "two words"}, {"HOSTNAME": "a"}]
)
def test_no_scheduler_no_job(variables: dict[str, str]):
    assert job(variables) == {}


def test_a_pod_is_known_by_its_host(monkeypatch: pytest.MonkeyPatch):
    for name in list(os.environ):
        if name.startswith(("SLURM", "PBS", "LSB", "FLUX", "OAR", "COBALT", "AWS_BATCH", "SGE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOSTNAME", "said-otherwise")
    around = environment.around(git_status=False)
    assert (around["scheduler"], around["job_id"]) == ("Kubernetes", os.uname().nodename)


# ---- the machine


def laid(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer without /proc, /sys and /etc, on which a test lays what it wants."""
    monkeypatch.setattr(environment, "PROC", tmp_path / "proc")
    monkeypatch.setattr(environment, "SYS", tmp_path / "sys")
    monkeypatch.setattr(environment, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 22}.__getitem__)
    return tmp_path


def test_this_machine_and_process_fill_the_fields_of_the_vocabulary():
    found = capture()
    told = provlake.Machine("urn:m", **found.machine)
    assert told.hostname == os.uname().nodename
    assert told.core_count is not None
    assert 1 <= told.core_count <= len(os.sched_getaffinity(0))
    assert told.memory_bytes is not None
    assert told.memory_bytes > 1 << 20
    surroundings = provlake.ExecutionEnvironment("urn:e", **found.around)
    assert surroundings.python_version == sys.version.split()[0]
    assert surroundings.working_directory == str(Path.cwd())
    assert surroundings.operating_system is not None
    assert os.uname().release in surroundings.operating_system
    assert event.decode(event.encode(found)) == found


def test_without_proc_and_sys_the_rest_is_told(bare: Path):
    kernel = os.uname()
    assert machine() == {
        "hostname": kernel.nodename, "processor": kernel.machine, "core_count": 8, "memory_bytes": 1 << 34,
    }  # fmt: skip
    around = environment.around(git_status=False)
    assert around["operating_system"] == f"{kernel.sysname} {kernel.release} {kernel.machine}"


def test_nothing_raises_where_every_call_to_the_system_fails(bare: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError("no")

    for name in ("uname", "sched_getaffinity", "sysconf", "geteuid", "getcwd"):
        monkeypatch.setattr(os, name, fail)
    found = capture()
    assert found.machine == {}
    assert found.around["python_version"] == sys.version.split()[0]
    assert not {"working_directory", "user_name", "operating_system", "git_commit"} & set(found.around)


def test_the_processor_is_named_as_the_kernel_names_it(bare: Path):
    laid(bare, {"proc/cpuinfo": "processor\t: 0\nvendor_id\t: A\nmodel name\t: AMD EPYC 7763\nflags\t: x\n"})
    assert machine()["processor"] == "AMD EPYC 7763"


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "250000 100000",
          "sys/fs/cgroup/a/b/memory.max": "max", "sys/fs/cgroup/a/memory.max": "1000000"}, 3, 1_000_000),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000",
          "sys/fs/cgroup/memory.max": "2000000"}, 8, 2_000_000),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "10000 100000"}, 1, 1 << 34),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/job\n4:memory:/docker/not-seen-from-inside\n",
          "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000",
          "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
          "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000"}, 4, 3_000_000),
        ({"proc/self/cgroup": "4:memory:/\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 8, 1 << 34),
        ({"proc/self/cgroup": "nonsense"}, None, None),
    ],
)  # fmt: skip
def test_cores_and_memory_are_those_that_the_process_may_use(
    bare: Path, files: dict[str, str], cores: int | None, memory: int | None
):
    laid(bare, files)
    found = machine()
    assert (found.get("core_count"), found.get("memory_bytes")) == (cores, memory)


def test_accelerators_are_named_by_their_drivers_and_counted_once(bare: Path):
    nodes = "sys/class/kfd/kfd/topology/nodes"
    laid(bare, {
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
    assert machine()["accelerator"] == [
        "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI250X", "aldebaran", "Intel GPU 0x0bd5",
    ]  # fmt: skip


# ---- software


def test_software_is_told_only_if_it_is_loaded(monkeypatch: pytest.MonkeyPatch):
    import numpy as np

    import provml

    assert software()["numpy"] == np.__version__
    assert software()["provml"] == provml.__version__
    monkeypatch.delitem(sys.modules, "numpy")
    assert "numpy" not in software()
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in software()


def test_software_goes_by_the_name_of_its_distribution(monkeypatch: pytest.MonkeyPatch):
    loaded = types.ModuleType("sklearn")
    loaded.__version__ = "1.6.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sklearn", loaded)
    assert software()["scikit-learn"] == "1.6.0"


def test_a_module_that_does_not_tell_its_version_has_that_of_the_distribution_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    laid(tmp_path, {"site/torch_geometric/__init__.py": "", "own/datasets.py": ""})
    (tmp_path / "site" / "torch_geometric-2.6.1.dist-info").mkdir()
    (tmp_path / "site" / "datasets-3.0.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "own")
    for name in ("torch_geometric", "datasets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, name, __import__(name))
    assert software()["torch-geometric"] == "2.6.1"
    assert "datasets" not in software(), "the script's own module is not the installed one of that name"


def test_a_module_that_is_odd_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert not {"jax", "torch"} & set(software())


# ---- cost


def test_it_is_cheap():
    def once() -> float:
        start = time.process_time()
        capture(git_status=False)
        return time.process_time() - start

    assert min(once() for _ in range(5)) < 0.015


def test_it_loads_nothing_heavy():
    program = (
        "import sys, json\n"
        "from provml import environment\n"
        "before = set(sys.modules)\n"
        "environment.capture(git_status=False)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )  # fmt: skip
    assert set(started(["-c", program])) <= {"pwd"}


@pytest.mark.parametrize("name", ["api_key", "hf_token", "password", "db.PASSWD", "client_secret"])
def test_a_name_that_tells_of_a_secret_is_known(name: str):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["token_pattern", "max_tokens", "tokenizer", "key_dim", "num_key_value_heads", "author"]
)
def test_a_hyperparameter_that_sounds_like_a_secret_is_none(name: str):
    assert not is_secret(name)


def test_what_goes_by_the_name_of_a_secret_is_left_out_at_any_depth():
    said = {"lr": 0.1, "api_key": HUNTER, "log": {"to": "x", "token": HUNTER}, "sinks": [{"password": HUNTER, "n": 1}]}
    assert without_secrets(said) == {"lr": 0.1, "log": {"to": "x"}, "sinks": [{"n": 1}]}
